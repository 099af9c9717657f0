"""A running loop: it wakes when something is due, never early, and nothing that goes wrong ends it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from soonish import due
from soonish.due import Item, Lane, Late, Loop, Put, Slots
from soonish.due.loop.lane import TURN_TIMEOUT
from tests.support.due import (
    KIND,
    PATIENCE,
    Gate,
    Handler,
    Nimble,
    Watcher,
    ended,
    kind,
    live,
    now,
    put,
    transaction,
    until,
)

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


async def test_an_idle_loop_with_many_far_items_serves_what_is_due_now_at_once(pool: Any) -> None:
    at = await now(pool) + timedelta(days=3)
    handler, watcher = Handler(), Watcher()
    async with Loop(pool, [kind(handler)], observer=watcher):
        await put(pool, *(Put(KIND, f"far/{n}", at) for n in range(5_000)))
        assert "bell" not in watcher.wakes
        await put(pool, Put(KIND, "now"))
        await handler.wait_for(1)
    assert handler.keys == ["now"]
    assert watcher.wakes.count("bell") >= 1


async def test_an_item_fires_at_its_moment_and_never_before(pool: Any) -> None:
    at = await now(pool) + 0.4 * SECOND
    handler = Handler()
    async with Loop(pool, [kind(handler)]):
        await put(pool, *(Put(KIND, str(n), at + n * timedelta(milliseconds=20)) for n in range(10)))
        await handler.wait_for(10)
    assert all(0 <= item.late < PATIENCE for item in handler.seen)
    assert sorted(handler.keys) == [str(n) for n in range(10)]


async def test_an_item_moved_nearer_fires_at_its_new_moment(pool: Any) -> None:
    at = await now(pool)
    handler = Handler()
    async with Loop(pool, [kind(handler)]):
        await put(pool, Put(KIND, "1", at + 40 * SECOND))
        await put(pool, Put(KIND, "1", at + 0.3 * SECOND))
        await handler.wait_for(1)
    assert handler.seen[0].due_at == at + 0.3 * SECOND
    assert handler.seen[0].late >= 0


async def test_an_item_moved_away_does_not_fire_at_its_old_moment(pool: Any) -> None:
    handler = Handler()
    async with Loop(pool, [kind(handler)]):
        for key, span in (("1", 0.2), ("2", 2.0), ("3", PATIENCE / 2)):
            at = await now(pool)
            await put(pool, Put(KIND, key, at + span * SECOND))
            await put(pool, Put(KIND, key, at + HOUR), Put(KIND, f"after {key}", at + 1.2 * span * SECOND))
            if await now(pool) < at + span * SECOND:  # or else it was moved too late, by a machine that is so slow
                break
        await until(lambda: asyncio.sleep(0, f"after {key}" in handler.keys))
    assert key not in handler.keys


async def test_an_item_moved_while_it_is_worked_fires_again_and_the_old_result_is_lost(pool: Any) -> None:
    gate, watcher = Gate(), Watcher()
    async with Loop(pool, [kind(gate)], observer=watcher):
        await put(pool, Put(KIND, "1"))
        await gate.entered.wait()
        gate.entered.clear()
        await put(pool, Put(KIND, "1", payload={"moved": True}))
        await gate.entered.wait()
        gate.opened.set()
        await watcher.wait_until(lambda: watcher.late_results and watcher.fates)
    assert watcher.fates == [("1", "done")]
    (row,) = await pool.fetch("SELECT payload FROM due.due_past")
    assert row["payload"] == '{"moved": true}'


async def test_an_again_fires_without_any_bell(pool: Any) -> None:
    handler = Handler(due.Again(after=0.2), due.DONE)
    await put(pool, Put(KIND, "1"))
    async with Loop(pool, [kind(handler)]):
        await handler.wait_for(2)


async def test_a_lane_full_of_slow_items_delays_no_other_lane(pool: Any) -> None:
    gate, quick = Gate(), Handler()
    kinds = [kind(gate, lane=Lane.BULK), kind(quick, "test.quick", lane=Lane.PEOPLE)]
    await put(pool, *(Put(KIND, str(n)) for n in range(50)))
    async with Loop(pool, kinds, lanes={Lane.PEOPLE: 2, Lane.BULK: 4}) as loop:
        await gate.entered.wait()
        await put(pool, Put("test.quick", "1"))
        await quick.wait_for(1)
        assert {state.name: state.running for state in loop.state()}["bulk"] == 4
        gate.opened.set()


async def test_kinds_with_slots_of_their_own_keep_to_them_and_take_none_of_the_lane(pool: Any) -> None:
    running: set[str] = set()
    most = 0
    gate = asyncio.Event()
    enough = asyncio.Event()

    async def look(item: Item) -> due.Fate:
        nonlocal most
        running.add(item.key)
        most = max(most, len(running))
        if most >= 3:
            enough.set()
        await gate.wait()
        running.discard(item.key)
        return due.DONE

    few, quick, watcher = Slots("looks", 3), Handler(), Watcher()
    kinds = [kind(look, slots=few), kind(look, "test.again", slots=few), kind(quick, "test.quick")]
    await put(pool, *(Put(KIND, str(n)) for n in range(10)), *(Put("test.again", f"a{n}") for n in range(10)))
    async with Loop(pool, kinds, lanes={Lane.CONTROL: 1, Lane.BULK: 1}, observer=watcher) as loop:
        await enough.wait()
        await put(pool, Put("test.quick", "1"))
        await quick.wait_for(1)
        assert sum(state.running for state in loop.state() if state.name == "looks") == 3
        gate.set()
        await watcher.wait_until(lambda: len(watcher.fates) == 21)
    assert most == 3


async def test_unknown_kinds_stay_untouched_and_are_counted(pool: Any) -> None:
    watcher = Watcher()
    await put(pool, Put("other.thing", "1"), Put("other.thing", "2"))
    async with Loop(pool, [kind(Handler())], observer=watcher):
        await watcher.wait_until(lambda: watcher.unknown_kinds)
    assert watcher.unknown_kinds == {"other.thing": 2}
    assert [row["attempts"] for row in await live(pool)] == [0, 0]


async def test_a_lease_is_kept_while_its_handler_works(pool: Any) -> None:
    gate, watcher = Gate(), Watcher()
    await put(pool, Put(KIND, "1"))
    async with Nimble(pool, [kind(gate)], observer=watcher) as loop:
        await gate.entered.wait()
        before = (await live(pool))[0]["lease_until"]
        loop.extend()
        async with asyncio.timeout(PATIENCE):
            while (await live(pool))[0]["lease_until"] <= before:
                await asyncio.sleep(0.02)
        gate.opened.set()
        await watcher.wait_until(lambda: watcher.fates)
    assert await pool.fetchval("SELECT attempts FROM due.due_past") == 1


async def test_a_handler_whose_lease_is_lost_is_cancelled_and_writes_nothing(pool: Any) -> None:
    gate, watcher = Gate(), Watcher()
    await put(pool, Put(KIND, "1"))
    async with Nimble(pool, [kind(gate)], observer=watcher) as loop:
        await gate.entered.wait()
        async with transaction(pool) as tx:
            await due.cancel(tx, KIND, ["1"])
        loop.extend()
        await watcher.wait_until(lambda: watcher.late_results)
    assert gate.cancelled == 1
    assert await ended(pool) == [("1", "cancelled", "cancelled")]


async def test_an_expired_lease_is_simply_due_again_and_says_that_its_holder_vanished(pool: Any) -> None:
    handler = Handler()
    await put(pool, Put(KIND, "1"))
    await pool.execute("UPDATE due.due SET attempts = 1, first_at = now(), lease_until = now() + interval '0.3 s'")
    async with Loop(pool, [kind(handler)]):
        await handler.wait_for(1)
    (item,) = handler.seen
    assert (item.interrupted, item.attempts, item.tries) == (True, 2, 2)


async def test_a_stop_lets_handlers_finish_and_writes_their_results(pool: Any) -> None:
    gate = Gate()
    await put(pool, Put(KIND, "1"))
    loop = Loop(pool, [kind(gate)])
    await loop.start()
    await gate.entered.wait()
    stopping = asyncio.create_task(loop.stop())
    gate.opened.set()
    await stopping
    assert await ended(pool) == [("1", "done", None)]


async def test_a_stop_gives_back_what_does_not_finish_and_spares_its_try(pool: Any) -> None:
    gate, handler = Gate(), Handler()
    await put(pool, Put(KIND, "1"), Put(KIND, "2"))
    loop = Loop(pool, [kind(gate)])
    await loop.start()
    await gate.entered_by(2)
    await loop.stop(patience=0.1)
    assert [(row["lease_until"], row["attempts"], row["spared"]) for row in await live(pool)] == [(None, 1, 1)] * 2
    assert gate.cancelled == 2
    await due.drain(pool, [kind(handler, tries=1)])
    assert [item.tries for item in handler.seen] == [1, 1]


async def test_items_put_while_it_starts_are_not_missed(pool: Any) -> None:
    for turn in range(20):
        handler = Handler()
        async with Loop(pool, [kind(handler)]):
            await put(pool, Put(KIND, str(turn)))
            await handler.wait_for(1)


async def test_a_connection_that_the_server_ends_is_replaced_and_nothing_is_missed(pool: Any) -> None:
    handler, watcher = Handler(), Watcher()
    async with Loop(pool, [kind(handler)], observer=watcher) as loop:
        await put(pool, Put(KIND, "before"))
        await handler.wait_for(1)
        await pool.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()"""
        )
        await put(pool, Put(KIND, "after"))
        await handler.wait_for(2)
        await loop.listener.wait_up()
        await put(pool, Put(KIND, "then"))
        await handler.wait_for(3)
    assert handler.keys == ["before", "after", "then"]
    assert loop.listener.reconnects >= 1


