"""The due items of an event: when it begins and ends, and at which moments its subscribers are reminded.

One item an offset, whatever the number of subscribers. With the engine temporal reminders have no items here; their
schedules are planned by the workflow, which is told by signals.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from soonish.clock import show_instant
from soonish.db.pool import Tx
from soonish.due import Put, cancel, put
from soonish.errors import FieldError, Invalid
from soonish.events.actions.rows import SQL
from soonish.events.model.events import Event
from soonish.events.model.items import ANNOUNCE, LIVE, REMINDER, SIGNAL, SNOOZE, WATCH
from soonish.events.model.offsets import MOST_OF_EVENT
from soonish.events.model.terms import Terms
from soonish.reminders.items import item, replan
from soonish.reminders.leads import moment


async def fill_offsets(tx: Tx, event: Event, inherited: Collection[int]) -> None:
    """Keep each offset that somebody may want of this event, and no others; the event is locked alone."""
    await SQL.prune_offsets.rows(tx, event_id=event.id, inherited=list(inherited))
    own = {row["offset_seconds"] for row in await SQL.own_offsets.rows(tx, event_id=event.id)}
    wanted = own | set(inherited)
    _check_count(len(wanted))
    await SQL.add_offsets.rows(tx, event_id=event.id, offsets=sorted(wanted))


async def add_offsets(tx: Tx, event: Event, offsets: Iterable[int], inherited: Collection[int]) -> None:
    """Some more offsets that a subscriber wants; the event's lock may be shared. Each new one gets its item."""
    wanted = sorted(set(offsets))
    if not await SQL.unknown_offsets.rows(tx, event_id=event.id, offsets=wanted):
        return
    await SQL.hold_offsets.row(tx, event_id=event.id)
    new = {row["offset_seconds"] for row in await SQL.unknown_offsets.rows(tx, event_id=event.id, offsets=wanted)}
    if len(known := await offsets_of(tx, event)) + len(new) > MOST_OF_EVENT:
        pruned = await SQL.prune_offsets.rows(tx, event_id=event.id, inherited=[*inherited, *wanted])
        _check_count(len(known) - len(pruned) + len(new))
    await SQL.add_offsets.rows(tx, event_id=event.id, offsets=sorted(new))
    if event.is_active and event.reminder_engine == "due":
        ahead = [one for one in new if moment(event.start_date, one) > event.read_at]
        await put(tx, [reminder_item(event, offset) for offset in ahead])


async def offsets_of(tx: Tx, event: Event) -> list[int]:
    return [row["offset_seconds"] for row in await SQL.offsets.rows(tx, event_id=event.id)]


async def plan_reminders(tx: Tx, event: Event, reason: str = "moved") -> None:
    """Make the items of its reminders those of its start and offsets; without a plan of this engine, none."""
    wanted = await offsets_of(tx, event) if event.is_active and event.reminder_engine == "due" else []
    await replan(tx, REMINDER, event.id, [reminder_item(event, offset) for offset in wanted], reason)


async def plan_start(tx: Tx, event: Event) -> None:
    """When it becomes live, if it is not."""
    if event.state == "scheduled":
        await put(tx, [Put(LIVE, str(event.id), event.start_date, {"start_date": show_instant(event.start_date)})])


async def plan_watch(tx: Tx, event: Event, terms: Terms) -> None:
    """When to look whether its workflow has closed it."""
    at = event.effective_end_date + terms.watch_grace
    if event.reminder_engine == "temporal":
        at = min(at, event.read_at + terms.watch)
    await put(tx, [Put(WATCH, str(event.id), at)])


async def plan_look(tx: Tx, event: Event, at: datetime) -> None:
    """Look at that moment instead: the event was cancelled."""
    await put(tx, [Put(WATCH, str(event.id), at)])


async def cancel_items(tx: Tx, event: Event, reason: str) -> None:
    """Nothing of the event comes of itself any more: no reminder, snooze or announcement, and it never becomes live."""
    await cancel(tx, ANNOUNCE, await _keys_of_broadcasts(tx, event), reason=reason)
    await cancel(tx, LIVE, [str(event.id)], reason=reason)
    await cancel(tx, REMINDER, prefix=f"{event.id}/", reason=reason)
    dropped = await SQL.drop_snoozes_of_event.rows(tx, event_id=event.id, reason=reason)
    await cancel(tx, SNOOZE, [str(row["id"]) for row in dropped], reason=reason)


async def cancel_all_items(tx: Tx, event: Event, reason: str) -> None:
    """The same with all that looks after its workflow: the event is gone."""
    await cancel_items(tx, event, reason)
    await cancel(tx, SIGNAL, [str(event.id)], reason=reason)
    await cancel(tx, WATCH, [str(event.id)], reason=reason)


def reminder_item(event: Event, offset: int) -> Put:
    planned = {"start_date": show_instant(event.start_date), "offset_seconds": offset}
    return item(REMINDER, event.id, offset, event.start_date, planned)


async def _keys_of_broadcasts(tx: Tx, event: Event) -> list[str]:
    return [str(row["id"]) for row in await SQL.scheduled_broadcasts.rows(tx, event_id=event.id)]


def _check_count(count: int) -> None:
    if count > MOST_OF_EVENT:
        told = f"The subscribers of one event have {MOST_OF_EVENT} different offsets at most; take one that is there"
        raise Invalid("", FieldError("reminder_offsets", "too_many_offsets", told))
