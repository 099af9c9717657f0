"""Why a due item: who put it, each move, try, error and hold, its fate, and the deliveries that it caused."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from soonish import clock
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.delivery.actions import ledger
from soonish.delivery.model.ledger import Entry, Wanted
from soonish.due import queue
from soonish.errors import NotFound
from soonish.ops.actions.handed import Ops
from soonish.ops.actions.items import explain, places
from soonish.ops.actions.why import asked_steps, lines_of, story_of
from soonish.ops.model.why import About, Step, Story, Why, in_order
from soonish.ops.model.why_due import due_sentence, due_steps
from soonish.ops.model.why_person import of_line
from soonish.web.auth import Caller

SQL: Final = load(str(Path(__file__).parent))
CAUSED: Final = 20  # deliveries that are listed; the page of deliveries has all


async def why_due(db: Database, ops: Ops, caller: Caller, due_id: int) -> Why:
    """How it stands or ended, and all steps that are on record."""
    for workspace_id in places(caller):
        async with db.transaction(workspace_id, readonly=True) as tx:
            row = await _find(tx, due_id)
            if row is None:
                continue
            [label] = await explain(tx, ops, [row])
            noted = json.loads(row["payload"])
            story = await story_of(tx, ops, About(name=row["kind"], key=row["key"], noted=noted))
            caused = await _caused(tx, row, story)
        asked = asked_steps(await lines_of(db, caller, [f"due/{due_id}"]))
        zone = clock.zone(caller.timezone)
        steps = in_order([*asked, *story.steps, *due_steps(row, zone), *caused])
        return Why(sentence=due_sentence(label.text, row, zone), steps=steps)
    raise NotFound(f"There is no item {due_id} on record; what was done is kept by its id for a week")


async def _find(tx: Tx, due_id: int) -> Mapping[str, Any] | None:
    """The item, alive or ended."""
    found: Mapping[str, Any] | None = await queue.find(tx, due_id) or await SQL.undone.row(tx, id=due_id)
    if found is None:
        found = await SQL.recent_past.row(tx, id=due_id)
    return found


async def _caused(tx: Tx, row: Mapping[str, Any], story: Story) -> list[Step]:
    """The deliveries that it sent, or that were told because of it."""
    if row["kind"] == ledger.SEND:
        return [of_line(entry) for entry in await _sent(tx, int(row["key"]))]
    if story.cause is None:
        return []
    part = await ledger.list_in(tx, Wanted(cause_prefix=story.cause), limit=CAUSED)
    steps = [of_line(entry) for entry in part.entries]
    if part.before is not None:
        more = f"/deliveries?cause_prefix={story.cause}"
        steps.append(Step(at=steps[-1].at, what="audience", text="There are more deliveries.", ref=more))
    return steps


async def _sent(tx: Tx, delivery_id: int) -> Sequence[Entry]:
    """Its delivery, unless it is too old to be kept."""
    try:
        return [(await ledger.told_in(tx, delivery_id)).entry]
    except NotFound:
        return []
