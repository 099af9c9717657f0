"""S3: lateness, start - due, of items spread over some seconds while a million others wait for a later day.

Database and handlers read the same clock, so a negative lateness would be an item that was handled too early.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from time import time
from typing import Any

import asyncpg

from bench import ours
from bench.peers import ApScheduler, PgQueuer
from bench.report import Goal, Line, both, lateness
from bench.scale import Scale
from bench.server import Server, settle
from soonish import due
from soonish.due import Fate, Item

TITLE = "S3  lateness (start - due)"
GOALS = (0.5, Goal(2, " ms p50", at_most=True)), (0.99, Goal(5, " ms p99", at_most=True))
PATIENCE = 60.0


async def measure(server: Server, scale: Scale) -> list[Line]:
    mine = [await _ours(server, scale)]
    lines = [_line(f"ours, {scale.pending:,} future ones", mine[0])]
    other = await server.create("apscheduler")
    fires = [await ApScheduler(other, scale.pending).lateness(scale.moments, scale.span) for _ in range(_few(scale))]
    await server.drop(other)
    lines.append(lateness("apscheduler, SQL store", fires))
    lines.append(lateness("pgqueuer", await _pgqueuer(server, scale)))
    return lines


def _line(what: str, runs: list[list[float]]) -> Line:
    line = lateness(what, runs, goals=GOALS)
    early = sum(late < 0 for run in runs for late in run)
    never = "MISSED (never early)" if early else "met (never early)"
    return line._replace(beside=f"{early} too early", verdict=both(line.verdict, never))


def _few(scale: Scale) -> int:
    return max(1, scale.repetitions // 2)


async def _ours(server: Server, scale: Scale) -> list[list[float]]:
    url = await server.create("queue")
    async with ours.opened(url) as pool:
        filler = ours.filler(pool)
        await filler.put(scale.pending, datetime.now(UTC) + timedelta(days=1), timedelta(days=30))
        await settle(url)
        runs = [await _one_run(pool, filler, scale) for _ in range(scale.repetitions)]
    await server.drop(url)
    return runs


async def _one_run(pool: asyncpg.Pool, filler: ours.Filler, scale: Scale) -> list[float]:
    late: list[float] = []
    all_started = asyncio.Event()

    async def started(item: Item) -> Fate:
        late.append(time() - item.due_at.timestamp())
        if len(late) == scale.moments:
            all_started.set()
        return due.DONE

    async with due.Loop(pool, [ours.kind(handler=started)], lanes=ours.SLOTS), asyncio.timeout(PATIENCE):
        await filler.put(scale.moments, datetime.now(UTC) + timedelta(seconds=0.5), timedelta(seconds=scale.span))
        await all_started.wait()
    return late


async def _pgqueuer(server: Server, scale: Scale) -> list[list[float]]:
    theirs = PgQueuer(await server.create("pgqueuer"))
    await theirs.install()
    await theirs.put(scale.pending, after=timedelta(days=1))
    await settle(theirs.url)
    runs = [await _pgqueuer_run(theirs, scale) for _ in range(_few(scale))]
    await server.drop(theirs.url)
    return runs


async def _pgqueuer_run(theirs: PgQueuer, scale: Scale) -> list[float]:
    starts: dict[int, float] = {}
    all_started = asyncio.Event()

    async def started(job: Any) -> None:
        starts[int(job.payload)] = time()
        if len(starts) == scale.moments:
            all_started.set()

    async with theirs.working(started), asyncio.timeout(PATIENCE):
        moments = await theirs.put_spread(scale.moments, scale.span, 0.5)
        await all_started.wait()
    return [starts[n] - moment for n, moment in enumerate(moments)]
