"""Tell a broadcast to its audience, a page a transaction, and to the organizer that the event is under way.

To tell is to write the ledger; sending comes after. A cancellation wins over all that is not told yet.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from soonish.db.pool import Tx
from soonish.db.sql import load
from soonish.delivery.model.letters import Message, Recipient
from soonish.errors import NotFound
from soonish.events.actions.handed import Events
from soonish.events.actions.live import ring_event
from soonish.events.actions.rows import find_event, lock_broadcast, lock_event
from soonish.events.model import items, texts
from soonish.events.model.broadcasts import Broadcast
from soonish.events.model.calendar import calendar_file
from soonish.events.model.events import Event
from soonish.events.model.links import merge_of

SQL: Final = load(str(Path(__file__).parent))
PAGE: Final = 5_000
AT_LEAST: Final = timedelta(hours=1)
LAST_WORD: Final = timedelta(hours=72)  # for how long it is still of use to know that an event is cancelled
CANCELLED: Final = "event_cancelled"


async def tell_page(tx: Tx, events: Events, event_id: int, broadcast_id: int, seq: int | None) -> bool:
    """Tell the next page of a broadcast; answers whether that was the last, and finishes its signal with it.

    What is told or withdrawn already stays as it is.
    """
    event = await lock_event(tx, event_id, shared=True)
    broadcast = await lock_broadcast(tx, event_id, broadcast_id)
    if broadcast.state == "scheduled":
        raise NotFound(f"Broadcast {broadcast_id} is not to be told yet")
    if broadcast.state in ("queued", "telling") and event.state == "cancelled" and broadcast.kind != "cancelled":
        await SQL.withdraw_broadcast.run(tx, id=broadcast_id, reason=CANCELLED)
        return await _settled(tx, event_id, seq, "withdrawn")
    if broadcast.state in ("told", "withdrawn"):
        return await _settled(tx, event_id, seq, broadcast.state)
    telling_at = broadcast.telling_at or await _begin(tx, events, broadcast)
    last = await _page(tx, events, event, broadcast, telling_at)
    return await _settled(tx, event_id, seq, "told") if last else False


async def reached(tx: Tx, event_id: int, broadcast_id: int) -> dict[str, int]:
    """What a broadcast came to: subscriptions, their addresses, and those who have none."""
    broadcast = await lock_broadcast(tx, event_id, broadcast_id)
    row = await SQL.reached.row(tx, cause=items.broadcast_cause(event_id, broadcast_id))
    return {"total": broadcast.total or 0, "targets": row["targets"], "no_targets": row["no_targets"]}


async def notify_organizer(tx: Tx, events: Events, event_id: int) -> dict[str, int]:
    """Tell the organizer, once, that the event is under way; nobody where there is none, or it is cancelled already."""
    event = await find_event(tx, event_id)
    if event is None or event.organizer_id is None or not event.is_active:
        return {"total": 0}
    title, body = texts.created(event)
    message = Message(
        title=title, body=body, link=event.link, expires_at=_expiry(event, event.read_at), because={"notice": "created"}
    )
    who = [Recipient(event.organizer_id, merge=merge_of(event))]
    told = await events.outbox.tell(tx, items.cause(event_id, "created"), message, who)
    return {"total": min(1, told.pending + told.skipped)}


async def withdraw_all(tx: Tx, events: Events, event_id: int) -> None:
    """Let nothing of the event be sent that is not on the wire: what is told after this is not touched."""
    await events.outbox.withdraw(tx, items.cause(event_id, ""), CANCELLED)
    await events.outbox.withdraw(tx, items.fact_cause(event_id, "reminder_due", ""), CANCELLED)


async def settle(tx: Tx, event_id: int, seqs: list[int], outcome: str) -> None:
    """Signals that are carried out, in the transaction of their effect."""
    await SQL.settle.run(tx, event_id=event_id, ids=seqs, outcome=outcome)


async def _begin(tx: Tx, events: Events, broadcast: Broadcast) -> datetime:
    """From here on the audience is fixed. The word that an event is cancelled is the last that is sent of it."""
    if broadcast.kind == "cancelled":
        await withdraw_all(tx, events, broadcast.event_id)
    at: datetime = await SQL.begin_telling.value(tx, id=broadcast.id)
    return at


async def _page(tx: Tx, events: Events, event: Event, broadcast: Broadcast, telling_at: datetime) -> bool:
    rows = await SQL.audience.rows(
        tx,
        event_id=event.id,
        telling_at=telling_at,
        after=broadcast.after_id,
        ids=broadcast.subscription_ids,
        k=PAGE,
    )
    people = [Recipient(row["person_id"], _selectors(row), merge_of(event, row["id"])) for row in rows]
    cause = items.broadcast_cause(event.id, broadcast.id)
    if people:
        await events.outbox.tell(tx, cause, _message(event, broadcast, telling_at), people, bulk=broadcast.after_id > 0)
    last = len(rows) < PAGE
    after = rows[-1]["id"] if rows else broadcast.after_id
    await SQL.told_page.run(tx, id=broadcast.id, after=after, count=len(rows), last=last)
    await ring_event(tx, event.workspace_id, event.id)
    return last


def _message(event: Event, broadcast: Broadcast, telling_at: datetime) -> Message:
    """Its own words; whoever is told of a change or of the end gets the calendar file anew."""
    final = broadcast.kind == "cancelled"
    return Message(
        title=broadcast.title,
        body=broadcast.body,
        level=broadcast.notification_level,
        link=broadcast.link or event.link,
        calendar=None if broadcast.kind == "announcement" else calendar_file(event),
        expires_at=telling_at + LAST_WORD if final else _expiry(event, telling_at),
        because={"actor": broadcast.created_by},
    )


def _expiry(event: Event, at: datetime) -> datetime:
    return max(event.effective_end_date, at + AT_LEAST)


def _selectors(row: Any) -> Any:
    return None if row["selectors"] is None else msgspec.json.decode(row["selectors"])


async def _settled(tx: Tx, event_id: int, seq: int | None, outcome: str) -> bool:
    if seq is not None:
        await settle(tx, event_id, [seq], outcome)
    return True
