"""The queue and a model of it, driven side by side: a step does the same to both, then both must say the same.

Hours are the unit of the model. What is put `at` an hour up to 0 is due; time passes by shifting the rows. The moments
of the table lie half an hour before those of the model, so that nothing depends on how long a step takes.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from soonish import due
from soonish.db.sql import load
from soonish.due import Item, Lane, Put, queue
from soonish.due.loop.work import Result
from tests.support.due import KIND, pass_time, transaction, turn
from tests.support.postgres import PostgresServer

HOUR = timedelta(hours=1)
LEASE = 3
WAIT = 2
FATES = ("done", "dropped", "dead", "again", "held")

_keys = st.sampled_from(("a", "b", "c"))
_holders = st.integers(0, 5)
_lanes = st.sampled_from((Lane.CONTROL, Lane.BULK))
_hours = st.integers(-2, 4)
STEP = st.one_of(
    st.tuples(st.just("put"), _keys, _hours | st.none(), st.integers(0, 1), _lanes, _hours | st.none(), st.booleans()),
    st.tuples(st.just("cancel"), _keys),
    st.tuples(st.just("replan"), st.dictionaries(_keys, _hours)),
    st.tuples(st.just("claim"), st.integers(1, 3), _lanes),
    st.tuples(st.just("finish"), _holders, st.sampled_from(FATES), st.sampled_from((0, 3))),
    st.tuples(st.just("extend"), _holders),
    st.tuples(st.just("release"), _holders),
    st.tuples(st.just("retry")),
    st.tuples(st.just("pause")),
    st.tuples(st.just("resume")),
    st.tuples(st.just("pass_hours"), st.integers(1, 4)),
)


def check_against_model(server: PostgresServer, runs: int, least: int, *, fresh: bool = False) -> Counter[str]:
    """So many random histories of at least so many steps, each on empty tables; answers how often each was taken.

    They are the same at each run unless they are to be `fresh`.
    """
    taken: Counter[str] = Counter()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pool = runner.run(_open(server))

        @settings(max_examples=runs, derandomize=not fresh, suppress_health_check=list(HealthCheck), database=None)
        @given(st.lists(STEP, min_size=least, max_size=3 * least))
        def same(steps: list[tuple[Any, ...]]) -> None:
            runner.run(Pair(pool).run(steps))
            taken.update(step[0] for step in steps)

        same()
        runner.run(pool.close())
        runner.run(server.drop("model"))
    return taken


async def _open(server: PostgresServer) -> Any:
    pool = await asyncpg.create_pool(await server.create("model"), min_size=1, max_size=2)
    await due.install(pool)
    return pool


@dataclass
class Life:
    """One live item."""

    at: int | None
    payload: int
    lane: Lane
    expires: int | None
    wake: int
    id: int | None = None
    fence: int = 0
    spared: int = 0
    lease: int | None = None
    seen: bool = False
    parked: bool = False

    @property
    def leased(self) -> bool:
        return self.lease is not None and self.lease > 0

    def ready(self, lane: Lane) -> bool:
        return self.lane == lane and not self.parked and self.wake <= 0 and not self.leased

    def over(self, hour: int) -> bool:
        """Whether its deadline is not after that hour."""
        return self.expires is not None and self.expires <= hour


@dataclass
class Pair:
    """The table behind `pool`, and what it should hold."""

    pool: Any
    live: dict[str, Life] = field(default_factory=dict)
    dead: dict[str, list[Life]] = field(default_factory=dict)
    fates: Counter[str] = field(default_factory=Counter)
    held: list[Item] = field(default_factory=list)
    paused: bool = False
    noon: datetime = datetime.min

    async def run(self, steps: Sequence[tuple[Any, ...]]) -> None:
        await self.pool.execute("TRUNCATE due.due, due.due_past, due.due_undone, due.due_pause")
        self.noon = await self.pool.fetchval("SELECT now() - interval '30 min'")
        for name, *arguments in steps:
            await getattr(self, name)(*arguments)
            await self.compare()

    async def put(
        self, key: str, at: int | None, payload: int, lane: Lane, expires: int | None, only_new: bool
    ) -> None:
        wish = Put(KIND, key, self._moment(at), {"n": payload}, lane, self._moment(expires))
        async with transaction(self.pool) as tx:
            written = await due.put(tx, [wish], only_new=only_new)
        assert written == self._put(key, Life(at, payload, lane, expires, max(at or 0, 0)), only_new)

    def _put(self, key: str, wish: Life, only_new: bool = False) -> tuple[int, int, int]:
        old = self.live.get(key)
        if old and (only_new or (wish.at is not None and _wishes(old) == _wishes(wish))):
            return 0, 0, 1
        self.live[key] = wish
        wish.parked = self.paused
        if old:
            wish.id, wish.fence, wish.spared = old.id, old.fence + 1, old.fence + 1
        return (0, 1, 0) if old else (1, 0, 0)

    async def cancel(self, key: str) -> None:
        async with transaction(self.pool) as tx:
            count = await due.cancel(tx, KIND, [key])
        assert count == (self.live.pop(key, None) is not None)
        self.fates["cancelled"] += count

    async def replan(self, wanted: dict[str, int]) -> None:
        wishes = [Put(KIND, key, self._moment(at), {"n": 0}, Lane.CONTROL) for key, at in wanted.items()]
        async with transaction(self.pool) as tx:
            plan = await due.replan(tx, KIND, "", wishes)
        kept = {key for key in wanted if key in self.live and self.live[key].at == wanted[key]}
        passed = {key for key, at in wanted.items() if at <= 0 and key not in kept}
        surplus = [key for key in self.live if key not in wanted or key in passed]
        for key in surplus:
            del self.live[key]
        self.fates["cancelled"] += len(surplus)
        ahead = {key: Life(at, 0, Lane.CONTROL, None, at) for key, at in wanted.items() if at > 0}
        counts = [self._put(key, life) for key, life in ahead.items()]
        running = len(wanted) - len(ahead) - len(passed)
        new, moved, same = (sum(column) for column in zip((0, 0, running), *counts, strict=True))
        assert plan == ((new, moved, same), len(surplus), sorted(passed))

    async def claim(self, room: int, lane: Lane = Lane.CONTROL, *results: Result) -> dict[str, Any]:
        """Take up to so many, writing results in the same statement; answers what the head says."""
        written = {result.item.id for result in results}
        ready = {key for key, life in self.live.items() if life.ready(lane) and life.id not in written - {None}}
        head, items = await turn(self.pool, room, *results, lane=lane, lease=LEASE * HOUR)
        assert len(items) == min(room, len(ready))
        assert {item.key for item in items} <= ready
        for item in items:
            self._take(self.live[item.key], item)
        self.held += items
        return head

    def _take(self, life: Life, item: Item) -> None:
        assert item.interrupted == (life.lease is not None)
        assert item.first == (not life.seen)
        assert item.stop == ("expired" if life.over(0) else "paused" if self.paused else None)
        assert life.id in (None, item.id)
        life.id, life.fence, life.lease, life.seen = item.id, life.fence + 1, LEASE, True
        assert (item.attempts, item.tries) == (life.fence, life.fence - life.spared)

    async def finish(self, holder: int, fate: str, room: int) -> None:
        """As a loop would: what must not be handled is never handled."""
        if not (item := self._holder(holder)):
            return
        fate = {"paused": "parked", None: fate}.get(item.stop, "expired")
        life, spared = self._life(item), int(fate in ("held", "parked"))
        reason = "unseen" if fate == "parked" and item.first else None
        head = await self.claim(
            room, Lane.CONTROL, Result(item, fate, wait=WAIT * 3_600.0, spared=spared, reason=reason)
        )
        if life is None:
            assert head["lost"] == [f"{item.id}:{item.attempts}"]
        elif fate == "parked":
            life.lease, life.spared, life.parked = None, life.spared + 1, self.paused
            life.seen = not item.first
        elif fate in ("again", "held") and not life.over(WAIT):
            life.lease, life.wake, life.spared, life.parked = None, WAIT, life.spared + spared, False
        else:
            self._end(item.key, life, "expired" if fate in ("again", "held") else fate)

    def _end(self, key: str, life: Life, fate: str) -> None:
        del self.live[key]
        self.fates[fate] += 1
        if fate == "dead":
            self.dead.setdefault(key, []).append(life)

    async def extend(self, holder: int) -> None:
        if item := self._holder(holder):
            life = self._life(item)
            kept = await load(queue.__file__).extend.rows(
                self.pool, ids=[item.id], fences=[item.attempts], lease=LEASE * HOUR
            )
            assert bool(kept) == (life is not None)
            if life:
                life.lease = LEASE

    async def release(self, holder: int) -> None:
        if item := self._holder(holder):
            life = self._life(item)
            await load(queue.__file__).release.row(self.pool, ids=[item.id], fences=[item.attempts])
            if life:
                life.lease, life.spared = None, life.spared + 1

    async def retry(self) -> None:
        async with transaction(self.pool) as tx:
            revived, superseded = await due.retry(tx, kind=KIND)
        back = [key for key in self.dead if key not in self.live]
        assert (revived, superseded) == (len(back), sum(map(len, self.dead.values())) - len(back))
        for key in back:
            last = self.dead.pop(key)[-1]
            expires = None if last.over(0) else last.expires
            self.live[key] = Life(last.at, last.payload, last.lane, expires, 0, seen=True)

    async def pause(self) -> None:
        await due.pause(self.pool, KIND)
        self.paused = True
        for life in self.live.values():
            life.parked = life.parked or not life.leased

    async def resume(self) -> None:
        freed = await due.resume(self.pool, KIND)
        assert freed == (sum(life.parked for life in self.live.values()) if self.paused else 0)
        if self.paused:
            for life in self.live.values():
                life.parked = False
        self.paused = False

    async def pass_hours(self, hours: int) -> None:
        await pass_time(self.pool, hours * HOUR)
        for life in self.live.values():
            life.wake -= hours
            life.at, life.expires, life.lease = (
                None if hour is None else hour - hours for hour in (life.at, life.expires, life.lease)
            )

    async def compare(self) -> None:
        """Each item lives once or ended once, with the same fence, budget, lease, lane and readiness on both sides."""
        rows = await self.pool.fetch(
            """SELECT key, attempts, spared, coalesce(lease_until > now(), false), wake_at <= now(), lane,
               first_at IS NOT NULL, payload FROM due.due"""
        )
        assert {tuple(row) for row in rows} == {
            (
                key, life.fence, life.spared, life.leased, life.wake <= 0, life.lane + 10 * life.parked, life.seen,
                f'{{"n": {life.payload}}}',
            )
            for key, life in self.live.items()
        }  # fmt: skip
        ended = await self.pool.fetch("SELECT fate, count(*) FROM due.due_history GROUP BY fate")
        assert dict(ended) == {fate: count for fate, count in self.fates.items() if count}

    def _moment(self, hour: int | None) -> datetime | None:
        return None if hour is None else self.noon + hour * HOUR

    def _holder(self, number: int) -> Item | None:
        return self.held[number % len(self.held)] if self.held else None

    def _life(self, item: Item) -> Life | None:
        """The life whose lease this holder has, even if it ran out; None where it was given back or went elsewhere."""
        life = self.live.get(item.key)
        mine = life and life.lease is not None and (life.id, life.fence) == (item.id, item.attempts)
        return life if mine else None


def _wishes(life: Life) -> tuple[Any, ...]:
    return life.at, life.payload, life.lane, life.expires
