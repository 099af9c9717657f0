"""Messages: put one for its moment, list them, look at one, cancel it. Whom a tag names is asked when it is told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.delivery.actions.facts import SQL, asked_by
from soonish.delivery.model.letters import Hold, Level, Recipient
from soonish.delivery.model.messages import (
    AHEAD_YEARS,
    LIFE,
    MESSAGE,
    Message,
    MessageDetail,
    MessagePut,
    Summary,
    asked_for,
    detail,
    message,
    recipients,
)
from soonish.delivery.outbox import SEND, STRETCH
from soonish.due import Lane, Put, put, queue
from soonish.errors import Conflict, FieldError, Invalid, NotFound
from soonish.people.actions.targets import check_selectors
from soonish.web.auth import Caller
from soonish.web.sse import ring

TOPIC = "messages"
_UNTOLD = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class To:
    """To whom: people by their ids, by those of another system, or all who have a tag when it is told."""

    person_ids: Sequence[int] | None = None
    external_ids: Sequence[str] | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to be told."""

    title: str
    body: str
    level: Level
    link: str | None
    hold: Hold
    send_at: datetime | None
    expires_at: datetime | None


async def put_message(
    tx: Tx, caller: Caller, new: NewMessage, to: To, selectors: Sequence[Mapping[str, Any]] | None
) -> MessagePut:
    """Put a message for its moment; nobody is told before."""
    person_ids = None if to.tag is not None else await _named(tx, to)
    people = {"tag": to.tag} if person_ids is None else {"person_ids": person_ids}
    await _check_selectors(tx, person_ids, selectors)
    row = await SQL.put_message.row(
        tx,
        to_people=asked_for(people, selectors),
        because=msgspec.json.encode(asked_by(caller)).decode(),
        life=LIFE,
        ahead=f"{AHEAD_YEARS} years",
        **{name: getattr(new, name) for name in NewMessage.__slots__},
    )
    if errors := _of_moments(row):
        raise Invalid("", *errors)
    # Without an end of its own: whoever is told too late has a row that says so.
    await put(tx, [Put(MESSAGE, str(row["id"]), row["send_at"], lane=Lane.CONTROL)])
    await record(tx, caller, "put", f"message/{row['id']}", {"send_at": row["send_at"], "level": new.level})
    await ring(tx, caller.workspace_id, TOPIC)
    return MessagePut(id=row["id"])


def _of_moments(row: Mapping[str, Any]) -> list[FieldError]:
    errors = []
    if row["too_far"]:
        errors.append(FieldError("send_at", "range", f"This is more than {AHEAD_YEARS} years ahead"))
    if row["useless"]:
        errors.append(FieldError("expires_at", "range", "It must be ahead, and later than send_at"))
    return errors


async def _named(tx: Tx, to: To) -> list[int]:
    """The ids of the people, each once; all that are not known are named."""
    by_external = to.external_ids is not None
    field = "external_ids" if by_external else "person_ids"
    asked: Sequence[int | str] = list(getattr(to, field))
    rows = await SQL.named_people.rows(tx, ids=[] if by_external else asked, external_ids=asked if by_external else [])
    known = {row["external_id" if by_external else "id"]: row["id"] for row in rows}
    errors = [
        FieldError(f"to.{field}.{n}", "unknown_person", f"There is no person {one!r}")
        for n, one in enumerate(asked)
        if one not in known
    ]
    if errors:
        raise Invalid("", *errors)
    return list(dict.fromkeys(known[one] for one in asked))


async def _check_selectors(
    tx: Tx, person_ids: Sequence[int] | None, selectors: Sequence[Mapping[str, Any]] | None
) -> None:
    """One person's addresses can be named; for several people only tags mean something."""
    if person_ids is not None and len(person_ids) == 1:
        await check_selectors(tx, person_ids[0], selectors)
        return
    named = [n for n, one in enumerate(selectors or ()) if "address_id" in one]
    if named:
        told = "An address is one person's; to tell several people, choose by tag"
        raise Invalid("", *(FieldError(f"selectors.{n}.address_id", "foreign_selector", told) for n in named))


async def people_of(tx: Tx, to_people: Mapping[str, Any], after: int, limit: int) -> list[Recipient]:
    """The next people that a message is for, in the order of their ids, strictly after one; [] = there are no more."""
    if (tag := to_people.get("tag")) is not None:
        rows = await SQL.tagged_people.rows(tx, tag=tag, after=after, k=limit)
        return recipients([row["id"] for row in rows], to_people)
    ids = sorted(one for one in to_people["person_ids"] if one > after)[:limit]
    return recipients(ids, to_people)


async def list_messages(db: Database, caller: Caller, *, before: int | None = None, limit: int = 50) -> list[Message]:
    """Messages, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return [message(row) for row in await SQL.messages.rows(tx, before=before, k=limit)]


async def find_message(tx: Tx, message_id: int) -> Message | None:
    """A message of the transaction's workspace, or None."""
    row = await SQL.message.row(tx, id=message_id)
    return row and message(row)


async def get_message(db: Database, caller: Caller, message_id: int) -> MessageDetail:
    """A message, and how many people it reached."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        row = await SQL.message.row(tx, id=message_id)
        if row is None:
            raise _unknown(message_id)
        return detail(row, await summary_of(tx, message_id))


async def summary_of(tx: Tx, message_id: int) -> Summary:
    """How many people a message reached, and what became of it for the others."""
    return Summary(**await SQL.summary.row(tx, id=message_id))


async def cancel_message(tx: Tx, caller: Caller, message_id: int) -> MessageDetail:
    """Tell nobody from now on: those who were told stay told, what is pending is skipped."""
    row = await SQL.message_for_update.row(tx, id=message_id)
    if row is None:
        raise _unknown(message_id)
    live = await queue.cancel(tx, MESSAGE, [str(message_id)], reason=_UNTOLD)
    withdrawn = await _withdraw(tx, message_id)
    finished = row["told_at"] is not None and not live and not withdrawn
    if finished or row["cancelled_at"] is not None:
        raise Conflict(f"Message {message_id} is over: nothing of it is pending", code="already_finished")
    row = await SQL.cancel_message.row(tx, id=message_id)
    await record(tx, caller, "cancel", f"message/{message_id}", {"withdrawn": withdrawn})
    for topic in (TOPIC, "deliveries"):
        await ring(tx, caller.workspace_id, topic)
    return detail(row, await summary_of(tx, message_id))


async def call_off(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """For `Kind.on_cancel` of `delivery.message`: the message is cancelled with its item."""
    for row in rows:
        message_id = int(row["key"])
        await _withdraw(tx, message_id)
        await SQL.cancel_message.row(tx, id=message_id)
        for topic in (TOPIC, "deliveries"):
            await ring(tx, row["workspace_id"], topic)


async def _withdraw(tx: Tx, message_id: int) -> int:
    """By the message and not by its cause: `message/1` is also how `message/12` begins."""
    count, after = 0, 0
    while rows := await SQL.withdraw_message.rows(tx, id=message_id, reason=_UNTOLD, after=after, k=STRETCH):
        ids = [row["id"] for row in rows]
        await queue.cancel(tx, SEND, [str(one) for one in ids], reason=_UNTOLD)
        count, after = count + len(ids), max(ids)
    return count


def _unknown(message_id: int) -> NotFound:
    return NotFound(f"There is no message {message_id}")
