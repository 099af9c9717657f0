"""An event with its tab of subscribers, and the page of one subscription."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from soonish.errors import FieldError
from soonish.events.actions import looking, showing, snoozes, subscriptions
from soonish.events.actions.handed import events_of
from soonish.events.model import texts
from soonish.events.model.shown import ReminderState, SubscriptionDetail
from soonish.events.routes.files_api import table
from soonish.events.routes.forms import (
    Given,
    LocalTime,
    Minutes,
    PersonText,
    instant_of,
    person_of,
    person_text,
    read_offsets,
    too_many,
)
from soonish.events.routes.pages import Nothing, words_of
from soonish.events.routes.public import SNOOZES, Span
from soonish.people.actions import addresses
from soonish.people.model.address import Address, read_tags
from soonish.web.auth import Role
from soonish.web.fields import Form, Paged, checked, items, line, number
from soonish.web.operation import Caller, Database, IfMatch, Reply, Request, Tx, get, post
from soonish.web.pages import page, see_other

REMINDER_TONES: Final[Mapping[ReminderState, str]] = {
    "planned": "info", "pending": "info", "sent": "ok", "failed": "bad", "unknown": "warn", "skipped": "quiet",
    "missed": "warn", "past": "quiet",
}  # fmt: skip


def _tags(text: str) -> str:
    read_tags(text)
    return text


TagText = Annotated[str, line(1_000, least=0), checked(_tags)]


class SubscribersFilter(Paged):
    """Which subscribers."""

    q: Annotated[str, line(200, least=0)] | None = None
    state: Literal["active", "removed"] | None = None


class AddForm(Form):
    """Somebody to be subscribed."""

    person_id: PersonText
    reminder_offsets: Given = msgspec.field(default_factory=lambda: ["default"])
    minutes: Minutes = ""
    welcome: bool = False

    def rules(self) -> Sequence[FieldError]:
        return too_many(self.reminder_offsets, self.minutes)


class ChangeForm(Form):
    """A subscription as the form shows it, and the version that was seen."""

    version: Annotated[int, number(1)]
    reminder_offsets: Given = msgspec.field(default_factory=lambda: ["default"])
    minutes: Minutes = ""
    where: Literal["all", "muted", "some"] = "all"
    addresses: Annotated[list[Annotated[int, number(1)]], items(20)] = msgspec.field(default_factory=list)
    tags: TagText = ""

    def rules(self) -> Sequence[FieldError]:
        return too_many(self.reminder_offsets, self.minutes)

    def selectors(self) -> list[dict[str, Any]] | None:
        if self.where == "all":
            return None
        if self.where == "muted":
            return []
        return [{"address_id": one} for one in self.addresses] + [{"tag": tag} for tag in read_tags(self.tags)]


class SnoozeForm(Form):
    """When to remind once more: in so many seconds, or at a time by the clock of the event's zone."""

    in_seconds: Span | None = None
    at: LocalTime | None = None

    def rules(self) -> Sequence[FieldError]:
        return [FieldError("in_seconds", "required", "Say when")] if self.in_seconds is None and not self.at else ()


@get("/events/{event_id:int}", role=Role.READ, page=True)
async def event_page(request: Request, db: Database, caller: Caller, event_id: int, query: SubscribersFilter) -> Reply:
    """One event, and who hears of it."""
    hand = events_of(request)
    head = await showing.head(db, hand, caller, event_id)
    wanted: dict[str, Any] = {"q": query.q or None, "state": query.state or "active"}
    rows = await showing.list_subscribers(
        db, hand, caller, event_id, **wanted, after=query.position(int), limit=query.limit + 1
    )
    listing = query.listing(rows, lambda row: (row.subscription.id,))
    chosen = {"q": query.q, "state": query.state}
    people = await showing.people_to_choose(db, caller) if caller.role >= Role.WRITE else []
    return page(
        request,
        "event_subscribers.html",
        listing=listing,
        query=query,
        people=[person_text(*one) for one in people],
        url=lambda **more: f"/events/{event_id}?" + urlencode({k: v for k, v in (chosen | more).items() if v}),
        **words_of(head, "subscribers"),
    )


@post("/events/{event_id:int}/subscribers", role=Role.WRITE, page=True, again=event_page)
async def add_subscriber(request: Request, tx: Tx, caller: Caller, event_id: int, form: AddForm) -> Reply:
    """Subscribe somebody."""
    person_id = person_of(form.person_id)
    assert person_id
    await subscriptions.subscribe(
        tx,
        events_of(request),
        caller,
        event_id,
        person_id,
        reminder_offsets=read_offsets(form.reminder_offsets, form.minutes),
        welcome=form.welcome,
    )
    told = "They hear of changes from now on, and are reminded."
    return see_other(request, f"/events/{event_id}", toast=f"{form.person_id} is subscribed. {told}")


@get("/events/{event_id:int}/subscribers.csv", role=Role.WRITE, page=True)
async def subscribers_file(request: Request, db: Database, caller: Caller, event_id: int) -> Reply:
    """All subscribers as a table."""
    text = await showing.csv_of(db, events_of(request), caller, event_id)
    return table(text, f"event-{event_id}-subscribers.csv")


