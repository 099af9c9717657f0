"""Rows of events as values. Knows the columns, and the order of locks: defaults, event, subscription, broadcast."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from soonish.db.pool import Tx
from soonish.db.sql import Statements, load
from soonish.errors import Conflict, NotFound
from soonish.events.model.broadcasts import Broadcast, broadcast_of
from soonish.events.model.events import Event, event_of
from soonish.events.model.subscriptions import Subscription, subscription_of
from soonish.events.model.terms import Terms

SQL: Final[Statements] = load(__file__)


async def find_event(tx: Tx, event_id: int) -> Event | None:
    row = await SQL.event.row(tx, id=event_id)
    return None if row is None else event_of(row)


async def get_event(tx: Tx, event_id: int) -> Event:
    return _found(await find_event(tx, event_id), event_id)


async def lock_event(tx: Tx, event_id: int, *, shared: bool = False) -> Event:
    """The event, which nobody changes until this transaction ends; `shared`: many may hold it so at once."""
    statement = SQL.event_for_share if shared else SQL.event_for_update
    row = await statement.row(tx, id=event_id)
    return _found(None if row is None else event_of(row), event_id)


async def lock_for_subscribers(tx: Tx, event_id: int, terms: Terms) -> Event:
    """The lock under which subscriptions change: shared, but alone where the workflow hears of them in order."""
    event = await get_event(tx, event_id)
    return await lock_event(tx, event_id, shared="temporal" not in (event.reminder_engine, terms.reminder_engine))


async def update_event(tx: Tx, before: Event, values: Mapping[str, Any]) -> Event:
    """Write an event that is locked, one version on; `values` has the columns that differ."""
    named = {name: values.get(name, getattr(before, name)) for name in _WRITTEN}
    return event_of(await SQL.update_event.row(tx, id=before.id, **named))


async def find_subscription(tx: Tx, event_id: int, subscription_id: int) -> Subscription | None:
    row = await SQL.subscription.row(tx, event_id=event_id, id=subscription_id)
    return None if row is None else subscription_of(row)


async def get_subscription(tx: Tx, event_id: int, subscription_id: int) -> Subscription:
    found = await find_subscription(tx, event_id, subscription_id)
    if found is None:
        raise _no_subscription(event_id, subscription_id)
    return found


async def lock_subscription(tx: Tx, event_id: int, subscription_id: int) -> Subscription:
    """The subscription, after the event's own lock; nobody else changes it until this transaction ends."""
    row = await SQL.subscription_for_update.row(tx, event_id=event_id, id=subscription_id)
    if row is None:
        raise _no_subscription(event_id, subscription_id)
    return subscription_of(row)


async def lock_broadcast(tx: Tx, event_id: int, broadcast_id: int) -> Broadcast:
    """The broadcast, after the event's own lock."""
    row = await SQL.broadcast_for_update.row(tx, event_id=event_id, id=broadcast_id)
    if row is None:
        raise no_broadcast(event_id, broadcast_id)
    return broadcast_of(row)


async def lock_people(tx: Tx, person_ids: Sequence[int]) -> set[int]:
    """Those of them who are there, and stay until this transaction ends: before any lock of an event."""
    return {row["id"] for row in await SQL.people_for_share.rows(tx, ids=sorted(person_ids))}


def need_open(event: Event, *, draft: bool = False) -> None:
    """Refuse what comes too late; `draft`: or before it was published."""
    if not (event.is_open or (draft and event.is_draft)):
        raise closed(event)


def closed(event: Event) -> Conflict:
    how = "cancelled" if event.state == "cancelled" else "over"
    return Conflict(f"Event {event.id} is {how}; nothing of it changes any more", code="event_closed")


def need_published(event: Event) -> None:
    """Refuse what nobody can hear yet, or any more."""
    if event.is_draft:
        raise Conflict(f"Event {event.id} is a draft; publish it first", code="not_published")
    need_open(event)


def no_broadcast(event_id: int, broadcast_id: int) -> NotFound:
    return NotFound(f"Event {event_id} has no broadcast {broadcast_id}")


def _no_subscription(event_id: int, subscription_id: int) -> NotFound:
    return NotFound(f"Event {event_id} has no subscription {subscription_id}")


def _found(event: Event | None, event_id: int) -> Event:
    if event is None:
        raise NotFound(f"There is no event {event_id}")
    return event


_WRITTEN: Final = (
    "organizer_id", "name", "description", "location", "link", "timezone", "start_date", "end_date",
    "effective_end_date", "is_public", "reminder_offsets", "state", "show_time_in", "reminder_engine", "sequence",
    "link_generation", "cancel_message", "planned_at", "published_at", "live_at", "cancelled_at", "completed_at",
    "closed_at",
)  # fmt: skip
