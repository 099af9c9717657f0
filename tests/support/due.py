"""Words for tests of the queue: put, look, move the clock, and wait for what a handler saw."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from soonish import due
from soonish.db.sql import load
from soonish.due import Fate, Item, Kind, Put, queue
from soonish.due.loop.results import columns
from soonish.due.loop.work import Result

KIND = "test.thing"
PATIENCE = 20.0  # shorter than the sleep of a loop that heard no bell


@asynccontextmanager
async def transaction(pool: Any) -> AsyncIterator[Any]:
    async with pool.acquire() as tx, tx.transaction():
        yield tx


async def put(pool: Any, *items: Put, only_new: bool = False) -> tuple[int, int, int]:
    async with transaction(pool) as tx:
        return await due.put(tx, items, only_new=only_new)


async def now(pool: Any) -> datetime:
    moment: datetime = await pool.fetchval("SELECT clock_timestamp()")
    return moment


async def live(pool: Any) -> list[Any]:
    rows: list[Any] = await pool.fetch("SELECT * FROM due.due ORDER BY id")
    return rows


async def between(pool: Any, doing: Coroutine[Any, Any, Any]) -> tuple[datetime, Any, datetime]:
    """Do it; answers a moment before, what came of it, and a moment after, both by the clock of the database."""
    return await now(pool), await doing, await now(pool)


async def ended(pool: Any) -> list[tuple[str, str, str | None]]:
    """What became of items: key, fate, reason."""
    rows = await pool.fetch("SELECT key, fate, reason FROM due.due_history ORDER BY finished_at, id")
    return [tuple(row) for row in rows]


async def pass_time(pool: Any, span: timedelta) -> None:
    """Let so much time pass, as far as the live items can tell."""
    await pool.execute(
        """UPDATE due.due SET due_at = due_at - $1::interval, wake_at = wake_at - $1::interval,
           lease_until = lease_until - $1::interval, expires_at = expires_at - $1::interval,
           first_at = first_at - $1::interval, created_at = created_at - $1::interval""",
        span,
    )


async def turn(
    pool: Any, room: int = 10, *results: Result, lane: int = 0, lease: timedelta = timedelta(minutes=1), **more: Any
) -> tuple[dict[str, Any], list[Item]]:
    """One turn as a loop takes it: writes the results, claims so many; answers the head and the items."""
    values = {"lane": lane, "kinds": [KIND], "k": room, "lease": lease, "until": None, "watermark": None} | more
    statement = load(queue.__file__).turn if results else load(queue.__file__).claim
    head, *items = await statement.rows(pool, Item, **values, **columns(results))
    return json.loads(head[7]), items


async def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What an asynchronous condition answers, as soon as it is true."""
    async with asyncio.timeout(seconds):
        while not (answer := await condition()):
            await asyncio.sleep(0.02)
    return answer


class Handler:
    """Remembers what it was given; answers the fates it was told, the last one for ever."""

    def __init__(self, *fates: Fate | BaseException | Any) -> None:
        self.seen: list[Item] = []
        self._fates = list(fates) or [due.DONE]
        self._changed = asyncio.Condition()

    async def __call__(self, item: Item) -> Fate:
        self.seen.append(item)
        async with self._changed:
            self._changed.notify_all()
        fate = self._fates.pop(0) if len(self._fates) > 1 else self._fates[0]
        if isinstance(fate, BaseException):
            raise fate
        return fate

    @property
    def keys(self) -> list[str]:
        return [item.key for item in self.seen]

    async def wait_for(self, count: int, seconds: float = PATIENCE) -> None:
        """Until it was called so often."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: len(self.seen) >= count)


class Gate:
    """A handler that holds every item until it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.cancelled = 0
        self.keys: list[str] = []

    async def entered_by(self, count: int) -> None:
        """Until so many items stood before it."""
        async with asyncio.timeout(PATIENCE):
            while len(self.keys) < count:
                self.entered.clear()
                await self.entered.wait()

    async def __call__(self, item: Item) -> Fate:
        self.keys.append(item.key)
        self.entered.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return due.DONE


class Watcher(due.Observer):
    """An observer that keeps what it was told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.fates: list[tuple[str, str]] = []
        self.late_results: list[int] = []
        self.wakes: list[str] = []
        self.unknown_kinds: dict[str, int] = {}
        self.told = asyncio.Event()

    def woke(self, reason: str) -> None:
        self.wakes.append(reason)

    def finished(self, lane: str, results: Sequence[Any]) -> None:
        super().finished(lane, results)
        self.fates += [(result.item.key, result.fate) for result in results]
        self.told.set()

    def lost(self, items: Sequence[Item]) -> None:
        super().lost(items)
        self.late_results += [item.id for item in items]
        self.told.set()

    def unknown(self, kinds: Any) -> None:
        self.unknown_kinds = dict(kinds)
        self.told.set()

    async def wait_until(self, condition: Any, seconds: float = PATIENCE) -> None:
        """Until the condition holds, looked at whenever something was told."""
        async with asyncio.timeout(seconds):
            while not condition():
                self.told.clear()
                await self.told.wait()


class Nimble(due.Loop):
    """A loop that looks often at what runs, and extends leases when it is told, instead of after a third of their time:
    so that they are long enough for any machine."""

    def _step(self) -> float:
        return 0.02

    def extend(self) -> None:
        self._next_extension = 0.0


def kind(handler: Any, name: str = KIND, **more: Any) -> Kind:
    return Kind(name, handler, **more)
