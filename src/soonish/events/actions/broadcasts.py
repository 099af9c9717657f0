"""What is told at once: rows made in the request, with their text, and the signals that let them be told.

With a span of coalescing, changes are gathered into one row, whose text is made when its time has come.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from soonish.db.pool import Tx
from soonish.delivery.model.letters import Level
from soonish.due import Put, put
from soonish.events.actions.rows import SQL
from soonish.events.model import texts
from soonish.events.model.broadcasts import LEVELS, Broadcast, BroadcastKind, broadcast_of
from soonish.events.model.changes import Changes, Gathered, gather
from soonish.events.model.events import Event
from soonish.events.model.items import ANNOUNCE
from soonish.events.model.texts import Text

BODY_LENGTH = 20_000
PATIENCE = 5  # spans of coalescing after which changes are told however often they go on


async def tell_of_change(
    tx: Tx, event: Event, changes: Changes, note: str | None, coalesce: timedelta, actor: str
) -> Broadcast:
    """What subscribers are told of a change: a broadcast of its own, or the one that gathers several."""
    if coalesce:
        return await _gathering(tx, event, changes, note, coalesce, actor)
    return await add_broadcast(tx, event, "updated", texts.updated(event, changes, [note]), actor)


async def add_broadcast(
    tx: Tx,
    event: Event,
    kind: BroadcastKind,
    text: Text,
    actor: str,
    *,
    level: Level | None = None,
    subscription_ids: Sequence[int] | None = None,
    send_at: datetime | None = None,
    first_change_at: datetime | None = None,
) -> Broadcast:
    """Write a broadcast: queued, or scheduled with its item where its moment is ahead."""
    row = await SQL.add_broadcast.row(
        tx,
        event_id=event.id,
        kind=kind,
        notification_level=level or LEVELS[kind],
        title=text.title,
        body=text.body[:BODY_LENGTH],
        link=event.link,
        subscription_ids=subscription_ids,
        send_at=send_at,
        created_by=actor,
        state="queued" if send_at is None else "scheduled",
        first_change_at=first_change_at,
    )
    if send_at is not None:
        await put(tx, [Put(ANNOUNCE, str(row["id"]), send_at)])
    return broadcast_of(row)


async def update_broadcast(tx: Tx, before: Broadcast, **values: Any) -> Broadcast:
    """Write a broadcast that is locked."""
    names = ("title", "body", "link", "notification_level", "send_at", "state", "reason")
    named = {name: values.get(name, getattr(before, name)) for name in names}
    return broadcast_of(await SQL.change_broadcast.row(tx, id=before.id, **named))


async def gathered(tx: Tx, event: Event, broadcast_id: int) -> Gathered:
    """What is left of the changes that a broadcast gathers."""
    return gather(await SQL.changes_of_broadcast.rows(tx, broadcast_id=broadcast_id), event)


async def _gathering(
    tx: Tx, event: Event, changes: Changes, note: str | None, coalesce: timedelta, actor: str
) -> Broadcast:
    """Join the broadcast that waits, or begin one; how long it waits has an end."""
    row = await SQL.coalescing.row(tx, event_id=event.id)
    if row is None:
        text, now = texts.updated(event, changes, [note]), event.read_at
        return await add_broadcast(tx, event, "updated", text, actor, send_at=now + coalesce, first_change_at=now)
    waiting = broadcast_of(row)
    assert waiting.first_change_at
    send_at = min(event.read_at + coalesce, waiting.first_change_at + PATIENCE * coalesce)
    moved = await update_broadcast(tx, waiting, send_at=send_at, link=event.link)
    await put(tx, [Put(ANNOUNCE, str(moved.id), send_at)])
    return moved
