"""Wake when something is due and hand it over: a lane loop for each lane, a bell, and a keeper of leases.

The bell is heard before the first look, so that what is put between the two is not missed. Knows when, never what:
kinds are opaque here. Needs a pool whose connections may use the due tables; nothing else.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final, NamedTuple, Self

from soonish.db.listen import Listener, cancelled
from soonish.db.sql import load
from soonish.due import queue
from soonish.due.loop.lane import TURN_TIMEOUT, Conditions, LaneLoop, Room
from soonish.due.loop.observer import Observer
from soonish.due.loop.work import Job, Work
from soonish.due.model import BELL, Item, Kind, Lane

_log = logging.getLogger("soonish.due")

SLOTS: Final[Mapping[Lane, int]] = {Lane.CONTROL: 32, Lane.PEOPLE: 256, Lane.BULK: 64}
BACKLOG_EVERY = 30.0
BACKLOG = 10_000  # items that stand aside by one statement
RECOVERY_TIMEOUT = 10.0
STOP_PATIENCE = 5.0
COUNTED = 100_000


class LaneState(NamedTuple):
    """How a lane of this process does."""

    name: str
    lane: Lane
    running: int
    slots: int
    last_turn_s: float


class Loop:
    """Works items of `kinds` in the lanes of this process, from `async with` to its end.

    `lanes` are slots by lane; `may_claim` pauses all claims while it answers no; `refuse` names the reason to drop an
    item before it is handled; `redact` makes an error fit to be kept; `connect` gives the listener's connection.
    """

    def __init__(
        self,
        pool: Any,
        kinds: Iterable[Kind],
        *,
        schema: str = "due",
        lanes: Mapping[Lane, int] = SLOTS,
        lease: timedelta = timedelta(seconds=60),
        grace: timedelta = timedelta(seconds=60),
        backlog_after: timedelta = timedelta(minutes=5),
        observer: Observer | None = None,
        may_claim: Callable[[], bool] | None = None,
        refuse: Callable[[Item], str | None] | None = None,
        redact: Callable[[str], str] = str,
        connect: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        self.observer = observer or Observer()
        self.recovery: dict[str, Any] = {}
        self._schema = schema
        self._backlog_after = backlog_after
        self._next_backlog = self._next_extension = 0.0
        self._shared = Conditions(
            pool,
            load(queue.__file__, schema),
            {kind.name: kind for kind in kinds},
            Work(redact),
            self.observer,
            lease=lease,
            grace=grace,
            may_claim=may_claim,
            refuse=refuse,
        )
        self._shared.extend = self._extend
        self._connect = connect or pool.acquire
        self._listened = False
        self.listener = Listener(self._connect_listener, None if connect else pool.release)
        self.listener.on(BELL, lambda _: self.wake("bell"))
        self.listener.on_reconnect(self._reconnected)
        self._lanes = _lane_loops(lanes, self._shared)
        for lane in self._lanes:
            if Lane.BULK in lanes and lane.lane is (Lane.PEOPLE if Lane.PEOPLE in lanes else Lane.BULK):
                lane.before_claim = self._put_backlog_aside
        self._keepers: list[asyncio.Task[None]] = []
        self._refused: list[tuple[LaneLoop, Job]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, say what is overdue, then look."""
        self._check_pool()
        await self.listener.start()
        await self._recover()
        for lane in self._lanes:
            lane.start()
        watch = [("leases", self._keep_leases, self._step()), ("look", self._look_around, BACKLOG_EVERY)]
        self._keepers = [asyncio.create_task(_for_ever(*what), name=f"due-{what[0]}") for what in watch]

    async def stop(self, patience: float = STOP_PATIENCE) -> None:
        """Take nothing new, let handlers finish for a while, give the rest back, write what is open."""
        stopped = await asyncio.gather(*(lane.stop(patience) for lane in self._lanes), return_exceptions=True)
        for error in filter(None, stopped):
            _log.warning("due.stop_incomplete error=%s", type(error).__name__)
        await cancelled(*self._keepers)
        await self.listener.stop()

    async def drain(self, until: datetime | None = None) -> int:
        """Instead of running: work all that is due now (or would be at `until`), and what becomes due by that."""
        self._shared.until = until
        total = 0
        while handled := sum([await lane.drain() for lane in self._lanes]):
            total += handled
        return total

    def wake(self, reason: str = "bell") -> None:
        """Look now, in every lane."""
        for lane in self._lanes:
            lane.wake(reason)

    def state(self) -> list[LaneState]:
        """How the lanes of this process do; those of kinds with slots of their own by their names."""
        now = monotonic()
        return [
            LaneState(lane.name, lane.lane, lane.running, lane.room.slots, now - lane.last_turn) for lane in self._lanes
        ]

    async def _connect_listener(self) -> Any:
        """A connection for the bell. What silenced the last one may have silenced them all, so none is used again."""
        if self._listened:
            await self._shared.pool.expire_connections()
        self._listened = True
        return await self._connect()

    def _reconnected(self) -> None:
        self._shared.generation += 1
        self._next_backlog = 0.0
        self.wake("connection")

    async def _recover(self) -> None:
        """Count what is overdue; only a report, so nothing that goes wrong here matters."""
        try:
            async with asyncio.timeout(RECOVERY_TIMEOUT), self._shared.connection() as con:
                self.recovery = _report(await queue.overdue(con, schema=self._schema))
            self.observer.recovered(self.recovery)
        except Exception as error:
            _log.warning("due.recovery_unknown error=%s", type(error).__name__)

    async def _put_backlog_aside(self, con: Any) -> None:
        """Before a claim: what an outage left overdue must not stand before what is on time.

        Who works bulk does it, so that nothing stands aside where nobody comes.
        """
        while monotonic() >= self._next_backlog:
            async with asyncio.timeout(TURN_TIMEOUT):
                moved = await self._shared.sql.backlog.value(con, after=self._backlog_after, k=BACKLOG)
            if moved != BACKLOG:
                self._next_backlog = monotonic() + BACKLOG_EVERY

    def _check_pool(self) -> None:
        """A lane keeps a connection; too few would leave one without, for ever and without a word."""
        need = len(self._lanes) + 2  # the listener; and whoever needs one for a moment
        if (size := self._shared.pool.get_max_size()) < need:
            raise ValueError(f"the pool has {size} connections; this loop needs {need}, and its handlers more")

    # -- keeping: leases, run limits, unfinished resumes, unknown kinds ----------------------------------------------

    def _step(self) -> float:
        """How often to look at running items: a third of the lease, and what run limits ask for."""
        limits = [kind.run_limit.total_seconds() / 4 for kind in self._shared.kinds.values()]
        return min(1.0, self._shared.lease.total_seconds() / 3, *limits)

    async def _keep_leases(self) -> None:
        self._end_overlong()
        self._give_up()
        if monotonic() >= self._next_extension:
            began, third = monotonic(), self._shared.lease.total_seconds() / 3
            if any(lane.jobs for lane in self._lanes):
                # Half of it, so that there is time for another try.
                async with asyncio.timeout(third / 2), self._shared.connection() as con:
                    await self._extend(con)
            self._next_extension = began + third

    def _end_overlong(self) -> None:
        now = monotonic()
        for lane in self._lanes:
            for job in tuple(lane.jobs):
                if now - job.began > job.kind.run_limit.total_seconds():
                    lane.take_off(job, "run_limit")

    async def _extend(self, con: Any) -> None:
        """Keep the leases of what is running; who was refused has lost the item to somebody else."""
        running = [(lane, job) for lane in self._lanes for job in lane.jobs]
        items = [item for _, job in running for item in job.items]
        if not items:
            return
        ids, fences = [item.id for item in items], [item.attempts for item in items]
        kept = await self._shared.sql.extend.rows(con, lease=self._shared.lease, ids=ids, fences=fences)
        mine = {row["id"] for row in kept}
        left = [(lane, job) for lane, job in running if job.items]  # of a stream all may have ended meanwhile
        self._refused = [(lane, job) for lane, job in left if mine.isdisjoint(item.id for item in job.items)]

    def _give_up(self) -> None:
        """Cancel handlers whose every item went to somebody else; of a batch that lost some, the results will tell.

        A moment after the refusal: who finished in a transaction of its own may have been about to say so.
        """
        for lane, job in self._refused:
            if job.open:
                self.observer.lost(list(job.items))
                lane.take_off(job, None)
        self._refused.clear()

    async def _look_around(self) -> None:
        async with asyncio.timeout(BACKLOG_EVERY), self._shared.connection() as con:
            await queue.go_on_resuming(con, schema=self._schema)
            self.observer.unknown(await queue.unknown(con, self._shared.kinds, schema=self._schema))


