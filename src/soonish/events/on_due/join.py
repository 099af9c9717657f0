"""What comes due of mailboxes that asked: the mail to them, and the forgetting of those that did not answer.

Whether a mail may go is decided by the rows when its item comes due; a second run finds what the first one wrote.
"""

from functools import partial

from soonish.db.pool import Database
from soonish.due import queue
from soonish.due.model import Again, Drop, Fate, Item, Kind, Lane, Late
from soonish.events.actions import joining
from soonish.events.actions.handed import Events
from soonish.events.model.items import FORGET, JOIN


def kinds(db: Database, events: Events) -> list[Kind]:
    return [
        Kind(JOIN, partial(write, db, events), Lane.CONTROL, Late.send()),
        Kind(FORGET, partial(forget, db), Lane.BULK, Late.send(), tries=None),
    ]


async def write(db: Database, events: Events, item: Item) -> Fate:
    """One mail to the mailbox of a request, unless it would be a nuisance; done with the mail, in one transaction."""
    async with db.transaction(item.workspace_id) as tx:
        why = await joining.write_mail(tx, events, item.workspace_id, int(item.key))
        return Drop(why) if why else await queue.done_in(tx, item)


async def forget(db: Database, item: Item) -> Fate:
    """Erase who asked; the empty row goes as soon as its mail counts no more."""
    async with db.transaction(item.workspace_id) as tx:
        counts = await joining.forget(tx, int(item.key))
        if counts:
            return await queue.again_in(tx, item, Again(after=joining.DAY))
        return await queue.done_in(tx, item)
