"""Announcements: what an organizer says to all subscribers or to some, at once or at a moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from soonish.access.actions.audit import record
from soonish.db.pool import Tx
from soonish.delivery.model.letters import Level
from soonish.due import Put, cancel, put
from soonish.errors import Conflict, FieldError, Invalid
from soonish.events.actions.broadcasts import add_broadcast, update_broadcast
from soonish.events.actions.live import ring_event
from soonish.events.actions.rows import SQL, get_event, lock_broadcast, lock_event, need_published
from soonish.events.actions.signals import add_signal
from soonish.events.model.broadcasts import Broadcast, Preview
from soonish.events.model.events import Event
from soonish.events.model.items import ANNOUNCE
from soonish.events.model.texts import Text
from soonish.events.model.times import next_whole
from soonish.web.auth import Caller

WITHDRAWN: Final = "by_organizer"
MOST_SHOWN: Final = 10  # wrong ids that a refusal names


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAnnouncement:
    """What is said, to whom (None = all), and when (None = now)."""

    title: str
    body: str
    notification_level: Level = "info"
    subscription_ids: Sequence[int] | None = None
    send_at: datetime | None = None


async def announce(
    tx: Tx, caller: Caller, event_id: int, new: NewAnnouncement, *, created_by: str | None = None
) -> Broadcast:
    """Let subscribers hear something: now, or at its moment. `created_by`: a mark in place of the caller's own."""
    event = await lock_event(tx, event_id)
    need_published(event)
    send_at = None if new.send_at is None else next_whole(new.send_at)
    await _check(tx, event, new.subscription_ids, send_at)
    broadcast = await add_broadcast(
        tx,
        event,
        "announcement",
        Text(new.title, new.body),
        created_by or caller.actor,
        level=new.notification_level,
        subscription_ids=None if new.subscription_ids is None else sorted(set(new.subscription_ids)),
        send_at=send_at,
    )
    if send_at is None:
        await signal_announcement(tx, broadcast)
    await record(tx, caller, "announce", f"event/{event_id}", {"broadcast_id": broadcast.id})
    await ring_event(tx, caller.workspace_id, event_id)
    return broadcast


async def preview(tx: Tx, event_id: int, new: NewAnnouncement) -> Preview:
    """Whom it would reach now."""
    event = await get_event(tx, event_id)
    need_published(event)
    await _check(tx, event, new.subscription_ids, new.send_at)
    return Preview(**await SQL.preview.row(tx, event_id=event_id, ids=new.subscription_ids))


async def change_announcement(
    tx: Tx, caller: Caller, event_id: int, broadcast_id: int, wish: Mapping[str, Any]
) -> Broadcast:
    """Change one that waits for its moment."""
    event = await lock_event(tx, event_id)
    before = await _waiting(tx, event_id, broadcast_id)
    need_published(event)
    if (send_at := wish.get("send_at")) is not None:
        wish = {**wish, "send_at": next_whole(send_at)}
        await _check(tx, event, None, wish["send_at"])
    if all(getattr(before, name) == value for name, value in wish.items()):
        return before
    after = await update_broadcast(tx, before, **wish)
    await put(tx, [Put(ANNOUNCE, str(broadcast_id), after.send_at)])
    await record(tx, caller, "change", f"broadcast/{broadcast_id}", {"fields": sorted(wish)})
    await ring_event(tx, caller.workspace_id, event_id)
    return after


async def withdraw_announcement(tx: Tx, caller: Caller, event_id: int, broadcast_id: int) -> None:
    """Let nobody hear one that waits for its moment."""
    await lock_event(tx, event_id)
    before = await _waiting(tx, event_id, broadcast_id, or_withdrawn=True)
    if before.state == "withdrawn":
        return
    await update_broadcast(tx, before, state="withdrawn", reason=WITHDRAWN)
    await cancel(tx, ANNOUNCE, [str(broadcast_id)], reason=WITHDRAWN)
    await record(tx, caller, "withdraw", f"broadcast/{broadcast_id}")
    await ring_event(tx, caller.workspace_id, event_id)


async def signal_announcement(tx: Tx, broadcast: Broadcast) -> None:
    """Let the workflow tell it."""
    payload = {
        "broadcast_id": broadcast.id,
        "title": broadcast.title,
        "notification_level": broadcast.notification_level,
    }
    await add_signal(tx, broadcast.event_id, "send_manual_notification", payload)


async def _waiting(tx: Tx, event_id: int, broadcast_id: int, *, or_withdrawn: bool = False) -> Broadcast:
    """An announcement that can still be changed."""
    found = await lock_broadcast(tx, event_id, broadcast_id)
    withdrawn = found.state == "withdrawn" and found.reason == WITHDRAWN and or_withdrawn
    if found.kind != "announcement" or not (found.state == "scheduled" or withdrawn):
        raise Conflict("Only an announcement that waits for its moment can be changed", code="already_queued")
    return found


async def _check(tx: Tx, event: Event, ids: Sequence[int] | None, send_at: datetime | None) -> None:
    """Name all that is wrong: a moment that is past or too late, subscriptions that are not of this event."""
    errors = []
    if send_at is not None and send_at <= event.read_at:
        errors.append(FieldError("send_at", "in_past", "This is past; leave it out to say it now"))
    elif send_at is not None and send_at >= event.effective_end_date:
        errors.append(FieldError("send_at", "after_end", "The event is over by then; give an earlier moment"))
    if ids:
        known = {row["id"] for row in await SQL.active_among.rows(tx, event_id=event.id, ids=list(ids))}
        wrong = [(n, one) for n, one in enumerate(ids) if one not in known][:MOST_SHOWN]
        told = "Event {} has no active subscription {}"
        errors += [
            FieldError(f"subscription_ids.{n}", "unknown_subscription", told.format(event.id, one)) for n, one in wrong
        ]
    if errors:
        raise Invalid("", *errors)
