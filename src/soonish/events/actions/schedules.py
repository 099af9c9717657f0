"""Which reminders of an event have a schedule in Temporal, as rows: what is wanted, what is there, what is to go.

A row stands before its schedule is made and until it is removed, so none is ever forgotten. Knows nothing of Temporal.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from soonish.db.pool import Tx
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.handed import Events
from soonish.events.actions.planning import plan_reminders
from soonish.events.actions.rows import lock_event
from soonish.events.actions.telling import SQL
from soonish.events.model import offsets
from soonish.events.model.events import Event
from soonish.events.model.subscriptions import Subscription, subscription_of
from soonish.reminders.leads import moment

PAGE: Final = 200  # subscriptions
LAST: Final = 2**63 - 1


class Scheduled(NamedTuple):
    """One reminder of one subscription."""

    subscription_id: int
    offset: int
    moment: datetime


class Page(NamedTuple):
    """What is to be done for some subscriptions, and after which one the next page begins."""

    wanted: Sequence[Scheduled] = ()
    missed: Sequence[Scheduled] = ()  # wanted in time, and past before there was a schedule
    unwanted: Sequence[Scheduled] = ()
    cursor: int | None = None


async def plan_page(tx: Tx, events: Events, event_id: int, after: int, until: int = LAST) -> Page:
    """Write down which schedules the next subscriptions are to have; what they have beyond that is to go."""
    event = await lock_event(tx, event_id, shared=True)
    if not event.is_active or event.reminder_engine != "temporal":
        return await unplan_page(tx, event_id, after, until)
    rows = await SQL.subscribed.rows(tx, event_id=event_id, after=after, until=until, k=PAGE)
    default = (await defaults_in(tx, events.terms)).reminder_offsets
    all_wanted = [one for row in rows for one in _wanted(subscription_of(row), event, default)]
    ahead = [one for one in all_wanted if one.moment > event.read_at]
    cursor = rows[-1]["id"] if len(rows) == PAGE else None
    await SQL.keep_schedules.run(tx, event_id=event_id, **_columns(ahead))
    there = await SQL.schedules_between.rows(tx, event_id=event_id, after=after, until=cursor or until)
    keys = {(one.subscription_id, one.offset) for one in ahead}
    unwanted = [one for one in map(_scheduled, there) if (one.subscription_id, one.offset) not in keys]
    late = [one for one in all_wanted if one.moment <= event.read_at <= one.moment + events.terms.reminder_late]
    return Page(ahead, late, unwanted, cursor)


async def unplan_page(tx: Tx, event_id: int, after: int, until: int = LAST) -> Page:
    """All schedules of the next subscriptions that have any."""
    rows = await SQL.schedules_page.rows(tx, event_id=event_id, after=after, until=until, k=PAGE)
    several = len({row["subscription_id"] for row in rows}) == PAGE
    return Page(unwanted=[*map(_scheduled, rows)], cursor=rows[-1]["subscription_id"] if several else None)


async def forget(tx: Tx, gone: Sequence[Scheduled]) -> None:
    """Those that are there no more."""
    columns = _columns(gone)
    await SQL.forget_schedules.run(tx, subscriptions=columns["subscriptions"], offsets=columns["offsets"])


async def drop_items(tx: Tx, event_id: int) -> None:
    """The items of the due queue, which reminded of it before."""
    event = await lock_event(tx, event_id, shared=True)
    if event.reminder_engine == "temporal":
        await plan_reminders(tx, event, "replanned")


def _wanted(subscription: Subscription, event: Event, default: Sequence[int]) -> Iterable[Scheduled]:
    """What was past when it was wished or planned is never sent."""
    since = offsets.since(subscription, event)
    for offset in offsets.effective(subscription, event, default):
        if (at := moment(event.start_date, offset)) >= since:
            yield Scheduled(subscription.id, offset, at)


def _scheduled(row: "dict[str, object]") -> Scheduled:
    return Scheduled(*(row[name] for name in ("subscription_id", "offset_seconds", "moment")))  # type: ignore[arg-type]


def _columns(schedules: Sequence[Scheduled]) -> dict[str, list[object]]:
    return {
        "subscriptions": [one.subscription_id for one in schedules],
        "offsets": [one.offset for one in schedules],
        "moments": [one.moment for one in schedules],
    }
