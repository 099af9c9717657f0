"""Pauses that begin and end while others put, claim and hold locks: nothing is parked for ever, nothing slips out."""

import asyncio
from datetime import timedelta
from typing import Any

from soonish import due
from soonish.due import Lane, Late, Loop, Put
from soonish.due.loop.work import Result
from soonish.due.queue import go_on_resuming, pauses, pull
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
    turn,
)

HOUR = timedelta(hours=1)


async def lanes(pool: Any) -> dict[str, int]:
    return {row["key"]: row["lane"] for row in await live(pool)}


async def test_an_item_claimed_in_a_pause_that_ends_meanwhile_is_not_parked_for_ever(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await pool.execute("INSERT INTO due.due_pause VALUES (0, $1)", KIND)
    _, (item,) = await turn(pool)
    assert item.stop == "paused"
    await due.resume(pool, KIND)
    await turn(pool, 0, Result(item, "parked", spared=1, reason="unseen"))
    assert await lanes(pool) == {"1": 0}
    handler = Handler()
    await due.drain(pool, [kind(handler)])
    assert [(item.first, item.tries) for item in handler.seen] == [(True, 1)]


async def test_a_parked_item_that_somebody_has_locked_is_brought_back_when_the_lock_is_gone(pool: Any) -> None:
    at = await now(pool) + HOUR
    await put(pool, Put(KIND, "1", at), Put(KIND, "2", at))
    await due.pause(pool, KIND)
    await pool.execute("UPDATE due.due_pause SET resumed_at = now()")
    async with transaction(pool) as slow:
        assert await due.put(slow, [Put(KIND, "1", at)]) == (0, 0, 1)
        assert await go_on_resuming(pool) == 1
        assert await lanes(pool) == {"1": 10, "2": 0}
    assert await go_on_resuming(pool) == 1
    assert await lanes(pool) == {"1": 0, "2": 0}
    assert await pool.fetchval("SELECT count(*) FROM due.due_pause") == 0


async def test_a_resume_waits_for_a_put_that_saw_the_pause(pool: Any) -> None:
    await due.pause(pool, KIND)
    async with transaction(pool) as slow:
        await due.put(slow, [Put(KIND, "1")])
        resuming = asyncio.create_task(due.resume(pool, KIND))
        async with asyncio.timeout(PATIENCE):
            while not await pool.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.02)
    assert await resuming == 1
    assert await lanes(pool) == {"1": 0}


async def test_a_kind_that_is_paused_again_while_it_is_resumed_stays_paused(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.pause(pool, KIND)
    await pool.execute("UPDATE due.due_pause SET resumed_at = now()")
    await due.pause(pool, KIND, reason="again")
    assert await go_on_resuming(pool) == 0
    assert await lanes(pool) == {"1": 10}
    async with transaction(pool) as tx:
        assert [tuple(row) for row in await pauses(tx)] == [(0, KIND, "again")]


async def test_an_item_that_was_held_before_the_pause_is_not_judged_late_after_it(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    handler = Handler(due.Again(after=0.0), due.DONE)
    declared = kind(handler, late=Late.skip())
    _, (item,) = await turn(pool)
    await turn(pool, 0, Result(item, "held", wait=0.0, spared=1))
    await pool.execute("INSERT INTO due.due_pause VALUES (0, $1)", KIND)
    await due.drain(pool, [declared])
    assert await lanes(pool) == {"1": 10}
    await pass_time(pool, HOUR)
    await due.resume(pool, KIND)
    await due.drain(pool, [declared])
    assert [(seen.first, seen.tries) for seen in handler.seen] == [(False, 1), (False, 1)]
    assert await ended(pool) == [("1", "done", None)]


async def test_a_revived_item_that_met_a_pause_is_not_judged_late_after_it(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler(RuntimeError("x")), tries=1)])
    await pool.execute("UPDATE due.due_undone SET due_at = due_at - interval '2 hours'")
    await due.pause(pool, KIND)
    async with transaction(pool) as tx:
        assert await due.retry(tx, kind=KIND) == (1, 0)
    await due.drain(pool, [kind(Handler(), late=Late.skip())])
    assert await lanes(pool) == {"1": 10}
    await due.resume(pool, KIND)
    await due.drain(pool, [kind(Handler(), late=Late.skip())])
    assert (await ended(pool))[-1] == ("1", "done", None)


async def test_an_item_that_is_worked_on_when_its_kind_is_paused_may_finish(pool: Any) -> None:
    gate, watcher = Gate(), Watcher()
    await put(pool, Put(KIND, "1"))
    async with Loop(pool, [kind(gate)], observer=watcher):
        await gate.entered.wait()
        await due.pause(pool, KIND)
        gate.opened.set()
        await watcher.wait_until(lambda: watcher.fates)
    assert watcher.fates == [("1", "done")]


async def test_a_parked_item_that_is_pulled_forward_stays_parked(pool: Any) -> None:
    await put(pool, Put(KIND, "1", await now(pool) + HOUR))
    await due.pause(pool, KIND)
    (row,) = await live(pool)
    async with transaction(pool) as tx:
        assert await pull(tx, row["id"])
    handler = Handler()
    await due.drain(pool, [kind(handler)])
    assert (handler.seen, await lanes(pool)) == ([], {"1": 10})


async def test_a_parked_item_may_be_cancelled_and_put_the_same(pool: Any) -> None:
    at = await now(pool) + HOUR
    await put(pool, Put(KIND, "1", at), Put(KIND, "2", at))
    await due.pause(pool, KIND)
    assert await put(pool, Put(KIND, "1", at)) == (0, 0, 1)
    async with transaction(pool) as tx:
        assert await due.cancel(tx, KIND, ["2"]) == 1
    assert await lanes(pool) == {"1": 10}


async def test_a_late_backlog_leaves_parked_and_once_claimed_items_where_they_are(pool: Any) -> None:
    await put(pool, *(Put(KIND, key, lane=Lane.PEOPLE) for key in ("fresh", "claimed")))
    await put(pool, Put("test.paused", "parked", lane=Lane.PEOPLE))
    await pool.execute("UPDATE due.due SET first_at = now(), attempts = 1 WHERE key = 'claimed'")
    await due.pause(pool, "test.paused")
    await pass_time(pool, HOUR)
    async with Loop(pool, [kind(Handler(), "test.other")], lanes={Lane.PEOPLE: 1, Lane.BULK: 1}):
        async with asyncio.timeout(PATIENCE):
            while (await lanes(pool))["fresh"] != Lane.BULK:
                await asyncio.sleep(0.02)
    assert await lanes(pool) == {"fresh": 2, "claimed": 1, "parked": 11}


async def test_a_running_loop_finishes_the_resume_of_a_process_that_died(pool: Any) -> None:
    handler = Handler()
    await put(pool, Put(KIND, "1"))
    await due.pause(pool, KIND)
    await pool.execute("UPDATE due.due_pause SET resumed_at = now()")
    async with Loop(pool, [kind(handler)]):
        await handler.wait_for(1)
