"""Cancel an event: from that commit on nothing else of it is told."""

from typing import Any

from soonish.access.actions.audit import record
from soonish.db.pool import Tx
from soonish.events.actions.broadcasts import add_broadcast
from soonish.events.actions.facts import state_event
from soonish.events.actions.handed import Events
from soonish.events.actions.live import ring_event
from soonish.events.actions.planning import cancel_items, plan_look
from soonish.events.actions.rows import SQL, lock_event, need_published, update_event
from soonish.events.actions.signals import add_signal
from soonish.events.model import facts, texts
from soonish.events.model.events import Event
from soonish.events.model.items import cause, fact_cause
from soonish.web.auth import Caller

CANCELLED = "event_cancelled"


async def cancel_event(
    tx: Tx, events: Events, caller: Caller, event_id: int, *, message: str | None = None, notify: bool = True
) -> Event:
    """Cancel it, once; asked again nothing happens. What is pending is withdrawn, and with `notify` all are told."""
    before = await lock_event(tx, event_id)
    if before.state == "cancelled":
        return before
    need_published(before)
    event = await update_event(
        tx,
        before,
        {
            "state": "cancelled", "cancelled_at": before.read_at, "sequence": before.sequence + 1,
            "cancel_message": message,
        },
    )  # fmt: skip
    await cancel_items(tx, event, CANCELLED)
    await SQL.withdraw_broadcasts.rows(tx, event_id=event.id, reason=CANCELLED)
    for prefix in (f"{cause(event.id)}/", f"{fact_cause(event.id, 'reminder_due')}/"):
        await events.outbox.withdraw(tx, prefix, CANCELLED)
    data = facts.data_of(event, cancel_message=message, cancelled_at=event.cancelled_at)
    await state_event(tx, events.outbox, event, facts.CANCELLED, "cancelled", data=data, caller=caller)
    await add_signal(tx, event.id, "cancel_event", await _told(tx, event, caller) if notify else {})
    await plan_look(tx, event, event.read_at + events.terms.watch_grace)
    await record(tx, caller, "cancel", f"event/{event.id}", {"notify": notify})
    await ring_event(tx, caller.workspace_id, event.id)
    return event


async def _told(tx: Tx, event: Event, caller: Caller) -> dict[str, Any]:
    text = texts.cancelled(event, event.cancel_message)
    return {"broadcast_id": (await add_broadcast(tx, event, "cancelled", text, caller.actor)).id}
