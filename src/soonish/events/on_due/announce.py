"""The moment of a broadcast has come: it is queued with its signal, or withdrawn where it makes no sense any more."""

from functools import partial

from soonish.db.pool import Database, Tx
from soonish.due import queue
from soonish.due.model import Drop, Fate, Item, Kind, Lane, Late
from soonish.events.actions.announcements import signal_announcement
from soonish.events.actions.broadcasts import BODY_LENGTH, gathered, update_broadcast
from soonish.events.actions.live import ring_event
from soonish.events.actions.rows import SQL, lock_broadcast, lock_event
from soonish.events.actions.signals import add_signal
from soonish.events.model import texts
from soonish.events.model.broadcasts import Broadcast
from soonish.events.model.events import Event
from soonish.events.model.items import ANNOUNCE


def kind(db: Database) -> Kind:
    return Kind(ANNOUNCE, partial(announce, db), Lane.CONTROL, Late.send(), tries=None)


async def announce(db: Database, item: Item) -> Fate:
    """Queue what is to be told now, or withdraw it where the event is over; a second run finds it so."""
    async with db.transaction(item.workspace_id) as tx:
        event_id = await SQL.event_of_broadcast.value(tx, id=int(item.key))
        if event_id is None:
            return Drop("gone")
        event = await lock_event(tx, event_id)
        broadcast = await lock_broadcast(tx, event_id, int(item.key))
        if broadcast.state != "scheduled":
            return Drop("not_scheduled")
        await _queue(tx, event, broadcast)
        await ring_event(tx, item.workspace_id, event_id)
        return await queue.done_in(tx, item)


async def _queue(tx: Tx, event: Event, broadcast: Broadcast) -> None:
    if not event.is_open:
        await update_broadcast(tx, broadcast, state="withdrawn", reason="event_closed")
    elif broadcast.kind == "updated":
        await _queue_changes(tx, event, broadcast)
    else:
        await signal_announcement(tx, await update_broadcast(tx, broadcast, state="queued"))


async def _queue_changes(tx: Tx, event: Event, broadcast: Broadcast) -> None:
    """The text is that of now: what is left of all changes since the first."""
    left = await gathered(tx, event, broadcast.id)
    if not left.changes:
        await update_broadcast(tx, broadcast, state="withdrawn", reason="no_change")
        return
    text = texts.updated(event, left.changes, left.notes)
    await update_broadcast(
        tx, broadcast, state="queued", title=text.title, body=text.body[:BODY_LENGTH], link=event.link
    )
    await add_signal(tx, event.id, "event_updated", {"broadcast_id": broadcast.id})
