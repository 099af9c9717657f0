"""Workers that crash at the worst points, are paused for too long, or are many: nothing lost, nothing doubled."""

import asyncio
import random
import signal
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from soonish.due import Put
from tests.support.due import put, until
from tests.support.worker import BATCH, EACH, HANDLED, Worker

CRASHES = 12
Start = Callable[..., Worker]
Say = Callable[..., None]


async def tally(pool: Any) -> dict[str, int]:
    """What was asked for, what became of it, and how often it was worked."""
    row = await pool.fetchrow(
        """SELECT (SELECT count(*) FROM asked) AS asked, (SELECT count(*) FROM due.due) AS live,
             (SELECT count(*) FROM due.due_past) AS done, (SELECT count(*) FROM due.due_undone) AS undone,
             (SELECT count(*) FROM asked a WHERE (SELECT count(*) FROM due.due_history h
                WHERE (h.kind, h.key) = (a.kind, a.key)) <> 1) AS without_one_record,
             (SELECT count(*) FROM handled WHERE kind = $1) AS each_effects,
             (SELECT count(DISTINCT key) FROM handled WHERE kind = $1) AS each_keys,
             (SELECT count(*) FROM handled WHERE kind = $2) AS batch_effects,
             (SELECT count(DISTINCT key) FROM handled WHERE kind = $2) AS batch_keys,
             (SELECT count(*) FROM handled WHERE interrupted) AS interrupted""",
        EACH,
        BATCH,
    )
    return dict(row)


async def ask(pool: Any, each: int, batch: int) -> None:
    """Put so many of both kinds, due now, and remember them apart."""
    await pool.execute(HANDLED)
    await put(pool, *(Put(EACH, str(n)) for n in range(each)), *(Put(BATCH, str(n)) for n in range(batch)))
    await pool.execute("CREATE TABLE asked AS SELECT kind, key FROM due.due")
    await pool.execute("CREATE INDEX ON due.due_past (kind, key)")


async def all_done(pool: Any) -> bool:
    return not await pool.fetchval("SELECT EXISTS (SELECT FROM due.due)")


def nothing_lost(counts: dict[str, int], each: int, batch: int) -> None:
    assert (counts["live"], counts["undone"], counts["done"]) == (0, 0, each + batch)
    assert counts["without_one_record"] == 0
    assert (counts["each_keys"], counts["each_effects"]) == (each, each)
    assert counts["batch_keys"] == batch


@pytest.mark.parametrize("point", ["due.claimed", "due.before_finish"])
async def test_a_worker_that_crashes_at_a_named_point_again_and_again_loses_nothing(
    pool: Any, start: Start, say: Say, point: str
) -> None:
    await ask(pool, 1_000, 1_000)
    crashes = 0
    while crashes < CRASHES and not await all_done(pool):
        worker = start(lease=1, slots=40, failpoints=f"{point}=exit@{random.randint(1, 4)}")
        assert await asyncio.to_thread(worker.wait, 60) == 137
        crashes += 1
    assert crashes >= CRASHES / 2
    await asyncio.to_thread(start(lease=1).ready)
    await until(lambda: all_done(pool), seconds=120)
    counts = await tally(pool)
    say(crashes=crashes, **counts)
    nothing_lost(counts, 1_000, 1_000)
    assert counts["batch_effects"] <= 1_000 + crashes * 80


async def test_workers_that_are_paused_for_twice_their_lease_change_nothing_when_they_wake(
    pool: Any, start: Start, say: Say
) -> None:
    await ask(pool, 1_500, 1_500)
    steady = start(lease=1, hold=0.3, slots=40)
    zombies = [start(lease=1, hold=0.3, slots=40) for _ in range(2)]
    await asyncio.to_thread(lambda: [worker.ready() for worker in (steady, *zombies)])
    pauses = 0
    while not await all_done(pool):
        zombie = zombies[pauses % 2]
        zombie.send(signal.SIGSTOP)
        await asyncio.sleep(2)
        zombie.send(signal.SIGCONT)
        pauses += 1
    told = await asyncio.to_thread(lambda: [worker.stop() for worker in (steady, *zombies)])
    counts = await tally(pool)
    lost = [count["lost"] for count in told]
    say(pauses=pauses, lost=lost, **counts)
    nothing_lost(counts, 1_500, 1_500)
    assert pauses >= 2
    assert sum(lost[1:]) > 0


@pytest.mark.parametrize("workers", [2, 4, 8])
async def test_many_workers_share_fifty_thousand_items_and_handle_none_twice(
    pool: Any, start: Start, say: Say, workers: int
) -> None:
    await ask(pool, 10_000, 40_000)
    began = monotonic()
    crowd = [start(slots=250) for _ in range(workers)]
    await until(lambda: all_done(pool), seconds=600)
    seconds = monotonic() - began
    told = await asyncio.to_thread(lambda: [worker.stop() for worker in crowd])
    counts = await tally(pool)
    say(seconds=round(seconds, 1), claimed=[count["claimed"] for count in told], **counts)
    nothing_lost(counts, 10_000, 40_000)
    assert counts["batch_effects"] == 40_000
    assert counts["interrupted"] == 0
    assert sum(count["lost"] for count in told) == 0
