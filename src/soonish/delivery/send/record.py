"""What is written after a try, or in place of one: the ledger, the target's health, and the fate of the due item.

All of it is one transaction, shared by those that end at about the same time; whose item went to somebody else writes
nothing. Knows outcomes, nothing of channels.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from soonish import failpoints, telemetry
from soonish.db.again import run_again
from soonish.db.pool import Database, Tx
from soonish.delivery.channel import ANSWER_LENGTH, Outcome
from soonish.delivery.model.health import Health, Limits, Tried, after_tries
from soonish.delivery.model.tries import Step, redirected
from soonish.delivery.outbox import SEND, Fact, Outbox
from soonish.delivery.send.load import SQL, Case
from soonish.due import queue
from soonish.due.model import SETTLED, Ends, Fate, Item, Settled, storable
from soonish.errors import LeaseLost, Unavailable
from soonish.web.sse import name

_log = logging.getLogger("soonish.delivery")

FRESH: Final = timedelta(seconds=10)  # a good target's last success is noted no more often
FEW: Final = 20  # deliveries of one transaction whose own pages are told
MOST: Final = 1_000  # deliveries of one transaction
SHORTEST: Final = 0.2  # seconds between two looks for a database that is away
LONGEST: Final = 5.0

Tell: TypeAlias = Callable[[Ends], None]
"""Who is told of the ends of items."""


@dataclass(frozen=True, slots=True)
class Try:
    """A try, as it ended."""

    outcome: Outcome
    started_at: datetime
    ended_at: datetime
    repeat: bool = False
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be written of one delivery; without a try it ended before one, or is held until `at`."""

    item: Item
    case: Case
    step: Step
    tried: Try | None = None
    at: datetime | None = None
    payload: Mapping[str, Any] | None = None  # of the due item, from now on

    @property
    def noun(self) -> str:
        return "address" if self.case.row["endpoint_id"] is None else "endpoint"


Asked: TypeAlias = tuple[Entry, Tell]


class _Lost(Exception):
    """Some of these items went to somebody else: their part of the transaction must not stay."""

    def __init__(self, ids: set[int]) -> None:
        self.ids = ids


