"""One lane: claim what is due, hand it over, write what came of it, sleep until the next moment.

One turn is one round trip that writes the last results and takes the next items. It knows when, never what.
No transaction is open while a handler runs.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import asyncpg

from soonish import failpoints
from soonish.db.sql import Statements
from soonish.due.loop.observer import Observer
from soonish.due.loop.results import LOCK_TIMEOUT, LOOK_AGAIN, Results, columns, written
from soonish.due.loop.work import Job, Result, Stream, Work
from soonish.due.model import BELL_HORIZON, Ends, Item, Kind, Lane

_log = logging.getLogger("soonish.due")

BATCH = 1_000
LONGEST_SLEEP = BELL_HORIZON / 2  # what rings no bell lies farther away than this
SHORTEST_SLEEP = 0.001
FIRST_WAIT = 0.1  # seconds after a turn that failed, doubling to 5 s
NO_ROOM = 1.0  # another lane may free a slot that both share
WATERMARK_LIFE = 1.0  # seconds after which the front of the index is looked at again
TURN_TIMEOUT = BELL_HORIZON / 4  # so that a half-open connection costs less than a bell that nobody hears
LAST_PATIENCE = 2.0  # at a stop, for cancelled handlers, and for the last statement; for a connection's goodbye
# A plan made on an empty table must never meet a full one; and a lane must not wait for somebody's transaction.
SESSION = f"SET plan_cache_mode = force_custom_plan; SET lock_timeout = {LOCK_TIMEOUT}"


class Conditions:
    """What all lanes of a loop share."""

    def __init__(
        self,
        pool: Any,
        sql: Statements,
        kinds: dict[str, Kind],
        work: Work,
        observer: Observer,
        *,
        lease: timedelta,
        grace: timedelta,
        may_claim: Callable[[], bool] | None,
        refuse: Callable[[Item], str | None] | None,
    ) -> None:
        self.pool = pool
        self.sql = sql
        self.kinds = kinds
        self.work = work
        self.observer = observer
        self.lease = lease
        self.grace = grace
        self.may_claim = may_claim or (lambda: True)
        self.refuse = refuse
        self.extend: Callable[[Any], Awaitable[None]]  # keeps the leases of what runs in any lane; given by the loop
        self.until: datetime | None = None
        self.generation = 0  # of connections: what silenced the listener's may have silenced the older ones

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """One of the pool, given back within a while or cut: a half-open one never says goodbye."""
        con = await self.pool.acquire(timeout=TURN_TIMEOUT)
        try:
            yield con
        finally:
            await self.pool.release(con, timeout=LAST_PATIENCE)


class Room:
    """So many slots, and how many of them are in use or promised to a turn under way."""

    def __init__(self, name: str, slots: int) -> None:
        self.name = name
        self.slots = slots
        self.taken = 0

    @property
    def free(self) -> int:
        return self.slots - self.taken


class LaneLoop:
    """Works some kinds in one lane with so many slots; two turns may overlap when there is a backlog."""

    def __init__(self, lane: Lane, kinds: Iterable[str], room: Room, conditions: Conditions) -> None:
        self.lane = lane
        self.name = room.name
        self.room = room
        self.before_claim: Callable[[Any], Any] | None = None
        self.jobs: set[Job] = set()
        self.last_turn = monotonic()
        self._kinds = sorted(kinds)
        self._is = conditions
        self._results = Results(conditions.sql)
        self._wake = asyncio.Event()
        self._more = asyncio.Event()  # there is a backlog: a second turn may run beside the first
        self._stopping = False
        self._watermark: datetime | None = None
        self._watermark_at = 0.0
        self._turners: list[asyncio.Task[None]] = []

    @property
    def running(self) -> int:
        return sum(len(job.items) for job in self.jobs)

    def start(self) -> None:
        self._turners = [asyncio.create_task(self._turner(first), name=f"due-{self.name}") for first in (True, False)]

    def wake(self, reason: str = "bell") -> None:
        """Look now, whatever was planned."""
        if not self._wake.is_set():
            self._is.observer.woke(reason)
            self._wake.set()

    async def stop(self, patience: float) -> None:
        """No new claims; handlers get some time; the rest goes back untried, and open results are written."""
        self._stopping = True
        self._wake.set()
        self._more.set()
        deadline = monotonic() + patience
        await _wait(self._turners, patience)
        await _wait(self._tasks(), deadline - monotonic())
        left = [item for job in self.jobs if job.close() for item in job.items]
        for task in (*self._turners, *self._tasks()):
            task.cancel()
        await _wait((*self._turners, *self._tasks()), LAST_PATIENCE)
        async with asyncio.timeout(LAST_PATIENCE):
            await self._release(left)

    async def drain(self) -> int:
        """Work all that is due now, and what becomes due by that; answers how many items were handed over."""
        total = 0
        async with self._is.pool.acquire() as con:
            while True:
                pause = await self._turn(con)
                handed = self.running
                total += handed
                while self.jobs:
                    await _wait(self._tasks(), None)
                if pause and not handed and not self._results:
                    return total

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [job.task for job in self.jobs if job.task]

    # -- turns ---------------------------------------------------------------------------------------------------

    async def _turner(self, first: bool) -> None:
        """Turn for ever; no error ends it. The second one turns, and holds a connection, in a backlog only."""
        wait = FIRST_WAIT
        while not self._stopping:
            try:
                if not first:
                    await self._more.wait()
                generation = self._is.generation
                async with self._is.connection() as con:
                    await con.execute(SESSION, timeout=TURN_TIMEOUT)
                    if wait > FIRST_WAIT:  # the database was away: what runs here must not be taken for abandoned
                        await self._is.extend(con)
                    while not self._stopping and generation == self._is.generation:
                        pause = await self._turn(con)
                        wait = FIRST_WAIT
                        if pause and not first:
                            break
                        if pause:
                            await self._sleep(pause)
                self._more.clear()
                self._wake.set()  # the first sleeps until a moment that it knew before this turn
            except asyncio.CancelledError:
                raise
            except Exception as error:
                _log.warning("due.turn_failed lane=%s error=%s", self.name, type(error).__name__)
                self._wake.set()  # what woke this turn is still to be looked at, by whoever turns next
                await asyncio.sleep(wait)
                wait = min(wait * 2, 5.0)

    async def _turn(self, con: Any) -> float:
        """Write, claim, hand over; answers how long to sleep (0 = not at all)."""
        self._wake.clear()
        if self.before_claim:
            await self.before_claim(con)
        results = await self._results.take(con)
        room = min(BATCH, self.room.free) if self._may_claim() else 0
        if not room and not results:
            self.last_turn = monotonic()
            return NO_ROOM
        self.room.taken += room
        try:
            head, items = await self._ask(con, results, room)
        except asyncpg.LockNotAvailableError:
            await self._results.set_aside(con, results)
            return 0.0
        except BaseException:
            self._results.give_back(results)
            raise
        finally:
            self.room.taken -= room
        self.last_turn = monotonic()
        self._hand_over(items)
        self._account(results, head)
        pause = self._pause(head, full=len(items) == room) if room else NO_ROOM
        return min(pause, LOOK_AGAIN) if self._results.waits else pause

    def _pause(self, head: dict[str, Any], *, full: bool) -> float:
        """How long to sleep after a claim; a full one says that there is more."""
        if full and not self._stopping:
            self._more.set()
            return 0.0 if self.room.free else NO_ROOM
        if not self._stopping:
            self._more.clear()
        if head.get("lost") or head["partial"]:
            return 0.0  # what was moved meanwhile was kept out of this claim by its id, or lies before the watermark
        return LONGEST_SLEEP if head["next"] is None else min(max(head["next"], SHORTEST_SLEEP), LONGEST_SLEEP)

    async def _ask(self, con: Any, results: list[Result], room: int) -> tuple[dict[str, Any], list[Item]]:
        if results:
            failpoints.reach("due.before_finish")
        asked = self._parameters(room)
        turn = self._is.sql.turn if results else self._is.sql.claim
        rows = await con.fetch(
            turn.text,
            *turn.args({**asked, **columns(results)}),
            timeout=TURN_TIMEOUT,
            record_class=Item,
        )
        head = rows.pop(0)
        self._watermark = head.due_at if len(rows) == room else None
        if rows:
            failpoints.reach("due.claimed")
        return json.loads(head[7]) | {"partial": asked["watermark"] is not None}, rows

    def _parameters(self, room: int) -> dict[str, Any]:
        now = monotonic()
        if now - self._watermark_at > WATERMARK_LIFE:
            self._watermark, self._watermark_at = None, now
        return {
            "lane": int(self.lane),
            "kinds": self._kinds,
            "k": room,
            "lease": self._is.lease,
            "until": self._is.until,
            "watermark": self._watermark,
        }

    def _may_claim(self) -> bool:
        return not self._stopping and self._is.may_claim()

    async def _sleep(self, pause: float) -> None:
        try:
            async with asyncio.timeout(pause):
                await self._wake.wait()
        except TimeoutError:
            self._is.observer.woke("time")

    # -- handing over --------------------------------------------------------------------------------------------

    def _hand_over(self, items: list[Item]) -> None:
        """Start a task an item, or one for all of a batch or stream."""
        if not items:
            return
        self._is.observer.claimed(self.name, items)
        began = monotonic()
        batches: dict[tuple[str, int], list[Item]] = {}
        handed = 0
        for item in items:
            kind = self._is.kinds[item[2]]
            if result := self._prejudged(kind, item):
                self._results.add([result])
                continue
            handed += 1
            if kind.batch or kind.stream:
                batches.setdefault((kind.name, item[1]), []).append(item)
            else:
                self._begin(self._one, Job(kind, (item,), began))
        for (name, _), batch in batches.items():
            kind = self._is.kinds[name]
            if kind.stream:
                self._begin(self._stream, Stream(kind, batch, began))
            else:
                self._begin(self._batch, Job(kind, batch, began))
        self.room.taken += handed
        if handed < len(items):
            self._wake.set()

    def _prejudged(self, kind: Kind, item: Item) -> Result | None:
        """What must not reach a handler: expired, paused, refused, or too late by its policy."""
        if item[12] == "paused":
            return Result(item, "parked", spared=1, reason="unseen" if item.first else None)
        if item[12] == "expired":
            return Result(item, "expired")
        if self._is.refuse and (reason := self._is.refuse(item)):
            return Result(item, "dropped", reason=reason)
        if reason := kind.late.verdict(item[9], self._is.grace):  # again, for a first holder that vanished
            return Result(item, "dropped", reason=reason)
        return None

    def _begin(self, run: Callable[[Any], Any], job: Job) -> None:
        self.jobs.add(job)
        job.task = asyncio.create_task(run(job))

    async def _one(self, job: Job) -> None:
        results: Sequence[Result | None] = ()
        try:
            (item,) = job.items
            results = [await self._is.work.one(job.kind, item)]
        finally:
            self._end(job, results)

    async def _batch(self, job: Job) -> None:
        results: Sequence[Result | None] | None = ()
        try:
            results = await self._is.work.batch(job.kind, list(job.items))
        finally:
            if results is None:
                self._alone(job)
            else:
                self._end(job, results)

    async def _stream(self, job: Stream) -> None:
        left: Sequence[Result | None] = ()
        try:
            error = await self._is.work.stream(job.kind, list(job.items), partial(self._some_ended, job))
            left = self._is.work.ended(job.kind, [(item, error) for item in job.items])
        finally:
            self._end(job, left)

    def _some_ended(self, job: Stream, ends: Ends) -> None:
        """Their slots are free, whatever the others of the stream do."""
        mine = job.drop(ends)
        self.room.taken -= len(mine)
        self._results.add(self._is.work.ended(job.kind, mine))
        self._wake.set()

    def _alone(self, job: Job) -> None:
        """Run the items of a batch again one by one, so that the guilty one harms no other."""
        if not job.close():
            return
        self.jobs.discard(job)
        for item in job.items:
            self._begin(self._batch, Job(job.kind, (item,), monotonic()))

    def _end(self, job: Job, results: Sequence[Result | None]) -> None:
        """Take the results, unless the job was taken off before."""
        if not job.close():
            return
        self.jobs.discard(job)
        self.room.taken -= len(job.items)
        self._results.add(results)
        self._wake.set()

    def take_off(self, job: Job, error: str | None) -> None:
        """Stop waiting for a job: it ran too long (a failed try), or its lease is lost (nothing is written)."""
        if error and job.kind.batch and len(job.items) > 1:
            self._alone(job)
        else:
            self._end(job, [self._is.work.tried(job.kind, item, error) for item in job.items] if error else ())
        if job.task:
            job.task.cancel()

    # -- results -------------------------------------------------------------------------------------------------

    def _account(self, results: list[Result], head: dict[str, Any]) -> None:
        if results:
            mine, gone = written(results, head)
            if gone:
                self._is.observer.lost(gone)
            self._is.observer.finished(self.name, mine)

    async def _release(self, items: list[Item]) -> None:
        """Write what is open and give the rest back, on one connection."""
        async with self._is.connection() as con:
            if self._results:
                await self._turn(con)
            if items:
                ids, fences = [item.id for item in items], [item.attempts for item in items]
                await self._is.sql.release.row(con, ids=ids, fences=fences)


async def _wait(tasks: Iterable[asyncio.Task[None]], seconds: float | None) -> None:
    pending = [task for task in tasks if not task.done()]
    if pending:
        with suppress(TimeoutError):
            await asyncio.wait(pending, timeout=None if seconds is None else max(0.0, seconds))
