"""Subscribe people to an event, change how they are told, let them leave.

Subscribing shares the event's lock, so that many can at once, and after a cancellation nobody joins.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from soonish.access.actions.audit import record
from soonish.db.pool import Tx
from soonish.delivery.model.letters import Message
from soonish.delivery.model.letters import Recipient as Told
from soonish.due import cancel
from soonish.errors import Conflict, FieldError, Invalid
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.facts import state_subscribers
from soonish.events.actions.handed import Events
from soonish.events.actions.live import ring_event
from soonish.events.actions.planning import add_offsets
from soonish.events.actions.rows import (
    SQL,
    get_event,
    lock_for_subscribers,
    lock_people,
    lock_subscription,
    need_open,
)
from soonish.events.actions.signals import add_signal
from soonish.events.model import texts
from soonish.events.model.calendar import calendar_file
from soonish.events.model.events import Event
from soonish.events.model.items import SNOOZE, cause
from soonish.events.model.links import merge_of
from soonish.events.model.offsets import inherited
from soonish.events.model.subscriptions import RemovedBy, Source, Subscription, subscription_of
from soonish.people.actions.people import Match
from soonish.people.actions.targets import check_selectors
from soonish.people.model.person import Person
from soonish.web.auth import Caller


class Wish(NamedTuple):
    """One person to be subscribed, and how."""

    person_id: int
    reminder_offsets: Sequence[int] | None = None
    selectors: Sequence[Mapping[str, Any]] | None = None
    field: str = ""  # where in the request it stands, if there are several


class Added(NamedTuple):
    """How many were subscribed, and how many were subscribed before."""

    added: int
    already: int


async def subscribe(
    tx: Tx,
    events: Events,
    caller: Caller,
    event_id: int,
    person_id: int,
    *,
    reminder_offsets: Sequence[int] | None = None,
    selectors: Sequence[Mapping[str, Any]] | None = None,
    welcome: bool = True,
    source: Source = "api",
) -> Subscription:
    """Subscribe somebody; who left before comes back under the same id."""
    wish = Wish(person_id, reminder_offsets, selectors)
    made = await _subscribe(tx, events, caller, event_id, [wish], welcome=welcome, source=source)
    if not made:
        row = await SQL.subscription_of_person.row(tx, event_id=event_id, person_id=person_id)
        raise Conflict("This person is subscribed already", code="already_subscribed", subscription_id=row["id"])
    await record(tx, caller, "subscribe", f"event/{event_id}", {"subscription_id": made[0].id})
    return made[0]


async def subscribe_many(
    tx: Tx, events: Events, caller: Caller, event_id: int, wishes: Sequence[Wish], *, welcome: bool = False
) -> Added:
    """The same for many: all of them, or none where one of them cannot be."""
    each = {one.person_id: one for one in reversed(wishes)}
    made = await _subscribe(tx, events, caller, event_id, list(each.values()), welcome=welcome, source="api")
    await record(tx, caller, "subscribe", f"event/{event_id}", {"added": len(made)})
    return Added(len(made), len(wishes) - len(made))


async def change_subscription(
    tx: Tx,
    events: Events,
    caller: Caller,
    event_id: int,
    subscription_id: int,
    wish: Mapping[str, Any],
    if_match: Match,
) -> Subscription:
    """Change offsets or selectors; moments that are past now are not made up for."""
    event = await lock_for_subscribers(tx, event_id, events.terms)
    before = await lock_subscription(tx, event_id, subscription_id)
    if_match.check(before.version)
    need_open(event, draft=True)
    await check_selectors(tx, before.person_id, wish.get("selectors"))
    if all(getattr(before, name) == value for name, value in wish.items()):
        return before
    values = {name: wish.get(name, getattr(before, name)) for name in ("reminder_offsets", "selectors")}
    row = await SQL.change_subscription.row(
        tx,
        id=subscription_id,
        reminder_offsets=values["reminder_offsets"],
        selectors=_json(values["selectors"]),
    )
    after = subscription_of(row)
    if after.is_active and after.reminder_offsets:
        await _add_offsets(tx, events, event, after.reminder_offsets)
    if after.is_active and after.reminder_offsets != before.reminder_offsets:
        await _signal_added(tx, event, [after])
    await record(tx, caller, "change", f"subscription/{subscription_id}", {"fields": sorted(wish)})
    await ring_event(tx, caller.workspace_id, event_id)
    return after


async def leave(
    tx: Tx, events: Events, caller: Caller, event_id: int, subscription_id: int, removed_by: RemovedBy
) -> None:
    """Let somebody hear no more of an event, at any time; asked again nothing happens."""
    event = await lock_for_subscribers(tx, event_id, events.terms)
    before = await lock_subscription(tx, event_id, subscription_id)
    if not before.is_active:
        return
    gone = subscription_of(await SQL.remove_subscription.row(tx, id=subscription_id, removed_by=removed_by))
    await events.outbox.withdraw(tx, f"{cause(event_id)}/", "unsubscribed", person_id=gone.person_id)
    dropped = await SQL.drop_snoozes.rows(tx, subscription_ids=[subscription_id], reason="unsubscribed")
    await cancel(tx, SNOOZE, [str(row["id"]) for row in dropped], reason="unsubscribed")
    if not event.is_draft:
        await state_subscribers(tx, events.outbox, event, [gone], caller)
    if event.is_open and event.reminder_engine == "temporal":
        await add_signal(tx, event_id, "participant_removed", {"subscription_id": subscription_id})
    await record(tx, caller, "unsubscribe", f"event/{event_id}", {"subscription_id": subscription_id})
    await ring_event(tx, caller.workspace_id, event_id)


class Leavers:
    """Given to people by the program: who is erased leaves all events, in the transaction of the erasure."""

    def __init__(self, events: Events) -> None:
        self._events = events

    async def erased(self, tx: Tx, caller: Caller, persons: Sequence[Person]) -> None:
        for person in persons:
            for row in await SQL.subscriptions_of_person.rows(tx, person_id=person.id):
                await leave(tx, self._events, caller, row["event_id"], row["id"], "erased")


async def _subscribe(
    tx: Tx,
    events: Events,
    caller: Caller,
    event_id: int,
    wishes: Sequence[Wish],
    *,
    welcome: bool,
    source: Source,
) -> list[Subscription]:
    await get_event(tx, event_id)  # what is not there is 404, before anything is wrong with the people
    await _check(tx, wishes)
    event = await lock_for_subscribers(tx, event_id, events.terms)
    need_open(event, draft=source == "api")
    rows = await SQL.subscribe.rows(
        tx,
        event_id=event_id,
        source=source,
        person_ids=[one.person_id for one in wishes],
        offsets=[_json(one.reminder_offsets) for one in wishes],
        selectors=[_json(one.selectors) for one in wishes],
    )
    made = [subscription_of(row) for row in rows]
    await _begin(tx, events, caller, event, made, welcome=welcome)
    return made


async def _check(tx: Tx, wishes: Sequence[Wish]) -> None:
    """Name every person that is not there, and every address that is not theirs."""
    there = await lock_people(tx, [one.person_id for one in wishes])
    errors = []
    for one in wishes:
        if one.person_id not in there:
            told = f"There is no person {one.person_id}"
            errors.append(FieldError(f"{one.field}person_id", "unknown_person", told))
        elif one.selectors:
            errors += await _foreign(tx, one)
    if errors:
        raise Invalid("", *errors)


async def _foreign(tx: Tx, one: Wish) -> Sequence[FieldError]:
    try:
        await check_selectors(tx, one.person_id, one.selectors, f"{one.field}selectors")
    except Invalid as error:
        return error.errors
    return ()


async def _begin(
    tx: Tx, events: Events, caller: Caller, event: Event, made: Sequence[Subscription], *, welcome: bool
) -> None:
    """What a subscription begins with: its reminders, the fact, a word of welcome."""
    if not made:
        return
    own = {offset for one in made for offset in one.reminder_offsets or ()}
    if own:
        await _add_offsets(tx, events, event, own)
    await _signal_added(tx, event, made)
    if not event.is_draft:
        await state_subscribers(tx, events.outbox, event, list(made), caller)
    if welcome and event.is_open:
        for one in made:
            await _welcome(tx, events, event, one)
    await ring_event(tx, caller.workspace_id, event.id)


async def _add_offsets(tx: Tx, events: Events, event: Event, offsets: Sequence[int] | set[int]) -> None:
    defaults = await defaults_in(tx, events.terms)
    await add_offsets(tx, event, offsets, inherited(event, defaults.reminder_offsets))


async def _signal_added(tx: Tx, event: Event, subscriptions: Sequence[Subscription]) -> None:
    """Only a workflow that plans reminders hears who came."""
    if event.is_open and event.reminder_engine == "temporal":
        for one in subscriptions:
            payload = {"subscription_id": one.id, "user_id": one.person_id}
            await add_signal(tx, event.id, "participant_added", payload)


async def _welcome(tx: Tx, events: Events, event: Event, one: Subscription) -> None:
    title, body = texts.welcome(event)
    message = Message(
        title=title,
        body=body,
        link=event.link,
        calendar=calendar_file(event),
        expires_at=event.effective_end_date,
        because={"subscription_id": one.id},
    )
    to = Told(one.person_id, one.selectors, merge_of(event, one.id))
    await events.outbox.tell(tx, cause(event.id, "welcome", one.id, one.activations), message, [to])


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
