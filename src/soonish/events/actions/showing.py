"""What the pages of the console show of events beyond what the API says: names beside ids, figures in lists.

Changes nothing. How it looks is not known here.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from soonish.clock import show_instant
from soonish.db.pool import Database, Tx
from soonish.db.sql import Statement
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.handed import Events
from soonish.events.actions.listing import with_stats
from soonish.events.actions.public import made_links
from soonish.events.actions.rows import SQL, get_event
from soonish.events.model.broadcasts import BroadcastDetail, Preview, broadcast_of
from soonish.events.model.events import Event, event_of
from soonish.events.model.offsets import effective, inherited
from soonish.events.model.subscriptions import Subscription, subscription_of
from soonish.people.model.person import ERASED
from soonish.reminders.leads import moment
from soonish.web.auth import Caller

When: TypeAlias = Literal["coming", "drafts", "past"]
TO_CHOOSE: Final = 200  # people that a form suggests
PAGE: Final = 5_000
COLUMNS: Final = (
    "subscription_id", "person_id", "name", "email", "state", "source", "reminder_offsets", "effective_offsets",
    "activated_at", "removed_at", "removed_by",
)  # fmt: skip
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would work out instead of showing it
_LISTS: Final[Mapping[str, Statement]] = {
    "coming": SQL.coming_events,
    "drafts": SQL.draft_events,
    "past": SQL.past_events,
}


class Line(NamedTuple):
    """An event in a list."""

    event: Event
    subscribers: int
    next_reminder: datetime | None


class Head(NamedTuple):
    """An event, and what stands above each of its pages."""

    event: Event
    subscribers: int
    inherited: Sequence[int]
    organizer: str | None
    public_url: str | None


class Subscriber(NamedTuple):
    """A subscription, and who it is of."""

    subscription: Subscription
    name: str
    email: str | None
    effective: Sequence[int]


async def list_lines(
    db: Database, caller: Caller, when: When, q: str | None, *, after: tuple[datetime, int] | None, limit: int
) -> list[Line]:
    """The events of a list; the past ones the latest first."""
    at, event_id = after or (None, 2**62 if when == "past" else 0)
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        found = [event_of(row) for row in await _LISTS[when].rows(tx, at=at, id=event_id, part=_pattern(q), k=limit)]
        rows = await SQL.figures.rows(tx, ids=[event.id for event in found])
    figures = {row["id"]: row for row in rows}
    return [_line(event, figures[event.id]) for event in found]


async def get_shown(db: Database, caller: Caller, event_id: int) -> Event:
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await get_event(tx, event_id)


async def head(db: Database, events: Events, caller: Caller, event_id: int) -> Head:
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await head_in(tx, events, event_id)


async def head_in(tx: Tx, events: Events, event_id: int) -> Head:
    """The same in a transaction that is open."""
    event = await get_event(tx, event_id)
    count = await SQL.subscribers.value(tx, event_id=event_id)
    default = (await defaults_in(tx, events.terms)).reminder_offsets
    named = await SQL.names_of.rows(tx, ids=[event.organizer_id] if event.organizer_id else [])
    links = await made_links(events)
    shows = event.is_public and not event.is_draft
    url = links.page(event.workspace_id, event.id, event.link_generation) if shows else None
    return Head(event, count, inherited(event, default), named[0]["name"] if named else None, url)


async def list_subscribers(
    db: Database,
    events: Events,
    caller: Caller,
    event_id: int,
    *,
    state: str | None = None,
    q: str | None = None,
    after: int | None = None,
    limit: int = 50,
) -> list[Subscriber]:
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        event = await get_event(tx, event_id)
        default = (await defaults_in(tx, events.terms)).reminder_offsets
        return await _subscribers(tx, event, default, after=after or 0, state=state, part=_pattern(q), k=limit)


async def default_offsets(db: Database, events: Events, caller: Caller) -> Sequence[int]:
    """What holds for an event that says nothing."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return (await defaults_in(tx, events.terms)).reminder_offsets


async def reach(db: Database, caller: Caller, event_id: int) -> Preview:
    """Whom an announcement to everybody would reach now."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return Preview(**await SQL.preview.row(tx, event_id=event_id, ids=None))


async def list_told(db: Database, caller: Caller, event_id: int, limit: int) -> list[BroadcastDetail]:
    """What was told at once, or will be, with its figures; the newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        rows = await SQL.broadcasts.rows(tx, event_id=event_id, before=None, k=limit)
        return [await with_stats(tx, broadcast_of(row)) for row in rows]


async def names_of(db: Database, caller: Caller, person_ids: Iterable[int]) -> dict[int, str]:
    """Who they are; those who were erased have no name any more."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        rows = await SQL.names_of.rows(tx, ids=list(set(person_ids)))
    return {row["id"]: row["name"] for row in rows}


async def people_to_choose(db: Database, caller: Caller) -> list[tuple[int, str]]:
    """Whom a form suggests: the newest."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return [(row["id"], row["name"]) for row in await SQL.people_to_choose.rows(tx, k=TO_CHOOSE)]


async def csv_of(db: Database, events: Events, caller: Caller, event_id: int) -> str:
    """All subscriptions of an event as a table; a cell that begins like a formula is text."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        event = await get_event(tx, event_id)
        default, after = (await defaults_in(tx, events.terms)).reminder_offsets, 0
        while page := await _subscribers(tx, event, default, after=after, state=None, part=None, k=PAGE):
            writer.writerows(_cells(one) for one in page)
            after = page[-1].subscription.id
    return text.getvalue()


def _line(event: Event, row: Any) -> Line:
    offset, subscribers = row["next_offset"], row["subscribers"]
    next_reminder = moment(event.start_date, offset) if offset is not None and subscribers and event.is_open else None
    return Line(event, subscribers, next_reminder)


async def _subscribers(tx: Tx, event: Event, default: Sequence[int], **wanted: Any) -> list[Subscriber]:
    rows = await SQL.subscribers_shown.rows(tx, event_id=event.id, **wanted)
    return [_subscriber(row, event, default) for row in rows]


def _subscriber(row: Any, event: Event, default: Sequence[int]) -> Subscriber:
    one = subscription_of(row)
    return Subscriber(one, row["name"] or ERASED, row["email"], effective(one, event, default))


def _cells(row: Subscriber) -> list[str]:
    one = row.subscription
    values: Sequence[Any] = (
        one.id, one.person_id, row.name, row.email, one.state, one.source, one.reminder_offsets, row.effective,
        one.activated_at, one.removed_at, one.removed_by,
    )  # fmt: skip
    return [_cell(value) for value in values]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return show_instant(value)
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _pattern(q: str | None) -> str | None:
    """For LIKE, with its own marks taken as text."""
    if not q:
        return None
    return "%" + q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
