"""Let a kind stand still, and go on. That is a row; its items are parked and brought back by a due item of its own.

So a pause commits with its audit row and is answered at once, however many items it concerns. From that moment no claim
hands over an item of it: parking them spares the claims the looking.
"""

from pathlib import Path
from typing import Final

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.due import queue
from soonish.due.model import Lane, Put
from soonish.errors import Forbidden, NotFound
from soonish.ops.actions.items import inside
from soonish.ops.model.items import Pause, pause_of
from soonish.ops.model.upkeep import PARK, SYSTEM
from soonish.web.auth import Caller, Role
from soonish.web.sse import ring

SQL: Final = load(str(Path(__file__).parent))
DUE: Final = load(queue.__file__)


async def list_pauses(db: Database, workspace_id: int) -> list[Pause]:
    """What stands still here: by a pause of this workspace, or by one that holds everywhere."""
    async with db.transaction(workspace_id, readonly=True) as tx:
        return [pause_of(*row) for row in await queue.pauses(tx)]


async def get_pause(db: Database, caller: Caller, kind: str, *, everywhere: bool = False) -> Pause:
    """The one of this workspace, or the one that holds everywhere."""
    found = await list_pauses(db, caller.workspace_id)
    for one in found:
        if (one.kind, one.everywhere) == (kind, everywhere):
            return one
    raise _not_paused(kind, everywhere)


async def pause(tx: Tx, caller: Caller, kind: str, reason: str | None = None, *, everywhere: bool = False) -> Pause:
    """From now on nothing of the kind happens; what is being worked on ends."""
    workspace_id = _place(caller, everywhere)
    async with inside(tx, caller, workspace_id):
        await DUE.pause.value(tx, workspace_id=workspace_id, kind=kind, reason=reason)
        await _carry_out(tx, workspace_id, kind)
    await record(tx, caller, "pause", f"pause/{kind}", {"reason": reason, "everywhere": everywhere})
    await ring(tx, caller.workspace_id, "due")
    return Pause(kind=kind, reason=reason, everywhere=everywhere)


async def resume(tx: Tx, caller: Caller, kind: str, *, everywhere: bool = False) -> None:
    """Let the kind go on; what became due meanwhile meets its late policy."""
    workspace_id = _place(caller, everywhere)
    async with inside(tx, caller, workspace_id):
        if not await DUE.resume.value(tx, workspace_id=workspace_id, kind=kind):
            raise _not_paused(kind, everywhere)
        await _carry_out(tx, workspace_id, kind)
    await record(tx, caller, "resume", f"pause/{kind}", {"everywhere": everywhere})
    await ring(tx, caller.workspace_id, "due")


async def park(db: Database, workspace_id: int, kind: str) -> int:
    """Take the items of a paused kind out of the way of claims, or bring those of ended pauses back; answers how many.

    Each chunk holds the pause, so that nothing is parked under one that ends at this moment.
    """
    parked = 0
    while True:
        async with db.loops.acquire() as con, con.transaction():
            if not await SQL.hold_pause.value(con, workspace_id=workspace_id, kind=kind):
                break
            count = await DUE.park.run(con, workspace_id=workspace_id, kind=kind, k=10_000)
        parked += count
        if not count:
            return parked
    return parked + await queue.go_on_resuming(db.loops)


async def _carry_out(tx: Tx, workspace_id: int, kind: str) -> None:
    """Control lane, and due now: a resume should be felt at once."""
    wish = Put(PARK, f"{workspace_id}/{kind}", payload={"workspace_id": workspace_id, "kind": kind}, lane=Lane.CONTROL)
    await queue.put(tx, [wish], workspace_id=workspace_id)


def _not_paused(kind: str, everywhere: bool) -> NotFound:
    return NotFound(f"{kind} is not paused {'everywhere' if everywhere else 'in this workspace'}")


def _place(caller: Caller, everywhere: bool) -> int:
    if everywhere and caller.role < Role.OPERATOR:
        raise Forbidden("Only the operator, an admin of the first workspace, pauses or resumes what concerns everyone")
    return SYSTEM if everywhere else caller.workspace_id