async def test_a_database_that_restarts_while_idle_is_found_again_without_a_request(own_postgres: Any) -> None:
    import asyncpg

    url = await own_postgres.create("restarted")
    async with asyncpg.create_pool(url, min_size=0) as pool:
        await due.install(pool)
        handler = Handler()
        async with Loop(pool, [kind(handler)]) as loop:
            await put(pool, Put(KIND, "1", await now(pool) + 0.5 * SECOND))
            await asyncio.to_thread(own_postgres.halt)
            await asyncio.to_thread(own_postgres.resume)
            await handler.wait_for(1)
            await until(lambda: asyncio.sleep(0, loop.listener.reconnects >= 1))
        assert handler.seen[0].late >= 0


async def test_results_that_meet_a_dead_database_are_written_when_it_is_back(own_postgres: Any) -> None:
    import asyncpg

    url = await own_postgres.create("restarted")
    async with asyncpg.create_pool(url, min_size=0) as pool:
        await due.install(pool)
        gate, watcher = Gate(), Watcher()
        await put(pool, Put(KIND, "1"))
        async with Loop(pool, [kind(gate)], observer=watcher):
            await gate.entered.wait()
            await asyncio.to_thread(own_postgres.halt)
            gate.opened.set()
            await asyncio.to_thread(own_postgres.resume)
            await watcher.wait_until(lambda: watcher.fates, seconds=20)
        assert await ended(pool) == [("1", "done", None)]


