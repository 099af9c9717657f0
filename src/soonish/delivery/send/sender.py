"""The handler of `delivery.send`: one delivery, one try at most, and what became of it on record.

A second run is harmless: what is no longer pending is left alone, and whoever comes after a holder that vanished first
writes down that its try may have been made. Order between deliveries is not promised.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from soonish import failpoints
from soonish.clock import zone
from soonish.db.pool import Database
from soonish.delivery.channel import Channel, Letter, Outcome, Parcel, refused, unknown
from soonish.delivery.model.facts import FactTypes, envelope
from soonish.delivery.model.ledger import wire
from soonish.delivery.model.texts import fill
from soonish.delivery.model.tries import INTERRUPTED, End, Hold, Ladders, Step, after, before
from soonish.delivery.send.load import Case, Loader
from soonish.delivery.send.record import Entry, Recorder, Try
from soonish.delivery.send.reserve import BURST, Lines, Places, Probes, Rate, Rates
from soonish.due.model import DONE, SETTLED, Again, Fate, Item
from soonish.errors import DeliveryFailed, Invalid, LeaseLost, Unavailable

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

    async def __call__(self, item: Item) -> Fate:
        """One delivery."""
        case = await self._loader.case(item.workspace_id, int(item.key))
        if fate := _unfit(case):
            return fate
        assert case
        if item.interrupted:
            return await self._record(item, case, Try(INTERRUPTED, case.now(), case.now()))
        if fate := await self._judged(item, case) or await self._reserved(item, case):
            return fate
        async with self._places.enter(self._caps(case)) as aside:
            done = None if aside else await self._in_place(item, case)
        if done is not None:  # the place is free while it is written down
            return await self._record(item, *done) if isinstance(done, tuple) else done
        if (endpoint_id := case.row["endpoint_id"]) is not None:
            await self._lines.stand_aside(item.workspace_id, endpoint_id)
        return Again(after=aside)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    # -- before a try ------------------------------------------------------------------------------------------------

    async def _judged(self, item: Item, case: Case) -> Fate | None:
        """What keeps it from being tried now, by what the ledger says."""
        found = before(case.row, case.quiet_until)
        if isinstance(found, End):
            return await self._write(Entry(item, case, Step(found.state, found.reason)))
        if isinstance(found, Hold):
            return await self._write(Entry(item, case, Step("pending", found.reason), at=found.at))
        return None

    async def _reserved(self, item: Item, case: Case) -> Fate | None:
        """What keeps it from being tried now, because others are before it."""
        if case.row["circuit_step"] and (until := await self._probes.wait(item.workspace_id, case.row)):
            return await self._write(Entry(item, case, Step("pending", "circuit_open"), at=until))
        if not _has_slot(item) and (wait := await self._rates.wait(self._rates_of(case))):
            # Its own slot is later: it comes back then, and needs no other one.
            return await self._write(Entry(item, case, Step("pending", "rate_limited", wait=wait), payload=SLOT))
        return None

    async def _in_place(self, item: Item, case: Case) -> Fate | tuple[Case, Try]:
        """Its turn. If it stood in line for long, all may have changed: nobody is told who was removed meanwhile."""
        if case.age < FRESH:
            return case, await self._try(case)
        fresh = await self._loader.case(item.workspace_id, int(item.key))
        if fate := _unfit(fresh):
            return fate
        assert fresh
        return await self._judged(item, fresh) or (fresh, await self._try(fresh))

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

    async def _record(self, item: Item, case: Case, tried: Try) -> Fate:
        house, ladder = case.house, self._ladder(case.row)
        pause, chance = self._ladders.unknown_pause, self._chance()
        step = after(case.row, tried.outcome, ladder, pause, house.unknown_people, chance)
        return await self._write(Entry(item, case, step, tried, payload={} if _has_slot(item) else None))

    def _ladder(self, row: Mapping[str, Any]) -> tuple[float, ...]:
        if row["fact_id"] is None:
            return self._ladders.people
        if row["channel"] != "webhook":
            return self._ladders.broker
        return self._ladders.short if self._types.ladder(row["fact_type"]) == "short" else self._ladders.long

    async def _write(self, entry: Entry) -> Fate:
        """A try that was made is written down, however long the database is away: nobody may make it again unmarked."""
        wait = 0.2
        while True:
            try:
                if await self._recorder.record(entry):
                    return SETTLED
                raise LeaseLost(f"delivery {entry.case.row['id']} went to somebody else")
            except Unavailable:
                if entry.tried is None:
                    raise
            await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)


def _unfit(case: Case | None) -> Fate | None:
    """What is to be done with a case that nothing can be decided by; raises where a key must come back first."""
    if case is None or case.row["state"] != "pending":
        return DONE
    if case.shut:
        raise case.shut
    return Again(after=0) if case.torn else None


def _has_slot(item: Item) -> bool:
    """Whether it reserved its slot before; the text is looked at, because most have none."""
    return item[7] != "{}" and bool(item.payload.get("slot"))


def _merge(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {} if row["merge"] == "{}" else json.loads(row["merge"])
