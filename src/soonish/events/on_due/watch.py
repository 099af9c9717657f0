"""`events.watch`: see that each event has a workflow that closes it; one that is missing is started again."""

from datetime import timedelta
from functools import partial
from typing import Final

from soonish.db.pool import Database
from soonish.due.model import Again, Drop, Fate, Item, Kind, Lane, Late
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import find_event
from soonish.events.model.events import Event
from soonish.events.model.items import WATCH
from soonish.events.model.shown import workflow_id
from soonish.events.model.signals import UPDATED, event_data
from soonish.events.on_due.signal import WORKFLOW
from soonish.temporal.engine import Engine, cause_of

AGAIN: Final = timedelta(seconds=60)


def kind(db: Database, engine: Engine, events: Events) -> Kind:
    """How these items behave: they go on until the event is closed."""
    return Kind(WATCH, partial(watch, db, engine, events), Lane.CONTROL, Late.send(), tries=None)


async def watch(db: Database, engine: Engine, events: Events, item: Item) -> Fate:
    """Let the workflow look at the rows, started where it does not run; a second look changes nothing."""
    async with db.transaction(item.workspace_id, readonly=True) as tx:
        event = await find_event(tx, int(item.key))
    if event is None or event.is_draft:
        return Drop("not_active")
    if event.closed_at is not None:
        return Drop("closed")
    args = event.id, event_data(event)
    await engine.signal_with_start(WORKFLOW, workflow_id(event.id), args, UPDATED, cause_of(item))
    return _next(event, events)


def _next(event: Event, events: Events) -> Again:
    """Before the end now and then, for reminders that Temporal keeps; after it soon again."""
    last = event.effective_end_date + events.terms.watch_grace
    if event.is_active and event.read_at < last:
        return Again(at=min(event.read_at + events.terms.watch, last))
    return Again(after=min(AGAIN, events.terms.round))
