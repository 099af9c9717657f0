"""The queue used alone, as another program uses it: no settings, no workspaces, through its public names only."""

import logging
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from soonish import due
from soonish.due import Again, Drop, Item, Kind, Lane, Late, Loop, Put
from tests.support.due import (
    KIND,
    PATIENCE,
    Gate,
    Handler,
    Watcher,
    ended,
    kind,
    live,
    now,
    pass_time,
    put,
    transaction,
    until,
)

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
FAR_ITEMS = 200_000
INSERT_FAR = """INSERT INTO due.due (kind, key, lane, due_at, wake_at)
                SELECT 'test.thing', 'far/' || n, n % 3, at, at
                FROM generate_series(1, $1::int) n,
                     LATERAL (SELECT now() + make_interval(days => 1, secs => n) AS at) moment"""


async def test_behind_very_many_far_items_one_due_now_goes_at_once(bare_url: str, pool: Any) -> None:
    handler, watcher = Handler(), Watcher()
    async with Loop(pool, [kind(handler)], observer=watcher):
        await pool.execute(INSERT_FAR, FAR_ITEMS)
        assert "bell" not in watcher.wakes
        for n in range(5):
            await put(pool, Put(KIND, str(n)))
            await handler.wait_for(n + 1)
    assert max(item.late for item in handler.seen) < PATIENCE


async def test_a_poison_item_waits_longer_and_longer_dies_and_is_retried_beside_a_neighbour_that_is_done(
    pool: Any,
) -> None:
    cured = False

    async def handle(item: Item) -> due.Fate:
        if item.key == "poison" and not cured:
            raise RuntimeError("no luck")
        return due.DONE

    declared = Kind(KIND, handle, tries=4, first=timedelta(milliseconds=100))
    watcher = Watcher()
    async with Loop(pool, [declared], observer=watcher):
        await put(pool, Put(KIND, "poison"), Put(KIND, "neighbour"))
        await watcher.wait_until(lambda: ("poison", "dead") in watcher.fates)
        assert ("neighbour", "done") in watcher.fates[:2]
        assert watcher.fates.count(("poison", "again")) == 3
        async with transaction(pool) as tx:
            (row,) = await due.dead(tx)
            assert (row["last_error"], row["reason"], row["attempts"]) == ("RuntimeError: no luck", "budget", 4)
            cured = True
            assert await due.retry(tx, [row["id"]]) == (1, 0)
        await watcher.wait_until(lambda: ("poison", "done") in watcher.fates)


async def test_a_paused_kind_rests_unseen_and_after_the_resume_all_go_that_have_not_expired(pool: Any) -> None:
    handler, watcher = Handler(), Watcher()
    at = await now(pool)
    await put(pool, Put(KIND, "soon", at + HOUR), Put(KIND, "brief", at + HOUR, expires_at=at + 2 * HOUR))
    async with Loop(pool, [kind(handler, late=Late.send())], observer=watcher):
        assert await due.pause(pool, KIND, reason="storm") == 2
        await pass_time(pool, 3 * HOUR)
        await put(pool, Put(KIND, "new"))
        await put(pool, Put("test.unknown", "1"))
        async with transaction(pool) as tx:
            assert [row["key"] for row in await due.peek(tx, kind=KIND, state="overdue")] == []
            assert {row["key"] for row in await due.peek(tx, state="paused")} == {"soon", "brief", "new"}
            assert [row["count"] for row in await due.queue.overdue(tx)] == [1, 0, 0]
        assert handler.seen == []
        assert await due.resume(pool, KIND) == 3
        await watcher.wait_until(lambda: len(watcher.fates) == 3)
    assert sorted(handler.keys) == ["new", "soon"]
    assert sorted(await ended(pool)) == [("brief", "expired", None), ("new", "done", None), ("soon", "done", None)]


async def test_moments_move_nearer_and_farther_and_the_old_holder_changes_nothing(pool: Any) -> None:
    at = await now(pool)
    gate, watcher = Gate(), Watcher()
    async with Loop(pool, [kind(gate)], observer=watcher):
        await put(pool, Put(KIND, "1", at + 40 * SECOND))
        await put(pool, Put(KIND, "1", at + SECOND))
        await gate.entered_by(1)
        assert await now(pool) >= at + SECOND
        await put(pool, Put(KIND, "1", at + 1.5 * SECOND, {"moved": 1}))
        await gate.entered_by(2)
        assert await now(pool) >= at + 1.5 * SECOND
        gate.opened.set()
        await watcher.wait_until(lambda: watcher.fates and watcher.late_results)
    assert (watcher.fates, len(watcher.late_results)) == ([("1", "done")], 1)


