"""Look at due items and at what became of them; pull forward, cancel, let dead ones live again.

Knows the queue and what explains its kinds; nothing of what the kinds do. Everybody sees one workspace; the operator
sees and works on the system's own items too, which belong to none.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.due import queue
from soonish.errors import Conflict, Forbidden, NotFound
from soonish.ops.actions.handed import Ops
from soonish.ops.model.items import (
    ALL_KINDS,
    DueDetail,
    DueItem,
    EndFate,
    Label,
    LaneName,
    LiveState,
    PastItem,
    Retried,
    covering,
    due_detail,
    due_item,
    is_system,
    lane_of,
    past_item,
    plain_label,
    prefix_of,
)
from soonish.ops.model.upkeep import SYSTEM
from soonish.web.auth import Caller, Role
from soonish.web.sse import ring

SQL: Final = load(str(Path(__file__).parent))

# The open day of the history has no index by time that serves "newest first", so ever wider spans are looked at.
SPANS: Final = (timedelta(minutes=2), timedelta(hours=2), timedelta(days=2), None)

Mark = tuple[datetime, int]  # what the next part of a list begins after
Places = tuple[int, ...]  # workspaces, 0 for the system's own
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Which live items."""

    kind: str | None = None
    key_prefix: str | None = None
    lane: LaneName | None = None
    state: LiveState | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Which finished items."""

    kind: str | None = None
    key_prefix: str | None = None
    fate: EndFate | None = None
    since: datetime | None = None
    until: datetime | None = None


def places(caller: Caller, system: bool | None = None) -> Places:
    """Where to look: in the own workspace, or among the system's own; the operator in both, unless told in which."""
    if system and caller.role < Role.OPERATOR:
        raise Forbidden("What is the system's own is the operator's; ask as an admin of the first workspace")
    if system:
        return (SYSTEM,)
    both = system is None and caller.role >= Role.OPERATOR
    return (caller.workspace_id, SYSTEM) if both else (caller.workspace_id,)


async def list_due(
    db: Database, ops: Ops, where: Places, wanted: Live, *, after: Mark | None = None, limit: int = 50
) -> list[DueItem]:
    """Live items, soonest first."""
    found = [item for place in where for item in await _live_in(db, ops, place, wanted, after, limit)]
    return sorted(found, key=lambda item: (item.wake_at, item.id))[:limit]


async def _live_in(
    db: Database, ops: Ops, workspace_id: int, wanted: Live, after: Mark | None, limit: int
) -> list[DueItem]:
    async with db.transaction(workspace_id, readonly=True) as tx:
        rows = await queue.peek(
            tx,
            kind=wanted.kind,
            prefix=wanted.key_prefix,
            lane=lane_of(wanted.lane),
            state=wanted.state,
            before=wanted.before,
            after=after,
            limit=limit,
        )
        return [due_item(row, label) for row, label in zip(rows, await explain(tx, ops, rows), strict=True)]


async def find_due(db: Database, ops: Ops, caller: Caller, due_id: int) -> DueDetail | None:
    """One live item, with its payload."""
    for workspace_id in places(caller):
        async with db.transaction(workspace_id, readonly=True) as tx:
            if row := await queue.find(tx, due_id):
                return await _detail(tx, ops, row)
    return None


async def get_due(db: Database, ops: Ops, caller: Caller, due_id: int) -> DueDetail:
    """The same; raises NotFound where there is none."""
    if item := await find_due(db, ops, caller, due_id):
        return item
    raise _gone(due_id)


async def find_item(db: Database, ops: Ops, caller: Caller, due_id: int) -> DueDetail | PastItem | None:
    """An item that lives, or ended but not done."""
    for workspace_id in places(caller):
        async with db.transaction(workspace_id, readonly=True) as tx:
            if row := await queue.find(tx, due_id):
                return await _detail(tx, ops, row)
            if row := await SQL.undone.row(tx, id=due_id):
                return (await _past_items(tx, ops, [row]))[0]
    return None


async def list_past(
    db: Database, ops: Ops, where: Places, wanted: Ended, *, after: Mark | None = None, limit: int = 50
) -> list[PastItem]:
    """What became of items, newest first."""
    found: list[PastItem] = []
    for workspace_id in where:
        async with db.transaction(workspace_id, readonly=True) as tx:
            found += await _past_items(tx, ops, await _newest(tx, wanted, after, limit))
    return _newest_first(found)[:limit]


async def list_dead(
    db: Database, ops: Ops, where: Places, kind: str | None, *, after: Mark | None = None, limit: int = 50
) -> list[PastItem]:
    """Dead items that nobody has let live again, newest first."""
    at, after_id = after or (None, 2**63 - 1)
    found: list[PastItem] = []
    for workspace_id in where:
        async with db.transaction(workspace_id, readonly=True) as tx:
            rows = await SQL.dead.rows(tx, kind=kind, after_at=at, after_id=after_id, k=limit)
            found += await _past_items(tx, ops, rows)
    return _newest_first(found)[:limit]


async def dead_kinds(db: Database, where: Places) -> list[tuple[str, int]]:
    """How many dead items there are of each kind, the most first."""
    found: Counter[str] = Counter()
    for workspace_id in where:
        async with db.transaction(workspace_id, readonly=True) as tx:
            found.update({row["kind"]: row["count"] for row in await SQL.dead_kinds.rows(tx)})
    return found.most_common()


