"""A loop and its connections: too few, silent ones, none at all; it says so, or it goes on by itself."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from soonish import due
from soonish.due import Item, Lane, Loop, Put
from soonish.due.loop import lane
from soonish.due.loop import loop as loop_module
from tests.support.due import KIND, Gate, Handler, Nimble, Watcher, ended, kind, live, now, put, until
from tests.support.due_proxy import Proxy, proxy
from tests.support.postgres import PostgresServer

SECOND = timedelta(seconds=1)


@pytest.fixture
async def far(postgres: PostgresServer, bare_url: str, pool: Any) -> AsyncIterator[tuple[Proxy, Any]]:
    """The same database behind a proxy: the proxy, and a pool through it."""
    name = bare_url.partition("@/")[2].partition("?")[0]
    async with proxy(postgres) as way:
        through = await asyncpg.create_pool(way.url(name), min_size=0)
        yield way, through
        through.terminate()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent connection is given up in a second instead of many."""
    for module in (lane, loop_module):
        monkeypatch.setattr(module, "TURN_TIMEOUT", 1.0)
    monkeypatch.setattr(lane, "LAST_PATIENCE", 0.5)


async def test_a_pool_that_is_too_small_is_refused_with_the_number_that_it_needs(bare_url: str) -> None:
    async with asyncpg.create_pool(bare_url, min_size=0, max_size=4) as small:
        await due.install(small)
        with pytest.raises(ValueError, match="has 4 connections; this loop needs 5"):
            await Loop(small, [kind(Handler())]).start()
        async with Loop(small, [kind(Handler())], lanes={Lane.CONTROL: 1}):
            pass


async def test_the_smallest_pool_works_a_backlog_of_handlers_that_use_it_too(bare_url: str) -> None:
    async with asyncpg.create_pool(bare_url, min_size=0, max_size=5) as small:
        await due.install(small)

        async def handle(item: Item) -> due.Fate:
            async with small.acquire() as tx, tx.transaction():
                return await due.done_in(tx, item)

        await put(small, *(Put(KIND, str(n), lane=Lane(n % 3)) for n in range(600)))
        async with Loop(small, [kind(handle)]), asyncio.timeout(20):
            while await small.fetchval("SELECT count(*) FROM due.due"):
                await asyncio.sleep(0.02)


@pytest.mark.usefixtures("impatient")
async def test_lanes_whose_connections_fall_silent_take_new_ones(pool: Any, far: tuple[Proxy, Any]) -> None:
    way, through = far
    handler, watcher = Handler(), Watcher()
    kinds = [kind(handler)]
    # A turn of which nobody heard may have claimed: what it took is due again when its lease ends.
    async with Loop(through, kinds, observer=watcher, lease=6 * SECOND, connect=pool.acquire):
        await put(pool, *(Put(KIND, f"before/{n}", lane=Lane(n)) for n in range(3)))
        await watcher.wait_until(lambda: len(watcher.fates) == 3)
        way.freeze()
        await put(pool, *(Put(KIND, f"after/{n}", lane=Lane(n)) for n in range(3)))
        await watcher.wait_until(lambda: len(watcher.fates) == 6)


@pytest.mark.usefixtures("impatient")
async def test_results_and_leases_outlive_a_silent_connection(pool: Any, far: tuple[Proxy, Any]) -> None:
    way, through = far
    gate, watcher = Gate(), Watcher()
    await put(pool, Put(KIND, "1"))
    async with Nimble(through, [kind(gate)], observer=watcher, lease=6 * SECOND, connect=pool.acquire) as loop:
        await gate.entered.wait()
        first = (await live(pool))[0]["lease_until"]
        way.freeze()
        loop.extend()

        async def kept() -> bool:
            return (await live(pool))[0]["lease_until"] > first  # type: ignore[no-any-return]

        await until(kept)
        way.freeze()
        gate.opened.set()
        await watcher.wait_until(lambda: watcher.fates)
    assert await ended(pool) == [("1", "done", None)]
    assert watcher.late_results == []


@pytest.mark.usefixtures("impatient")
async def test_a_listener_that_went_deaf_is_found_by_its_probe(pool: Any, far: tuple[Proxy, Any]) -> None:
    way, through = far
    handler = Handler()
    running = Loop(pool, [kind(handler)], connect=through.acquire)
    running.listener._probe_every = running.listener._probe_timeout = 0.3
    async with running:
        await put(pool, Put(KIND, "1"))
        await handler.wait_for(1)
        way.freeze()
        await put(pool, Put(KIND, "2"))
        await handler.wait_for(2)

        async def hears_again() -> bool:
            return running.listener.reconnects >= 1 and running.listener.up

        await until(hears_again)
        await put(pool, Put(KIND, "3"))
        await handler.wait_for(3)


