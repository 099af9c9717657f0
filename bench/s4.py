"""S4: from the COMMIT of an item that is due now to the start of its handler, into an idle loop.

Timed from the moment at which COMMIT is sent, so the flush of the log is in it; beside a bare NOTIFY of the same kind.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from time import perf_counter

import asyncpg

from bench import ours
from bench.report import Goal, Line, lateness
from bench.scale import Scale
from bench.server import Server, settle
from soonish import due
from soonish.due import Fate, Item, Lane, Put

TITLE = "S4  reaction (COMMIT -> start)"
GOALS = ((0.99, Goal(5, " ms p99", at_most=True)),)
PAUSE = 0.01  # the loop sleeps again
WAIT = 5.0
RUNS = 3


async def measure(server: Server, scale: Scale) -> list[Line]:
    url = await server.create("queue")
    async with ours.opened(url) as pool:
        await ours.filler(pool).put(scale.pending, datetime.now(UTC) + timedelta(days=1), timedelta(days=30))
        await settle(url)
        bare, mine = [], []
        for run in range(RUNS):
            bare.append(await _notified(pool, scale.knocks))
            mine.append(await _started(pool, run, scale.knocks))
    await server.drop(url)
    return [
        lateness("INSERT and NOTIFY -> listener", bare),
        lateness(f"put -> handler, {scale.pending:,} future ones", mine, goals=GOALS),
    ]


async def _notified(pool: asyncpg.Pool, count: int) -> list[float]:
    """The least that a wake-up by the database costs."""
    heard = asyncio.Event()
    waits = []
    async with pool.acquire() as listener, pool.acquire() as tx:
        await tx.execute("CREATE TEMP TABLE IF NOT EXISTS knock (n int)")
        await listener.add_listener("knock", lambda *_: heard.set())
        for n in range(count):
            heard.clear()
            async with tx.transaction():
                await tx.execute("INSERT INTO knock VALUES ($1)", n)
                await tx.execute("SELECT pg_notify('knock', '')")
                began = perf_counter()
            waits.append(await _until(heard) - began)
            await asyncio.sleep(PAUSE)
        await listener.reset()
    return waits


async def _started(pool: asyncpg.Pool, run: int, count: int) -> list[float]:
    heard = asyncio.Event()
    at = 0.0
    waits = []

    async def started(_item: Item) -> Fate:
        nonlocal at
        at = perf_counter()
        heard.set()
        return due.DONE

    async with due.Loop(pool, [ours.kind(handler=started)], lanes=ours.SLOTS), pool.acquire() as tx:
        await asyncio.sleep(10 * PAUSE)
        for n in range(count):
            heard.clear()
            async with tx.transaction():
                await due.put(tx, [Put(ours.KIND, f"knock/{run}/{n}", payload={"n": n}, lane=Lane.BULK)])
                began = perf_counter()
            await _until(heard)
            waits.append(at - began)
            await asyncio.sleep(PAUSE)
    return waits


async def _until(heard: asyncio.Event) -> float:
    async with asyncio.timeout(WAIT):
        await heard.wait()
    return perf_counter()
