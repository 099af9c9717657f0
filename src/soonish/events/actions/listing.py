"""Look at what was told at once: broadcasts, their figures, and who got them. Changes nothing."""

from soonish.db.pool import Database, Tx
from soonish.events.actions.rows import SQL, get_event, no_broadcast
from soonish.events.model.broadcasts import (
    NO_TARGETS,
    Broadcast,
    BroadcastDetail,
    BroadcastShown,
    Recipient,
    Stats,
    Status,
    broadcast_of,
    detail,
    recipient_of,
    shown,
)
from soonish.events.model.items import broadcast_cause
from soonish.web.auth import Caller


async def list_broadcasts(
    db: Database, caller: Caller, event_id: int, *, before: int | None = None, limit: int = 50
) -> list[BroadcastShown]:
    """What was told at once, or will be, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        await get_event(tx, event_id)
        rows = await SQL.broadcasts.rows(tx, event_id=event_id, before=before, k=limit)
    return [shown(broadcast_of(row)) for row in rows]


async def show_broadcast(db: Database, caller: Caller, event_id: int, broadcast_id: int) -> BroadcastDetail:
    """A broadcast, and what became of it."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await with_stats(tx, await _find(tx, event_id, broadcast_id))


async def with_stats(tx: Tx, broadcast: Broadcast) -> BroadcastDetail:
    """The same in a transaction that is open."""
    row = await SQL.stats.row(tx, cause=broadcast_cause(broadcast.event_id, broadcast.id), no_targets=list(NO_TARGETS))
    return detail(broadcast, Stats(**row))


async def list_recipients(
    db: Database,
    caller: Caller,
    event_id: int,
    broadcast_id: int,
    *,
    status: Status | None = None,
    after: int | None = None,
    limit: int = 50,
) -> list[Recipient]:
    """What became of it for each subscription."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        await _find(tx, event_id, broadcast_id)
        rows = await SQL.recipients.rows(
            tx,
            cause=broadcast_cause(event_id, broadcast_id),
            event_id=event_id,
            no_targets=list(NO_TARGETS),
            status=status,
            after=after or 0,
            k=limit,
        )
    return [recipient_of(row) for row in rows]


async def _find(tx: Tx, event_id: int, broadcast_id: int) -> Broadcast:
    await get_event(tx, event_id)
    row = await SQL.broadcast.row(tx, event_id=event_id, id=broadcast_id)
    if row is None:
        raise no_broadcast(event_id, broadcast_id)
    return broadcast_of(row)
