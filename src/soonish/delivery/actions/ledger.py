"""Look at deliveries, and let those that ended otherwise than sent go again.

Knows the ledger, nothing of channels: a retry is a row that is pending again, and a due item.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

from soonish import clock
from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.delivery.model.ledger import (
    RETRIABLE,
    RETRIED,
    Delivery,
    DeliveryDetail,
    Entry,
    Note,
    Part,
    Wanted,
    detail,
    entry,
    path_of,
)
from soonish.delivery.model.texts import fill
from soonish.due import Lane, Put, queue
from soonish.due.model import prefix_end
from soonish.errors import Conflict, NotFound
from soonish.people.model.person import Person
from soonish.web.auth import Caller
from soonish.web.sse import ring

SQL: Final = load(str(Path(__file__).parent))

SEND: Final = "delivery.send"
REACH: Final = 10_000  # rows that one look takes at most
STRETCH: Final = 1_000  # deliveries that one retry of many opens at a time
SLACK: Final = timedelta(minutes=2)  # ids are given before rows are seen, so their order by time is not exact
LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Told:
    """A delivery with all that explains it: its names, its tries, what was noted when it was asked for."""

    entry: Entry
    attempts: DeliveryDetail
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look found; `rest` is where the next one goes on, if this one ended because it had seen enough."""

    rows: Sequence[Mapping[str, Any]]
    rest: int | None


async def list_deliveries(
    db: Database, caller: Caller, wanted: Wanted, *, before: int | None = None, limit: int = 50
) -> Part:
    """The newest deliveries that fit. Where few do, a part may be short or empty and still have a next one."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await list_in(tx, wanted, before=before, limit=limit)


async def list_in(tx: Tx, wanted: Wanted, *, before: int | None = None, limit: int = 50) -> Part:
    """The same in a transaction that is open."""
    found = await _look(tx, wanted, before, limit + 1, (wanted.state,) if wanted.state else None)
    entries = [entry(row) for row in found.rows]
    if len(entries) > limit:
        return Part(entries[:limit], entries[limit - 1].delivery.id)
    return Part(entries, found.rest)


async def get_delivery(db: Database, caller: Caller, delivery_id: int) -> DeliveryDetail:
    """One delivery with its tries."""
    return (await get_told(db, caller, delivery_id)).attempts


async def get_told(db: Database, caller: Caller, delivery_id: int) -> Told:
    """The same with what explains it."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await told_in(tx, delivery_id)


async def told_in(tx: Tx, delivery_id: int) -> Told:
    row = await SQL.one_delivery.row(tx, id=delivery_id)
    if row is None:
        raise _gone(delivery_id)
    found = entry(row)
    return Told(found, detail(found.delivery, await SQL.tries_of.rows(tx, id=delivery_id)), row)


async def letters_of(tx: Tx, cause_prefix: str) -> Sequence[Mapping[str, Any]]:
    """The messages under a cause, told or not."""
    return await SQL.letters_of_cause.rows(tx, first=cause_prefix, past=prefix_end(cause_prefix))


async def letters_ahead(tx: Tx, person_id: int) -> Sequence[Mapping[str, Any]]:
    """The messages that this person will be told when their moment comes, soonest first."""
    return await SQL.letters_ahead.rows(tx, person_id=person_id)


async def entries_of(tx: Tx, ids: Sequence[int]) -> dict[int, Entry]:
    """Some deliveries with their names, by id; those that are not kept any more are missing."""
    return {row["id"]: entry(row) for row in await SQL.names_of.rows(tx, ids=list(ids))}


async def titles_of(tx: Tx, ids: Sequence[int]) -> dict[int, str]:
    """The titles of some messages, by id."""
    return {row["id"]: row["title"] for row in await SQL.titles_of.rows(tx, ids=list(ids))}