async def pull_forward(tx: Tx, ops: Ops, caller: Caller, due_id: int) -> DueDetail:
    """Look at a waiting item now; one that is being worked on, or whose kind is paused, is refused."""
    async with _at(tx, caller, due_id) as row:
        if not row["leased"] and (paused := covering([pause["kind"] for pause in await queue.pauses(tx)], row["kind"])):
            raise _paused(due_id, paused)
        if not await queue.pull(tx, due_id):
            raise _leased(due_id, "it happens now")
        item = await _detail(tx, ops, await queue.find(tx, due_id))
    await record(tx, caller, "pull_forward", f"due/{due_id}")
    await ring(tx, caller.workspace_id, "due")
    return item


async def cancel(tx: Tx, ops: Ops, caller: Caller, due_id: int, *, force: bool = False) -> PastItem:
    """End an item; one that is being worked on only by force, and what its holder did by then stays done.

    What the system does by itself stays: nobody would put its items again before the next start. What the item was for
    is over with it, or says that it has to be done.
    """
    async with _at(tx, caller, due_id) as row:
        if is_system(row["kind"]):
            raise Conflict(f"{row['kind']} keeps Soonish in order and stays; pause it instead", code="system_item")
        if not await queue.cancel_id(tx, due_id, force=force, reason=f"cancelled by {caller.actor}"):
            raise _leased(due_id, 'wait for its end, or send {"force": true}')
        if (kind := ops.kinds.get(row["kind"])) and kind.on_cancel:
            await kind.on_cancel(tx, [row])
        [item] = await _past_items(tx, ops, [await SQL.undone.row(tx, id=due_id)])
    await record(tx, caller, "cancel", f"due/{due_id}", {"force": force})
    await ring(tx, caller.workspace_id, "due")
    return item


async def retry(
    tx: Tx,
    ops: Ops,
    caller: Caller,
    *,
    ids: Sequence[int] | None = None,
    kind: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    system: bool | None = None,
) -> Retried:
    """Let dead items live again, due now and with a new budget: those of these ids, or of a kind."""
    wanted: dict[str, Any] = {"ids": ids, "kind": kind, "since": since, "until": until}
    revived = superseded = 0
    for workspace_id in places(caller, system):
        async with inside(tx, caller, workspace_id):
            risen, rest = await queue.retry(tx, **wanted, kinds=ops.kinds)
        revived, superseded = revived + risen, superseded + rest
    if revived:
        entity = f"due/{ids[0]}" if ids and len(ids) == 1 else f"due/{kind or 'dead'}"
        await record(tx, caller, "retry", entity, {"revived": revived, "superseded": superseded})
        await ring(tx, caller.workspace_id, "due")
    return Retried(revived=revived, superseded=superseded)


async def explain(tx: Tx, ops: Ops, rows: Sequence[Row]) -> list[Label]:
    """The labels of items, each prefix asked once."""
    labels = [plain_label(row["kind"], row["key"]) for row in rows]
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        if prefix := prefix_of(ops.explainers, row["kind"]):
            groups.setdefault(prefix, []).append(index)
    for prefix, indexes in groups.items():
        told = await ops.explainers[prefix](tx, [rows[index] for index in indexes])
        for index, label in zip(indexes, told, strict=True):
            labels[index] = label
    return labels


async def _detail(tx: Tx, ops: Ops, row: Row) -> DueDetail:
    [label] = await explain(tx, ops, [row])
    return due_detail(row, label, json.loads(row["payload"]))


async def _past_items(tx: Tx, ops: Ops, rows: Sequence[Row]) -> list[PastItem]:
    return [past_item(row, label) for row, label in zip(rows, await explain(tx, ops, rows), strict=True)]


def _newest_first(items: list[PastItem]) -> list[PastItem]:
    return sorted(items, key=lambda item: (item.finished_at, item.id), reverse=True)


async def _newest(tx: Tx, wanted: Ended, after: Mark | None, limit: int) -> list[Row]:
    newest = (after[0] if after else None) or wanted.until or await SQL.clock.value(tx)
    rows: list[Row] = []
    for span in SPANS:
        floor = earlier(newest, span) if span else None
        last = floor is None or (wanted.since is not None and wanted.since >= floor)
        rows = await queue.past(
            tx,
            kind=wanted.kind,
            prefix=wanted.key_prefix,
            fate=wanted.fate,
            since=wanted.since if last else floor,
            until=wanted.until,
            after=after,
            limit=limit,
        )
        if last or len(rows) == limit:
            break
    return rows


def earlier(at: datetime, span: timedelta) -> datetime | None:
    """None before the first of all days."""
    try:
        return at - span
    except OverflowError:
        return None


@asynccontextmanager
async def _at(tx: Tx, caller: Caller, due_id: int) -> AsyncIterator[Row]:
    """The live item, where it is: in the caller's workspace or, for the operator, among the system's own."""
    for workspace_id in places(caller):
        async with inside(tx, caller, workspace_id):
            row = await queue.find(tx, due_id)
            if row is not None:
                yield row
        if row is not None:
            return
    raise _gone(due_id)


@asynccontextmanager
async def inside(tx: Tx, caller: Caller, workspace_id: int) -> AsyncIterator[None]:
    """Another workspace for a while, in the same transaction. After an error there is nothing to go back for."""
    if workspace_id != caller.workspace_id:
        await SQL.enter.value(tx, workspace=str(workspace_id))
    yield
    if workspace_id != caller.workspace_id:
        await SQL.enter.value(tx, workspace=str(caller.workspace_id))


def _gone(due_id: int) -> NotFound:
    return NotFound(f"There is no live item {due_id}; what has ended is in the past")


def _paused(due_id: int, kind: str) -> Conflict:
    what = "Everything is paused" if kind == ALL_KINDS else f"{kind} is paused"
    return Conflict(f"{what}, so item {due_id} stands still; resume it: `soonish due resume '{kind}'`", code="paused")


def _leased(due_id: int, remedy: str) -> Conflict:
    return Conflict(f"Item {due_id} is being worked on: {remedy}", code="leased")