class Recorder:
    """One a process."""

    def __init__(self, db: Database, outbox: Outbox, limits: Limits) -> None:
        self._db = db
        self._outbox = outbox
        self._limits = limits
        self._open: set[tuple[str, int]] = set()
        self._waiting: dict[int, list[Asked]] = {}
        self._writers: set[asyncio.Task[None]] = set()

    def record(self, entry: Entry, tell: Tell) -> None:
        """Write it with what else ends at about this time, then tell of its end."""
        workspace_id = entry.item.workspace_id
        if (waiting := self._waiting.get(workspace_id)) is not None:
            waiting.append((entry, tell))
            return
        self._waiting[workspace_id] = [(entry, tell)]
        writer = asyncio.create_task(self._write_all(workspace_id), name="record")
        self._writers.add(writer)
        writer.add_done_callback(self._writers.discard)

    async def _write_all(self, workspace_id: int) -> None:
        """One transaction after the other; what comes meanwhile shares the next."""
        await asyncio.sleep(0)
        try:
            while waiting := self._waiting[workspace_id]:
                self._waiting[workspace_id] = waiting[MOST:]
                await self._write(workspace_id, waiting[:MOST])
        finally:
            del self._waiting[workspace_id]

    async def _write(self, workspace_id: int, asked: Sequence[Asked]) -> None:
        """A try that was made is written down, however long the database is away: nobody may make it again unmarked."""
        wait = SHORTEST
        while asked:
            try:
                lost = await run_again(self._commit, workspace_id, [entry for entry, _ in asked])
            except Unavailable as error:
                _tell([(entry.item, error, tell) for entry, tell in asked if not entry.tried])
                asked = [one for one in asked if one[0].tried]
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST)
            except Exception as error:
                await self._write_alone(workspace_id, asked, error)
                return
            else:
                failpoints.reach("delivery.recorded")
                _note([entry for entry, _ in asked if entry.item.id not in lost])
                _tell([(e.item, LeaseLost() if e.item.id in lost else SETTLED, tell) for e, tell in asked])
                return

    async def _write_alone(self, workspace_id: int, asked: Sequence[Asked], error: Exception) -> None:
        """One by one, so that the guilty one harms no other."""
        if len(asked) > 1:
            for one in asked:
                await self._write(workspace_id, [one])
        else:
            ((entry, tell),) = asked
            _log.error("delivery.unrecorded delivery=%d error=%s", entry.case.row["id"], type(error).__name__)
            tell([(entry.item, LeaseLost() if entry.tried else error)])  # the lease that runs out tells of the try

    async def _commit(self, workspace_id: int, entries: Sequence[Entry]) -> set[int]:
        """Write them; answers the items that went to somebody else, of which nothing is written."""
        mine = sorted(entries, key=_delivery)  # in the order that everybody takes
        lost: set[int] = set()
        while mine:
            try:
                async with self._db.transaction(workspace_id) as tx:
                    await self._write_in(tx, mine)
                    await _ring(tx, workspace_id, mine)
                break
            except _Lost as error:
                lost |= error.ids
                mine = [entry for entry in mine if entry.item.id not in lost]
        return lost

    async def _write_in(self, tx: Tx, entries: Sequence[Entry]) -> None:
        """The ledger first and the due items after it, as those do who withdraw."""
        await SQL.record.run(tx, **_columns(entries))
        if lost := await queue.settle(tx, [_fate(entry) for entry in entries]):
            raise _Lost(lost)
        await self._health(tx, "address", entries)
        await self._health(tx, "endpoint", entries)
        await self._state_ends(tx, entries)

    async def _health(self, tx: Tx, noun: Any, entries: Sequence[Entry]) -> None:
        """Fold what happened to each target into its row; a good one that stays good is left alone."""
        tries: dict[int, list[Entry]] = {}
        for entry in entries:
            target_id = entry.case.row[f"{noun}_id"]
            if entry.tried and target_id is not None and entry.noun == noun:
                tries.setdefault(target_id, []).append(entry)
        changed = {target_id: mine for target_id, mine in tries.items() if not all(map(_says_nothing, mine))}
        if changed:
            await self._fold(tx, noun, changed)

    async def _fold(self, tx: Tx, noun: Any, tries: Mapping[int, Sequence[Entry]]) -> None:
        select, keep = (
            (SQL.address_health, SQL.keep_address_health)
            if noun == "address"
            else (SQL.endpoint_health, SQL.keep_endpoint_health)
        )
        names = [field.name for field in fields(Health)]
        rows = await select.rows(tx, ids=sorted(tries))
        before = {row["id"]: Health(**{name: row[name] for name in names}) for row in rows}
        after = {
            target_id: after_tries(state, map(_tried, tries[target_id]), noun, self._limits)
            for target_id, state in before.items()
        }
        if after:
            await keep.run(tx, **_health_columns(after, keep.params))
        for target_id, state in after.items():
            await self._announce(tx, noun, target_id, before[target_id], state, tries[target_id][0])

    async def _announce(self, tx: Tx, noun: str, target_id: int, old: Health, new: Health, by: Entry) -> None:
        """A target that was disabled just now is told of; a circuit that closed lets go what waited for it."""
        row = by.case.row
        (self._open.add if new.circuit_step else self._open.discard)((noun, target_id))
        telemetry.circuits_open.set(len(self._open))
        if new.health == "disabled" and old.health != "disabled":
            data: dict[str, Any] = {f"{noun}_id": target_id, "reason": new.disabled_reason}
            if noun == "address":
                data["person_id"] = row["person_id"]
            cause = f"{noun}/{target_id}/disabled/{row['id']}/{row['tries'] + 1}"
            fact = Fact(cause=cause, type=f"{noun}.disabled", subject=f"{noun}/{target_id}", data=data)
            await self._outbox.state(tx, fact)
            if noun == "endpoint":
                await self._outbox.skip(tx, "endpoint_disabled", endpoint_id=target_id)
        if old.circuit_step and not new.circuit_step:
            held = await SQL.held_by_circuit.rows(
                tx, endpoint_id=row["endpoint_id"], address_id=row["address_id"], person_id=row["person_id"]
            )
            await queue.pull_keys(tx, SEND, [str(one["id"]) for one in held])

    async def _state_ends(self, tx: Tx, entries: Sequence[Entry]) -> None:
        """Facts about messages to people that did not arrive, or that nobody knows of."""
        people = [entry for entry in entries if entry.noun == "address"]
        facts = [_fact_of_end(entry) for entry in people if entry.step.state in ("failed", "unknown")]
        facts += [_fact_of_death(entry) for entry in people if entry.step.dead]
        await self._outbox.state_all(tx, facts)


def _delivery(entry: Entry) -> int:
    return entry.case.row["id"]  # type: ignore[no-any-return]


def _fate(entry: Entry) -> Settled:
    """The fate of the due item: a try counts there too, a hold does not."""
    step = entry.step
    if step.dead:
        return Settled(entry.item, "dead", error=entry.tried.outcome.code if entry.tried else None)
    if step.state != "pending":
        return Settled(entry.item)
    error = entry.tried.outcome.code if entry.tried else None
    return Settled(entry.item, "again", after=step.wait, at=entry.at, error=error, payload=entry.payload)


def _columns(entries: Sequence[Entry]) -> dict[str, Any]:
    rows, steps, tries = [e.case.row for e in entries], [e.step for e in entries], [e.tried for e in entries]
    both = list(zip(rows, tries, strict=True))
    return {
        "ids": [row["id"] for row in rows],
        "states": [step.state for step in steps],
        "reasons": [step.reason for step in steps],
        "partials": [step.partial for step in steps],
        "waits": [step.wait for step in steps],
        "ats": [entry.at for entry in entries],
        "outcomes": [one and one.outcome.result for one in tries],
        "permanents": [one and one.outcome.permanent for one in tries],
        "repeats": [one and one.repeat for one in tries],
        "codes": [one and one.outcome.code for one in tries],
        "statuses": [one and one.outcome.status for one in tries],
        "answers": [one and (one.outcome.answer and _answer(one.outcome.answer)) for one in tries],
        "starts": [one and one.started_at for one in tries],
        "ends": [one and one.ended_at for one in tries],
        "latencies": [one and _latency(one) for one in tries],
        "doubts": [row["doubts"] + bool(one and one.outcome.result == "unknown") for row, one in both],
        "redirects": [_redirects(row, one) for row, one in both],
    }


