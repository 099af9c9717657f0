"""A kind that takes what was claimed as a stream: each item ends for itself."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from soonish import due
from soonish.due import Again, Drop, Lane, Loop, Put
from soonish.errors import LeaseLost, Unavailable
from tests.support.due import KIND, PATIENCE, Nimble, Watcher, ended, kind, live, put, transaction, until

SECOND = timedelta(seconds=1)


async def test_each_item_ends_for_itself_and_its_slot_is_free_while_others_run(pool: Any) -> None:
    last, streams = asyncio.Event(), []

    async def handle(items: Any, tell: Any) -> None:
        streams.append([item.key for item in items])
        for item in items:
            if item.key != "slow":
                tell([(item, due.DONE)])
        if "slow" in streams[-1]:
            await last.wait()
            tell([(item, due.DONE) for item in items if item.key == "slow"])

    await put(pool, *(Put(KIND, key) for key in ("slow", "b", "c", "d", "e")))
    watcher = Watcher()
    async with Loop(pool, [kind(handle, stream=True)], lanes={Lane.CONTROL: 2}, observer=watcher) as loop:
        await watcher.wait_until(lambda: len(watcher.fates) == 4)
        assert loop.state()[0].running == 1
        last.set()
        await watcher.wait_until(lambda: len(watcher.fates) == 5)
        await until(lambda: _is_free(loop))
    assert max(map(len, streams)) <= 2
    assert sorted(key for key, fate, _ in await ended(pool) if fate == "done") == ["b", "c", "d", "e", "slow"]


async def test_every_fate_may_be_told_and_a_second_word_counts_nothing(pool: Any) -> None:
    async def handle(items: Any, tell: Any) -> None:
        ends = {
            "done": due.DONE, "dropped": Drop("odd"), "held": Again(after=60), "tried": Again(after=60, error="busy"),
            "away": Unavailable("away"), "lost": LeaseLost(), "raised": ValueError("bad"),
        }  # fmt: skip
        tell([(item, ends[item.key]) for item in items])
        tell([(item, Drop("again")) for item in items])

    keys = ("done", "dropped", "held", "tried", "away", "lost", "raised")
    await put(pool, *(Put(KIND, key) for key in keys))
    await due.drain(pool, [kind(handle, stream=True, first=60 * SECOND)])
    assert sorted(await ended(pool)) == [("done", "done", None), ("dropped", "dropped", "odd")]
    left = {row["key"]: (row["lease_until"] is None, row["spared"], row["last_error"]) for row in await live(pool)}
    assert left == {
        "held": (True, 1, None), "tried": (True, 0, "busy"), "away": (True, 1, "Unavailable: away"),
        "lost": (False, 0, None), "raised": (True, 0, "ValueError: bad"),
    }  # fmt: skip


async def test_what_a_stream_leaves_open_failed_with_it_and_what_had_ended_did_not(pool: Any) -> None:
    async def raises(items: Any, tell: Any) -> None:
        tell([(item, due.DONE) for item in items if item.key == "a"])
        raise RuntimeError("broken")

    async def forgets(items: Any, tell: Any) -> None:
        tell([(item, due.DONE) for item in items if item.key == "a"])

    for handler, error in ((raises, "RuntimeError: broken"), (forgets, "RuntimeError: the handler did not say")):
        await put(pool, Put(KIND, "a"), Put(KIND, "b"))
        await due.drain(pool, [kind(handler, stream=True, tries=1)])
        assert sorted(await ended(pool)) == [("a", "done", None), ("b", "dead", "budget")]
        assert (await pool.fetchval("DELETE FROM due.due_undone RETURNING last_error")).startswith(error)
        await pool.execute("DELETE FROM due.due_past")


async def test_a_stream_that_hangs_costs_its_open_items_a_try_and_nothing_else(pool: Any) -> None:
    async def handle(items: Any, tell: Any) -> None:
        tell([(item, due.DONE) for item in items if item.key != "hangs"])
        await asyncio.Event().wait()

    await put(pool, Put(KIND, "a"), Put(KIND, "hangs"))
    watcher = Watcher()
    async with Loop(pool, [kind(handle, stream=True, run_limit=0.3 * SECOND, tries=1)], observer=watcher) as loop:
        await watcher.wait_until(lambda: len(watcher.fates) == 2)
        assert sorted(watcher.fates) == [("a", "done"), ("hangs", "dead")]
        await until(lambda: _is_free(loop))


async def test_a_stop_gives_back_what_is_still_open(pool: Any) -> None:
    begun = asyncio.Event()

    async def handle(items: Any, tell: Any) -> None:
        tell([(item, due.DONE) for item in items if item.key == "a"])
        begun.set()
        await asyncio.Event().wait()

    await put(pool, Put(KIND, "a"), Put(KIND, "b"))
    loop = Loop(pool, [kind(handle, stream=True)])
    await loop.start()
    await begun.wait()
    await loop.stop(patience=0.1)
    (row,) = await live(pool)
    assert (row["key"], row["lease_until"], row["attempts"], row["spared"]) == ("b", None, 1, 1)
    assert await ended(pool) == [("a", "done", None)]


async def test_open_items_keep_their_lease_and_who_lost_them_is_cancelled(pool: Any) -> None:
    cancelled, begun = asyncio.Event(), asyncio.Event()

    async def handle(items: Any, tell: Any) -> None:
        tell([(item, due.DONE) for item in items if item.key == "a"])
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await put(pool, Put(KIND, "a"), Put(KIND, "b"))
    async with Nimble(pool, [kind(handle, stream=True)]) as loop:
        await begun.wait()
        first = max(row["lease_until"] for row in await live(pool))
        loop.extend()
        await until(lambda: _later(pool, first))
        async with transaction(pool) as tx:
            await tx.execute("UPDATE due.due SET attempts = attempts + 1, lease_until = now() + interval '1 h'")
        loop.extend()
        async with asyncio.timeout(PATIENCE):
            await cancelled.wait()
        assert sum(lane.running for lane in loop.state()) == 0


async def _is_free(loop: Loop) -> bool:
    """A turn under way holds slots for what it may find."""
    return not any(lane.room.taken for lane in loop._lanes)


async def _later(pool: Any, than: Any) -> bool:
    return any(row["lease_until"] > than for row in await live(pool))


async def test_items_of_two_workspaces_are_two_streams(pool: Any) -> None:
    streams: list[list[str]] = []

    async def handle(items: Any, tell: Any) -> None:
        streams.append(sorted(item.key for item in items))
        tell([(item, due.DONE) for item in items])

    for workspace in (1, 2):
        async with transaction(pool) as tx:
            await due.put(tx, [Put(KIND, f"{workspace}{n}") for n in range(2)], workspace_id=workspace)
    await due.drain(pool, [kind(handle, stream=True)])
    assert sorted(streams) == [["10", "11"], ["20", "21"]]


def test_a_kind_is_a_batch_or_a_stream() -> None:
    with pytest.raises(ValueError, match="choose one"):
        kind(lambda items: items, batch=True, stream=True)
