"""The start of an event is reached: it is live from now on."""

from functools import partial

from soonish.clock import parse_instant
from soonish.db.pool import Database
from soonish.due import queue
from soonish.due.model import Drop, Fate, Item, Kind, Lane, Late
from soonish.errors import NotFound
from soonish.events.actions.live import ring_event
from soonish.events.actions.rows import lock_event, update_event
from soonish.events.model.items import LIVE


def kind(db: Database) -> Kind:
    return Kind(LIVE, partial(begin, db), Lane.CONTROL, Late.send(), tries=None)


async def begin(db: Database, item: Item) -> Fate:
    """Let an event be live from its start on; a second run finds it live."""
    async with db.transaction(item.workspace_id) as tx:
        try:
            event = await lock_event(tx, int(item.key))
        except NotFound:
            return Drop("event_not_found")
        if event.start_date != parse_instant(item.payload["start_date"]):
            return Drop("moved")
        if event.state != "scheduled":
            return Drop("not_active")
        await update_event(tx, event, {"state": "live", "live_at": event.read_at})
        await ring_event(tx, item.workspace_id, event.id)
        return await queue.done_in(tx, item)
