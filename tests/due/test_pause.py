"""Pausing parks items where they cost no claim anything; resuming brings them back, whatever dies in between."""

from datetime import timedelta
from typing import Any

from soonish import due
from soonish.due import Late, Put
from soonish.due.queue import go_on_resuming, overdue
from tests.support.due import KIND, Handler, ended, kind, live, now, pass_time, put, transaction

OTHER = "test.other"


async def lanes(pool: Any) -> dict[str, int]:
    return {row["key"]: row["lane"] for row in await live(pool)}


async def test_a_paused_kind_is_parked_and_its_neighbour_goes_on(pool: Any) -> None:
    await put(pool, Put(KIND, "1"), Put(OTHER, "2"))
    assert await due.pause(pool, KIND, reason="storm") == 1
    paused, other = Handler(), Handler()
    await due.drain(pool, [kind(paused), kind(other, OTHER)])
    assert (paused.keys, other.keys) == ([], ["2"])
    assert await lanes(pool) == {"1": 10}


async def test_what_is_put_or_moved_during_a_pause_is_parked_too(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.pause(pool, "*")
    await put(pool, Put(KIND, "1", payload={"moved": 1}), Put(KIND, "2"), Put(OTHER, "3"))
    assert await lanes(pool) == {"1": 10, "2": 10, "3": 10}


async def test_a_resume_brings_back_all_that_no_other_pause_covers(pool: Any) -> None:
    await put(pool, Put(KIND, "1"), Put(OTHER, "2"))
    await due.pause(pool, "*")
    await due.pause(pool, OTHER)
    assert await due.resume(pool, "*") == 1
    assert await lanes(pool) == {"1": 0, "2": 10}
    assert await due.resume(pool, OTHER) == 1
    assert await lanes(pool) == {"1": 0, "2": 0}


async def test_parked_items_are_not_overdue_and_meet_their_late_policy_after_the_resume(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.pause(pool, KIND)
    await pass_time(pool, timedelta(hours=3))
    async with transaction(pool) as tx:
        assert sum(row["count"] for row in await overdue(tx)) == 0
    await due.resume(pool, KIND)
    await due.drain(pool, [kind(Handler(), late=Late.skip())])
    assert await ended(pool) == [("1", "dropped", "late")]


async def test_an_item_that_was_being_worked_is_parked_when_it_comes_back(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))

    async def hold(_item: Any) -> due.Fate:
        await due.pause(pool, KIND)
        return due.Again(after=0)

    await due.drain(pool, [kind(hold)])
    assert await lanes(pool) == {"1": 10}
    handler = Handler()
    await due.resume(pool, KIND)
    await due.drain(pool, [kind(handler)])
    assert handler.keys == ["1"]


async def test_a_resume_that_died_half_way_is_finished_by_the_next_who_looks(pool: Any) -> None:
    await put(pool, *(Put(KIND, str(n)) for n in range(5)))
    await due.pause(pool, KIND)
    await pool.execute("UPDATE due.due_pause SET resumed_at = now()")
    await pool.execute("UPDATE due.due SET lane = 0 WHERE key IN ('1', '2')")
    assert await go_on_resuming(pool) == 3
    assert set((await lanes(pool)).values()) == {0}
    assert await pool.fetchval("SELECT count(*) FROM due.due_pause") == 0


async def test_a_pause_in_one_workspace_leaves_the_others_alone(pool: Any) -> None:
    for workspace in (1, 2):
        async with transaction(pool) as tx:
            await due.put(tx, [Put(KIND, str(workspace))], workspace_id=workspace)
    await due.pause(pool, KIND, workspace_id=1)
    handler = Handler()
    await due.drain(pool, [kind(handler)])
    assert handler.keys == ["2"]


async def test_a_paused_item_keeps_its_promise_and_its_budget(pool: Any) -> None:
    at = await now(pool)
    await put(pool, Put(KIND, "1", at))
    await due.pause(pool, KIND)
    await due.resume(pool, KIND)
    handler = Handler()
    await due.drain(pool, [kind(handler)])
    assert [(item.due_at, item.tries, item.first) for item in handler.seen] == [(at, 1, True)]
