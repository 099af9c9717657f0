"""A moment before the start has come: whoever wants to be reminded then is told."""

from functools import partial

from soonish import failpoints
from soonish.clock import parse_instant
from soonish.db.pool import Database
from soonish.due import queue
from soonish.due.model import Again, Drop, Fate, Item, Kind, Lane, Late
from soonish.events.actions.handed import Events
from soonish.events.actions.reminding import EARLY, MORE, SUCCESS, remind_all
from soonish.events.model.items import REMINDER


def kind(db: Database, events: Events) -> Kind:
    return Kind(REMINDER, partial(remind, db, events), Lane.CONTROL, Late.send(events.terms.reminder_late), tries=None)


async def remind(db: Database, events: Events, item: Item) -> Fate:
    """Remind whoever wants it so long before the start, a page a run; a second run of a page tells nobody twice."""
    event_id, offset = map(int, item.key.split("/"))
    start, place = parse_instant(item.payload["start_date"]), item.payload
    async with db.transaction(item.workspace_id) as tx:
        turn = await remind_all(
            tx, events, event_id, offset, start, after=place.get("after", 0), some=place.get("some", False)
        )
        failpoints.reach("events.reminder_told")
        if turn.word == SUCCESS:
            return await queue.done_in(tx, item)
        if turn.word == MORE:
            payload = {**place, "after": turn.after, "some": turn.some}
            return await queue.again_in(tx, item, Again(after=0), payload=payload)
    return Again(at=turn.at) if turn.word == EARLY else Drop(turn.word)
