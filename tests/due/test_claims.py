"""What one turn takes, what it says, and whose results it believes: the statement, and the lane that asks it."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from soonish import due
from soonish.db.sql import load
from soonish.due import Item, Lane, Loop, Put, queue
from soonish.due.loop.lane import BATCH
from soonish.due.loop.work import Result
from soonish.errors import LeaseLost
from tests.support.due import (
    KIND,
    PATIENCE,
    Gate,
    Handler,
    Nimble,
    Watcher,
    between,
    ended,
    kind,
    live,
    now,
    pass_time,
    put,
    transaction,
    turn,
    until,
)

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


async def extended(pool: Any, *items: Item) -> list[int]:
    rows = await load(queue.__file__).extend.rows(
        pool, lease=HOUR, ids=[item.id for item in items], fences=[item.attempts for item in items]
    )
    return [row["id"] for row in rows]


async def test_the_oldest_moments_are_taken_first_and_at_most_as_many_as_asked(pool: Any) -> None:
    at = await now(pool)
    await put(pool, *(Put(KIND, str(n), at + HOUR + n * SECOND) for n in (3, 1, 2, 0)))
    await pass_time(pool, 2 * HOUR)
    _, items = await turn(pool, 2)
    assert {item.key for item in items} == {"0", "1"}


async def test_only_known_kinds_of_the_lane_are_taken(pool: Any) -> None:
    await put(pool, Put(KIND, "mine"), Put(KIND, "elsewhere", lane=Lane.BULK), Put("test.unknown", "1"))
    _, items = await turn(pool)
    assert [item.key for item in items] == ["mine"]


async def test_the_next_moment_counts_what_was_put_back_by_the_same_statement(pool: Any) -> None:
    await put(pool, Put(KIND, "1"), Put(KIND, "later", await now(pool) + 50 * SECOND))
    _, (item,) = await turn(pool, 1)
    head, _ = await turn(pool, 1, Result(item, "again", wait=20.0, error="busy"))
    assert 19 < head["next"] <= 20


async def test_the_next_moment_is_one_that_this_loop_could_claim(pool: Any) -> None:
    at = await now(pool)
    others = (Put("test.unknown", "1", at + SECOND), Put(KIND, "1", at + SECOND, lane=Lane.BULK))
    await put(pool, *others, Put(KIND, "2", at + 40 * SECOND))
    before, (head, _), after = await between(pool, turn(pool))
    assert at + 40 * SECOND - after <= head["next"] * SECOND <= at + 40 * SECOND - before


async def test_while_somebody_else_holds_a_lease_a_loop_looks_each_second(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await turn(pool)
    head, items = await turn(pool)
    assert (head["next"], items) == (1.0, [])


async def test_a_result_counts_once_even_if_it_is_written_twice(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    _, (item,) = await turn(pool)
    hold = Result(item, "held", wait=0.0, spared=1)
    first, _ = await turn(pool, 0, hold)
    second, _ = await turn(pool, 0, hold)
    assert (first["lost"], second["lost"]) == (None, [f"{item.id}:{item.attempts}"])
    assert [(row["attempts"], row["spared"]) for row in await live(pool)] == [(1, 1)]


async def test_a_lease_that_its_result_ended_is_not_extended_by_a_keeper_that_was_slower(pool: Any) -> None:
    await put(pool, Put(KIND, "1"), Put(KIND, "2"))
    _, items = await turn(pool)
    first, second = sorted(items, key=lambda item: item.key)
    await turn(pool, 0, Result(first, "again", wait=0.0, error="busy"))
    assert await extended(pool, first, second) == [second.id]
    _, (again,) = await turn(pool)
    assert again.key == "1"


async def test_a_holder_whose_lease_ran_out_still_finishes_if_nobody_took_over(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    _, (item,) = await turn(pool)
    await pass_time(pool, HOUR)
    await turn(pool, 0, Result(item, "done"))
    assert await ended(pool) == [("1", "done", None)]


async def test_of_two_holders_only_the_later_finishes(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    _, (zombie,) = await turn(pool)
    await pass_time(pool, HOUR)
    _, (heir,) = await turn(pool)
    assert (heir.interrupted, heir.attempts) == (True, 2)
    head, _ = await turn(pool, 0, Result(zombie, "dropped", reason="late"))
    assert head["lost"] == [f"{zombie.id}:1"]
    assert await extended(pool, zombie) == []
    await turn(pool, 0, Result(heir, "done"))
    assert await ended(pool) == [("1", "done", None)]


@pytest.mark.parametrize("finish", ["done_in", "again_in"])
async def test_a_finish_inside_a_transaction_is_refused_to_who_lost_the_lease(pool: Any, finish: str) -> None:
    await put(pool, Put(KIND, "1"))
    _, (zombie,) = await turn(pool)
    await pass_time(pool, HOUR)
    await turn(pool)
    with pytest.raises(LeaseLost):
        async with transaction(pool) as tx:
            if finish == "done_in":
                await due.done_in(tx, zombie)
            else:
                await due.again_in(tx, zombie, due.Again(after=5), payload={"mine": True})
    assert [(row["attempts"], row["payload"]) for row in await live(pool)] == [(2, "{}")]


async def test_an_again_inside_a_transaction_keeps_its_error_storable_and_its_deadline(pool: Any) -> None:
    await put(pool, Put(KIND, "1", expires_at=await now(pool) + HOUR))
    _, (item,) = await turn(pool)
    async with transaction(pool) as tx:
        await due.again_in(tx, item, due.Again(after=3 * HOUR, error="x\x00" * 3_000), kind=kind(Handler()))
    (row,) = await live(pool)
    assert row["last_error"] == "x" * 2_000
    assert row["wake_at"] == row["expires_at"]


async def test_what_commits_late_is_not_hidden_behind_what_was_claimed_before(pool: Any) -> None:
    gate, watcher = Gate(), Watcher()
    async with pool.acquire() as slow, Loop(pool, [kind(gate)], lanes={Lane.CONTROL: 2}, observer=watcher):
        late = slow.transaction()
        await late.start()
        await due.put(slow, [Put(KIND, "late")])
        await put(pool, Put(KIND, "a"), Put(KIND, "b"))
        await gate.entered_by(2)
        await late.commit()
        gate.opened.set()
        await watcher.wait_until(lambda: len(watcher.fates) == 3)


async def test_a_drain_sees_what_a_handler_puts_before_the_moments_it_has_reached(pool: Any) -> None:
    async def handle(item: Item) -> due.Fate:
        if item.key.startswith("far"):
            await put(pool, Put(KIND, f"near/{item.key}"))
        return due.DONE

    at = await now(pool)
    await put(pool, Put(KIND, "far/1", at + HOUR), Put(KIND, "far/2", at + 2 * HOUR))
    count = await due.drain(pool, [kind(handle)], until=at + 3 * HOUR, lanes={Lane.CONTROL: 2})
    assert count == 4
    assert await live(pool) == []


async def test_no_claim_takes_more_than_its_slots_nor_more_than_a_thousand(pool: Any) -> None:
    sizes: list[int] = []

    async def handle(items: Any) -> list[due.Fate]:
        sizes.append(len(items))
        return [due.DONE] * len(items)

    await put(pool, *(Put(KIND, str(n)) for n in range(2_500)))
    await due.drain(pool, [kind(handle, batch=True)], lanes={Lane.CONTROL: 5_000})
    assert sizes == [BATCH, BATCH, 500]


async def test_no_transaction_is_open_while_a_handler_runs(pool: Any) -> None:
    gate = Gate()
    await put(pool, Put(KIND, "1"))
    async with Loop(pool, [kind(gate)]):
        await gate.entered.wait()
        async with asyncio.timeout(PATIENCE):
            while await pool.fetchval(
                """SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"""
            ):
                await asyncio.sleep(0.02)
        gate.opened.set()


async def test_who_finished_in_a_transaction_and_is_slow_to_say_so_is_not_called_lost(pool: Any) -> None:
    settled, opened = asyncio.Event(), asyncio.Event()

    async def handle(item: Item) -> due.Fate:
        async with transaction(pool) as tx:
            fate = await due.done_in(tx, item)
        settled.set()
        await opened.wait()
        return fate

    watcher = Watcher()
    await put(pool, Put(KIND, "1"))
    async with Loop(pool, [kind(handle)], observer=watcher) as loop:
        await settled.wait()
        await loop._extend(pool)
        opened.set()
        await until(lambda: asyncio.sleep(0, not any(state.running for state in loop.state())))
        loop._give_up()
    assert watcher.late_results == []


async def test_a_handler_that_holds_its_row_keeps_no_lease_of_another_from_being_kept(pool: Any) -> None:
    gate, settled = Gate(), asyncio.Event()

    async def handle(item: Item) -> due.Fate:
        if item.key == "neighbour":
            return await gate(item)
        async with transaction(pool) as tx:
            fate = await due.done_in(tx, item)
            settled.set()
            await gate.opened.wait()
        return fate

    await put(pool, Put(KIND, "holds its row"), Put(KIND, "neighbour"))
    async with Loop(pool, [kind(handle)]) as loop:
        await settled.wait()
        await gate.entered.wait()
        before = await pool.fetchval("SELECT lease_until FROM due.due WHERE key = 'neighbour'")
        await loop._extend(pool)
        assert await pool.fetchval("SELECT lease_until FROM due.due WHERE key = 'neighbour'") > before
        loop._give_up()
        assert sum(state.running for state in loop.state()) == 2
        gate.opened.set()
    assert sorted(await ended(pool)) == [("holds its row", "done", None), ("neighbour", "done", None)]


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_result_whose_row_somebody_holds_keeps_no_other_item_waiting(pool: Any, cancelled: bool) -> None:
    gate, watcher = Gate(), Watcher()
    await put(pool, Put(KIND, "held"))
    async with Loop(pool, [kind(gate)], lanes={due.Lane.CONTROL: 5}, observer=watcher):
        await gate.entered.wait()
        with suppress(KeyError):
            async with transaction(pool) as tx:
                await due.cancel(tx, KIND, ["held"])
                gate.opened.set()
                await put(pool, Put(KIND, "first"), Put(KIND, "second"))
                await watcher.wait_until(lambda: len(watcher.fates) == 2)
                assert sorted(watcher.fates) == [("first", "done"), ("second", "done")]
                if not cancelled:
                    raise KeyError
        await watcher.wait_until(lambda: watcher.late_results or len(watcher.fates) == 3)
    assert ("held", "cancelled" if cancelled else "done") in [(key, fate) for key, fate, _ in await ended(pool)]
    assert (len(watcher.late_results), len(watcher.fates)) == ((1, 2) if cancelled else (0, 3))


async def test_of_a_batch_that_lost_one_lease_the_others_are_done_and_the_one_counts_as_lost_once(pool: Any) -> None:
    entered, opened = asyncio.Event(), asyncio.Event()

    async def handle(items: Any) -> list[due.Fate]:
        entered.set()
        await opened.wait()
        return [due.DONE] * len(items)

    watcher = Watcher()
    await put(pool, *(Put(KIND, key) for key in "abc"))
    async with Nimble(pool, [kind(handle, batch=True)], observer=watcher) as loop:
        await entered.wait()
        async with transaction(pool) as tx:
            await due.cancel(tx, KIND, ["b"])
        before = await pool.fetchval("SELECT max(lease_until) FROM due.due")
        loop.extend()
        async with asyncio.timeout(PATIENCE):
            while await pool.fetchval("SELECT max(lease_until) FROM due.due") <= before:
                await asyncio.sleep(0.02)
        opened.set()
        await watcher.wait_until(lambda: watcher.fates and watcher.late_results)
    assert sorted(watcher.fates) == [("a", "done"), ("c", "done")]
    assert len(watcher.late_results) == 1


async def test_a_slot_that_another_lane_frees_is_found_without_a_bell(pool: Any) -> None:
    few, gate, watcher = due.Slots("few", 1), Gate(), Watcher()
    handler = Handler()
    kinds = [kind(gate, slots=few), kind(handler, "test.other", slots=few)]
    await put(pool, Put(KIND, "1", lane=Lane.BULK))
    async with Loop(pool, kinds, lanes={Lane.CONTROL: 1, Lane.BULK: 1}, observer=watcher):
        await gate.entered.wait()
        await put(pool, Put("test.other", "2", lane=Lane.CONTROL))
        gate.opened.set()
        await handler.wait_for(1)
