"""Remind one person once more: at a moment of their own, which stays where it is when the event moves."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.due import Put, cancel, put
from soonish.errors import Conflict, FieldError, Invalid, NotFound
from soonish.events.actions.live import ring_event
from soonish.events.actions.rows import (
    SQL,
    get_event,
    get_subscription,
    lock_event,
    lock_subscription,
    need_open,
)
from soonish.events.model.events import Event
from soonish.events.model.items import SNOOZE
from soonish.events.model.shown import Snooze
from soonish.events.model.times import next_whole
from soonish.web.auth import Caller

MOST = 20  # planned ones of a subscription


async def add_snooze(
    tx: Tx,
    caller: Caller,
    event_id: int,
    subscription_id: int,
    *,
    at: datetime | None = None,
    in_seconds: int | None = None,
) -> Snooze:
    """Plan one more reminder: at an instant, or in so many seconds."""
    event = await lock_event(tx, event_id, shared=True)
    subscription = await lock_subscription(tx, event_id, subscription_id)
    need_open(event)
    if not subscription.is_active:
        raise NotFound(f"Subscription {subscription_id} has ended")
    moment = at if at is not None else event.read_at + timedelta(seconds=in_seconds or 0)
    _check(event, moment := next_whole(moment), "at" if at is not None else "in_seconds")
    if await SQL.planned_snoozes.value(tx, subscription_id=subscription_id) >= MOST:
        raise Conflict(f"This subscription has {MOST} snoozes planned; remove one first", code="too_many")
    row = await SQL.add_snooze.row(tx, subscription_id=subscription_id, at=moment)
    await put(tx, [Put(SNOOZE, str(row["id"]), moment)])
    await record(tx, caller, "snooze", f"subscription/{subscription_id}", {"at": moment})
    await ring_event(tx, caller.workspace_id, event_id)
    return snooze_of(row)


async def remove_snooze(tx: Tx, caller: Caller, event_id: int, subscription_id: int, snooze_id: int) -> None:
    """Remind nobody then; one that was told stays so."""
    await lock_event(tx, event_id, shared=True)
    await lock_subscription(tx, event_id, subscription_id)
    row = await SQL.snooze_for_update.row(tx, id=snooze_id, subscription_id=subscription_id)
    if row is None:
        raise NotFound(f"Subscription {subscription_id} has no snooze {snooze_id}")
    if row["state"] != "planned":
        return
    await SQL.end_snooze.run(tx, id=snooze_id, state="dropped", reason="removed")
    await cancel(tx, SNOOZE, [str(snooze_id)], reason="removed")
    await record(tx, caller, "unsnooze", f"subscription/{subscription_id}", {"snooze_id": snooze_id})
    await ring_event(tx, caller.workspace_id, event_id)


async def list_snoozes(
    db: Database, caller: Caller, event_id: int, subscription_id: int, *, before: int | None = None, limit: int = 50
) -> Sequence[Snooze]:
    """Those of a subscription, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        await get_event(tx, event_id)
        await get_subscription(tx, event_id, subscription_id)
        rows = await SQL.snoozes.rows(tx, subscription_id=subscription_id, before=before, k=limit)
    return [snooze_of(row) for row in rows]


async def get_snooze(db: Database, caller: Caller, event_id: int, subscription_id: int, snooze_id: int) -> Snooze:
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        row = await SQL.snooze.row(tx, id=snooze_id)
    if row is None or (row["event_id"], row["subscription_id"]) != (event_id, subscription_id):
        raise NotFound(f"Subscription {subscription_id} has no snooze {snooze_id}")
    return snooze_of(row)


def snooze_of(row: object) -> Snooze:
    return Snooze(**{name: row[name] for name in Snooze.__struct_fields__})  # type: ignore[index]


def _check(event: Event, moment: datetime, field: str) -> None:
    if moment <= event.read_at:
        raise Invalid("", FieldError(field, "in_past", "This is past; give a moment that is ahead"))
    if moment >= event.effective_end_date:
        raise Invalid("", FieldError(field, "after_end", "The event is over by then; give an earlier moment"))
