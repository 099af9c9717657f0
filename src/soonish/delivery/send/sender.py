"""The handler of `delivery.send`: of each delivery one try at most, and what became of it on record.

A second run is harmless: what is no longer pending is left alone, and whoever comes after a holder that vanished first
writes down that its try may have been made. Order between deliveries is not promised.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeGuard

from soonish import failpoints
from soonish.clock import zone
from soonish.db.pool import Database
from soonish.delivery.channel import Channel, Letter, Outcome, Parcel, refused, unknown
from soonish.delivery.model.facts import FactTypes, envelope
from soonish.delivery.model.ledger import wire
from soonish.delivery.model.texts import fill
from soonish.delivery.model.tries import INTERRUPTED, Hold, Ladders, Step, after, before
from soonish.delivery.send.batch import Batch
from soonish.delivery.send.load import Case, Loader
from soonish.delivery.send.record import Entry, Recorder, Tell, Try
from soonish.delivery.send.reserve import BURST, Lines, Places, Probes, Rate, Rates, Taken
from soonish.due.model import DONE, Again, Item
from soonish.errors import DeliveryFailed, Invalid, Unavailable

Pair: TypeAlias = tuple[Case, Item]
Links: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""The links of a delivery, made from its row when it is sent, and stored nowhere."""

_log = logging.getLogger("soonish.delivery")

HOST_PLACES: Final = 8
FRESH: Final = 0.25  # seconds after which a case is looked at again before a try
SLOT: Final = {"slot": True}
NOBODY: Final = {"name": "", "timezone": "UTC", "locale": "en"}


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast, and how many at once: for an address, a host and a workspace of people's; a share of a workspace."""

    address: float
    host: float
    workspace: float
    share: int


