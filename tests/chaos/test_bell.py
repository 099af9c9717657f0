"""A bell that is cut, falls silent or restarts with its database: late by half the horizon at worst, then as before."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from soonish import due
from soonish.due import Loop, Put
from soonish.due.model import BELL_HORIZON
from tests.support.due import KIND, Handler, kind, now, put
from tests.support.due_proxy import Proxy, proxy
from tests.support.postgres import PostgresServer

Say = Callable[..., None]
WORST = BELL_HORIZON / 2
NORMAL = 1.0
EVERY = 0.2


@pytest.fixture
async def far(postgres: PostgresServer, bare_url: str, pool: Any) -> AsyncIterator[tuple[Proxy, Any]]:
    """The same database behind a proxy: the proxy, and a pool through it."""
    name = bare_url.partition("@/")[2].partition("?")[0]
    async with proxy(postgres) as way:
        through = await asyncpg.create_pool(way.url(name), min_size=0)
        yield way, through
        through.terminate()


async def worst_lateness(pool: Any, handler: Handler, name: str, seconds: float) -> float:
    """Put an item due now every fifth of a second for so long; the worst lateness of them all."""
    count = int(seconds / EVERY)
    handler.seen.clear()
    for n in range(count):
        await put(pool, Put(KIND, f"{name}/{n}"))
        await asyncio.sleep(EVERY)
    await handler.wait_for(count, seconds=2 * WORST)
    return max(item.late for item in handler.seen)


async def run(pool: Any, handler: Handler, say: Say, harm: Callable[[], Any], seconds: float) -> None:
    before = await worst_lateness(pool, handler, "before", 3)
    await harm()
    meanwhile = await worst_lateness(pool, handler, "meanwhile", seconds)
    after = await worst_lateness(pool, handler, "after", 5)
    say(before=f"{before:.3f}s", worst=f"{meanwhile:.3f}s", after=f"{after:.3f}s")
    assert meanwhile <= WORST
    assert max(before, after) <= NORMAL


async def test_a_listener_that_the_server_cuts(pool: Any, say: Say) -> None:
    async def cut() -> None:
        await pool.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND query ILIKE 'LISTEN%'"""
        )

    handler = Handler()
    async with Loop(pool, [kind(handler)]):
        await run(pool, handler, say, cut, 10)


async def test_a_listener_that_is_half_open(pool: Any, far: tuple[Proxy, Any], say: Say) -> None:
    async def freeze() -> None:
        far[0].freeze()

    handler = Handler()
    async with Loop(pool, [kind(handler)], connect=far[1].acquire):
        await run(pool, handler, say, freeze, 2 * WORST)


async def test_a_loop_whose_every_connection_is_half_open(pool: Any, far: tuple[Proxy, Any], say: Say) -> None:
    async def freeze() -> None:
        far[0].freeze()

    handler = Handler()
    async with Loop(far[1], [kind(handler)]):
        await run(pool, handler, say, freeze, 2 * WORST)


async def test_a_database_that_restarts_while_moments_come(own_postgres: PostgresServer, say: Say) -> None:
    pool = await asyncpg.create_pool(await own_postgres.create("restarts"), min_size=0)
    await due.install(pool)
    handler = Handler()
    async with Loop(pool, [kind(handler)]):
        before = await worst_lateness(pool, handler, "before", 3)
        handler.seen.clear()
        at = await now(pool)
        await put(pool, *(Put(KIND, str(n), at + n * timedelta(seconds=EVERY)) for n in range(60)))
        for _ in range(3):
            await asyncio.to_thread(own_postgres.halt)
            await asyncio.sleep(1)
            await asyncio.to_thread(own_postgres.resume)
            await asyncio.sleep(1)
        await handler.wait_for(60, seconds=2 * WORST)
        worst, early = max(item.late for item in handler.seen), min(item.late for item in handler.seen)
        after = await worst_lateness(pool, handler, "after", 5)
        say(before=f"{before:.3f}s", worst=f"{worst:.3f}s", after=f"{after:.3f}s")
    assert early >= 0
    assert worst <= WORST
    assert after <= NORMAL
    pool.terminate()


async def test_a_million_far_items_delay_nobody(pool: Any, say: Say) -> None:
    handler = Handler()
    async with Loop(pool, [kind(handler)]):
        await pool.execute(
            """INSERT INTO due.due (kind, key, lane, due_at, wake_at)
               SELECT 'test.thing', 'far/' || n, n % 3, at, at
               FROM generate_series(1, 1000000) n,
                    LATERAL (SELECT now() + make_interval(days => 1, secs => n) AS at) moment""",
            timeout=300,
        )
        worst = await worst_lateness(pool, handler, "now", 10)
    say(far=1_000_000, worst=f"{worst:.3f}s")
    assert worst <= NORMAL