async def inbox(db: Database, caller: Caller, person: Person, limit: int = 20) -> list[Note]:
    """What came to the console addresses of a person, filled as it was for them at that moment; newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        rows = await SQL.inbox.rows(tx, person_id=person.id, k=limit)
    return [_note(row, person) for row in rows]


def _note(row: Mapping[str, Any], person: Person) -> Note:
    def filled(text: str) -> str:
        zone, merge = clock.zone(person.timezone), json.loads(row["merge"])
        return fill(text, now=row["ended_at"], name=person.name, zone=zone, locale=person.locale, merge=merge)

    return Note(row["id"], row["ended_at"], filled(row["title"]), filled(row["body"]), row["link"], row["level"])


async def name_of(tx: Tx, person_id: int) -> tuple[bool, str]:
    """Whether there is or was such a person, and what to call them."""
    row = await SQL.name_of_person.row(tx, id=person_id)
    return row is not None, (row and row["name"]) or f"Person {person_id}"


async def retry_one(tx: Tx, caller: Caller, delivery_id: int) -> Delivery:
    """Let one delivery go again: the same wire id, a fresh ladder."""
    row = await SQL.hold_delivery.row(tx, id=delivery_id)
    if row is None:
        raise _gone(delivery_id)
    if row["state"] not in RETRIABLE or not row["has_target"]:
        _refuse(delivery_id, row["state"])
    await reopen(tx, [delivery_id])
    await record(tx, caller, "retry", f"delivery/{delivery_id}")
    await _ring(tx, caller, [delivery_id])
    return (await told_in(tx, delivery_id)).entry.delivery


async def retry_many(tx: Tx, caller: Caller, wanted: Wanted, limit: int) -> int:
    """Let all that fit go again, the newest first; those whose target is gone stay. Answers how many."""
    states = (wanted.state,) if wanted.state else RETRIED
    opened: list[int] = []
    before: int | None = LAST
    while before is not None and len(opened) < limit:
        size = min(STRETCH, limit - len(opened))
        found = await _look(tx, wanted, before, size, states)
        ids = [row["id"] for row in found.rows]
        opened += await reopen(tx, ids, states=states)
        before = ids[-1] if len(ids) == size else found.rest
    if opened:
        await record(tx, caller, "retry", "delivery", {**wanted.chosen(), "count": len(opened)})
        await _ring(tx, caller, [])
    return len(opened)


async def reopen(
    tx: Tx, ids: Sequence[int], *, states: Sequence[str] = RETRIABLE, endless: bool = False, lane: Lane = Lane.PEOPLE
) -> list[int]:
    """Deliveries of these states are pending again, from the first step of the ladder, and due now.

    Those whose target is gone stay as they are. `endless` takes every deadline away. Answers which were opened.
    """
    opened = await SQL.reopen.rows(tx, ids=list(ids), states=list(states), endless=endless)
    await queue.put(
        tx, [Put(SEND, str(row["id"]), lane=lane) for row in opened]
    )  # its end is the delivery's, on record
    return [row["id"] for row in opened]


async def revive(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """For `Kind.on_revive` of `delivery.send`: the items live again already, and their deliveries do so with them."""
    ids = [int(row["key"]) for row in rows]
    await SQL.reopen.rows(tx, ids=ids, states=list(RETRIABLE), endless=False)


async def let_go(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """For `Kind.on_cancel` of `delivery.send`: without its item a delivery would be pending for ever."""
    await SQL.let_go.run(tx, ids=[int(row["key"]) for row in rows])
    await ring(tx, rows[0]["workspace_id"], "deliveries")


async def _look(tx: Tx, wanted: Wanted, before: int | None, size: int, states: Sequence[str] | None) -> _Look:
    """The next so many that fit, among as many as one look takes."""
    wanted = await _with_person(tx, wanted)
    first, past = wanted.cause_prefix, None if wanted.cause_prefix is None else prefix_end(wanted.cause_prefix)
    crowded = first is not None and await SQL.crowded_cause.value(tx, first=first, past=past, most=REACH)
    paths, exact = path_of(wanted, states, crowded=crowded)
    reach = size if exact else max(REACH, size)
    rows = await SQL.ledger.rows(
        tx,
        **{name: getattr(wanted, name) for name in Wanted.__slots__ if name not in ("state", "cause_prefix")},
        cause_first=first,
        cause_past=past,
        states=None if states is None else list(states),
        paths=paths,
        before=min(before or LAST, await _end(tx, wanted.until)),
        from_id=await _start(tx, wanted.since),
        reach=reach,
        k=size,
    )
    return _Look([row for row in rows if row["id"] is not None], rows[0]["oldest"] if _full(rows, reach) else None)


async def _with_person(tx: Tx, wanted: Wanted) -> Wanted:
    """With the person whose address that is, for the ledger is indexed by people."""
    if wanted.address_id is None or wanted.person_id is not None:
        return wanted
    return replace(wanted, person_id=await SQL.person_of_address.value(tx, id=wanted.address_id))


def _full(rows: Sequence[Mapping[str, Any]], reach: int) -> bool:
    """Whether there were as many candidates as one look takes, so that there may be more."""
    return bool(rows[0]["looked"] >= reach)


async def _start(tx: Tx, since: datetime | None) -> int:
    return 0 if since is None else await SQL.written_at.value(tx, at=since, slack=-SLACK) or 0


async def _end(tx: Tx, until: datetime | None) -> int:
    return LAST if until is None else await SQL.written_at.value(tx, at=until, slack=SLACK) or LAST


async def _ring(tx: Tx, caller: Caller, ids: Sequence[int]) -> None:
    for topic in ("deliveries", *(f"delivery/{one}" for one in ids)):
        await ring(tx, caller.workspace_id, topic)


def _refuse(delivery_id: int, state: str) -> NoReturn:
    if state == "sent":
        raise Conflict(f"Delivery {delivery_id} was sent; nobody is told the same thing twice", code="already_sent")
    if state == "pending":
        raise Conflict(f"Delivery {delivery_id} is still on its way; wait for its end", code="still_pending")
    raise Conflict(f"Delivery {delivery_id} leads nowhere any more: what it was for is gone", code="target_gone")


def _gone(delivery_id: int) -> NotFound:
    return NotFound(f"There is no delivery {delivery_id} here")