@get("/events/{event_id:int}/subscriptions/{subscription_id:int}", role=Role.READ, page=True)
async def subscription_page(
    request: Request, db: Database, caller: Caller, event_id: int, subscription_id: int
) -> Reply:
    """What one person hears of an event, and when."""
    hand = events_of(request)
    head = await showing.head(db, hand, caller, event_id)
    one = await looking.show_subscription(db, hand, caller, event_id, subscription_id)
    name = (await showing.names_of(db, caller, [one.person_id])).get(one.person_id, "somebody")
    owned = (await addresses.addresses_of(db, caller, [one.person_id]))[one.person_id]
    found = await snoozes.list_snoozes(db, caller, event_id, subscription_id)
    more: dict[str, Any] = {
        "title": name,
        "one": one,
        "name": name,
        "reminders": _reminders(one, head.event.timezone),
        "source": _source(one, head.event.reminder_offsets),
        "reminder_tones": REMINDER_TONES,
        "snoozes": found,
        "snooze_spans": SNOOZES,
        "where": _where(one),
        "tags": [each["tag"] for each in one.selectors or () if "tag" in each],
        "owned": owned,
        "words_of_where": _words(one, owned),
        "chosen": {each["address_id"] for each in one.selectors or () if "address_id" in each},
    }
    return page(request, "subscription.html", **words_of(head, "subscribers") | more)


@post("/events/{event_id:int}/subscriptions/{subscription_id:int}", role=Role.WRITE, page=True, again=subscription_page)
async def change_subscription(
    request: Request, tx: Tx, caller: Caller, event_id: int, subscription_id: int, form: ChangeForm
) -> Reply:
    """Change when somebody is reminded, and where."""
    wish = {"reminder_offsets": read_offsets(form.reminder_offsets, form.minutes), "selectors": form.selectors()}
    seen = IfMatch(f'"{form.version}"')
    after = await subscriptions.change_subscription(
        tx, events_of(request), caller, event_id, subscription_id, wish, seen
    )
    told = "Saved. It holds from now on." if after.version > form.version else "Nothing was different."
    return see_other(request, f"/events/{event_id}/subscriptions/{subscription_id}", toast=told)


@post(
    "/events/{event_id:int}/subscriptions/{subscription_id:int}/remove",
    role=Role.WRITE,
    page=True,
    again=subscription_page,
)
async def remove_subscriber(
    request: Request, tx: Tx, caller: Caller, event_id: int, subscription_id: int, form: Nothing
) -> Reply:
    """Let somebody hear no more of an event."""
    del form
    await subscriptions.leave(tx, events_of(request), caller, event_id, subscription_id, "organizer")
    return see_other(request, f"/events/{event_id}", toast="Removed. They hear nothing more of this event.")


@post(
    "/events/{event_id:int}/subscriptions/{subscription_id:int}/snoozes",
    role=Role.WRITE,
    page=True,
    again=subscription_page,
)
async def add_snooze(
    request: Request, tx: Tx, caller: Caller, event_id: int, subscription_id: int, form: SnoozeForm
) -> Reply:
    """Remind somebody once more."""
    event = (await showing.head_in(tx, events_of(request), event_id)).event
    at = instant_of(form.at, event.timezone) if form.at else None
    made = await snoozes.add_snooze(
        tx, caller, event_id, subscription_id, at=at, in_seconds=None if at else form.in_seconds
    )
    told = f"They are reminded again {texts.local(made.at, event.timezone)}."
    return see_other(request, f"/events/{event_id}/subscriptions/{subscription_id}", toast=told)


@post(
    "/events/{event_id:int}/subscriptions/{subscription_id:int}/snoozes/{snooze_id:int}/remove",
    role=Role.WRITE,
    page=True,
    again=subscription_page,
)
async def remove_snooze(
    request: Request, tx: Tx, caller: Caller, event_id: int, subscription_id: int, snooze_id: int, form: Nothing
) -> Reply:
    """Do not remind them then."""
    del form
    await snoozes.remove_snooze(tx, caller, event_id, subscription_id, snooze_id)
    return see_other(request, f"/events/{event_id}/subscriptions/{subscription_id}", toast="Nobody is reminded then.")


def _reminders(one: SubscriptionDetail, timezone: str) -> list[dict[str, Any]]:
    """Each with its moment as it is there."""
    return [
        {"offset": each.offset_seconds, "at": each.moment, "there": texts.local(each.moment, timezone),
         "state": each.state, "reason": each.reason}
        for each in one.reminders
    ]  # fmt: skip


def _source(one: SubscriptionDetail, of_event: Sequence[int] | None) -> str:
    """Whose wish the reminders are."""
    if one.reminder_offsets is not None:
        return "the subscription's own"
    return "the event's" if of_event is not None else "the workspace's default"


def _where(one: SubscriptionDetail) -> str:
    if one.selectors is None:
        return "all"
    return "some" if one.selectors else "muted"


def _words(one: SubscriptionDetail, owned: Sequence[Address]) -> str:
    """Where messages go, in words."""
    if not one.selectors:
        return "nowhere: muted" if one.selectors is not None else "all active addresses"
    labels = {each.id: each.label for each in owned}
    ids = [each["address_id"] for each in one.selectors if "address_id" in each]
    named = [labels.get(address_id, "an address that is gone") for address_id in ids]
    return ", ".join([*named, *(f"tag {each['tag']}" for each in one.selectors if "tag" in each)])


routes: Sequence[Any] = [
    event_page, add_subscriber, subscribers_file, subscription_page, change_subscription, remove_subscriber, add_snooze,
    remove_snooze,
]  # fmt: skip
