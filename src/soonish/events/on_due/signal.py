"""`events.signal`: send the signals of an event to its workflow, in order, until each is carried out.

A row is finished by its effect and not by its sending; so what Temporal forgets is sent again, and starts a new run.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from soonish import failpoints
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.due.model import DONE, Again, Fate, Item, Kind, Lane, Late
from soonish.errors import Invalid
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import find_event
from soonish.events.model.events import Event
from soonish.events.model.items import SIGNAL
from soonish.events.model.shown import workflow_id
from soonish.events.model.signals import START, UPDATED, event_data
from soonish.temporal.engine import Engine, cause_of

SQL: Final = load(str(Path(__file__).parent))
WORKFLOW: Final = "EventWorkflow"
AT_ONCE: Final = 200  # signals of one pass


def kind(db: Database, engine: Engine, events: Events) -> Kind:
    """How these items behave: they hold while Temporal is away, and never die."""
    return Kind(SIGNAL, partial(send, db, engine, events), Lane.CONTROL, Late.send(), tries=None)


async def send(db: Database, engine: Engine, events: Events, item: Item) -> Fate:
    """Send what was never sent, or so long ago that it must have been lost; look again until all is carried out.

    A second run sends some of it again: a workflow drops the numbers that it knows.
    """
    event_id = int(item.key)
    async with db.transaction(item.workspace_id) as tx:
        event = await find_event(tx, event_id)
        if event is None or not await _is_waited_for(tx, event):
            return DONE
        rows = await SQL.to_send.rows(tx, event_id=event_id, resend=events.terms.resend, k=AT_ONCE)
    await _send_all(db, engine, item, event, rows)
    return Again(after=0) if len(rows) == AT_ONCE else Again(after=events.terms.resend)


async def _is_waited_for(tx: Tx, event: Event) -> bool:
    """Whether anything is not carried out; once the workflow has finished, nothing is."""
    if event.closed_at is not None:
        await SQL.settle_all.run(tx, event_id=event.id, outcome="closed")
        return False
    return bool(await SQL.unhandled.rows(tx, event_id=event.id, after=0, k=1))


async def _send_all(db: Database, engine: Engine, item: Item, event: Event, rows: Sequence[Any]) -> None:
    """One after the other; the first that fails ends the pass, and what went before it is on record."""
    sent: list[int] = []
    try:
        for row in rows:
            with suppress(_Settled):
                await _send(db, engine, item, event, row)
                sent.append(row["id"])
                failpoints.reach("events.signal_sent")
    finally:
        if sent:
            async with db.transaction(item.workspace_id) as tx:
                await SQL.sent.run(tx, ids=sent)


async def _send(db: Database, engine: Engine, item: Item, event: Event, row: Any) -> None:
    payload, args = {**msgspec.json.decode(row["payload"]), "seq": row["id"]}, (event.id, event_data(event))
    try:
        if row["name"] == START and row["sent_at"] is None:
            await engine.start_once(WORKFLOW, workflow_id(event.id), args, rerun=True)
        elif row["name"] == START:  # it runs, and has not done it: let it look at the rows
            await engine.signal_with_start(WORKFLOW, workflow_id(event.id), args, UPDATED, cause_of(item))
        else:
            await engine.signal_with_start(
                WORKFLOW, workflow_id(event.id), args, row["name"], cause_of(item), **payload
            )
    except Invalid as error:  # this row alone: the others go on
        async with db.transaction(item.workspace_id) as tx:
            await SQL.settle.run(tx, event_id=event.id, ids=[row["id"]], outcome=f"refused: {error.message}")
        raise _Settled from error


class _Settled(Exception):
    """A row that can never be sent."""
