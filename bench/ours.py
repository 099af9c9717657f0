"""The queue as a program uses it: install, put, and a loop over kinds whose handlers do nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from time import perf_counter
from typing import Any

import asyncpg

from soonish import due
from soonish.due import Again, Fate, Item, Kind, Lane, Put

KIND = "bench.nothing"
SLOTS = {Lane.BULK: 2_000}  # SOONISH_LANE_BULK; room for two claims of 1000
LATER = Again(after=timedelta(hours=6))
EACH = 20  # one item of so many is put back instead of finished
CALL = 50_000
TIMEOUT = 120.0


async def nothing(item: Item) -> Fate:
    """A handler an item."""
    return due.DONE if item[0] % EACH else LATER


async def nothings(items: Sequence[Item]) -> Sequence[Fate]:
    """The same for a whole batch."""
    return [due.DONE if item[0] % EACH else LATER for item in items]


def kind(*, batch: bool = False, handler: Any = None) -> Kind:
    return Kind(KIND, handler or (nothings if batch else nothing), Lane.BULK, batch=batch)


class Counter(due.Observer):
    """Counts what is written. A rate is taken between the first and the last write, so a start costs nothing."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.count = 0
        self.later = 0
        self.first = 0
        self.began = self.ended = 0.0
        self.lost_results = 0
        self.reached = asyncio.Event()

    def finished(self, lane: str, results: Sequence[Any]) -> None:
        super().finished(lane, results)
        self.ended = perf_counter()
        self.count += len(results)
        self.later += sum(result.fate == "held" for result in results)
        if not self.began:
            self.began, self.first = self.ended, self.count
        if self.count >= self.wanted:
            self.reached.set()

    def lost(self, items: Sequence[Item]) -> None:
        self.lost_results += len(items)

    @property
    def rate(self) -> float:
        return (self.count - self.first) / (self.ended - self.began)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a database with the due tables, as another program would have it."""
    async with asyncpg.create_pool(url, min_size=0, max_size=10) as pool:
        await due.install(pool)
        yield pool


class Filler:
    """Puts items with keys that were never used before."""

    def __init__(self, transaction: Callable[[], Any]) -> None:
        self._transaction = transaction
        self._next = 0

    async def put(self, count: int, at: datetime | None = None, spread: timedelta = timedelta()) -> None:
        """All at one moment, or evenly over a span from it on; due now if there is none."""
        for start in range(0, count, CALL):
            numbers = range(self._next + start, self._next + min(start + CALL, count))
            items = [
                Put(KIND, f"{n:09}", at and at + spread * ((n - self._next) / count), {"n": n}, Lane.BULK)
                for n in numbers
            ]
            async with self._transaction() as tx:
                await due.put(tx, items)
        self._next += count

    async def top_up(self, pending: int) -> None:
        """Make up for what was worked, so that so many are due again."""
        async with self._transaction() as tx:
            due_now = await tx.fetchval("SELECT count(*) FROM due.due WHERE wake_at <= now()")
        await self.put(max(0, pending - due_now))


def filler(pool: asyncpg.Pool) -> Filler:
    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        async with pool.acquire() as tx, tx.transaction():
            yield tx

    return Filler(transaction)


async def work(
    pool: Any, count: int, *, batch: bool, slots: dict[Lane, int] | None = None, **more: Any
) -> tuple[float, float]:
    """Items a second, claimed, handled and written, and the share of them that was put back.

    Raises if a result was lost, or if the history did not grow by as many as were done.
    """
    counter = Counter(count)
    before = await _done(pool)
    async with (
        due.Loop(pool, [kind(batch=batch)], lanes=slots or SLOTS, observer=counter, **more),
        asyncio.timeout(TIMEOUT),
    ):
        await counter.reached.wait()
    grown = await _done(pool) - before
    if counter.lost_results or grown != counter.count - counter.later:
        raise AssertionError(f"{counter.lost_results} lost, {grown} in history of {counter.count - counter.later}")
    return counter.rate, counter.later / counter.count


async def _done(pool: Any) -> int:
    count: int = await pool.fetchval("SELECT count(*) FROM due.due_past")
    return count
