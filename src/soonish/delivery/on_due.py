"""What comes due of deliveries: a try, the telling of a message, and what goes on by itself in stretches.

Knows who is told and what is put next; how a try is made stands in send.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from soonish.clock import parse_instant
from soonish.db.pool import Database, Tx
from soonish.delivery.actions.ledger import SQL, let_go, reopen, revive
from soonish.delivery.actions.messages import call_off, people_of
from soonish.delivery.model.letters import Message
from soonish.delivery.outbox import MOST_PEOPLE, SEND, STRETCH, WITHDRAW, Outbox, withdraw_some
from soonish.delivery.send.sender import Sender
from soonish.due import queue
from soonish.due.model import Again, Fate, Item, Kind, Lane, Late
from soonish.errors import Conflict

MESSAGE: Final = "delivery.message"
REPLAY: Final = "delivery.replay"
REPLAYED: Final = 1_000  # deliveries of one pass
WRITTEN: Final = timedelta(
    days=7
)  # a channel bounds its tries; what was tried waits longer for a database that is away
AT_ONCE: Final = Again(after=0)


def kinds(db: Database, outbox: Outbox, sender: Sender) -> list[Kind]:
    """What this slice does when its items come due; the ladder of a delivery decides how often it is tried."""
    return [
        Kind(
            SEND,
            sender,
            Lane.PEOPLE,
            Late.send(),
            tries=None,
            run_limit=WRITTEN,
            stream=True,
            on_revive=revive,
            on_cancel=let_go,
        ),
        Kind(MESSAGE, partial(tell, db, outbox), Lane.CONTROL, Late.send(), on_cancel=call_off),
        Kind(REPLAY, partial(replay, db), Lane.BULK, Late.send(), tries=None),
        Kind(WITHDRAW, partial(withdraw, db), Lane.CONTROL, Late.send(), tries=None, on_cancel=must_end),
    ]


async def tell(db: Database, outbox: Outbox, item: Item) -> Fate:
    """Tell a message to the people that it is for, a page a run; one whose time is over is told to nobody, on record.

    A second run adds only who is not told yet.
    """
    async with db.transaction(item.workspace_id) as tx:
        row = await SQL.message_to_tell.row(tx, id=int(item.key))
        if row is None or row["cancelled_at"] is not None:
            return await queue.done_in(tx, item)
        after = int(item.payload.get("after", 0))
        people = await people_of(tx, msgspec.json.decode(row["to_people"]), after, MOST_PEOPLE)
        if row["over"]:
            people = [one._replace(reason="expired") for one in people]
        await outbox.tell(tx, row["cause"], _message(row), people, bulk=after > 0)
        if len(people) < MOST_PEOPLE:
            return await queue.done_in(tx, item)
        return await queue.again_in(tx, item, AT_ONCE, payload={"after": people[-1].person_id})


async def replay(db: Database, item: Item) -> Fate:
    """Let what an endpoint did not get go again, some at a time; its place is kept in the payload.

    A second run of a pass finds those pending that the first one opened.
    """
    wanted, endpoint_id = item.payload, int(item.key.partition("/")[0])
    async with db.transaction(item.workspace_id) as tx:
        rows = await SQL.replay_some.rows(
            tx,
            endpoint_id=endpoint_id,
            states=wanted["states"],
            since=parse_instant(wanted["since"]),
            until=_instant(wanted["until"]),
            after=wanted["after"],
            k=min(REPLAYED, wanted["limit"]),
        )
        await reopen(tx, [row["id"] for row in rows], states=wanted["states"], endless=True, lane=Lane.BULK)
        left = wanted["limit"] - len(rows)
        if len(rows) < REPLAYED or not left:
            return await queue.done_in(tx, item)
        return await queue.again_in(tx, item, AT_ONCE, payload={**wanted, "after": rows[-1]["id"], "limit": left})


async def withdraw(db: Database, item: Item) -> Fate:
    """The rest of a withdrawal of more than one stretch; a second run finds less."""
    async with db.transaction(item.workspace_id) as tx:
        if await withdraw_some(tx, item.payload) < STRETCH:
            return await queue.done_in(tx, item)
        return await queue.again_in(tx, item, AT_ONCE)


async def must_end(_tx: Tx, _rows: Sequence[Any]) -> None:
    """Somebody was told already that the rest will not be sent."""
    raise Conflict("What was withdrawn must not be sent after all; pause the kind instead", code="system_item")


def _instant(text: str | None) -> datetime | None:
    return None if text is None else parse_instant(text)


def _message(row: Any) -> Message:
    names = ("title", "body", "level", "link", "hold", "calendar", "send_at", "expires_at")
    return Message(**{name: row[name] for name in names}, because=msgspec.json.decode(row["because"]))