async def test_a_listener_that_the_server_ends_alone_costs_no_more_than_a_moment(pool: Any) -> None:
    handler = Handler()
    async with Loop(pool, [kind(handler)]) as running:
        ended_ = await pool.fetchval(
            """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ILIKE 'LISTEN%'"""
        )
        assert ended_ == 1
        await put(pool, Put(KIND, "1"))
        await handler.wait_for(1)
        await running.listener.wait_up()
        for n in range(2, 5):
            await put(pool, Put(KIND, str(n)))
            await handler.wait_for(n)


async def test_a_bell_that_is_heard_again_gives_every_lane_a_new_connection(pool: Any) -> None:
    async def backends() -> set[int]:
        rows = await pool.fetch(
            """SELECT pid FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%near AS MATERIALIZED%'"""
        )
        return {row["pid"] for row in rows}

    async def three_but(others: set[int]) -> set[int]:
        """The backends of three lanes, once there are as many beside these."""
        found = await backends() - others
        return found if len(found) == 3 else set()

    async with Loop(pool, [kind(Handler())]) as running:
        old = await until(lambda: three_but(set()))
        await pool.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND query ILIKE 'LISTEN%'"""
        )
        await until(lambda: three_but(old))
        assert running.listener.reconnects == 1


async def test_a_stop_while_the_database_is_away_ends_within_ten_seconds(own_postgres: PostgresServer) -> None:
    url = await own_postgres.create("away")
    pool = await asyncpg.create_pool(url, min_size=0)
    await due.install(pool)
    gate = Gate()
    await put(pool, Put(KIND, "1"), Put(KIND, "2"))
    running = Loop(pool, [kind(gate)])
    await running.start()
    await gate.entered_by(2)
    await asyncio.to_thread(own_postgres.halt)
    async with asyncio.timeout(10):
        await running.stop()
    assert gate.cancelled == 2
    pool.terminate()


async def test_a_start_while_the_database_is_away_works_what_is_due_when_it_comes(own_postgres: PostgresServer) -> None:
    url = await own_postgres.create("away")
    pool = await asyncpg.create_pool(url, min_size=0)
    await due.install(pool)
    await put(pool, Put(KIND, "1"))
    await pool.expire_connections()
    await asyncio.to_thread(own_postgres.halt)
    handler = Handler()
    async with Loop(pool, [kind(handler)]):
        await asyncio.to_thread(own_postgres.resume)
        await handler.wait_for(1, seconds=20)
    pool.terminate()


async def test_what_runs_outlives_a_database_that_was_away_for_longer_than_a_lease(
    own_postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url, may = await own_postgres.create("restarted"), asyncio.Event()
    may.set()
    async with asyncpg.create_pool(url, min_size=0) as pool:
        await due.install(pool)
        gate, watcher = Gate(), Watcher()
        await put(pool, Put(KIND, "1"))
        async with Loop(pool, [kind(gate)], observer=watcher, may_claim=may.is_set) as loop:
            await gate.entered.wait()
            may.clear()
            await pool.execute("UPDATE due.due SET lease_until = now() - interval '1 s'")
            await asyncio.to_thread(own_postgres.halt)
            may.set()
            loop.wake()
            await until(lambda: asyncio.sleep(0, "due.turn_failed lane=control" in caplog.text))
            await asyncio.to_thread(own_postgres.resume)
            await until(lambda: _leased(pool))
            gate.opened.set()
            await watcher.wait_until(lambda: watcher.fates, seconds=20)
        assert [row["attempts"] for row in await pool.fetch("SELECT attempts FROM due.due_past")] == [1]


async def _leased(pool: Any) -> bool:
    try:
        return bool(await pool.fetchval("SELECT lease_until > now() FROM due.due"))
    except (OSError, asyncpg.PostgresError):
        return False


async def test_only_the_clock_of_the_database_decides(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    at = await now(pool)
    real = time.time
    handler = Handler()
    for skew in (-300, 300):
        monkeypatch.setattr(time, "time", lambda skew=skew: real() + skew)
        async with Loop(pool, [kind(handler)]):
            await put(pool, Put(KIND, f"near/{skew}"), Put(KIND, f"far/{skew}", at + timedelta(minutes=4)))
            await handler.wait_for(1)
        assert [item.key for item in handler.seen] == [f"near/{skew}"]
        handler.seen.clear()
