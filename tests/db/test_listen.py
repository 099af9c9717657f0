"""The listener hears, finds out when it is deaf, and says so when it hears again."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from soonish.db.listen import Listener
from soonish.db.pool import connect
from tests.support.postgres import PostgresServer

PATIENCE = 60.0
LISTENERS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query ~ '^(LISTEN|SELECT 1$)'"


class Ear:
    """A listener on one channel, and what came in."""

    def __init__(self, url: str, probe_every: float = 10, probe_timeout: float = 5) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.looked = asyncio.Event()
        self.listener = Listener(
            lambda: connect(url), first_wait=0.01, probe_every=probe_every, probe_timeout=probe_timeout
        )
        self.end = self.listener.on("news", self.heard.put_nowait)
        self.listener.on_reconnect(self.looked.set)

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return await self.heard.get()

    async def reconnected(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.looked.wait()


@pytest.fixture
async def speaker(bare_url: str) -> AsyncIterator[asyncpg.Connection]:
    con = await asyncpg.connect(bare_url)
    yield con
    await con.close()


async def say(speaker: Any, word: str) -> None:
    await speaker.execute("SELECT pg_notify('news', $1)", word)


async def test_what_is_notified_is_heard_in_its_order(bare_url: str, speaker: asyncpg.Connection) -> None:
    ear = Ear(bare_url)
    async with ear.listener:
        assert ear.listener.up
        await say(speaker, "one")
        await say(speaker, "two")
        assert [await ear.next(), await ear.next()] == ["one", "two"]
    assert not ear.listener.up
    assert ear.listener.reconnects == 0


async def test_a_connection_that_the_server_ends_is_replaced_and_one_is_told_to_look(
    bare_url: str, speaker: asyncpg.Connection
) -> None:
    ear = Ear(bare_url)
    async with ear.listener:
        await speaker.execute(f"SELECT pg_terminate_backend(pid) FROM ({LISTENERS}) l")
        await ear.reconnected()
        await say(speaker, "after")
        assert await ear.next() == "after"
    assert ear.listener.reconnects == 1


async def test_a_connection_that_answers_nothing_is_found_by_the_probe(
    bare_url: str, speaker: asyncpg.Connection
) -> None:
    ear = Ear(bare_url, probe_every=0.05, probe_timeout=0.5)
    async with ear.listener:
        pid = await speaker.fetchval(LISTENERS)
        os.kill(pid, signal.SIGSTOP)
        try:
            await ear.reconnected()
            await say(speaker, "after")
            assert await ear.next() == "after"
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_a_living_connection_is_kept(bare_url: str, speaker: asyncpg.Connection) -> None:
    ear = Ear(bare_url, probe_every=0.001)
    async with ear.listener:
        before = await speaker.fetch(LISTENERS)
        for n in range(20):
            await say(speaker, str(n))
            assert await ear.next() == str(n)
        assert await speaker.fetch(LISTENERS) == before


async def test_a_start_without_a_database_goes_on_by_itself(own_postgres: PostgresServer) -> None:
    own_postgres.halt()
    ear = Ear(own_postgres.url())
    async with ear.listener:
        assert not ear.listener.up
        own_postgres.resume()
        await ear.reconnected()
        assert ear.listener.up
        async with asyncio.timeout(PATIENCE):
            await ear.listener.wait_up()


async def test_a_callback_that_fails_silences_nobody(bare_url: str, speaker: asyncpg.Connection) -> None:
    ear = Ear(bare_url)
    failing = Listener(lambda: connect(bare_url))
    failing.on("news", lambda _: 1 / 0)  # type: ignore[arg-type]
    failing.on("news", ear.heard.put_nowait)
    async with failing:
        await say(speaker, "one")
        await say(speaker, "two")
        assert [await ear.next(), await ear.next()] == ["one", "two"]


async def test_a_callback_can_be_taken_off(bare_url: str, speaker: asyncpg.Connection) -> None:
    ear, other = Ear(bare_url), asyncio.Queue[str]()
    ear.listener.on("news", other.put_nowait)
    async with ear.listener:
        ear.end()
        ear.end()
        await say(speaker, "one")
        async with asyncio.timeout(PATIENCE):
            assert await other.get() == "one"
    assert ear.heard.empty()


async def test_a_channel_is_named_before_the_start(bare_url: str) -> None:
    ear = Ear(bare_url)
    async with ear.listener:
        ear.listener.on("news", lambda _: None)
        with pytest.raises(RuntimeError, match="before the listener starts"):
            ear.listener.on("more", lambda _: None)


async def test_a_borrowed_connection_goes_back_and_serves_nobody_with_its_ears_open(bare_url: str) -> None:
    async with asyncpg.create_pool(bare_url, min_size=0, max_size=1) as pool:
        listener = Listener(pool.acquire, pool.release)
        listener.on("news", lambda _: None)
        async with listener:
            pass
        async with asyncio.timeout(PATIENCE):
            assert await pool.fetch("SELECT * FROM pg_listening_channels()") == []


async def test_it_can_be_started_again_after_a_stop(bare_url: str, speaker: asyncpg.Connection) -> None:
    ear = Ear(bare_url)
    for word in ("one", "two"):
        async with ear.listener:
            await say(speaker, word)
            assert await ear.next() == word
    assert ear.listener.reconnects == 0
