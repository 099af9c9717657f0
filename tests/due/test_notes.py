"""What happens to an item and is no try is noted: its moves, and pauses that kept it. Nothing else is."""

import json
from datetime import timedelta
from typing import Any

import pytest

from soonish import due
from soonish.due import Fate, Item, Put, queue
from soonish.due.model import SETTLED, Settled
from tests.support.due import KIND, Handler, kind, live, now, put, transaction


async def notes(pool: Any) -> list[Any]:
    """Those of the one item, alive or ended."""
    [text] = await pool.fetch("SELECT notes FROM due.due UNION ALL SELECT notes FROM due.due_history")
    return json.loads(text["notes"] or "[]")  # type: ignore[no-any-return]


async def ends_done(pool: Any) -> None:
    await due.drain(pool, [kind(Handler())])


async def ends_dead(pool: Any) -> None:
    await due.drain(pool, [kind(Handler(RuntimeError("no")), tries=1)])


async def ends_dropped(pool: Any) -> None:
    await due.drain(pool, [kind(Handler(due.Drop("old")))])


async def ends_by_its_handler(pool: Any) -> None:
    async def work(item: Item) -> Fate:
        async with transaction(pool) as tx:
            return await queue.done_in(tx, item)

    await due.drain(pool, [kind(work)])


async def ends_settled(pool: Any) -> None:
    async def work(item: Item) -> Fate:
        async with transaction(pool) as tx:
            await queue.settle(tx, [Settled(item)])
        return SETTLED

    await due.drain(pool, [kind(work)])


async def ends_settled_dead(pool: Any) -> None:
    async def work(item: Item) -> Fate:
        async with transaction(pool) as tx:
            await queue.settle(tx, [Settled(item, "dead", error="no")])
        return SETTLED

    await due.drain(pool, [kind(work)])


async def ends_cancelled(pool: Any) -> None:
    async with transaction(pool) as tx:
        await due.cancel(tx, KIND, ["1"])


async def ends_cancelled_by_id(pool: Any) -> None:
    [row] = await live(pool)
    async with transaction(pool) as tx:
        await queue.cancel_id(tx, row["id"], reason="no")


async def ends_unplanned(pool: Any) -> None:
    async with transaction(pool) as tx:
        await queue.replan(tx, KIND, "", [])


ENDS = [
    ends_done, ends_dead, ends_dropped, ends_by_its_handler, ends_settled, ends_settled_dead, ends_cancelled,
    ends_cancelled_by_id, ends_unplanned,
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
async def test_a_move_is_noted_with_both_moments_and_the_fence_and_outlives_the_item(pool: Any, end: Any) -> None:
    moment = await now(pool) + timedelta(hours=1)
    await put(pool, Put(KIND, "1", moment))
    assert await notes(pool) == []
    await put(pool, Put(KIND, "1", moment))
    assert await notes(pool) == []
    await put(pool, Put(KIND, "1"))
    await end(pool)
    assert await live(pool) == []
    [note] = await notes(pool)
    assert (note["what"], note["fence"]) == ("moved", 1)
    assert note["from"].startswith(moment.isoformat()[:19])


async def test_the_last_twenty_notes_are_kept(pool: Any) -> None:
    start = await now(pool)
    for hour in range(25):
        await put(pool, Put(KIND, "1", start + timedelta(hours=hour + 1)))
    assert [note["fence"] for note in await notes(pool)] == list(range(5, 25))


async def test_a_pause_is_noted_by_what_would_have_happened_meanwhile(pool: Any) -> None:
    await due.pause(pool, KIND, reason="storm")
    await put(pool, Put(KIND, "1"))
    await due.resume(pool, KIND)
    [note] = await notes(pool)
    assert (note["what"], note["kind"], note["why"]) == ("paused", KIND, "storm")
    assert note["at"] <= note["until"]
    await put(pool, Put(KIND, "1", await now(pool) + timedelta(hours=1)))
    await due.pause(pool, KIND)
    await due.resume(pool, KIND)
    assert [note["what"] for note in await notes(pool)] == ["paused", "moved"]
