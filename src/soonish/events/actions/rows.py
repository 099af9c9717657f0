"""Rows of events as values. Knows the columns, and the order of locks: defaults, event, subscription, broadcast."""

from typing import Final

from soonish.db.pool import Tx
from soonish.db.sql import Statements, load
from soonish.errors import NotFound
from soonish.events.model.events import Event, event_of
from soonish.events.model.subscriptions import Subscription, subscription_of

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


async def find_subscription(tx: Tx, event_id: int, subscription_id: int) -> Subscription | None:
    row = await SQL.subscription.row(tx, event_id=event_id, id=subscription_id)
    return None if row is None else subscription_of(row)


async def lock_subscription(tx: Tx, event_id: int, subscription_id: int) -> Subscription:
    """The subscription, after the event's own lock; nobody else changes it until this transaction ends."""
    row = await SQL.subscription_for_update.row(tx, event_id=event_id, id=subscription_id)
    if row is None:
        raise NotFound(f"Event {event_id} has no subscription {subscription_id}")
    return subscription_of(row)


def _found(event: Event | None, event_id: int) -> Event:
    if event is None:
        raise NotFound(f"There is no event {event_id}")
    return event