async def drain(
    pool: Any,
    kinds: Iterable[Kind],
    *,
    until: datetime | None = None,
    schema: str = "due",
    lanes: Mapping[Lane, int] = SLOTS,
    grace: timedelta = timedelta(seconds=60),
) -> int:
    """Work all that is due now (or would be at `until`) and what becomes due by that; answers how many were handled."""
    loop = Loop(pool, kinds, schema=schema, lanes=lanes, grace=grace)
    return await loop.drain(until)


async def _for_ever(name: str, step: Callable[[], Awaitable[None]], every: float) -> None:
    """Take a step every so often; no error ends it."""
    while True:
        try:
            await step()
        except Exception as error:
            _log.warning("due.keeper step=%s error=%s", name, type(error).__name__)
        await asyncio.sleep(every)


def _lane_loops(slots: Mapping[Lane, int], shared: Conditions) -> list[LaneLoop]:
    """A loop for each lane, and one more in each lane for kinds that share slots of their own."""
    common = [kind.name for kind in shared.kinds.values() if kind.slots is None]
    loops = [LaneLoop(lane, common, Room(lane.name.lower(), count), shared) for lane, count in slots.items()]
    rooms = {kind.slots.name: Room(kind.slots.name, kind.slots.count) for kind in shared.kinds.values() if kind.slots}
    for room in rooms.values():
        capped = [kind.name for kind in shared.kinds.values() if kind.slots and kind.slots.name == room.name]
        loops += [LaneLoop(lane, capped, room, shared) for lane in slots]
    return loops


def _report(rows: list[Any]) -> dict[str, Any]:
    """The recovery report: in all, and by lane."""
    oldest = min((row["oldest"] for row in rows if row["oldest"]), default=None)
    newest = max((row["newest"] for row in rows if row["newest"]), default=None)
    return {
        "count": _counted(sum(row["count"] for row in rows)),
        "oldest": oldest,
        "newest": newest,
        **{Lane(row["lane"]).name.lower(): _counted(row["count"]) for row in rows},
    }


def _counted(count: int) -> int | str:
    return f"{COUNTED}+" if count >= COUNTED else count
