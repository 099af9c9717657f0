"""Plan the reminders of open events anew: after a changed default of their workspace, or with the other engine.

The new plan stands before the old one goes: items of the due queue stay until the workflow has made its schedules, and
what fires by both tells once.
"""

from collections.abc import Sequence
from typing import Any, Final

from soonish.db.pool import Database, Tx
from soonish.due import Put, put
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.handed import Events
from soonish.events.actions.planning import fill_offsets, plan_reminders, plan_watch
from soonish.events.actions.rows import SQL, lock_event
from soonish.events.actions.signals import add_signal
from soonish.events.model.events import Event, ReminderEngine, event_of
from soonish.events.model.items import REPLAN
from soonish.events.model.offsets import inherited
from soonish.events.model.terms import Terms

PAGE: Final = 200  # events of one transaction


async def ask_to_convert(db: Database, terms: Terms) -> None:
    """Let every workspace with open events of the other engine plan them anew; an item that is there does that too."""
    async with db.transaction(0, readonly=True) as tx:
        rows = await SQL.workspaces_to_replan.rows(tx, engine=terms.reminder_engine)
    for row in rows:
        async with db.transaction(row["id"]) as tx:
            wish = Put(REPLAN, str(row["id"]), payload={"engine": terms.reminder_engine})
            await put(tx, [wish], only_new=True)


async def replan_some(tx: Tx, events: Events, engine: ReminderEngine, *, default: bool, after: int) -> int | None:
    """The next events, in the order of their ids; answers the last one, or None when there are no more.

    With `default` those that inherit are planned by what holds now: what is past for them already stays unsent.
    """
    rows = await SQL.to_replan.rows(tx, engine=engine, default=default, after=after, k=PAGE)
    holding = (await defaults_in(tx, events.terms)).reminder_offsets
    for row in rows:
        event = await lock_event(tx, row["id"])
        if event.is_open:
            await _replan(tx, events.terms, event, engine, inherited(event, holding), default=default)
    return rows[-1]["id"] if len(rows) == PAGE else None


async def _replan(
    tx: Tx, terms: Terms, before: Event, engine: ReminderEngine, wanted: Sequence[int], *, default: bool
) -> None:
    """Its offsets, its items and, for whoever keeps schedules, a signal."""
    anew = default and before.reminder_offsets is None
    row: Any = await SQL.replan_event.row(tx, id=before.id, engine=engine, anew=anew)
    event = event_of(row)
    await fill_offsets(tx, event, wanted)
    if engine == "due":
        await plan_reminders(tx, event, "replanned")
    if engine == "temporal" or before.reminder_engine == "temporal":
        await add_signal(tx, event.id, "event_updated", {"reminders_changed": True})
        await plan_watch(tx, event, terms)
