"""Facts: state one of one's own, list them, look at one, follow them.

What slices state goes through the outbox in their own transactions; who hears a fact is decided there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from msgspec import Raw

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.delivery import outbox
from soonish.delivery.actions.handed import Delivering
from soonish.delivery.model.facts import (
    DATA_BYTES,
    Fact,
    FactDetail,
    Json,
    StatedFact,
    Told,
    detail,
    envelope,
    fact,
    too_large,
)
from soonish.errors import BadRequest, FieldError, Invalid, NotFound
from soonish.web.auth import Caller
from soonish.web.sse import Batch, Event

SQL: Final = load(__file__)
TOPIC: Final = "facts"
_MOST_XID, _MOST_ID = 2**64, 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which facts; a type may be a family, such as `game.*`."""

    type: str | None = None
    subject: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def state_custom(
    tx: Tx,
    hand: Delivering,
    caller: Caller,
    type_: str,
    subject: str,
    data: Json,
    endpoint_ids: Sequence[int] | None = None,
) -> StatedFact:
    """State a fact of the caller's own; with `endpoint_ids` these get it, whatever they hear."""
    if too_large(data):
        raise Invalid("", FieldError("data", "length", f"At most {DATA_BYTES:,} bytes fit; keep the rest elsewhere"))
    if endpoint_ids is not None:
        await _check_endpoints(tx, endpoint_ids)
    stated = await hand.outbox.state(
        tx,
        outbox.Fact(
            cause=f"fact/{uuid4().hex}",
            type=type_,
            subject=subject,
            data=data,
            because=asked_by(caller),
            endpoint_ids=endpoint_ids,
        ),
    )
    assert stated.fact_id is not None
    await record(tx, caller, "state", f"fact/{stated.fact_id}", {"type": type_, "deliveries": stated.deliveries})
    return StatedFact(id=stated.fact_id, deliveries=stated.deliveries)


async def _check_endpoints(tx: Tx, ids: Sequence[int]) -> None:
    known = {row["id"] for row in await SQL.known_endpoints.rows(tx, ids=list(ids))}
    errors = [
        FieldError(f"endpoint_ids.{n}", "one_of", f"There is no endpoint {one}")
        for n, one in enumerate(ids)
        if one not in known
    ]
    if errors:
        raise Invalid("", *errors)


def asked_by(caller: Caller) -> Mapping[str, Any]:
    """What explains a fact or a message later: who asked for it, by which request."""
    return {"actor": caller.actor, "request_id": caller.request_id}


async def list_facts(
    db: Database, caller: Caller, wanted: Wanted, *, before: int | None = None, limit: int = 50
) -> list[Fact]:
    """Facts, newest first."""
    family = wanted.type.removesuffix("*") if wanted.type and wanted.type.endswith(".*") else None
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        rows = await SQL.facts.rows(
            tx,
            type=None if family else wanted.type,
            family=family,
            subject=wanted.subject,
            since=wanted.since,
            until=wanted.until,
            before=before,
            k=limit,
        )
    return [fact(row) for row in rows]


async def get_fact(db: Database, caller: Caller, fact_id: int) -> FactDetail:
    """A fact with its envelope, and what became of its deliveries."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        row = await SQL.fact.row(tx, id=fact_id)
        if row is None:
            raise NotFound(f"There is no fact {fact_id}")
        told = Told(**await SQL.told_of_fact.row(tx, id=fact_id))
    return detail(row, envelope(row, row["uid"], caller.slug), told)


async def follow(db: Database, caller: Caller, after: str | None, limit: int) -> Batch:
    """Facts strictly after a cursor, in the order of their transactions, as their envelopes."""
    xid, fact_id = _position(after)
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        rows = await SQL.follow.rows(tx, xid=xid, id=fact_id, k=limit)
        kept = after is None or bool(await SQL.is_kept.value(tx, id=fact_id))
    settled = [row for row in rows if row["settled"]]
    events = [
        Event(f"{row['xid']}-{row['id']}", row["type"], Raw(envelope(row, row["uid"], caller.slug))) for row in settled
    ]
    return Batch(events, held=len(settled) < len(rows), reset=bool(events) and not kept)


def _position(cursor: str | None) -> tuple[str, int]:
    xid, _, fact_id = (cursor or "0-0").partition("-")
    numbers = all(text.isascii() and text.isdecimal() and len(text) <= 20 for text in (xid, fact_id))
    if not numbers or int(xid) >= _MOST_XID or int(fact_id) >= _MOST_ID:
        raise BadRequest("This cursor was not made by this stream", code="bad_cursor")
    return xid, int(fact_id)


async def heads(db: Database) -> dict[str, int]:
    """The newest fact of each workspace that has one, by the name of its stream."""
    async with db.transaction(0, readonly=True) as tx:
        return {f"{row['workspace_id']}:{TOPIC}": row["id"] for row in await SQL.heads.rows(tx)}
