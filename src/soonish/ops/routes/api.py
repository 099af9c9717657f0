"""The JSON face of operations: what is due, what became of it, dead items, pauses, health."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final

from soonish.errors import FieldError
from soonish.ops.actions import items, pauses, state
from soonish.ops.actions.handed import Ops, ops_of
from soonish.ops.model.health import Health
from soonish.ops.model.items import (
    KEY_LENGTH,
    DueDetail,
    DueItem,
    EndFate,
    LaneName,
    LiveState,
    PastItem,
    Pause,
    Retried,
)
from soonish.web.answers import Created, Listing
from soonish.web.auth import Role
from soonish.web.fields import Body, Instant, Paged, Query, line, number
from soonish.web.fields import items as many
from soonish.web.operation import Caller, Database, Request, Tx, delete, get, post

KIND = r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,3}"
Kind = Annotated[str, line(64, pattern=f"^{KIND}$")]
KindOrAll = Annotated[str, line(64, pattern=rf"^(\*|{KIND})$")]
Key = Annotated[str, line(KEY_LENGTH)]
Id = Annotated[int, number(ge=1, le=2**63 - 1)]


class DueQuery(Paged):
    """Which live items; for the operator `system` tells those of no workspace (true) from the others (false)."""

    kind: Kind | None = None
    key_prefix: Key | None = None
    lane: LaneName | None = None
    state: LiveState | None = None
    before: Instant | None = None
    system: bool | None = None


class PastQuery(Paged):
    """Which finished items; `system` as among the live ones."""

    kind: Kind | None = None
    key_prefix: Key | None = None
    fate: EndFate | None = None
    since: Instant | None = None
    until: Instant | None = None
    system: bool | None = None


class Cancel(Body):
    """`force` also ends an item that is being worked on; what was done by then stays done."""

    force: bool = False


POLITE: Final = Cancel()


class DeadOnes(Body):
    """Which dead items: these, or all of a kind that died in a span; `system` as among the live ones."""

    ids: Annotated[list[Id], many(10_000, 1)] | None = None
    kind: Kind | None = None
    since: Instant | None = None
    until: Instant | None = None
    system: bool | None = None

    def rules(self) -> Iterator[FieldError]:
        if self.ids is None and self.kind is None:
            yield FieldError("kind", "required", "Name the dead items by ids, or by kind")
        if self.ids is not None:
            for name in ("kind", "since", "until"):
                if getattr(self, name) is not None:
                    yield FieldError(name, "unknown_field", "Name the dead items by ids or by kind, not by both")


class NewPause(Body):
    """A kind that shall stand still (`*` is every kind); `everywhere` is the operator's."""

    kind: KindOrAll
    reason: Annotated[str, line(200)] | None = None
    everywhere: bool = False


class PauseQuery(Query):
    """Which of the pauses of that kind: that of this workspace, or the one that holds everywhere."""

    everywhere: bool = False


@get("/v1/ops/due", role=Role.READ)
async def list_due(request: Request, db: Database, caller: Caller, query: DueQuery) -> Listing[DueItem]:
    """List what will happen, soonest first.

    The operator's list has the items of the system too, which belong to no workspace.
    """
    return await due_listing(ops_of(request), db, caller, query)


@get("/v1/ops/due/{due_id:int}", role=Role.READ)
async def show_due(request: Request, db: Database, caller: Caller, due_id: int) -> DueDetail:
    """Show one item that has not ended."""
    return await items.get_due(db, ops_of(request), caller, due_id)


@post("/v1/ops/due/{due_id:int}/now", role=Role.WRITE, codes=["leased", "paused"])
async def pull_forward(request: Request, tx: Tx, caller: Caller, due_id: int) -> DueDetail:
    """Look at an item now instead of later."""
    return await items.pull_forward(tx, ops_of(request), caller, due_id)


