"""The moment that somebody asked for has come: this one person is reminded once more."""

from functools import partial

from soonish.db.pool import Database, Tx
from soonish.delivery.model.letters import Message, Recipient
from soonish.due import queue
from soonish.due.model import Drop, Fate, Item, Kind, Lane, Late
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import SQL, get_subscription, lock_event
from soonish.events.model import texts
from soonish.events.model.events import Event
from soonish.events.model.items import SNOOZE, cause
from soonish.events.model.links import merge_of
from soonish.events.model.subscriptions import Subscription


def kind(db: Database, events: Events) -> Kind:
    """How late it may be is judged here, where its row can say so."""
    return Kind(SNOOZE, partial(remind, db, events), Lane.CONTROL, Late.send(), tries=None)


async def remind(db: Database, events: Events, item: Item) -> Fate:
    """Remind one person once more, or let the row of the snooze say why not."""
    async with db.transaction(item.workspace_id) as tx:
        found = await SQL.snooze.row(tx, id=int(item.key))
        if found is None:
            return Drop("gone")
        event = await lock_event(tx, found["event_id"], shared=True)
        subscription = await get_subscription(tx, event.id, found["subscription_id"])
        row = await SQL.snooze_for_update.row(tx, id=int(item.key), subscription_id=subscription.id)
        if row["state"] != "planned":
            return Drop("removed")
        if reason := _hindrance(event, subscription, event.read_at - row["at"] > events.terms.reminder_late):
            await SQL.end_snooze.run(tx, id=row["id"], state="dropped", reason=reason)
        else:
            await _tell(tx, events, event, subscription, row)
            await SQL.end_snooze.run(tx, id=row["id"], state="told", reason=None)
            return await queue.done_in(tx, item)
    return Drop(reason)


def _hindrance(event: Event, subscription: Subscription, late: bool) -> str | None:
    if not subscription.is_active:
        return "unsubscribed"
    if not event.is_open:
        return "event_cancelled" if event.state == "cancelled" else "event_closed"
    return "too_late" if late else None


async def _tell(tx: Tx, events: Events, event: Event, one: Subscription, row: object) -> None:
    title, body = texts.snoozed(event, event.read_at)
    at = row["at"]  # type: ignore[index]
    message = Message(
        title=title,
        body=body,
        level="warning",
        link=event.link,
        hold="never" if events.terms.reminder_hold == "never" else "quiet",
        send_at=at,
        expires_at=event.effective_end_date,
        because={"event_id": event.id, "subscription_id": one.id},
    )
    to = Recipient(one.person_id, one.selectors, merge_of(event, one.id))
    await events.outbox.tell(tx, cause(event.id, "snooze", row["id"]), message, [to])  # type: ignore[index]
