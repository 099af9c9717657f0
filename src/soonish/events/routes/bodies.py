"""What requests about events carry, field by field."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from soonish.delivery.model.letters import Level
from soonish.errors import FieldError
from soonish.events.actions.announcements import NewAnnouncement
from soonish.events.actions.subscriptions import Wish
from soonish.events.model.broadcasts import MOST_NAMED, Status
from soonish.events.model.events import ShowTimeIn, State
from soonish.events.model.offsets import LARGEST
from soonish.events.model.offsets import MOST as MOST_OFFSETS
from soonish.events.model.times import whole
from soonish.reminders.leads import in_order
from soonish.web.fields import UNSET, ZONE, Body, Instant, Paged, Unset, changes, items, line, lines, number

Id = Annotated[int, number(1, 2**63 - 1)]
Name = Annotated[str, line(255)]
Title = Annotated[str, line(200)]
Place = Annotated[str, line(500, 0)]
Description = Annotated[str, lines(10_000)]
Text = Annotated[str, lines(10_000, 1)]
Note = Annotated[str, lines(1_000)]
Link = Annotated[str, line(2_000, pattern=r"^https?://[a-zA-Z0-9\[][!#-;=?-\[\]_a-z~]*$")]
Offset = Annotated[int, number(0, LARGEST)]
Offsets = Annotated[list[Offset], items(100)]
Ids = Annotated[list[Id], items(MOST_NAMED)]
Tag = Annotated[str, line(40, pattern=r"^[a-z0-9][a-z0-9:_-]*$")]

MOST_SECONDS: Final = 2_592_000  # until a snooze


class Selector(Body):
    """One address, or those of a tag."""

    address_id: Id | None = None
    tag: Tag | None = None

    def rules(self) -> Iterator[FieldError]:
        if (self.address_id is None) == (self.tag is None):
            yield FieldError("", "required", "Give address_id or tag")

    def chosen(self) -> dict[str, Any]:
        return {"tag": self.tag} if self.address_id is None else {"address_id": self.address_id}


Selectors = Annotated[list[Selector], items(20)]


class NewEvent(Body):
    """An event to be made: scheduled, or a draft of which nobody hears."""

    name: Name
    start_date: Instant
    end_date: Instant | None = None
    timezone: ZONE | None = None
    description: Description = ""
    location: Place = ""
    link: Link | None = None
    organizer_id: Id | None = None
    is_public: bool = False
    show_time_in: ShowTimeIn = "event"
    reminder_offsets: Offsets | None = None
    state: Literal["draft", "scheduled"] = "scheduled"

    def rules(self) -> Iterator[FieldError]:
        yield from too_many(self.reminder_offsets)


class EventChange(Body):
    """What to change of an event. With `notify` its subscribers are told of what they see, with the note."""

    name: Name | Unset = UNSET
    start_date: Instant | Unset = UNSET
    end_date: Instant | Unset | None = UNSET
    timezone: ZONE | Unset = UNSET
    description: Description | Unset = UNSET
    location: Place | Unset = UNSET
    link: Link | Unset | None = UNSET
    organizer_id: Id | Unset | None = UNSET
    is_public: bool | Unset = UNSET
    show_time_in: ShowTimeIn | Unset = UNSET
    reminder_offsets: Offsets | Unset | None = UNSET
    notify: bool = True
    note: Note | None = None

    def rules(self) -> Iterator[FieldError]:
        yield from too_many(self.reminder_offsets)


class Cancellation(Body):
    """Why an event is cancelled; without `notify` its subscribers are not told."""

    message: Note | None = None
    notify: bool = True


class NewSubscription(Body):
    """Who is to hear of an event. Without offsets those of the event hold, with an empty list none."""

    person_id: Id
    reminder_offsets: Offsets | None = None
    selectors: Selectors | None = None
    welcome: bool = True

    def rules(self) -> Iterator[FieldError]:
        yield from too_many(self.reminder_offsets)


class OneOfMany(Body):
    """One of many to be subscribed."""

    person_id: Id
    reminder_offsets: Offsets | None = None
    selectors: Selectors | None = None

    def rules(self) -> Iterator[FieldError]:
        yield from too_many(self.reminder_offsets)


class ManySubscriptions(Body):
    """Up to 1000 people at once: all of them, or none where one cannot be."""

    items: Annotated[list[OneOfMany], items(1_000, 1)]
    welcome: bool = False

    def wishes(self) -> list[Wish]:
        return [wish_of(one, f"items.{n}.") for n, one in enumerate(self.items)]


class SubscriptionChange(Body):
    """What to change of a subscription; null gives back what holds for all."""

    reminder_offsets: Offsets | Unset | None = UNSET
    selectors: Selectors | Unset | None = UNSET

    def rules(self) -> Iterator[FieldError]:
        yield from too_many(self.reminder_offsets)


class NewSnooze(Body):
    """When to remind once more: at an instant, or in so many seconds."""

    at: Instant | None = None
    in_seconds: Annotated[int, number(1, MOST_SECONDS)] | None = None

    def rules(self) -> Iterator[FieldError]:
        if (self.at is None) == (self.in_seconds is None):
            yield FieldError("", "required", "Give at or in_seconds")


class Announcement(Body):
    """What is said to all subscribers or to some, now or at its moment."""

    title: Title
    body: Text
    notification_level: Level = "info"
    subscription_ids: Ids | None = None
    send_at: Instant | None = None

    def announcement(self) -> NewAnnouncement:
        return NewAnnouncement(**{name: getattr(self, name) for name in NewAnnouncement.__slots__})


class AnnouncementChange(Body):
    """What to change of an announcement that waits for its moment."""

    title: Title | Unset = UNSET
    body: Text | Unset = UNSET
    notification_level: Level | Unset = UNSET
    send_at: Instant | Unset = UNSET


class DefaultsChange(Body):
    """What holds for the events of the workspace; null = as the operator decided."""

    reminder_offsets: Offsets | Unset | None = UNSET
    default_duration_s: Annotated[int, number(1, LARGEST)] | Unset | None = UNSET
    coalesce_s: Annotated[int, number(0, 86_400)] | Unset | None = UNSET

    def rules(self) -> Iterator[FieldError]:
        yield from too_many(self.reminder_offsets)


class EventsQuery(Paged):
    """Which events, by state, start, words in name or place, and people."""

    state: list[State] = msgspec.field(default_factory=list)
    from_: Instant | None = msgspec.field(default=None, name="from")
    to: Instant | None = None
    q: Annotated[str, line(200)] | None = None
    organizer_id: Id | None = None
    person_id: Id | None = None


class SubscriptionsQuery(Paged):
    """Which subscriptions; `q` is a part of the person's name or mail address."""

    state: Literal["active", "removed"] | None = None
    q: Annotated[str, line(200)] | None = None
    person_id: Id | None = None