@pytest.mark.parametrize("schema", ["due", "reminders"])
async def test_a_whole_life_in_a_schema_of_its_own(bare_url: str, schema: str) -> None:
    async with asyncpg.create_pool(bare_url, min_size=0) as pool:
        await due.install(pool, schema=schema)
        await due.install(pool, schema="other")
        at: Any = await pool.fetchval("SELECT now()")
        told: list[str] = []
        fates: dict[str, due.Fate] = {"later": Again(at=at + HOUR), "never": Drop("moved on")}

        async def tell(item: Item) -> due.Fate:
            told.append(item.key)
            return fates.get(item.key, due.DONE)

        async def fail(_item: Item) -> due.Fate:
            raise RuntimeError("out of order")

        kinds = [Kind("shop.tell", tell), Kind("shop.fail", fail, lane=Lane.PEOPLE, tries=1)]
        async with pool.acquire() as tx, tx.transaction():
            names = ("now", "later", "never", "gone", "paused")
            assert await due.put(tx, [Put("shop.tell", name) for name in names], schema=schema) == (5, 0, 0)
            assert await due.put(tx, [Put("shop.fail", "1")], schema=schema) == (1, 0, 0)
            assert await due.cancel(tx, "shop.tell", ["gone"], schema=schema) == 1
            plan = [Put("shop.tell", "trip/1", at + HOUR), Put("shop.tell", "trip/2", at - HOUR)]
            assert await due.replan(tx, "shop.tell", "trip/", plan, schema=schema) == ((1, 0, 0), 0, ["trip/2"])
        assert await due.drain(pool, kinds, schema=schema) == 5
        assert sorted(told) == ["later", "never", "now", "paused"]
        async with pool.acquire() as tx, tx.transaction():
            assert [row["key"] for row in await due.peek(tx, schema=schema)] == ["later", "trip/1"]
            assert [row["key"] for row in await due.dead(tx, schema=schema)] == ["1"]
            assert await due.retry(tx, kind="shop.fail", schema=schema) == (1, 0)
            assert await due.dead(tx, schema=schema) == []
            assert len(await due.past(tx, schema=schema)) == 5
        assert await due.pause(pool, "shop.fail", schema=schema) == 1
        assert await due.drain(pool, kinds, schema=schema) == 0
        assert await due.resume(pool, "shop.fail", schema=schema) == 1
        async with Loop(pool, kinds, schema=schema):

            async def dead_again() -> Any:
                async with pool.acquire() as tx:
                    return [row["attempts"] for row in await due.dead(tx, schema=schema)] == [1]

            await until(dead_again)
        assert await pool.fetchval("SELECT count(*) FROM other.due") == 0


async def test_of_two_deaths_of_one_key_the_later_life_comes_back_and_the_other_counts_as_superseded(pool: Any) -> None:
    for n in range(2):
        await put(pool, Put(KIND, "1", payload={"n": n}))
        await due.drain(pool, [kind(Handler(RuntimeError("x")), tries=1)])
    async with transaction(pool) as tx:
        assert await due.retry(tx, kind=KIND) == (1, 1)
        assert await due.retry(tx, kind=KIND) == (0, 0)
    assert [row["payload"] for row in await live(pool)] == ['{"n": 1}']


async def test_a_retry_takes_only_what_died_in_the_window_and_only_the_dead(pool: Any) -> None:
    await put(pool, Put(KIND, "old"))
    await due.drain(pool, [kind(Handler(RuntimeError("x")), tries=1)])
    await pool.execute("UPDATE due.due_undone SET finished_at = finished_at - interval '1 day'")
    await put(pool, Put(KIND, "young"), Put(KIND, "dropped"))
    await due.drain(pool, [kind(Handler(Drop("x")), "test.none")])
    at = await now(pool)
    async with transaction(pool) as tx:
        await due.cancel(tx, KIND, ["dropped"])
    await due.drain(pool, [kind(Handler(RuntimeError("x")), tries=1)])
    async with transaction(pool) as tx:
        assert await due.retry(tx, kind=KIND, since=at) == (1, 0)
        assert [row["key"] for row in await due.peek(tx)] == ["young"]
        assert await due.retry(tx, kind=KIND, until=at) == (1, 0)
        with pytest.raises(ValueError, match="by id or by kind"):
            await due.retry(tx)


async def test_the_report_of_a_start_counts_to_a_hundred_thousand_and_is_logged(
    pool: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await pool.execute(
        """INSERT INTO due.due (kind, key, lane, due_at, wake_at)
           SELECT 'test.unknown', n::text, 1, at, at
           FROM generate_series(1, 100001) n, LATERAL (SELECT now() - make_interval(secs => n)) AS m (at)"""
    )
    with caplog.at_level(logging.INFO, "soonish.due"):
        async with Loop(pool, [kind(Handler())], lanes={Lane.CONTROL: 1}) as loop:
            assert (loop.recovery["count"], loop.recovery["people"]) == ("100000+", "100000+")
    (line,) = [record.getMessage() for record in caplog.records if "due.recovery" in record.getMessage()]
    assert line.startswith("due.recovery count=100000+ oldest=")


async def test_a_report_that_cannot_be_made_stops_no_start(pool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no report today")

    monkeypatch.setattr(due.queue, "overdue", broken)
    handler = Handler()
    await put(pool, Put(KIND, "1"))
    async with Loop(pool, [kind(handler)]) as loop:
        await handler.wait_for(1)
        assert loop.recovery == {}
