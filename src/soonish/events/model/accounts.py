"""Why somebody was told of an event, or was not: in sentences. Pure: rows come in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from soonish.events.model.events import Event
from soonish.events.model.offsets import effective, since, source
from soonish.events.model.subscriptions import Subscription
from soonish.events.model.texts import lead, local
from soonish.reminders.leads import moment

What: TypeAlias = Literal["asked", "planned", "audience", "ended"]

_REMOVED = {
    "organizer": "the organizer removed it",
    "person": "the person left",
    "one_click": "the person left by the link of a mail",
    "erased": "the person was removed",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that led to it; `ref` is the page of it."""

    at: datetime | None
    what: What
    text: str
    ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The reason, what led there, and the beginning of the causes that an item told under."""

    because: str | None = None
    lines: Sequence[Line] = ()
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An event with the subscription of the person in question, if there is one."""

    event: Event
    default: Sequence[int]
    subscription: Subscription | None = None

    @property
    def page(self) -> str:
        return f"/events/{self.event.id}"

    @property
    def own_page(self) -> str:
        """Of the subscription."""
        return f"{self.page}/subscriptions/{self.subscription.id}" if self.subscription else self.page

    @property
    def name(self) -> str:
        return f"“{self.event.name}”"


def of_reminder(scene: Scene, offset: int, started: int) -> Account:
    """A reminder: when it was promised, whose wish it is, and what keeps it from somebody."""
    event = scene.event
    at = moment(event.start_date, offset)
    promised = f"Promised {offset} seconds before the start of {scene.name}: {local(at, event.timezone)}."
    lines = [Line(event.planned_at, "planned", promised, scene.page)]
    if started != int(event.start_date.timestamp()):
        lines.append(
            Line(event.updated_at, "ended", f"{scene.name} was moved; this was for another start.", scene.page)
        )
    one = scene.subscription
    if one is None:
        return Account(lines=[*lines, *_nobody(scene)])
    lines += _joined(scene, one)
    if (why := _unwanted(scene, one, offset)) is not None:
        return Account(lines=[*lines, Line(None, "audience", why, scene.own_page)])
    wish = f"The offset is {source(one, event)}, and was wished before its moment."
    because = (
        f"subscription {one.id} to {scene.name} asks to be reminded {_before(offset)}, which is {source(one, event)}"
    )
    return Account(because=because, lines=[*lines, Line(None, "audience", wish, scene.own_page)])


def of_broadcast(scene: Scene, row: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> Account:
    """A broadcast: who said what, to whom, and whether this person was among them."""
    what = {"updated": "a change", "cancelled": "the cancellation", "announcement": "an announcement"}[row["kind"]]
    lines = [Line(row["created_at"], "asked", f"To tell {what} of {scene.name} was asked for.", scene.page)]
    lines += [Line(one["at"], "asked", f"Changed: {', '.join(one['fields'])}.", scene.page) for one in changes]
    if row["send_at"] > row["created_at"]:
        lines.append(Line(row["created_at"], "planned", "It was to wait for its moment.", scene.page))
    if row["state"] == "withdrawn":
        lines.append(Line(row["updated_at"], "ended", f"It was withdrawn: {row['reason']}.", scene.page))
    one = scene.subscription
    if one is None:
        return Account(lines=[*lines, *_nobody(scene)])
    return Account(because=_heard(scene, one, what), lines=[*lines, *_joined(scene, one), *_left_out(scene, one, row)])


def of_snooze(scene: Scene, row: Mapping[str, Any]) -> Account:
    """One more reminder."""
    text = f"One more reminder of {scene.name} was asked for, at {local(row['at'], scene.event.timezone)}."
    lines = [Line(row["created_at"], "asked", text, scene.own_page)]
    if row["state"] == "dropped":
        lines.append(Line(None, "ended", f"It was dropped: {row['reason']}.", scene.own_page))
    joined = list(_joined(scene, scene.subscription)) if scene.subscription else []
    return Account(because=f"it was asked for on the subscription to {scene.name}", lines=[*joined, *lines])


def of_welcome(scene: Scene) -> Account:
    one = scene.subscription
    lines = list(_joined(scene, one)) if one else list(_nobody(scene))
    return Account(because=f"they were subscribed to {scene.name}", lines=lines)


def of_event(scene: Scene, because: str) -> Account:
    """Whatever else is told of an event: to its organizer, to a mailbox, to machines."""
    return Account(
        because=because, lines=[Line(scene.event.created_at, "asked", f"{scene.name} was made.", scene.page)]
    )


def line_ahead(row: Mapping[str, Any]) -> Line:
    """One reminder or snooze that is still to come."""
    ref = f"/events/{row['event_id']}/subscriptions/{row['subscription_id']}"
    offset = row["offset_seconds"]
    what = "One more reminder" if offset is None else f"A reminder {_before(offset)}"
    return Line(row["at"], "planned", f"{what} of “{row['name']}”, by subscription {row['subscription_id']}.", ref)


def _joined(scene: Scene, one: Subscription) -> Iterator[Line]:
    how = "by itself, over the public page" if one.source == "public" else "by the API"
    yield Line(one.activated_at, "audience", f"Subscription {one.id} to {scene.name} was begun {how}.", scene.own_page)
    if not one.is_active:
        gone = f"Subscription {one.id} ended: {_REMOVED.get(one.removed_by or '', 'it was removed')}."
        yield Line(one.removed_at, "ended", gone, scene.own_page)


def _nobody(scene: Scene) -> Iterator[Line]:
    yield Line(None, "audience", f"This person was never subscribed to {scene.name}.", scene.page)
    if scene.event.state == "cancelled":
        yield Line(scene.event.cancelled_at, "ended", f"{scene.name} was cancelled.", scene.page)


def _unwanted(scene: Scene, one: Subscription, offset: int) -> str | None:
    """Why a subscription does not get an offset."""
    if not one.is_active:
        return f"Subscription {one.id} had ended."
    if offset not in effective(one, scene.event, scene.default):
        return f"Subscription {one.id} does not ask for this offset ({source(one, scene.event)} offsets hold)."
    if moment(scene.event.start_date, offset) < since(one, scene.event):
        return "Its moment was past already when it was wished or planned; that is never made up for."
    return None


def _heard(scene: Scene, one: Subscription, what: str) -> str:
    return f"subscription {one.id} to {scene.name} hears of {what}"


def _left_out(scene: Scene, one: Subscription, row: Mapping[str, Any]) -> Iterator[Line]:
    """What kept one from hearing a broadcast."""
    if row["subscription_ids"] is not None and one.id not in row["subscription_ids"]:
        yield Line(row["created_at"], "audience", "It was for chosen subscriptions, and not for this one.", scene.page)
    if row["telling_at"] is not None and one.activated_at > row["telling_at"]:
        yield Line(row["telling_at"], "audience", "It was told before this subscription began.", scene.page)


def _before(offset: int) -> str:
    return f"{offset} seconds before the start" if offset else "at the start"


def label_of_reminder(name: str, offset: int) -> str:
    """What an item is about, in a few words."""
    return f"Remind of “{name}”, which starts {lead(offset)}"
