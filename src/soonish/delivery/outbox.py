"""Ask for messages to people and facts to machines: rows of the ledger and due items, inside the caller's transaction.

Nothing is sent here, and the same cause asked for again adds only the targets that are not there yet. Knows who hears
a thing, nothing of channels.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from soonish import failpoints
from soonish.db.pool import Tx
from soonish.db.sql import load
from soonish.delivery.model.letters import NO_MERGE, Message, Recipient
from soonish.due import Lane, Put, queue
from soonish.due.model import prefix_end
from soonish.vault import Vault

SQL: Final = load(__file__)

SEND: Final = "delivery.send"
WITHDRAW: Final = "delivery.withdraw"
MOST_PEOPLE: Final = 5_000  # of one call: the caller pages
STRETCH: Final = 5_000  # deliveries that one pass of a withdrawal takes
DATA_BYTES: Final = 16_384

Those: TypeAlias = Literal["people", "endpoints"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Type and data, for every endpoint that hears such facts; with `endpoint_ids` for these, whatever they hear."""

    cause: str
    type: str
    subject: str
    data: Mapping[str, Any]
    due_at: datetime | None = None
    deliver_until: datetime | None = None
    because: Mapping[str, Any] = field(default_factory=dict)
    endpoint_ids: Sequence[int] | None = None


class Told(NamedTuple):
    """What a call wrote: the message, and how many targets are new, those on record as skipped among them."""

    message_id: int
    pending: int
    skipped: int


class Stated(NamedTuple):
    """The fact, None where it had been stated before; and how many deliveries were written."""

    fact_id: int | None
    deliveries: int


