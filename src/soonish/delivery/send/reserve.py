"""What a try may take: a slot of a rate, a place among those under way, the probe of an open circuit.

Rates are shared by all processes, places are counted by each. Whatever finds none stands aside, so that others pass.
"""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from time import monotonic
from typing import Final, NamedTuple

from soonish.db.pool import Database
from soonish.db.together import Together, TogetherBy
from soonish.delivery.outbox import SEND
from soonish.delivery.send.load import SQL, Row
from soonish.due import queue

BURST: Final = 20  # messages to one address at once
IN_PLACE: Final = 1.0  # seconds that a try waits here for its turn
LONGEST: Final = 30.0  # seconds for which it stands aside at most
LINE: Final = 20_000  # deliveries that stand aside at once
PROBE: Final = 30.0  # seconds that the probe of a circuit may take
FIRST_GUESS: Final = 0.05  # how long a try takes, before any was seen


class Rate(NamedTuple):
    """So many a second under a name, after so many at once."""

    name: str
    per_second: float
    burst: float


class Rates:
    """Slots of all rates, reserved by one statement for all that ask at about the same time."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._asking: Together[Sequence[Rate], float] = Together(self._reserve)

    async def wait(self, rates: Sequence[Rate]) -> float:
        """Seconds until the slot that was reserved under each of these names."""
        return await self._asking.ask(rates) if rates else 0.0

    async def _reserve(self, requests: Sequence[Sequence[Rate]]) -> list[float]:
        counts: dict[str, int] = {}
        spans: dict[str, float] = {}
        for rate in (rate for rates in requests for rate in rates):
            counts[rate.name] = counts.get(rate.name, 0) + 1
            spans[rate.name] = 1 / rate.per_second
        names = sorted(counts)  # in the order that everybody takes
        async with self._db.transaction(0) as tx:
            rows = await SQL.slots.rows(tx, names=names, spans=[spans[name] * counts[name] for name in names])
        ahead = {row["name"]: row["ahead"] - spans[row["name"]] * counts[row["name"]] for row in rows}
        return [self._mine(rates, ahead, spans) for rates in requests]

    @staticmethod
    def _mine(rates: Sequence[Rate], ahead: dict[str, float], spans: Mapping[str, float]) -> float:
        """The latest of the slots of one request; the next one comes after it."""
        wait = 0.0
        for rate in rates:
            span = spans[rate.name]
            wait = max(wait, ahead[rate.name] - (max(1.0, rate.burst) - 1) * span)
            ahead[rate.name] += span
        return max(0.0, wait)


class Places:
    """How many may be under way at once, under some names, in this process."""

    def __init__(self) -> None:
        self._gates: dict[str, _Gate] = {}

    @asynccontextmanager
    async def enter(self, caps: Sequence[tuple[str, int]]) -> AsyncIterator[float]:
        """Hold a place under each name while the block runs; yields the seconds to stand aside where there is none."""
        held: list[_Gate] = []
        aside = 0.0
        try:
            for name, cap in caps:
                gate = self._gate(name, cap)
                if aside := gate.aside():
                    break
                await gate.enter()
                held.append(gate)
            began = monotonic()
            yield aside
            if not aside:
                for gate in held:
                    gate.took(monotonic() - began)
        finally:
            for gate in reversed(held):
                gate.leave()
                if gate.idle:
                    self._gates.pop(gate.name, None)

    def expect(self, name: str, count: int) -> Sequence[float]:
        """Seconds until the turns of so many more, behind all that stand aside already."""
        gate = self._gates.get(name)
        return [gate.behind() for _ in range(count)] if gate else [0.0] * count

    def _gate(self, name: str, cap: int) -> "_Gate":
        gate = self._gates.get(name)
        if gate is None:
            gate = self._gates[name] = _Gate(name)
        gate.cap = cap
        return gate


class _Gate:
    """The places under one name, and the line before it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cap = 1
        self._running = 0
        self._line: deque[Future[None]] = deque()
        self._latency = FIRST_GUESS
        self._turn = 0.0  # when the last one that was sent aside is expected to have its turn

    @property
    def idle(self) -> bool:
        return not self._running and not self._line and self._turn < monotonic()

    def aside(self) -> float:
        """Seconds to stand aside: none where there is room, or where the turn is near enough to wait for it here."""
        near = (len(self._line) + 1) * self._latency / self.cap
        return 0.0 if self._running < self.cap or near <= IN_PLACE else self.behind()

    def behind(self) -> float:
        """Seconds until the turn of one more that stands aside."""
        now, step = monotonic(), self._latency / self.cap
        self._turn = max(self._turn, now + len(self._line) * step) + step
        return min(LONGEST, self._turn - now)

    async def enter(self) -> None:
        if self._running < self.cap and not self._line:
            self._running += 1
            return
        turn: Future[None] = get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn  # who leaves hands the place over
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()
            elif turn in self._line:
                self._line.remove(turn)
            raise

    def leave(self) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    def took(self, seconds: float) -> None:
        """A try took so long: the mean moves a little."""
        self._latency += (seconds - self._latency) / 8


class Lines:
    """The line before an endpoint that is full: all that waits for it in the table stands aside at once.

    One by one they would come, find no room and go again, and whoever is behind them would wait for each.
    """

    def __init__(self, db: Database, places: Places) -> None:
        self._db = db
        self._places = places
        self._next: dict[int, float] = {}

    async def stand_aside(self, workspace_id: int, endpoint_id: int) -> None:
        """Once a second at most."""
        if (now := monotonic()) < self._next.get(endpoint_id, 0.0):
            return
        self._next[endpoint_id] = now + IN_PLACE
        async with self._db.transaction(workspace_id) as tx:
            rows = await SQL.line.rows(tx, endpoint_id=endpoint_id, k=LINE)
            turns = self._places.expect(f"endpoint/{endpoint_id}", len(rows))
            await queue.put_off(tx, SEND, {str(row["id"]): turn for row, turn in zip(rows, turns, strict=True)})


class Probes:
    """Who tries a target first whose circuit's time is over: one delivery does, the others go on holding."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._asking: TogetherBy[int, Row, datetime | None] = TogetherBy(self._choose)

    async def wait(self, workspace_id: int, row: Row) -> datetime | None:
        """None for the one that probes; for the others, until when they hold."""
        return await self._asking.ask(workspace_id, row)

    async def _choose(self, workspace_id: int, rows: Sequence[Row]) -> list[datetime | None]:
        chosen: dict[int, Row] = {}
        until: dict[int, datetime] = {}
        async with self._db.transaction(workspace_id) as tx:
            for row in rows:
                if (target := _target(row)) not in until:
                    statement = SQL.probe_address if row["endpoint_id"] is None else SQL.probe_endpoint
                    if (ends := await statement.value(tx, id=abs(target), seconds=PROBE)) is not None:
                        chosen[target] = row
                    until[target] = ends or row["now"] + timedelta(seconds=PROBE)
        return [None if chosen.get(_target(row)) is row else until[_target(row)] for row in rows]


def _target(row: Row) -> int:
    """One number for both: endpoints are positive."""
    return -int(row["address_id"]) if row["endpoint_id"] is None else int(row["endpoint_id"])
