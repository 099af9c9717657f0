"""What a try may take: a slot of a rate, a place among those under way, the probe of an open circuit.

Rates are shared by all processes, places are counted by each. Whatever finds none stands aside, so that others pass.
"""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Final, NamedTuple

from soonish.db.pool import Database
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
    """Slots of all rates, reserved by one statement for the deliveries of one claim."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def waits(self, requests: Sequence[Sequence[Rate]]) -> list[float]:
        """For each of these requests, seconds until the slot that was reserved under all of its names."""
        return await self._reserve(requests) if any(requests) else [0.0] * len(requests)

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

    def take(self, caps: Sequence[tuple[str, int]]) -> "Taken | None":
        """A place under each name, where there is room under all of them and nobody waits before."""
        gates = [self._gate(name, cap) for name, cap in caps]
        for gate in gates:
            if gate.running >= gate.cap or gate.line:
                return None
        for gate in gates:
            gate.running += 1
        return Taken(self, gates)

    async def wait(self, caps: Sequence[tuple[str, int]]) -> "Taken | float":
        """The same after standing in line where the turn is near; else the seconds to stand aside."""
        taken = Taken(self, [])
        try:
            for name, cap in caps:
                gate = self._gate(name, cap)
                if aside := gate.aside():
                    taken.leave()
                    return aside
                await gate.enter()
                taken.gates.append(gate)
        except BaseException:
            taken.leave()
            raise
        return taken

    def forget(self, gate: "_Gate") -> None:
        """Under this name nothing is under way and nobody waits."""
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


class Taken:
    """Places that are held until `leave`, which may be said twice."""

    __slots__ = ("_places", "gates")

    def __init__(self, places: Places, gates: "list[_Gate]") -> None:
        self._places = places
        self.gates = gates

    def took(self, seconds: float) -> None:
        """A try took so long: the means move a little."""
        for gate in self.gates:
            gate.latency += (seconds - gate.latency) / 8

    def leave(self) -> None:
        """Let others in."""
        gates, self.gates = self.gates, []
        for gate in reversed(gates):
            gate.leave()
            if gate.idle:
                self._places.forget(gate)


class _Gate:
    """The places under one name, and the line before it."""

    __slots__ = ("_turn", "cap", "latency", "line", "name", "running")

    def __init__(self, name: str) -> None:
        self.name = name
        self.cap = 1
        self.running = 0
        self.line: deque[Future[None]] = deque()
        self.latency = FIRST_GUESS
        self._turn = 0.0  # when the last one that was sent aside is expected to have its turn

    @property
    def idle(self) -> bool:
        return not self.running and not self.line and self._turn < monotonic()

    def aside(self) -> float:
        """Seconds to stand aside: none where there is room, or where the turn is near enough to wait for it here."""
        near = (len(self.line) + 1) * self.latency / self.cap
        return 0.0 if self.running < self.cap or near <= IN_PLACE else self.behind()

    def behind(self) -> float:
        """Seconds until the turn of one more that stands aside."""
        now, step = monotonic(), self.latency / self.cap
        self._turn = max(self._turn, now + len(self.line) * step) + step
        return min(LONGEST, self._turn - now)

    async def enter(self) -> None:
        if self.running < self.cap and not self.line:
            self.running += 1
            return
        turn: Future[None] = get_running_loop().create_future()
        self.line.append(turn)
        try:
            await turn  # who leaves hands the place over
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()
            elif turn in self.line:
                self.line.remove(turn)
            raise

    def leave(self) -> None:
        while self.line:
            turn = self.line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1


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

    async def waits(self, workspace_id: int, rows: Sequence[Row]) -> list[datetime | None]:
        """None for one that probes, and for those without a circuit; for the others, until when they hold."""
        asking = [row for row in rows if row["circuit_step"]]
        if not asking:
            return [None] * len(rows)
        chosen: set[int] = set()
        until: dict[int, datetime] = {}
        async with self._db.transaction(workspace_id) as tx:
            for row in asking:
                if (target := _target(row)) not in until:
                    statement = SQL.probe_address if row["endpoint_id"] is None else SQL.probe_endpoint
                    if (ends := await statement.value(tx, id=abs(target), seconds=PROBE)) is not None:
                        chosen.add(row["id"])
                    until[target] = ends or row["now"] + timedelta(seconds=PROBE)
        return [None if not row["circuit_step"] or row["id"] in chosen else until[_target(row)] for row in rows]


def _target(row: Row) -> int:
    """One number for both: endpoints are positive."""
    return -int(row["address_id"]) if row["endpoint_id"] is None else int(row["endpoint_id"])
