"""Handlers that answer what cannot be kept, raise what cannot be told, or do not end: each harms itself alone."""

import asyncio
import logging
from datetime import datetime, timedelta, timezone
from typing import Any

import asyncpg
import pytest

from soonish import due
from soonish.due import Again, Drop, Item, Loop, Put
from tests.support.due import KIND, PATIENCE, Gate, Handler, Watcher, between, ended, kind, live, put, transaction

SECOND = timedelta(seconds=1)


class Mute(Exception):
    """One that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def name(error: BaseException) -> str:
    return type(error).__name__


UNKEEPABLE = [
    Again(at=datetime(2040, 1, 1)),
    Again(at=datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))),
    Again(at="tomorrow"),  # type: ignore[arg-type]
    Again(after=float("nan")),
    Again(after=float("inf")),
    Again(after=timedelta.max),
    Again(after="soon"),  # type: ignore[arg-type]
    Again(after=-1e300, error="busy"),
]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("answer", UNKEEPABLE, ids=str)
async def test_an_answer_that_the_table_cannot_keep_is_a_failed_try_of_that_item_alone(
    pool: Any, answer: Any, batch: bool
) -> None:
    def fate(item: Item) -> Any:
        return answer if item.key == "bad" else due.DONE

    async def each(item: Item) -> due.Fate:
        return fate(item)  # type: ignore[no-any-return]

    async def all_of_them(items: Any) -> list[due.Fate]:
        return [fate(item) for item in items]

    await put(pool, *(Put(KIND, key) for key in ("a", "bad", "c")))
    async with asyncio.timeout(PATIENCE):
        await due.drain(pool, [kind(all_of_them if batch else each, batch=batch, tries=1)])
    assert sorted(await ended(pool)) == [("a", "done", None), ("bad", "dead", "budget"), ("c", "done", None)]


@pytest.mark.parametrize("error", [Mute(), asyncio.CancelledError(), ValueError("\ud800\x00")], ids=name)
async def test_an_error_of_any_sort_is_a_failed_try(pool: Any, error: BaseException) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler(error), tries=1)])
    assert await ended(pool) == [("1", "dead", "budget")]


@pytest.mark.parametrize("fate", [Drop(None), Drop("a\x00b\ud800"), Again(error=17), Again(error="x\x00")], ids=str)  # type: ignore[arg-type]
async def test_words_that_no_text_may_hold_are_kept_without_them(pool: Any, fate: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler(fate), tries=1)])
    ((_, what, _),) = await ended(pool)
    assert what == ("dropped" if isinstance(fate, Drop) else "dead")


async def test_a_redaction_that_fails_tells_nothing_and_stops_nothing(pool: Any) -> None:
    def redact(_text: str) -> str:
        raise KeyError("secret")

    await put(pool, Put(KIND, "1"))
    await Loop(pool, [kind(Handler(RuntimeError("secret")), tries=1)], redact=redact).drain()
    error = await pool.fetchval("SELECT last_error FROM due.due_undone")
    assert error == "a text that could not be told (KeyError)"


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.AdminShutdownError("x"),
        asyncpg.CrashShutdownError("x"),
        asyncpg.CannotConnectNowError("x"),
        asyncpg.TooManyConnectionsError("x"),
        asyncpg.ConnectionDoesNotExistError("x"),
    ],
    ids=name,
)
async def test_a_database_that_is_away_from_a_handler_costs_no_try(pool: Any, error: Exception) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler(error), tries=1)])
    (row,) = await live(pool)
    assert (row["attempts"], row["spared"]) == (1, 1)


async def test_a_hold_ends_with_the_deadline_of_its_item(pool: Any) -> None:
    at = await pool.fetchval("SELECT now() + interval '500 ms'")
    await put(pool, Put(KIND, "1", expires_at=at))
    await due.drain(pool, [kind(Handler(asyncpg.AdminShutdownError("away")))])
    assert await ended(pool) == [("1", "expired", None)]


async def test_without_a_budget_an_item_never_dies(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    handler = Handler(*[Again(after=0, error="busy")] * 30, due.DONE)
    await due.drain(pool, [kind(handler, tries=None)])
    assert [item.tries for item in handler.seen] == list(range(1, 32))
    assert await ended(pool) == [("1", "done", None)]


async def test_an_error_with_a_wait_of_its_own_is_a_try_that_waits_so_long(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    before, _, after = await between(pool, due.drain(pool, [kind(Handler(Again(after=100, error="busy")))]))
    (row,) = await live(pool)
    assert before + 100 * SECOND <= row["wake_at"] <= after + 100 * SECOND
    assert (row["attempts"] - row["spared"], row["last_error"]) == (1, "busy")


async def test_who_finished_in_a_transaction_and_then_raises_is_done_all_the_same(pool: Any) -> None:
    async def handle(item: Item) -> due.Fate:
        async with transaction(pool) as tx:
            await due.done_in(tx, item)
        raise RuntimeError("too late")

    watcher = Watcher()
    await put(pool, Put(KIND, "1"))
    await Loop(pool, [kind(handle)], observer=watcher).drain()
    assert await ended(pool) == [("1", "done", None)]
    assert len(watcher.late_results) == 1


async def test_a_finish_in_a_transaction_that_rolls_back_is_no_finish(pool: Any) -> None:
    async def handle(item: Item) -> due.Fate:
        async with transaction(pool) as tx:
            await due.done_in(tx, item)
            raise RuntimeError("the effect failed")

    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(handle)])
    (row,) = await live(pool)
    assert row["last_error"] == "RuntimeError: the effect failed"


async def test_of_a_batch_that_hangs_only_the_guilty_item_fails(pool: Any) -> None:
    never = asyncio.Event()

    async def handle(items: Any) -> list[due.Fate]:
        if any(item.key == "hangs" for item in items):
            await never.wait()
        return [due.DONE] * len(items)

    watcher = Watcher()
    await put(pool, *(Put(KIND, key) for key in ("a", "hangs", "c")))
    declared = kind(handle, batch=True, run_limit=0.5 * SECOND, tries=1)
    async with Loop(pool, [declared], observer=watcher) as loop:
        await watcher.wait_until(lambda: len(watcher.fates) == 3)
        assert sorted(watcher.fates) == [("a", "done"), ("c", "done"), ("hangs", "dead")]
        assert [state.running for state in loop.state()] == [0, 0, 0]
        assert [lane.room.taken for lane in loop._lanes] == [0, 0, 0]


async def test_a_handler_that_swallows_its_cancellation_holds_no_slot_and_writes_nothing(pool: Any) -> None:
    swallowed = asyncio.Event()

    async def stubborn(item: Item) -> due.Fate:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        return due.DONE

    watcher, handler = Watcher(), Handler()
    await put(pool, Put(KIND, "1"))
    kinds = [kind(stubborn, run_limit=0.3 * SECOND, tries=1), kind(handler, "test.other")]
    async with Loop(pool, kinds, lanes={due.Lane.CONTROL: 1}, observer=watcher):
        await swallowed.wait()
        await put(pool, Put("test.other", "2"))
        await handler.wait_for(1)
        await watcher.wait_until(lambda: len(watcher.fates) == 2)
    assert watcher.fates[0] == ("1", "dead")
    assert sorted(await ended(pool)) == [("1", "dead", "budget"), ("2", "done", None)]


async def test_a_victim_for_ever_is_a_hold(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler(asyncpg.DeadlockDetectedError("x")), tries=1)])
    (row,) = await live(pool)
    assert row["last_error"].startswith("Unavailable: Too many changes")


async def test_a_death_is_an_error_line_with_its_item(pool: Any, caplog: pytest.LogCaptureFixture) -> None:
    await put(pool, Put(KIND, "1"))
    (row,) = await live(pool)
    with caplog.at_level(logging.INFO, "soonish.due"):
        await due.drain(pool, [kind(Handler(RuntimeError("x")), tries=1)])
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.getMessage() == f"due.dead item={row['id']} workspace=0 kind={KIND}"


async def test_a_stop_ends_in_time_though_a_handler_swallows_its_cancellation(pool: Any) -> None:
    gate = Gate()

    async def stubborn(item: Item) -> due.Fate:
        while not gate.opened.is_set():
            try:
                await gate(item)
            except asyncio.CancelledError:
                continue
        return due.DONE

    await put(pool, Put(KIND, "1"))
    loop = Loop(pool, [kind(stubborn)])
    await loop.start()
    await gate.entered.wait()
    async with asyncio.timeout(PATIENCE):
        await loop.stop(patience=0.1)
    assert [row["lease_until"] for row in await live(pool)] == [None]
    gate.opened.set()
