"""The heartbeat: a row a process, by which the others see that it lives and what it works.

A process that ends well takes its row along. One that was killed is found silent; the next start on its machine, which
can see that it is gone, removes its row.
"""

import json
import os
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.due.loop.loop import LaneState
from soonish.ops.model.health import ProcessHealth, is_silent
from soonish.ops.model.items import lane_name
from soonish.ops.model.upkeep import SYSTEM

SQL: Final = load(str(Path(__file__).parent))

Lanes = dict[str, dict[str, Any]]


class Process:
    """This process, as the others see it."""

    def __init__(self, db: Database, role: str, version: str) -> None:
        self.host = socket.gethostname()
        self.name = f"{self.host}:{os.getpid()}:{int(time.time())}"
        self._db = db
        self._role = role
        self._version = version

    async def enter(self) -> None:
        """Remove the rows of those that died on this machine."""
        async with self._db.transaction(SYSTEM) as tx:
            rows = await SQL.of_host.rows(tx, host=f"{self.host}:")
            gone = [row["name"] for row in rows if row["name"] != self.name and not _lives(row["name"])]
            await SQL.leave.run(tx, names=gone)

    async def beat(self, states: Iterable[LaneState]) -> None:
        lanes = json.dumps(lanes_of(states))
        async with self._db.transaction(SYSTEM) as tx:
            await SQL.beat.run(tx, name=self.name, role=self._role, lanes=lanes, version=self._version)

    async def leave(self) -> None:
        async with self._db.transaction(SYSTEM) as tx:
            await SQL.leave.run(tx, names=[self.name])


async def list_processes(tx: Tx) -> list[tuple[ProcessHealth, Lanes]]:
    """All of them, the oldest first, each with what it said of its lanes."""
    found = []
    for row in await SQL.processes.rows(tx):
        lanes: Lanes = json.loads(row["lanes"])
        process = ProcessHealth(
            name=row["name"],
            role=row["role"],
            version=row["version"],
            lanes=list(lanes),
            started_at=row["started_at"],
            seen_s=round(row["seen_s"], 3),
            silent=is_silent(row["seen_s"]),
        )
        found.append((process, lanes))
    return found


def lanes_of(states: Iterable[LaneState]) -> Lanes:
    """By lane: how much runs, and how long ago the loop that looked the longest ago did."""
    lanes: Lanes = {}
    for state in states:
        lane = lanes.setdefault(lane_name(state.lane), {"running": 0, "last_claim_s": 0.0})
        lane["running"] += state.running
        lane["last_claim_s"] = round(max(lane["last_claim_s"], state.last_turn_s), 3)
    return lanes


def last_claims(processes: Iterable[tuple[ProcessHealth, Mapping[str, Mapping[str, Any]]]]) -> dict[str, float]:
    """By lane: the seconds since any live process looked into it."""
    found: dict[str, float] = {}
    for process, lanes in processes:
        for lane, said in lanes.items() if not process.silent else ():
            seconds = round(said["last_claim_s"] + process.seen_s, 3)
            found[lane] = min(found.get(lane, seconds), seconds)
    return found


def _lives(name: str) -> bool:
    """Whether the process of that row still runs on this machine; one with our number is our forerunner."""
    pid = int(name.rsplit(":", 2)[1])
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
