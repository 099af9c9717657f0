"""Several processes on one database: each item once; who is paused beyond its lease has lost it."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from soonish.due import Put
from tests.support.due import put, until
from tests.support.worker import BATCH, EACH, HANDLED, Worker


@pytest.fixture
def start(bare_url: str) -> Iterator[Callable[..., Worker]]:
    """Start workers that do not outlive the test."""
    workers: list[Worker] = []

    def one(**options: Any) -> Worker:
        workers.append(Worker(bare_url, **options))
        return workers[-1]

    yield one
    for worker in workers:
        worker.end()


async def nothing_live(pool: Any) -> bool:
    return not await pool.fetchval("SELECT count(*) FROM due.due")


async def leases_end(pool: Any) -> None:
    """As if nobody had kept them for as long as they last."""
    await pool.execute("UPDATE due.due SET lease_until = now() WHERE lease_until IS NOT NULL")


async def counts(pool: Any) -> tuple[int, int, int]:
    """Keys handled, handlings, and terminal records."""
    row = await pool.fetchrow(
        "SELECT (SELECT count(DISTINCT (kind, key)) FROM handled), (SELECT count(*) FROM handled),"
        " (SELECT count(*) FROM due.due_history)"
    )
    return tuple(row)


async def test_two_processes_share_two_thousand_items_and_each_is_worked_once(
    pool: Any, start: Callable[..., Worker]
) -> None:
    await pool.execute(HANDLED)
    workers = [start(), start()]
    await asyncio.to_thread(lambda: [worker.ready() for worker in workers])
    await put(pool, *(Put(EACH, str(n)) for n in range(1_000)), *(Put(BATCH, str(n)) for n in range(1_000)))
    await until(lambda: nothing_live(pool), seconds=60)
    assert await counts(pool) == (2_000, 2_000, 2_000)
    told = [await asyncio.to_thread(worker.stop) for worker in workers]
    assert sum(count["claimed"] for count in told) == 2_000
    assert [count["lost"] for count in told] == [0, 0]


@pytest.mark.parametrize("point", ["due.claimed", "due.before_finish"])
async def test_what_a_process_held_when_it_crashed_is_done_by_the_next_one(
    pool: Any, start: Callable[..., Worker], point: str
) -> None:
    await pool.execute(HANDLED)
    await put(pool, *(Put(EACH, str(n)) for n in range(20)), *(Put(BATCH, str(n)) for n in range(20)))
    assert await asyncio.to_thread(start(slots=15, failpoints=f"{point}=exit@2").wait, 60) == 137
    await leases_end(pool)
    start()
    await until(lambda: nothing_live(pool), seconds=60)
    keys, handlings, records = await counts(pool)
    assert (keys, records) == (40, 40)
    assert handlings <= 40 + 15
    assert await pool.fetchval("SELECT count(*) FROM handled WHERE kind = $1", EACH) == 20


async def test_what_a_process_held_when_it_was_paused_is_done_by_another_and_its_results_count_as_lost(
    pool: Any, start: Callable[..., Worker]
) -> None:
    await pool.execute(HANDLED)
    frozen = start(hold=3, slots=50)
    await asyncio.to_thread(frozen.ready)
    await put(pool, *(Put(BATCH, str(n)) for n in range(50)))
    await until(lambda: pool.fetchval("SELECT count(*) = 50 FROM handled"))
    frozen.send(signal.SIGSTOP)
    await leases_end(pool)
    other = start()
    await until(lambda: nothing_live(pool), seconds=60)
    assert await pool.fetchval("SELECT count(*) FROM handled WHERE interrupted") == 50
    assert await pool.fetchval("SELECT count(*) FROM due.due_past WHERE attempts = 2") == 50
    frozen.send(signal.SIGCONT)
    told = await asyncio.to_thread(lambda: (frozen.stop(), other.stop()))
    assert (told[0]["lost"], told[1]["lost"]) == (50, 0)
    assert await counts(pool) == (50, 100, 50)