async def test_claims_stop_while_the_gate_says_no(pool: Any) -> None:
    handler = Handler()
    allowed = False
    await put(pool, Put(KIND, "1"))
    async with Loop(pool, [kind(handler)], may_claim=lambda: allowed) as loop:
        loop.wake()
        await asyncio.sleep(0.1)
        assert handler.seen == []
        allowed = True
        await handler.wait_for(1)


async def test_items_of_a_refused_workspace_are_dropped_with_the_reason(pool: Any) -> None:
    async with transaction(pool) as tx:
        await due.put(tx, [Put(KIND, "1")], workspace_id=7)
        await due.put(tx, [Put(KIND, "2")], workspace_id=8)
    watcher = Watcher()
    handler = Handler()
    refuse = {7: "workspace_closed"}
    async with Loop(pool, [kind(handler)], observer=watcher, refuse=lambda item: refuse.get(item.workspace_id)):
        await watcher.wait_until(lambda: len(watcher.fates) == 2)
    assert sorted(await ended(pool)) == [("1", "dropped", "workspace_closed"), ("2", "done", None)]


async def test_a_loop_whose_turns_all_fail_is_silent(pool: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with Loop(pool, [kind(Handler())], lanes={Lane.CONTROL: 1}) as loop:
        await pool.execute("ALTER TABLE due.due RENAME TO elsewhere")
        for failures in (1, 2):  # with the first one, no turn of before is still under way
            loop.wake()
            await until(lambda: asyncio.sleep(0, caplog.text.count("due.turn_failed") >= failures))  # noqa: B023
            if failures == 1:
                loop._lanes[0].last_turn -= 100
        assert loop.state()[0].last_turn_s >= 100
        await pool.execute("ALTER TABLE due.elsewhere RENAME TO due")
        await until(lambda: asyncio.sleep(0, loop.state()[0].last_turn_s < 100))


async def test_the_start_reports_what_is_overdue(pool: Any) -> None:
    at = await now(pool) - HOUR
    await put(pool, *(Put("other.thing", str(n), at + n * SECOND) for n in range(120)))
    async with Loop(pool, [kind(Handler())]) as loop:
        report = loop.recovery
    assert (report["count"], report["control"], report["people"]) == (120, 120, 0)
    assert (report["oldest"], report["newest"]) == (at, at + 119 * SECOND)


async def test_two_loops_never_hold_one_item(pool: Any) -> None:
    first, second = Handler(), Handler()
    await put(pool, *(Put(KIND, str(n)) for n in range(1_000)))
    one, two = Loop(pool, [kind(first)]), Loop(pool, [kind(second)])
    async with one, two, asyncio.timeout(60):
        while len(first.seen) + len(second.seen) < 1_000:
            await asyncio.sleep(0.01)
    keys = first.keys + second.keys
    assert sorted(keys) == sorted(map(str, range(1_000)))


async def test_a_burst_far_larger_than_the_slots_is_worked_whole(pool: Any) -> None:
    watcher = Watcher()
    await put(pool, *(Put(KIND, str(n)) for n in range(3_000)))
    async with Loop(pool, [kind(Handler())], lanes={Lane.CONTROL: 7}, observer=watcher):
        await watcher.wait_until(lambda: len(watcher.fates) == 3_000, seconds=60)
    assert await live(pool) == []


async def test_items_that_are_dropped_unseen_do_not_stop_the_flow(pool: Any) -> None:
    watcher = Watcher()
    past = await now(pool) - HOUR
    await put(pool, *(Put(KIND, str(n), past) for n in range(200)))
    async with Loop(pool, [kind(Handler(), late=Late.skip())], lanes={Lane.CONTROL: 10}, observer=watcher):
        await watcher.wait_until(lambda: len(watcher.fates) == 200)
    assert {fate for _, fate in watcher.fates} == {"dropped"}


async def test_a_handler_error_that_is_not_an_exception_does_not_end_the_loop(pool: Any) -> None:
    handler = Handler()

    async def cancels_itself(item: Item) -> due.Fate:
        raise asyncio.CancelledError

    await put(pool, Put(KIND, "1"))
    async with Loop(pool, [kind(cancels_itself), kind(handler, "test.fine")]):
        await put(pool, Put("test.fine", "1"))
        await handler.wait_for(1)


def test_a_turn_is_given_up_before_the_lease_of_its_items_runs_out() -> None:
    assert TURN_TIMEOUT < 60


@pytest.mark.parametrize("batch", [False, True])
async def test_a_batch_that_runs_too_long_is_cancelled_as_a_failed_try(pool: Any, batch: bool) -> None:
    never = asyncio.Event()

    async def hang(_work: Any) -> Any:
        await never.wait()

    watcher = Watcher()
    await put(pool, Put(KIND, "1"), Put(KIND, "2"))
    declared = kind(hang, batch=batch, run_limit=0.3 * SECOND, first=HOUR)
    async with Loop(pool, [declared], observer=watcher):
        await watcher.wait_until(lambda: len(watcher.fates) == 2)
    assert {fate for _, fate in watcher.fates} == {"again"}
    assert {row["last_error"] for row in await live(pool)} == {"run_limit"}
