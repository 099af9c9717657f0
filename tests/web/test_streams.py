"""Streams: every row once and in order, however commits come; slow clients, lost keys and full processes end well."""

import asyncio
import random
from itertools import pairwise
from pathlib import Path

import pytest

from soonish.access.actions.callers import KEY_LIFE
from soonish.errors import Unavailable
from soonish.web import sse
from soonish.web.hub import CHECK_EVERY, LOOK_EVERY, Hub
from tests.support import things as module
from tests.support.http import PATIENCE, Client, Events, Sent, events
from tests.support.site import Site
from tests.support.things import insert, things, until

STREAM = "/v1/things/stream"


async def make(shop: Site, *names: str) -> None:
    for name in names:
        assert (await shop.acme.write.post("/v1/things", {"name": name})).status == 201


def names(rows: list[Sent]) -> list[str]:
    return [row.json["name"] for row in rows]


async def test_a_stream_is_never_stored_nor_held_back_on_its_way(shop: Site) -> None:
    async with events(shop.acme.read, STREAM) as stream:
        headers = stream.response.headers
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
        assert "content-encoding" not in headers
        assert await stream.next() == Sent(retry="2000")


async def test_rows_that_are_there_come_first_then_those_to_come(shop: Site) -> None:
    await make(shop, "a", "b")
    async with events(shop.acme.read, STREAM) as stream:
        assert names(await stream.rows(2)) == ["a", "b"]
        await make(shop, "c")
        [row] = await stream.rows(1)
        assert (row.type, row.json["name"]) == ("thing", "c")
        assert row.id


async def test_a_row_comes_at_once_by_the_bell_and_not_by_looking(shop: Site) -> None:
    async with events(shop.acme.read, STREAM) as stream:
        await stream.next()
        await make(shop, "a")
        assert shop.app.state.hub._heads is None, "here nobody looks"
        await stream.rows(1)


async def test_a_stream_goes_on_strictly_after_the_cursor(shop: Site) -> None:
    await make(shop, "a", "b", "c")
    async with events(shop.acme.read, STREAM) as stream:
        first, second, _ = await stream.rows(3)
    async with events(shop.acme.read, f"{STREAM}?after={first.id}") as stream:
        assert names(await stream.rows(2)) == ["b", "c"]
    async with events(shop.acme.read, STREAM, Last_Event_Id=second.id or "") as stream:
        assert names(await stream.rows(1)) == ["c"]
    async with events(shop.acme.read, f"{STREAM}?after={first.id}", Last_Event_Id=second.id or "") as stream:
        assert names(await stream.rows(1)) == ["c"], "the header wins"


async def test_a_wrong_cursor_gets_its_own_answer_before_the_stream_begins(shop: Site) -> None:
    for asked in (
        await shop.acme.read.get(f"{STREAM}?after=x"),
        await shop.acme.read.get(STREAM, Last_Event_Id="1-"),
        await shop.acme.read.get(STREAM, Last_Event_Id="1" * 201),
        await shop.acme.read.get(STREAM, Last_Event_Id="a\tb"),
    ):
        assert asked.refused == (400, "bad_cursor")
    assert shop.app.state.hub._all == set()


async def test_a_cursor_older_than_what_is_kept_is_told_so_and_goes_on_with_the_oldest(shop: Site) -> None:
    await make(shop, "a", "b", "c")
    await shop.acme.run("DELETE FROM thing WHERE name = 'a'")
    async with events(shop.acme.read, f"{STREAM}?after=1-1") as stream:
        assert [block.type for block in [await stream.next(), await stream.next()] if block] == [None, "reset"]
        assert names(await stream.rows(2)) == ["b", "c"]


async def test_another_workspace_sees_nothing_of_it(shop: Site) -> None:
    async with events(shop.main.read, STREAM) as stream:
        await stream.next()
        await make(shop, "a")
        assert (await shop.main.write.post("/v1/things", {"name": "mine"})).status == 201
        assert names(await stream.rows(1)) == ["mine"]


async def test_no_row_is_missed_or_repeated_while_twenty_write_and_commit_in_any_order(shop: Site) -> None:
    """A follower that stays, and one that comes back fifty times with the last id it saw, see the same."""
    stays = asyncio.create_task(follow(shop.acme.read, 200))
    returns = asyncio.create_task(follow_in_parts(shop.acme.read, 200, parts=50))
    await asyncio.gather(*(write_slowly(shop, f"w{writer}", 10) for writer in range(20)))
    first, second = await stays, await returns
    wanted = {f"w{writer}-{n}" for writer in range(20) for n in range(10)}
    assert len(first) == len(second) == 200
    assert {row.json["name"] for row in first} == {row.json["name"] for row in second} == wanted
    assert [row.id for row in first] == [row.id for row in second]