class Outbox:
    """One a process, made by `app` and handed to the slices."""

    def __init__(self, vault: Vault, *, bulk_audience: int = 1000) -> None:
        self._vault = vault
        self._bulk_audience = bulk_audience

    async def tell(
        self, tx: Tx, cause: str, message: Message, people: Sequence[Recipient], *, bulk: bool = False
    ) -> Told:
        """Tell people: a delivery for each address that counts, or one that says why there is none."""
        if len(people) > MOST_PEOPLE:
            raise ValueError(f"{len(people)} people at once; page them by {MOST_PEOPLE}")
        message_id = await SQL.letter.value(tx, cause=cause, **_letter(message))
        rows = await SQL.tell.rows(
            tx,
            cause=cause,
            message_id=message_id,
            due_at=message.send_at,
            expires_at=message.expires_at,
            person_ids=[one.person_id for one in people],
            selectors=[None if one.selectors is None else _json(one.selectors) for one in people],
            merges=[_json(one.merge) for one in people],
            reasons=[one.reason for one in people],
        )
        pending = await self._put(tx, rows, bulk)
        return Told(message_id, pending, len(rows) - pending)

    async def post(
        self,
        tx: Tx,
        cause: str,
        mailbox: str,
        message: Message,
        *,
        person_id: int | None = None,
        merge: Mapping[str, Any] = NO_MERGE,
    ) -> Told:
        """One mail to a mailbox that is no address yet; where it goes is kept sealed."""
        place = await SQL.place_of_delivery.row(tx)
        sealed = self._vault.seal(mailbox.encode(), (place["workspace_id"], "delivery", "mailbox", place["id"]))
        message_id = await SQL.letter.value(tx, cause=cause, **_letter(message))
        rows = await SQL.post.rows(
            tx,
            id=place["id"],
            cause=cause,
            message_id=message_id,
            mailbox=sealed,
            person_id=person_id,
            merge=_json(merge),
            due_at=message.send_at,
            expires_at=message.expires_at,
        )
        return Told(message_id, await self._put(tx, rows, bulk=False), 0)

    async def state(self, tx: Tx, fact: Fact, *, bulk: bool = False) -> Stated:
        """State one fact, once a cause."""
        [stated] = await self.state_all(tx, [fact], bulk=bulk)
        return stated

    async def state_all(self, tx: Tx, facts: Sequence[Fact], *, bulk: bool = False) -> list[Stated]:
        """State many facts by one statement; a delivery for each endpoint that hears such a fact."""
        if not facts:
            return []
        datas = [_json(fact.data) for fact in facts]
        if any(len(data.encode()) > DATA_BYTES for data in datas):
            raise ValueError(f"the data of a fact has at most {DATA_BYTES} bytes")
        rows = await SQL.state.rows(
            tx,
            causes=[fact.cause for fact in facts],
            types=[fact.type for fact in facts],
            subjects=[fact.subject for fact in facts],
            datas=datas,
            dues=[fact.due_at for fact in facts],
            untils=[fact.deliver_until for fact in facts],
            becauses=[_json(fact.because) for fact in facts],
            endpoints=[None if fact.endpoint_ids is None else _json(fact.endpoint_ids) for fact in facts],
        )
        await self._put(tx, [row for row in rows if row["id"] is not None], bulk)
        ids = {row["cause"]: row["fact_id"] for row in rows}
        counts: dict[str, int] = {}
        for row in rows:
            counts[row["cause"]] = counts.get(row["cause"], 0) + (row["id"] is not None)
        return [Stated(ids.get(fact.cause), counts.get(fact.cause, 0)) for fact in facts]

    async def withdraw(
        self, tx: Tx, cause_prefix: str, reason: str, *, person_id: int | None = None, of: Those | None = None
    ) -> int:
        """Let what is pending under the prefix never be sent; what exceeds a stretch goes on by itself.

        Answers how many were withdrawn now.
        """
        # A withdrawal that still goes on is put anew by one of the same key: of other targets it is another one.
        key = f"{cause_prefix}:{person_id or 'all'}{f':{of}' if of else ''}"
        return await _withdraw(tx, key, {"prefix": cause_prefix, "person_id": person_id, "of": of, "reason": reason})

    async def skip(self, tx: Tx, reason: str, *, person_id: int | None = None, endpoint_id: int | None = None) -> int:
        """The same for all that is pending for a person, or for an endpoint, whatever its cause."""
        key = f"person/{person_id}" if endpoint_id is None else f"endpoint/{endpoint_id}"
        return await _withdraw(tx, key, {"person_id": person_id, "endpoint_id": endpoint_id, "reason": reason})

    async def retry(
        self,
        tx: Tx,
        cause_prefix: str,
        *,
        deliver_until: datetime | None = None,
        of: Those | None = None,
        states: Sequence[str] = ("failed", "unknown"),
    ) -> int:
        """Let what ended so under the prefix go again, under its wire ids, from the first step of its ladder.

        No target is added, and what was sent stays sent. Answers how many go again, until when they may.
        """
        span: dict[str, Any] = {
            "first": cause_prefix,
            "past": prefix_end(cause_prefix),
            "of": of,
            "states": list(states),
        }
        count, after = 0, 0
        while rows := await SQL.retry_cause.rows(tx, **span, until=deliver_until, after=after, k=STRETCH):
            count, after = count + await self._put(tx, rows, bulk=count > 0), max(row["id"] for row in rows)
        return count

    async def _put(self, tx: Tx, rows: Sequence[Any], bulk: bool) -> int:
        """Due items for those that are to be sent; a large audience goes by the bulk lane."""
        pending = [row for row in rows if row["state"] == "pending"]
        lane = Lane.BULK if bulk or len(pending) > self._bulk_audience else Lane.PEOPLE
        moments = {row["due_at"]: row["due_at"] for row in pending}  # one object a moment: equal ones travel once
        await queue.put(tx, [Put(SEND, str(row["id"]), moments[row["due_at"]], lane=lane) for row in pending])
        failpoints.reach("outbox.written")
        return len(pending)


async def withdraw_some(tx: Tx, scope: Mapping[str, Any]) -> int:
    """One stretch of a withdrawal; answers how many there were."""
    common = {"reason": scope["reason"], "until": scope["until"], "k": STRETCH}
    if (prefix := scope.get("prefix")) is not None:
        span = {"first": prefix, "past": prefix_end(prefix), "person_id": scope["person_id"], "of": scope["of"]}
        rows = await SQL.withdraw.rows(tx, **common, **span)
    elif scope["person_id"] is not None:
        rows = await SQL.withdraw_person.rows(tx, **common, person_id=scope["person_id"])
    else:
        rows = await SQL.withdraw_endpoint.rows(tx, **common, endpoint_id=scope["endpoint_id"])
    if rows:
        await queue.cancel(tx, SEND, [str(row["id"]) for row in rows], reason=scope["reason"])
    return len(rows)


async def _withdraw(tx: Tx, key: str, scope: Mapping[str, Any]) -> int:
    whole = {**scope, "until": await SQL.newest_delivery.value(tx)}
    count = await withdraw_some(tx, whole)
    if count == STRETCH:
        await queue.put(tx, [Put(WITHDRAW, key[-200:], payload=whole, lane=Lane.CONTROL)])
    return count


def _letter(message: Message) -> dict[str, Any]:
    names = ("title", "body", "level", "link", "hold", "calendar", "send_at", "expires_at")
    return {name: getattr(message, name) for name in names} | {"because": _json(message.because)}


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode() if value else json.dumps(value)
