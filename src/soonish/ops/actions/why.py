"""Why a delivery went as it did: told from the ledger, the record, and what the slice of its cause has to say.

Knows no slice: those explain their causes through functions that are handed in, and what has vanished is told from what
was noted at the time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from soonish import clock
from soonish.access.actions.audit import list_audit, read_aloud
from soonish.access.model import AuditEntry, Line
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.delivery.actions import ledger
from soonish.delivery.actions.ledger import Told
from soonish.delivery.model.ledger import HELD, Entry
from soonish.due import queue
from soonish.ops.actions.handed import Ops
from soonish.ops.model.items import ALL_KINDS, covering
from soonish.ops.model.why import (
    About,
    Step,
    Story,
    Why,
    delivery_sentence,
    delivery_steps,
    in_order,
    noted_steps,
    teller_of,
)
from soonish.ops.model.why_held import aside_steps, held_steps, holds_of, notes_of, pause_steps
from soonish.web.auth import Caller

SQL: Final = load(str(Path(__file__).parent))
LINES: Final = 20  # of the record, for one thing
NO_STORY: Final = Story()


async def why_delivery(db: Database, ops: Ops, caller: Caller, delivery_id: int) -> Why:
    """The sentence, and all steps that are on record."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        told = await ledger.told_in(tx, delivery_id)
        entry, noted = told.entry, json.loads(told.row["because"] or "{}")
        one = entry.delivery
        about = About(name=one.cause, noted=noted, person_id=one.person_id, endpoint_id=one.endpoint_id)
        story = await story_of(tx, ops, about)
        held = await _held(tx, told, clock.zone(caller.timezone))
        stands = await _standing_still(tx, entry, told.row["now"])
    asked = await _asked(db, caller, entry, noted, told.row["asked_at"])
    zone, now = clock.zone(caller.timezone), told.row["now"]
    because = story.because or noted.get("because") or _because(entry, told.row, asked)
    return Why(
        sentence=delivery_sentence(entry, told.attempts, zone, now, because if _goes(entry) else None),
        steps=in_order(
            [
                *asked_steps(asked),
                *story.steps,
                *noted_steps(entry, noted),
                *delivery_steps(entry, told.attempts, zone, now, held.taken_at),
                *held.steps,
                *stands,
            ]
        ),
    )


async def story_of(tx: Tx, ops: Ops, about: About) -> Story:
    """What the slice tells, or nothing where none is there or the thing has vanished."""
    teller = teller_of(ops.tellers, about.name)
    return (await teller(tx, about) if teller else None) or NO_STORY


async def lines_of(db: Database, caller: Caller, entities: Sequence[str]) -> list[Line]:
    """What the record has about these things, the newest of each, in words."""
    entries = [one for entity in entities for one in await list_audit(db, caller, entity=entity, limit=LINES)]
    return await read_aloud(db, caller, entries)


def asked_steps(lines: Sequence[Line]) -> list[Step]:
    """Who asked for what, by which request."""
    return [Step(at=line.at, what="asked", text=_request(line), ref=_record(line.entry)) for line in lines]


def entity_of(cause: str) -> str:
    """What a cause is about, as the record calls it: its first two words."""
    return "/".join(cause.split("/")[:2])


async def _asked(
    db: Database, caller: Caller, entry: Entry, noted: Mapping[str, Any], asked_at: datetime | None
) -> list[Line]:
    """The lines about what the delivery is of, about itself, and else what was noted of the one who asked."""
    one = entry.delivery
    own = f"message/{one.message_id}" if one.message_id is not None else f"fact/{one.fact_id}"
    lines = await lines_of(db, caller, [*dict.fromkeys([entity_of(one.cause), own])])
    if not lines and (asker := _asker(noted, asked_at)):
        lines = await read_aloud(db, caller, [asker])
    return sorted([*lines, *await lines_of(db, caller, [f"delivery/{one.id}"])], key=lambda line: line.at)


def _asker(noted: Mapping[str, Any], at: datetime | None) -> AuditEntry | None:
    if at is None or not (isinstance(noted.get("actor"), str) and isinstance(noted.get("request_id"), str)):
        return None
    request = UUID(noted["request_id"])
    return AuditEntry(id=0, at=at, actor=noted["actor"], request_id=request, verb="asked for", entity="it", changes={})


def _request(line: Line) -> str:
    detail = f" ({line.detail})" if line.detail else ""
    who = line.who[0].upper() + line.who[1:]
    return f"{who} {line.did}{detail}, by request {line.entry.request_id}."


def _record(entry: AuditEntry) -> str | None:
    """The lines of the record about the same thing, which admins may see; what was only noted has none."""
    return f"/settings/record?entity={entry.entity}" if entry.id else None


@dataclass(frozen=True, slots=True)
class _Held:
    """When the queue first handed a delivery over, and what held it that is over."""

    taken_at: datetime | None
    steps: Sequence[Step]


async def _held(tx: Tx, told: Told, zone: tzinfo) -> _Held:
    """From the ledger, and from the due items that it had: one for each of its lives."""
    one, holds = told.entry.delivery, holds_of(told.row["holds"])
    lives = await SQL.lives_of.rows(tx, kind=ledger.SEND, key=str(one.id), ended_at=one.ended_at)
    firsts = [life["first_at"] for life in lives if life["due_at"] == one.due_at and life["first_at"]]
    going_on = one.state == "pending" and one.reason in HELD
    later = [*(attempt.started_at for attempt in told.attempts.attempts), *filter(None, [one.ended_at])]
    steps = list(held_steps(holds, later, zone, going_on=going_on))
    for life in lives:
        notes = notes_of(life)
        steps += pause_steps(notes, zone)
        if len(lives) == 1:
            steps += aside_steps(life, notes, sum(hold.times for hold in holds))
    # A new life counts as begun at its promise, which nobody was ever quick enough for.
    return _Held(min((at for at in firsts if at != one.due_at), default=None), steps)


async def _standing_still(tx: Tx, entry: Entry, now: datetime) -> list[Step]:
    """A pause keeps what is pending from being sent, whenever it is due."""
    kinds = {pause["kind"]: pause["reason"] for pause in await queue.pauses(tx)}
    paused = covering(kinds, ledger.SEND)
    if paused is None or entry.delivery.state != "pending":
        return []
    what = "Everything" if paused == ALL_KINDS else f"The kind {paused}"
    why = f" ({kinds[paused]})" if kinds[paused] else ""
    return [
        Step(at=now, what="held", text=f"{what} is paused{why}; it waits until that is resumed.", ref="/due/pauses")
    ]


def _goes(entry: Entry) -> bool:
    """Whether the reason is that of its being told; else the sentence says already why not."""
    return entry.delivery.state in ("sent", "pending")


def _because(entry: Entry, row: Mapping[str, Any], asked: Sequence[Line]) -> str | None:
    """The reason that the record knows: the list of the endpoint, or whoever asked first."""
    if types := row["fact_types"]:
        family = f"{entry.title.partition('.')[0]}.*"
        return next((f"it hears of {one}" for one in types if one in (entry.title, family, "*")), None)
    first = next((line for line in asked if not line.entry.entity.startswith("delivery/")), None)
    return f"{first.who} {first.did}" if first else None
