"""How an event ends: its effective end is reached, its workflow has finished. The row decides, not the one who asks."""

from typing import Any

from soonish.db.pool import Tx
from soonish.errors import NotFound
from soonish.events.actions.facts import completed
from soonish.events.actions.handed import Events
from soonish.events.actions.live import ring_event
from soonish.events.actions.rows import lock_event
from soonish.events.actions.telling import SQL, withdraw_all
from soonish.events.model.events import Event, event_of


async def complete_event(tx: Tx, events: Events, event_id: int) -> dict[str, Any]:
    """Complete an event whose end is reached, once, with its fact; answers how it stands.

    `open` with the seconds that are left; `cancelled` with what tells so; else it is over.
    """
    try:
        event = await lock_event(tx, event_id)
    except NotFound:
        return {"state": "gone"}
    if event.state == "cancelled":
        return {"state": "cancelled", "broadcast_id": await SQL.cancellation.value(tx, event_id=event_id)}
    if not event.is_active:
        return {"state": event.state}
    if left := await SQL.seconds_left.value(tx, id=event_id):
        return {"state": "open", "seconds_left": left}
    over = event_of(await SQL.complete.row(tx, id=event_id))
    await completed(tx, events, over)
    await ring_event(tx, over.workspace_id, event_id)
    return {"state": "completed"}


async def close_event(tx: Tx, events: Events, event_id: int) -> str:
    """The workflow has finished: what it was still to hear is closed. Answers the word for how the event ended."""
    try:
        event = await lock_event(tx, event_id)
    except NotFound:
        return "completed"
    if event.is_active:
        raise NotFound(f"Event {event_id} is not over")
    if _is_silent(event) and await SQL.cancellation.value(tx, event_id=event_id) is None:
        await withdraw_all(tx, events, event_id)
    if await SQL.close.run(tx, id=event_id):
        await SQL.settle_all.run(tx, event_id=event_id, outcome="closed")
        await ring_event(tx, event.workspace_id, event_id)
    return "cancelled" if event.state == "cancelled" else "completed"


def _is_silent(event: Event) -> bool:
    """Whether nobody withdrew yet what was to be told before it was cancelled."""
    return event.state == "cancelled" and event.closed_at is None
