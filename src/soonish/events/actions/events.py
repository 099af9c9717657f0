"""Make, change, publish and delete events. Each is one transaction that locks the event; none talks to Temporal.

What follows from it (broadcasts, reminders, facts, signals) is written here and carried out by due items.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from soonish.access.actions.audit import record
from soonish.db.pool import Tx
from soonish.errors import Conflict, FieldError, Invalid
from soonish.events.actions.broadcasts import tell_of_change
from soonish.events.actions.defaults import hold_defaults
from soonish.events.actions.facts import state_event
from soonish.events.actions.handed import Events
from soonish.events.actions.live import ring_event
from soonish.events.actions.planning import (
    cancel_all_items,
    fill_offsets,
    plan_reminders,
    plan_start,
    plan_watch,
)
from soonish.events.actions.rows import SQL, closed, lock_event, need_open, update_event
from soonish.events.actions.signals import add_signal
from soonish.events.model import facts
from soonish.events.model.changes import Changes, differing, heard, visible
from soonish.events.model.defaults import Defaults
from soonish.events.model.events import Event, event_of
from soonish.events.model.items import cause, fact_cause
from soonish.events.model.offsets import inherited
from soonish.events.model.times import complaints
from soonish.people.actions.people import Match
from soonish.web.auth import Caller


class Changed(NamedTuple):
    """The event as it is now, and the broadcast that tells of the change, if any does."""

    event: Event
    broadcast_id: int | None


async def create_event(tx: Tx, events: Events, caller: Caller, wish: Mapping[str, Any]) -> Event:
    """Make an event: a draft of which nobody hears, or a scheduled one."""
    defaults = await hold_defaults(tx, events.terms)
    now = await SQL.now.value(tx)
    values = {**wish, "effective_end_date": _effective_end(wish["start_date"], wish["end_date"], defaults)}
    await _check(tx, values, now)
    row = await SQL.make_event.row(tx, **values, reminder_engine=events.terms.reminder_engine)
    event = event_of(row)
    await fill_offsets(tx, event, inherited(event, defaults.reminder_offsets))
    await record(tx, caller, "make", f"event/{event.id}", {"state": event.state})
    if event.state == "scheduled":
        await _begin(tx, events, caller, event)
    await ring_event(tx, caller.workspace_id, event.id)
    return event


async def publish_event(tx: Tx, events: Events, caller: Caller, event_id: int) -> Event:
    """Let a draft become a scheduled event: from now on people are told."""
    defaults = await hold_defaults(tx, events.terms)
    draft = await lock_event(tx, event_id)
    if not draft.is_draft:
        raise Conflict(f"Event {event_id} is published already", code="already_published")
    if draft.effective_end_date <= draft.read_at:
        raise closed(draft)
    now, engine = draft.read_at, events.terms.reminder_engine
    values = {"state": "scheduled", "published_at": now, "planned_at": now, "reminder_engine": engine}
    event = await update_event(tx, draft, values)
    await fill_offsets(tx, event, inherited(event, defaults.reminder_offsets))
    await record(tx, caller, "publish", f"event/{event.id}")
    await _begin(tx, events, caller, event)
    await ring_event(tx, caller.workspace_id, event.id)
    return event


async def change_event(
    tx: Tx,
    events: Events,
    caller: Caller,
    event_id: int,
    wish: Mapping[str, Any],
    if_match: Match,
    *,
    notify: bool = True,
    note: str | None = None,
) -> Changed:
    """Change what the wish names. Where nothing differs nothing is written, and nobody hears of it."""
    defaults = await hold_defaults(tx, events.terms)
    before = await lock_event(tx, event_id)
    if_match.check(before.version)
    need_open(before, draft=True)
    changes = differing(before, wish)
    if not changes:
        return Changed(before, None)
    event = await update_event(tx, before, await _written(tx, before, wish, changes, defaults))
    seen = visible(changes)
    told = await _told(tx, event, seen, note, defaults, caller) if notify and seen and event.is_active else None
    if seen:
        await _add_change(tx, event, seen, note, told, caller)
    await record(tx, caller, "change", f"event/{event.id}", {"fields": sorted(changes), "version": event.version})
    await _replan(tx, events, before, event, changes, defaults)
    if event.is_active:
        await _announce_change(tx, events, caller, event, changes, note, told, immediate=not defaults.coalesce)
    await ring_event(tx, caller.workspace_id, event.id)
    return Changed(event, told)


async def delete_event(tx: Tx, caller: Caller, event_id: int, if_match: Match) -> None:
    """Remove a draft, or an event that is over and closed. What was told of it stays in the ledger."""
    event = await lock_event(tx, event_id)
    if_match.check(event.version)
    if not event.is_draft and event.closed_at is None:
        raise Conflict(f"Event {event_id} is not closed; cancel it, and delete it when it is", code="not_closed")
    await cancel_all_items(tx, event, "deleted")
    await SQL.delete_event.run(tx, id=event_id)
    await record(tx, caller, "remove", f"event/{event_id}")
    await ring_event(tx, caller.workspace_id, event_id)


async def rotate_link(tx: Tx, caller: Caller, event_id: int) -> Event:
    """Give the public page another address; the old one leads nowhere."""
    before = await lock_event(tx, event_id)
    need_open(before, draft=True)
    event = await update_event(tx, before, {"link_generation": before.link_generation + 1})
    await record(tx, caller, "relink", f"event/{event_id}")
    await ring_event(tx, caller.workspace_id, event_id)
    return event


async def _begin(tx: Tx, events: Events, caller: Caller, event: Event) -> None:
    """What an event begins with when it is scheduled."""
    await plan_reminders(tx, event)
    await plan_start(tx, event)
    await plan_watch(tx, event, events.terms)
    await add_signal(tx, event.id, "start", {})
    data = facts.data_of(event, organizer_id=event.organizer_id)
    await state_event(tx, events.outbox, event, facts.CREATED, "created", data=data, caller=caller)


async def _written(
    tx: Tx, before: Event, wish: Mapping[str, Any], changes: Changes, defaults: Defaults
) -> dict[str, Any]:
    """The columns that a change writes; raises Invalid for what cannot be."""
    values = {name: wish[name] for name in changes}
    moved = "start_date" in changes
    if moved or "end_date" in changes:
        times = [values.get(name, getattr(before, name)) for name in ("start_date", "end_date")]
        values["effective_end_date"] = _effective_end(times[0], times[1], defaults)
    await _check(tx, values, before.read_at, before)
    if moved or "reminder_offsets" in changes:
        values["planned_at"] = before.read_at
    if visible(changes):
        values["sequence"] = before.sequence + 1
    if moved and before.state == "live" and values["start_date"] > before.read_at:
        values |= {"state": "scheduled", "live_at": None}
    return values


async def _check(tx: Tx, values: Mapping[str, Any], now: datetime, before: Event | None = None) -> None:
    """Name all that is wrong at once."""
    errors: list[FieldError] = []
    if "effective_end_date" in values:
        whole = {
            name: values[name] if name in values else getattr(before, name)
            for name in ("start_date", "end_date", "effective_end_date")
        }
        start_set, end_set = "start_date" in values, "end_date" in values
        errors += complaints(now, *whole.values(), start_set=start_set, end_set=end_set)
    organizer_id = values.get("organizer_id")
    if organizer_id is not None and not await SQL.person_exists.value(tx, id=organizer_id):
        errors.append(FieldError("organizer_id", "unknown_person", f"There is no person {organizer_id}"))
    if errors:
        raise Invalid("", *errors)


async def _told(
    tx: Tx, event: Event, seen: Changes, note: str | None, defaults: Defaults, caller: Caller
) -> int | None:
    return (await tell_of_change(tx, event, seen, note, defaults.coalesce, caller.actor)).id


async def _add_change(tx: Tx, event: Event, seen: Changes, note: str | None, told: int | None, caller: Caller) -> None:
    await SQL.add_change.run(
        tx,
        event_id=event.id,
        version=event.version,
        actor=caller.actor,
        changes=msgspec.json.encode(seen).decode(),
        note=note,
        told=told is not None,
        broadcast_id=told,
    )


async def _replan(tx: Tx, events: Events, before: Event, event: Event, changes: Changes, defaults: Defaults) -> None:
    """Let reminders, start and end follow the change."""
    if "reminder_offsets" in changes:
        await fill_offsets(tx, event, inherited(event, defaults.reminder_offsets))
    if not event.is_active:
        return
    if "start_date" in changes or "reminder_offsets" in changes:
        await plan_reminders(tx, event)
    if "start_date" in changes:
        await plan_start(tx, event)
        for prefix in (f"{cause(event.id, 'reminder')}/", f"{fact_cause(event.id, 'reminder_due')}/"):
            await events.outbox.withdraw(tx, prefix, "moved")
    if event.effective_end_date != before.effective_end_date:
        await plan_watch(tx, event, events.terms)


async def _announce_change(
    tx: Tx,
    events: Events,
    caller: Caller,
    event: Event,
    changes: Changes,
    note: str | None,
    told: int | None,
    *,
    immediate: bool,
) -> None:
    """State the fact, and let the workflow hear what concerns it: at once, whenever people are told of it."""
    data = facts.updated(event, changes, told=told is not None, broadcast_id=told, note=note)
    await state_event(tx, events.outbox, event, facts.UPDATED, "updated", event.version, data=data, caller=caller)
    if visible(changes) or ("reminder_offsets" in changes and event.reminder_engine == "temporal"):
        told_now = {"broadcast_id": told} if told is not None and immediate else {}
        await add_signal(tx, event.id, "event_updated", heard(changes) | told_now)


def _effective_end(start: datetime, end: datetime | None, defaults: Defaults) -> datetime:
    return end if end is not None else start + defaults.duration
