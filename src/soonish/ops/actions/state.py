"""How all is going: the figures of a workspace, and for the operator those of the whole installation.

Lanes, processes and the recovery report cross workspaces, as the loops do; they hold counts and times only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from soonish.db.pool import Database
from soonish.db.sql import load
from soonish.due import queue
from soonish.ops.actions.handed import Ops
from soonish.ops.actions.process import Lanes, last_claims, list_processes
from soonish.ops.model.health import (
    Facts,
    Health,
    LaneHealth,
    ProcessHealth,
    Trouble,
    troubles,
    verdict,
)
from soonish.ops.model.items import LANES, Pause, lane_name, pause_of
from soonish.ops.model.upkeep import SYSTEM
from soonish.web.auth import Caller, Role

SQL: Final = load(str(Path(__file__).parent))


@dataclass(frozen=True, slots=True)
class State:
    """Figures and what follows from them, read at one moment."""

    numbers: Mapping[str, Any]
    dead: int  # that the caller may retry
    pauses: list[Pause]
    unknown_kinds: dict[str, int]
    processes: list[tuple[ProcessHealth, Lanes]]
    troubles: list[Trouble]


async def get_state(db: Database, ops: Ops, caller: Caller) -> State:
    """The figures of the caller's workspace, and the troubles that the caller should know."""
    operator = caller.role >= Role.OPERATOR
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        numbers = await SQL.numbers.row(tx, kinds=list(ops.kinds))
        pauses = [pause_of(*row) for row in await queue.pauses(tx)]
        unknown = await queue.unknown(tx, ops.kinds)
        processes = await list_processes(tx)
    worked = {lane for process, lanes in processes if not process.silent for lane in lanes}
    system_dead = await _system_dead(db) if operator else 0
    facts = Facts(
        dead=numbers["dead"],
        system_dead=system_dead,
        overdue=numbers["overdue_worked"],
        oldest_overdue_s=numbers["oldest_worked_s"],
        unworked=[lane for lane in LANES if lane not in worked],
        silent=[process for process, _ in processes if process.silent] if operator else (),
        pauses=pauses,
        unknown_kinds=unknown,
        checks=(await ops.health.check()).checks if operator else {},
    )
    return State(numbers, numbers["dead"] + system_dead, pauses, unknown, processes, troubles(facts))


async def get_health(db: Database, ops: Ops, caller: Caller) -> Health:
    """The same as figures, for machines."""
    return await tell(db, ops, caller, await get_state(db, ops, caller))


async def tell(db: Database, ops: Ops, caller: Caller, state: State) -> Health:
    """What there is to tell this caller of a state that was read."""
    operator = caller.role >= Role.OPERATOR
    return Health(
        status=verdict(state.troubles),
        troubles=[f"{trouble.text} {trouble.remedy}" for trouble in state.troubles],
        overdue=state.numbers["overdue"],
        oldest_overdue_s=round(state.numbers["oldest_overdue_s"], 3),
        dead=state.numbers["dead"],
        dead_24h=state.numbers["dead_24h"],
        unknown_kinds=state.unknown_kinds,
        pauses=state.pauses,
        lanes=await _lanes(db, last_claims(state.processes)) if operator else None,
        processes=[process for process, _ in state.processes] if operator else None,
        recovery=dict(recovery) if operator and (recovery := ops.health.recovery()) else None,
        tzdata=version("tzdata"),
        version=ops.health.version,
    )


async def _lanes(db: Database, claims: Mapping[str, float]) -> dict[str, LaneHealth]:
    async with db.loops.acquire() as con:
        rows = await queue.lanes(con)
    return {
        (lane := lane_name(row["lane"])): LaneHealth(
            running=row["running"],
            overdue=row["overdue"],
            oldest_overdue_s=round(row["oldest_overdue_s"], 3),
            last_claim_s=claims.get(lane),
        )
        for row in rows
    }


async def _system_dead(db: Database) -> int:
    async with db.transaction(SYSTEM, readonly=True) as tx:
        return (await SQL.numbers.row(tx, kinds=[]))["dead"]  # type: ignore[no-any-return]