@post("/v1/ops/due/{due_id:int}/cancel", role=Role.WRITE, codes=["leased", "system_item"])
async def cancel(request: Request, tx: Tx, caller: Caller, due_id: int, body: Cancel = POLITE) -> PastItem:
    """Cancel an item: it will not happen."""
    return await items.cancel(tx, ops_of(request), caller, due_id, force=body.force)


@get("/v1/ops/past", role=Role.READ)
async def list_past(request: Request, db: Database, caller: Caller, query: PastQuery) -> Listing[PastItem]:
    """List what became of items, newest first."""
    return await past_listing(ops_of(request), db, caller, query)


@post("/v1/ops/dead/retry", role=Role.WRITE)
async def retry(request: Request, tx: Tx, caller: Caller, body: DeadOnes) -> Retried:
    """Let dead items live again, due now and with a new budget.

    By ids, or all of a kind that died since and until; at most 10,000 at once, the oldest first.
    """
    return await items.retry(
        tx,
        ops_of(request),
        caller,
        ids=body.ids,
        kind=body.kind,
        since=body.since,
        until=body.until,
        system=body.system,
    )


@get("/v1/ops/pauses", role=Role.READ)
async def list_pauses(db: Database, caller: Caller) -> Listing[Pause]:
    """List the kinds that stand still here."""
    return Listing(await pauses.list_pauses(db, caller.workspace_id), None)


@post("/v1/ops/pauses", role=Role.ADMIN)
async def pause(tx: Tx, caller: Caller, body: NewPause) -> Created[Pause]:
    """Let a kind stand still; what is being worked on ends.

    Paused before: the reason is changed. The operator may pause a kind in every workspace.
    """
    made = await pauses.pause(tx, caller, body.kind, body.reason, everywhere=body.everywhere)
    return Created(made, f"/v1/ops/pauses/{made.kind}{'?everywhere=true' if made.everywhere else ''}")


@get("/v1/ops/pauses/{kind:str}", role=Role.READ)
async def show_pause(db: Database, caller: Caller, kind: str, query: PauseQuery) -> Pause:
    """Show one pause."""
    return await pauses.get_pause(db, caller, kind, everywhere=query.everywhere)


@delete("/v1/ops/pauses/{kind:str}", role=Role.ADMIN)
async def resume(tx: Tx, caller: Caller, kind: str, query: PauseQuery) -> None:
    """Let a kind go on; what became due meanwhile meets its late policy."""
    await pauses.resume(tx, caller, kind, everywhere=query.everywhere)


@get("/v1/ops/health", role=Role.READ)
async def show_health(request: Request, db: Database, caller: Caller) -> Health:
    """Show how all is going.

    The figures are those of your workspace, none counted much beyond 10,000; lanes, processes and the recovery report
    are the operator's, else null.
    """
    return await state.get_health(db, ops_of(request), caller)


async def due_listing(ops: Ops, db: Database, caller: Caller, query: DueQuery) -> Listing[DueItem]:
    wanted = items.Live(
        kind=query.kind, key_prefix=query.key_prefix, lane=query.lane, state=query.state, before=query.before
    )
    after, where = query.position(datetime, int), items.places(caller, query.system)
    rows = await items.list_due(db, ops, where, wanted, after=after, limit=query.limit + 1)
    return query.listing(rows, lambda item: (item.wake_at, item.id))


async def past_listing(ops: Ops, db: Database, caller: Caller, query: PastQuery) -> Listing[PastItem]:
    wanted = items.Ended(
        kind=query.kind, key_prefix=query.key_prefix, fate=query.fate, since=query.since, until=query.until
    )
    after, where = query.position(datetime, int), items.places(caller, query.system)
    rows = await items.list_past(db, ops, where, wanted, after=after, limit=query.limit + 1)
    return query.listing(rows, lambda item: (item.finished_at, item.id))


routes = [
    list_due, show_due, pull_forward, cancel, list_past, retry, list_pauses, pause, show_pause, resume, show_health,
]  # fmt: skip