class Sender:
    """One a process; called by the due loop."""

    def __init__(
        self,
        db: Database,
        loader: Loader,
        recorder: Recorder,
        channels: Mapping[str, Channel],
        *,
        types: FactTypes,
        ladders: Ladders,
        pace: Pace,
        links: Mapping[str, Links],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._loader = loader
        self._recorder = recorder
        self._channels = channels
        self._types = types
        self._ladders = ladders
        self._pace = pace
        self._links = links
        self._chance = chance
        self._rates = Rates(db)
        self._probes = Probes(db)
        self._places = Places()
        self._lines = Lines(db, self._places)

    async def __call__(self, items: Sequence[Item], tell: Tell) -> None:
        """Deliveries of one workspace, each of which ends for itself."""
        batch = Batch(items, tell)
        try:
            await self._begin_all(batch)
            await batch.over()
        finally:
            await batch.cut()

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    # -- before a try ------------------------------------------------------------------------------------------------

    async def _begin_all(self, batch: Batch) -> None:
        """All at once; where that fails by one of them, one by one, so that it harms no other."""
        try:
            await self._begin(batch.items, batch)
        except Exception as error:
            if isinstance(error, Unavailable) or len(batch.items) == 1:
                batch.fail(batch.left(), error)
                return
            _log.warning("delivery.batch_failed deliveries=%d error=%s", len(batch.items), type(error).__name__)
            for item in batch.left():
                batch.spawn(item, self._begin([item], batch))

    async def _begin(self, items: Sequence[Item], batch: Batch) -> None:
        """Look at them together, and let go those that may be tried now. Where it raises, none has gone."""
        cases = await self._loader.cases(batch.workspace_id, [int(item.key) for item in items])
        fit = [(case, item) for case, item in zip(cases, items, strict=True) if self._fit(case, item, batch)]
        going = await self._let_through(fit, batch)
        waits = await self._rates.waits([() if _has_slot(item) else self._rates_of(case) for case, item in going])
        for (case, item), wait in zip(going, waits, strict=True):
            if wait:  # its own slot is later: it comes back then, and needs no other one
                step = Step("pending", "rate_limited", wait=wait)
                self._recorder.record(Entry(item, case, step, payload=SLOT), batch.end)
            elif taken := self._places.take(self._caps(case)):
                batch.spawn(item, self._try_in(taken, case, item, batch))
            else:
                batch.spawn(item, self._stand_in_line(case, item, batch))

    def _fit(self, case: Case | None, item: Item, batch: Batch) -> TypeGuard[Case]:
        """Whether it may be tried now, by what the ledger says; what keeps it is written down."""
        if case is None or case.row["state"] != "pending":
            batch.end([(item, DONE)])
        elif item.interrupted:  # before all else: who holds it now ends the lease that tells of it
            self._record(case, item, Try(INTERRUPTED, case.now(), case.now()), batch)
        elif case.shut:
            batch.end([(item, case.shut)])
        elif case.torn:
            batch.end([(item, Again(after=0))])
        elif found := before(case.row, case.quiet_until):
            at = found.at if isinstance(found, Hold) else None
            state = "pending" if isinstance(found, Hold) else found.state
            self._recorder.record(Entry(item, case, Step(state, found.reason), at=at), batch.end)
        else:
            return True
        return False

    async def _let_through(self, going: Sequence[Pair], batch: Batch) -> Sequence[Pair]:
        """Those that no circuit keeps: of many that come when its time is over, one probes."""
        if not any(case.row["circuit_step"] for case, _ in going):
            return going
        untils = await self._probes.waits(batch.workspace_id, [case.row for case, _ in going])
        for (case, item), until in zip(going, untils, strict=True):
            if until:
                self._recorder.record(Entry(item, case, Step("pending", "circuit_open"), at=until), batch.end)
        return [one for one, until in zip(going, untils, strict=True) if not until]

    async def _stand_in_line(self, case: Case, item: Item, batch: Batch) -> None:
        """Wait for a turn. If that took long, all may have changed: nobody is told who was removed meanwhile."""
        taken = await self._places.wait(self._caps(case))
        if isinstance(taken, float):
            if (endpoint_id := case.row["endpoint_id"]) is not None:
                await self._lines.stand_aside(item.workspace_id, endpoint_id)
            batch.end([(item, Again(after=taken))])
        elif case.age < FRESH:
            await self._try_in(taken, case, item, batch)
        else:
            await self._try_fresh(taken, item, batch)

    async def _try_fresh(self, taken: Taken, item: Item, batch: Batch) -> None:
        try:
            (case,) = await self._loader.cases(batch.workspace_id, [int(item.key)])
            if self._fit(case, item, batch):
                await self._try_in(taken, case, item, batch)
        finally:
            taken.leave()

    def _rates_of(self, case: Case) -> list[Rate]:
        row, pace, found = case.row, self._pace, list[Rate]()
        if row["endpoint_id"] is not None:
            if per_second := row["rate_per_second"]:
                found.append(Rate(f"endpoint/{row['endpoint_id']}", per_second, per_second))
            return found
        if row["channel"] == "console":
            return found
        if pace.address and row["address_id"] is not None:
            found.append(Rate(f"address/{row['address_id']}", pace.address, BURST))
        if pace.host and row["host"]:
            found.append(Rate(f"host/{row['host']}", pace.host, pace.host))
        if pace.workspace:
            found.append(Rate(f"workspace/{case.house.id}", pace.workspace, pace.workspace))
        return found

    def _caps(self, case: Case) -> list[tuple[str, int]]:
        """The narrow gate first: who waits before it takes no place in the wide one."""
        row = case.row
        wide = (f"workspace/{case.house.id}", self._pace.share)
        if row["endpoint_id"] is not None:
            return [(f"endpoint/{row['endpoint_id']}", row["max_in_flight"]), wide]
        if row["channel"] == "apprise":
            return [(f"host/{row['host']}", HOST_PLACES), wide]
        return [wide]

    # -- the try -----------------------------------------------------------------------------------------------------

    async def _try_in(self, taken: Taken, case: Case, item: Item, batch: Batch) -> None:
        """The place is free while it is written down."""
        try:
            tried = await self._try(case)
            taken.took((tried.ended_at - tried.started_at).total_seconds())
        finally:
            taken.leave()
        self._record(case, item, tried, batch)

    async def _try(self, case: Case) -> Try:
        started = case.now()
        failpoints.reach("delivery.before_send")
        outcome = await self._outcome(case, started)
        failpoints.reach("delivery.after_send")
        return Try(outcome, started, case.now(), bool(case.row["doubts"]), bool(case.row["circuit_step"]))

    async def _outcome(self, case: Case, started: datetime) -> Outcome:
        """What became of it, whatever a channel does: a try that raises is one that may have been made."""
        channel = self._channels.get(case.row["channel"])
        if channel is None or case.target is None:
            return refused("no_channel", "This channel is not set up here")
        try:
            what = self._letter(case) if case.row["fact_id"] is None else self._parcel(case, started)
        except (LookupError, ValueError, TypeError, Invalid) as error:
            return refused("bad_payload", type(error).__name__)
        try:
            return await channel.send(case.target, what)  # within the limits of the channel
        except DeliveryFailed as error:
            return Outcome("failed", error.code, permanent=error.permanent, answer=error.message[:500])
        except asyncio.CancelledError:  # at a stop, or by the channel's own doing: either way it may have been made
            return INTERRUPTED
        except Exception as error:
            _log.exception("delivery.raised delivery=%d channel=%s", case.row["id"], case.row["channel"])
            return unknown("error", type(error).__name__)

    def _letter(self, case: Case) -> Letter:
        row, letter = case.row, case.letter
        assert letter
        who = NOBODY if row["person_id"] is None else row
        links = self._links_of(row)
        merge = {**_merge(row), **links}
        now, place = case.now(), zone(who["timezone"])
        title, body = (
            fill(letter[part], now=now, name=who["name"], zone=place, locale=who["locale"], merge=merge)
            for part in ("title", "body")
        )
        return Letter(
            wire(row["wire_id"]),
            title,
            "\n\n".join(part for part in (body, links.get("footer")) if part),
            letter["level"],
            links.get("link") or letter["link"],
            letter["calendar"],
            links.get("unsubscribe_url"),
            links.get("manage_url"),
        )

    def _links_of(self, row: Mapping[str, Any]) -> Mapping[str, str]:
        for prefix, make in self._links.items():
            if row["cause"].startswith(prefix):
                return make(row)
        return {}

    def _parcel(self, case: Case, started: datetime) -> Parcel:
        row = case.row
        fact = {
            "wire_id": row["fact_wire_id"], "type": row["fact_type"], "subject": row["subject"], "data": row["data"],
            "cause": row["fact_cause"], "occurred_at": row["occurred_at"], "due_at": row["fact_due_at"],
        }  # fmt: skip
        body = envelope(fact, case.house.uid, case.house.slug)
        n = row["tries"] + 1
        return Parcel(wire(row["wire_id"]), n, row["fact_type"], row["subject"], body, started, case.house.slug)

    # -- after it ----------------------------------------------------------------------------------------------------

    def _record(self, case: Case, item: Item, tried: Try, batch: Batch) -> None:
        house, ladder = case.house, self._ladder(case.row)
        pause, chance = self._ladders.unknown_pause, self._chance()
        step = after(case.row, tried.outcome, ladder, pause, house.unknown_people, chance)
        self._recorder.record(Entry(item, case, step, tried, payload={} if _has_slot(item) else None), batch.end)

    def _ladder(self, row: Mapping[str, Any]) -> tuple[float, ...]:
        if row["fact_id"] is None:
            return self._ladders.people
        if row["channel"] != "webhook":
            return self._ladders.broker
        return self._ladders.short if self._types.ladder(row["fact_type"]) == "short" else self._ladders.long


def _has_slot(item: Item) -> bool:
    """Whether it reserved its slot before; the text is looked at, because most have none."""
    return item[7] != "{}" and bool(item.payload.get("slot"))


def _merge(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {} if row["merge"] == "{}" else json.loads(row["merge"])