def _answer(text: str) -> str:
    """What the other side said, as it may be told and as the table can keep it."""
    return storable(telemetry.redact(text))[:ANSWER_LENGTH]


def _redirects(row: Mapping[str, Any], tried: Try | None) -> int:
    if tried is None:
        return int(row["redirects"])
    return row["redirects"] + 1 if redirected(tried.outcome) else 0


def _latency(tried: Try) -> int:
    return round((tried.ended_at - tried.started_at) / timedelta(milliseconds=1))


def _says_nothing(entry: Entry) -> bool:
    """A success of a target that was well, and whose last success is fresh."""
    row, tried = entry.case.row, entry.tried
    assert tried
    fresh = row["last_ok_at"] is not None and tried.ended_at - row["last_ok_at"] < FRESH
    well = row["health"] == "ok" and not row["fails"] and not row["circuit_step"]
    return tried.outcome.result == "sent" and well and fresh


def _tried(entry: Entry) -> Tried:
    assert entry.tried
    return Tried(entry.tried.outcome, entry.tried.ended_at, entry.tried.probe)


def _health_columns(after: Mapping[int, Health], params: Sequence[str]) -> dict[str, Any]:
    """The new states as arrays, under the names of their fields."""
    columns = {name: [getattr(state, name) for state in after.values()] for name in params if name != "ids"}
    return {"ids": list(after), **columns}


def _fact_of_end(entry: Entry) -> Fact:
    row, state = entry.case.row, entry.step.state
    data = {"delivery_id": row["id"], "person_id": row["person_id"], "cause": row["cause"], "reason": entry.step.reason}
    cause = f"delivery/{row['id']}/{state}/{row['tries'] + bool(entry.tried)}"
    return Fact(cause=cause, type=f"delivery.{state}", subject=f"delivery/{row['id']}", data=data)


def _fact_of_death(entry: Entry) -> Fact:
    item = entry.item
    data = {"due_id": item.id, "kind": item.kind, "key": item.key, "reason": "budget"}
    return Fact(cause=f"due/{item.id}/dead/{item.attempts}", type="due.dead", subject=f"due/{item.id}", data=data)


async def _ring(tx: Tx, workspace_id: int, entries: Sequence[Entry]) -> None:
    few = entries if len(entries) <= FEW else ()
    topics = ["deliveries", *(f"delivery/{entry.case.row['id']}" for entry in few)]
    await SQL.ring.run(tx, streams=[name(workspace_id, topic) for topic in topics])


def _tell(ends: Sequence[tuple[Item, Fate | Exception, Tell]]) -> None:
    """Each teller once."""
    told: dict[Tell, list[tuple[Item, Fate | Exception]]] = {}
    for item, end, tell in ends:
        told.setdefault(tell, []).append((item, end))
    for tell, mine in told.items():
        tell(mine)


def _note(entries: Sequence[Entry]) -> None:
    """What they mean for the metrics and the log: once a batch, never once a delivery."""
    for entry in entries:
        if entry.tried:
            seconds = (entry.tried.ended_at - entry.tried.started_at).total_seconds()
            name = entry.case.row["channel"], entry.tried.outcome.result
            telemetry.attempt_seconds.labels(*name).observe(seconds)
    for fate, count in Counter(_end_of(entry) for entry in entries).items():
        telemetry.due_finished_total.labels(SEND, fate).inc(count)
    ended = [entry for entry in entries if entry.step.state != "pending"]
    for (channel, state), count in Counter((e.case.row["channel"], e.step.state) for e in ended).items():
        telemetry.deliveries_total.labels(channel, state).inc(count)
        _say(state, [e for e in ended if (e.case.row["channel"], e.step.state) == (channel, state)])


def _end_of(entry: Entry) -> str:
    """The fate of its due item, as the loop would have counted it."""
    if entry.step.dead:
        return "dead"
    if entry.step.state != "pending":
        return "done"
    return "again" if entry.tried else "held"


def _say(state: str, entries: Sequence[Entry]) -> None:
    row, step, tried = entries[0].case.row, entries[0].step, entries[0].tried
    late = round((tried.started_at - row["due_at"]) / timedelta(milliseconds=1)) if tried else 0
    which = f"delivery={row['id']}" if len(entries) == 1 else f"deliveries={len(entries)} first={row['id']}"
    name = {"sent": "delivery.sent", "skipped": "delivery.skipped"}.get(state, "delivery.failed")
    level = logging.INFO if state in ("sent", "skipped") else logging.ERROR if step.dead else logging.WARNING
    where = f"workspace={entries[0].item.workspace_id} channel={row['channel']}"
    _log.log(level, "%s %s %s state=%s reason=%s late_ms=%d", name, which, where, state, step.reason, late)