class RecipientsQuery(Paged):
    """Which recipients."""

    status: Status | None = None


def event_wish(body: NewEvent | EventChange) -> dict[str, Any]:
    """What was said of an event, in the words of the actions: whole seconds, offsets in order."""
    wish = {name: value for name, value in changes(body).items() if name not in ("notify", "note")}
    wish |= {name: _whole(wish[name]) for name in ("start_date", "end_date") if name in wish}
    return ordered(wish)


def subscription_wish(body: SubscriptionChange) -> dict[str, Any]:
    wish = ordered(changes(body))
    if wish.get("selectors") is not None:
        wish["selectors"] = [one.chosen() for one in wish["selectors"]]
    return wish


def wish_of(body: NewSubscription | OneOfMany, field: str = "") -> Wish:
    offsets = None if body.reminder_offsets is None else in_order(body.reminder_offsets)
    selectors = None if body.selectors is None else [one.chosen() for one in body.selectors]
    return Wish(body.person_id, offsets, selectors, field)


def ordered(wish: Mapping[str, Any]) -> dict[str, Any]:
    """Offsets each once, the largest first."""
    offsets = wish.get("reminder_offsets")
    return dict(wish) if offsets is None else {**wish, "reminder_offsets": in_order(offsets)}


def too_many(offsets: list[int] | Unset | None) -> Iterator[FieldError]:
    """Of different ones."""
    if isinstance(offsets, list) and len(set(offsets)) > MOST_OFFSETS:
        yield FieldError("reminder_offsets", "length", f"At most {MOST_OFFSETS} different offsets fit here")


def _whole(at: datetime | None) -> datetime | None:
    return None if at is None else whole(at)
