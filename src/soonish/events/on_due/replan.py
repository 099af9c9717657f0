"""A default has changed, or the engine of reminders: the open events that it concerns are planned anew."""

from functools import partial

from soonish.db.pool import Database
from soonish.due import queue
from soonish.due.model import Again, Fate, Item, Kind, Lane, Late
from soonish.events.actions.handed import Events
from soonish.events.actions.replanning import replan_some
from soonish.events.model.items import REPLAN


def kind(db: Database, events: Events) -> Kind:
    return Kind(REPLAN, partial(replan, db, events), Lane.BULK, Late.send(), tries=None)


async def replan(db: Database, events: Events, item: Item) -> Fate:
    """Plan the reminders of some open events anew; where it stands is kept in the payload."""
    asked = item.payload
    engine = asked.get("engine", events.terms.reminder_engine)
    default, after = asked.get("default", False), asked.get("after", 0)
    async with db.transaction(item.workspace_id) as tx:
        last = await replan_some(tx, events, engine, default=default, after=after)
        if last is None:
            return await queue.done_in(tx, item)
        return await queue.again_in(tx, item, Again(after=0), payload={**asked, "after": last})