async def write_slowly(shop: Site, name: str, count: int) -> None:
    """Transactions that overlap: each takes its number, waits, and commits when others have overtaken it."""
    chance = random.Random(name)
    for n in range(count):
        async with shop.db.transaction(shop.acme.id) as tx:
            await insert(tx, shop.acme.id, f"{name}-{n}")
            await tx.execute("SELECT pg_sleep($1)", chance.choice((0, 0.002, 0.02)))


async def follow(client: Client, count: int) -> list[Sent]:
    async with events(client, STREAM) as stream:
        return await stream.rows(count)


async def follow_in_parts(client: Client, count: int, parts: int) -> list[Sent]:
    found: list[Sent] = []
    for _ in range(parts):
        headers = {"Last_Event_Id": found[-1].id or ""} if found else {}
        async with events(client, STREAM, **headers) as stream:
            found += await stream.rows(count // parts)
    return found


async def test_a_row_that_an_older_transaction_holds_back_comes_when_that_has_ended(shop: Site) -> None:
    """Its own ring came too early, and the older one may end without any ring."""
    async with events(shop.acme.read, STREAM) as stream:
        await stream.next()
        async with shop.db.transaction(shop.acme.id) as older:
            await older.fetchval("SELECT pg_current_xact_id()")
            await make(shop, "newer")
            with pytest.raises(TimeoutError):
                await stream.next(within=0.3)
        assert names(await stream.rows(1)) == ["newer"]


async def test_rows_that_were_written_while_nobody_heard_come_with_the_next_connection(shop: Site) -> None:
    async with events(shop.acme.read, STREAM) as stream:
        await stream.next()
        con = await shop.db.connect()
        await con.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        await con.close()
        await make(shop, "a")
        assert names(await stream.rows(1)) == ["a"]


async def test_all_streams_of_a_process_share_one_listening_connection(shop: Site) -> None:
    tasks = [asyncio.create_task(follow(shop.acme.read, 1)) for _ in range(50)]
    await until(lambda: len(shop.app.state.hub._all) == 50)
    con = await shop.db.connect()
    assert await con.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'") == 1
    await con.close()
    await make(shop, "a")
    assert {names(rows)[0] for rows in await asyncio.gather(*tasks)} == {"a"}


async def test_idle_streams_ask_the_database_for_nothing(database_url: str, tmp_path: Path) -> None:
    """One look a process every five seconds, whatever the number of streams."""
    looks: list[float] = []

    async def heads() -> dict[str, int]:
        looks.append(asyncio.get_running_loop().time())
        return {}

    async with things(database_url, tmp_path, heads=heads) as shop:
        hub: Hub = shop.app.state.hub
        hub._look_every = 0.01
        assert hub._task
        hub._task.cancel()  # it sleeps for five seconds
        await hub.start()
        tasks = [asyncio.create_task(follow(shop.acme.read, 1)) for _ in range(20)]
        await until(lambda: len(hub._all) == 20)
        before = await _statements(shop)
        count = len(looks)
        await until(lambda: len(looks) >= count + 1)
        assert await _statements(shop) == before
        await make(shop, "a")
        await asyncio.gather(*tasks)


async def _statements(shop: Site) -> int:
    """Transactions of followers so far, seen from outside them."""
    con = await shop.db.connect()
    await con.execute("SELECT pg_stat_force_next_flush()")
    found = await con.fetchval(
        "SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname = 'thing'"
    )
    await con.close()
    return int(found)


async def test_silence_is_broken_by_pings(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "PING_EVERY", 0.05)
    async with events(shop.acme.read, STREAM) as stream:
        await stream.next()
        assert [await stream.next() for _ in range(3)] == [Sent(comment="ping")] * 3


def test_pings_come_every_fifteen_seconds_and_a_blocked_client_has_thirty() -> None:
    assert (sse.PING_EVERY, sse.BLOCKED, sse.BEHIND_ROWS, sse.BEHIND_BYTES) == (15.0, 30.0, 1000, 1024 * 1024)


async def fill(shop: Site, count: int, size: int) -> None:
    await shop.acme.run(
        "INSERT INTO thing (workspace_id, name) SELECT $1, repeat('x', $3) || n FROM generate_series(1, $2) n",
        shop.acme.id,
        count,
        size,
    )


async def open_and_read_nothing(shop: Site) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await shop.anyone.connect()
    writer.write(shop.acme.read.head(f"GET {STREAM}"))
    await until(lambda: len(shop.app.state.hub._all) == 1)
    return reader, writer


async def test_a_client_that_reads_nothing_is_closed(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "BLOCKED", 0.3)
    await fill(shop, 20_000, 500)
    reader, writer = await open_and_read_nothing(shop)
    await until(lambda: not shop.app.state.hub._all)
    async with asyncio.timeout(PATIENCE):
        while await reader.read(2**20):
            pass
    writer.close()


async def test_a_slow_client_that_falls_far_behind_is_closed(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "SLOW", 0.05)
    await fill(shop, 20_000, 500)
    reader, writer = await open_and_read_nothing(shop)
    async with asyncio.timeout(PATIENCE):
        while shop.app.state.hub._all:
            await reader.read(2**12)
            await asyncio.sleep(0.01)
    writer.close()


async def test_a_client_that_reads_gets_any_number_of_rows(shop: Site) -> None:
    await fill(shop, 5_000, 100)
    async with events(shop.acme.read, STREAM) as stream:
        assert len({row.id for row in await stream.rows(5_000)}) == 5_000


async def test_a_process_serves_so_many_streams_and_no_more(database_url: str, tmp_path: Path) -> None:
    async with things(database_url, tmp_path, streams="2") as shop:
        async with events(shop.acme.read, STREAM), events(shop.main.read, STREAM):
            answer = await shop.acme.read.get(STREAM)
            assert (answer.refused, answer.headers["retry-after"]) == ((429, "too_many_streams"), "5")
        await until(lambda: not shop.app.state.hub._all)
        async with events(shop.acme.read, STREAM):
            pass


async def test_a_stream_whose_client_went_away_makes_room(shop: Site) -> None:
    async with events(shop.acme.read, STREAM) as stream:
        await stream.next()
        assert len(shop.app.state.hub._all) == 1
        stream.response.close()
        await until(lambda: not shop.app.state.hub._all)


async def test_head_of_a_stream_leaves_none_open(shop: Site) -> None:
    assert (await shop.acme.read.ask("HEAD", STREAM)).status == 200
    await until(lambda: not shop.app.state.hub._all)


async def ended(stream: Events) -> list[Sent]:
    return [block for block in await stream.end() if block.data is not None]


async def test_a_revoked_key_ends_its_streams_and_no_others(database_url: str, tmp_path: Path) -> None:
    now = [100.0]
    async with (
        things(database_url, tmp_path, clock=lambda: now[0]) as shop,
        events(shop.acme.read, STREAM) as revoked,
        events(shop.acme.write, STREAM) as stays,
    ):
        await shop.acme.run("UPDATE api_key SET revoked_at = now() WHERE name = 'Reader'")
        now[0] += 5
        await look_at_secrets(shop)
        assert await ended(revoked) == []
        await make(shop, "a")
        assert names(await stays.rows(1)) == ["a"]


async def test_a_sign_in_that_ended_ends_its_streams(shop: Site) -> None:
    browser = await shop.acme.browser("read")
    async with events(browser, STREAM) as stream:
        await stream.next()
        await look_at_secrets(shop)
        await shop.acme.run("UPDATE sign_in SET ended_at = now()")
        await look_at_secrets(shop)
        assert await ended(stream) == []


async def look_at_secrets(shop: Site) -> None:
    """What the hub does every 45 seconds."""
    shop.app.state.hub._check_every = 0
    await shop.app.state.hub._check_secrets()


def test_nobody_streams_on_for_a_minute_after_the_end_of_a_key() -> None:
    assert CHECK_EVERY + LOOK_EVERY + KEY_LIFE < 60


async def test_the_end_of_the_process_ends_its_streams_and_refuses_new_ones(shop: Site) -> None:
    async with events(shop.acme.read, STREAM) as stream:
        await stream.next()
        shop.app.state.hub.end()
        assert await ended(stream) == []
        assert (await shop.acme.read.get(STREAM)).refused == (429, "too_many_streams")


async def test_while_the_database_is_away_a_stream_stays_and_then_misses_nothing(
    shop: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with events(shop.acme.read, STREAM) as stream:
        await stream.next()
        fetch, away = module.fetch_things, asyncio.Event()

        async def unreachable(*_: object) -> sse.Batch:
            away.set()
            raise Unavailable

        monkeypatch.setattr(module, "fetch_things", unreachable)
        await make(shop, "a")
        await away.wait()
        monkeypatch.setattr(module, "fetch_things", fetch)
        assert names(await stream.rows(1)) == ["a"]


def test_ids_of_one_stream_grow() -> None:
    batch = [sse.Event(str(n), "thing", {"n": n}) for n in range(3)]
    text = sse.written(batch)
    ids = [line for line in text.split(b"\n") if line.startswith(b"id: ")]
    assert all(first < second for first, second in pairwise(ids))
