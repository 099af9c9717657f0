"""Look at events, their subscriptions and reminders. Changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from soonish.db.pool import Database, Tx
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import SQL, get_event, get_subscription
from soonish.events.model.changes import EventChange, change_of
from soonish.events.model.events import Event, State, event_of
from soonish.events.model.items import reminder_cause
from soonish.events.model.links import Links
from soonish.events.model.offsets import effective, inherited, reminders
from soonish.events.model.shown import (
    EventDetail,
    EventShown,
    Reminder,
    SubscriptionDetail,
    SubscriptionShown,
    event_fields,
    subscription_fields,
)
from soonish.events.model.subscriptions import Subscription, subscription_of
from soonish.reminders.leads import moment
from soonish.web.auth import Caller, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events; `since` and `until` are about their start."""

    states: Sequence[State] | None = None
    since: datetime | None = None
    until: datetime | None = None
    q: str | None = None
    organizer_id: int | None = None
    person_id: int | None = None


async def list_events(
    db: Database,
    events: Events,
    caller: Caller,
    wanted: Wanted,
    *,
    after: tuple[datetime, int] | None = None,
    limit: int = 50,
) -> list[EventShown]:
    """Events by their start."""
    after_at, after_id = after or (None, 0)
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        default = (await defaults_in(tx, events.terms)).reminder_offsets
        rows = await SQL.events.rows(
            tx,
            after_at=after_at,
            after_id=after_id,
            states=wanted.states or None,
            since=wanted.since,
            until=wanted.until,
            part=_pattern(wanted.q),
            organizer_id=wanted.organizer_id,
            person_id=wanted.person_id,
            k=limit,
        )
    links = await links_of(events)
    return [EventShown(**_event(event_of(row), default, links)) for row in rows]


async def show_event(db: Database, events: Events, caller: Caller, event_id: int) -> EventDetail:
    """An event, and how many subscribers it has."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await detail(tx, events, await get_event(tx, event_id))


async def detail(tx: Tx, events: Events, event: Event) -> EventDetail:
    """The same in a transaction that is open."""
    default = (await defaults_in(tx, events.terms)).reminder_offsets
    count = await SQL.subscribers.value(tx, event_id=event.id)
    return EventDetail(**_event(event, default, await links_of(events)), subscribers=count)


async def list_changes(
    db: Database, caller: Caller, event_id: int, *, before: int | None = None, limit: int = 50
) -> list[EventChange]:
    """What changed that subscribers see, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        await get_event(tx, event_id)
        return [change_of(row) for row in await SQL.changes.rows(tx, event_id=event_id, before=before, k=limit)]


async def list_reminders(
    db: Database, events: Events, caller: Caller, event_id: int, *, below: int | None = None, limit: int = 50
) -> list[Reminder]:
    """Every offset that somebody wants, by its moment."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        event = await get_event(tx, event_id)
        default = (await defaults_in(tx, events.terms)).reminder_offsets
        rows = await SQL.reminders.rows(
            tx,
            event_id=event_id,
            planned_at=event.planned_at,
            start_date=event.start_date,
            inherited=list(inherited(event, default)),
            below=below,
            k=limit,
        )
    return [_reminder(event, row) for row in rows]


async def list_subscriptions(
    db: Database,
    events: Events,
    caller: Caller,
    event_id: int,
    *,
    state: str | None = None,
    q: str | None = None,
    person_id: int | None = None,
    after: int | None = None,
    limit: int = 50,
) -> list[SubscriptionShown]:
    """Who is subscribed, or was, in the order in which they first were."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        event = await get_event(tx, event_id)
        default = (await defaults_in(tx, events.terms)).reminder_offsets
        rows = await SQL.subscriptions.rows(
            tx, event_id=event_id, after=after or 0, state=state, part=_pattern(q), person_id=person_id, k=limit
        )
    links = await links_of(events)
    found = [subscription_of(row) for row in rows]
    return [SubscriptionShown(**_subscription(one, event, default, links, caller)) for one in found]


async def show_subscription(
    db: Database, events: Events, caller: Caller, event_id: int, subscription_id: int
) -> SubscriptionDetail:
    """A subscription, and how each of its reminders stands."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        event = await get_event(tx, event_id)
        found = await get_subscription(tx, event_id, subscription_id)
        return await subscription_detail(tx, events, caller, event, found)


async def subscription_detail(
    tx: Tx, events: Events, caller: Caller, event: Event, one: Subscription
) -> SubscriptionDetail:
    """The same in a transaction that is open."""
    default = (await defaults_in(tx, events.terms)).reminder_offsets
    causes = {reminder_cause(event.id, each, event.start_date): each for each in effective(one, event, default)}
    rows = await SQL.told_reminders.rows(tx, causes=list(causes), person_id=one.person_id)
    ledger = {causes[row["cause"]]: row for row in rows}
    return SubscriptionDetail(
        **_subscription(one, event, default, await links_of(events), caller),
        reminders=reminders(one, event, default, ledger, events.terms.reminder_late),
    )


async def export(tx: Tx, person_id: int) -> Mapping[str, Any]:
    """What events keep about a person."""
    rows = await SQL.all_of_person.rows(tx, person_id=person_id)
    return {"subscriptions": [dict(row) for row in rows]}


async def links_of(events: Events) -> Links:
    return Links(await events.hmac(), events.public_url)


def _event(event: Event, default: Sequence[int], links: Links) -> dict[str, Any]:
    shows = event.is_public and not event.is_draft
    url = links.page(event.workspace_id, event.id, event.link_generation) if shows else None
    return event_fields(event, inherited(event, default), url)


def _subscription(
    one: Subscription, event: Event, default: Sequence[int], links: Links, caller: Caller
) -> dict[str, Any]:
    url = links.manage(event.workspace_id, one.id) if caller.role >= Role.WRITE else None
    return subscription_fields(one, effective(one, event, default), url)


def _reminder(event: Event, row: Mapping[str, Any]) -> Reminder:
    offset = row["offset_seconds"]
    at = moment(event.start_date, offset)
    ahead = at > event.read_at and (event.is_active or event.is_draft)
    return Reminder(offset_seconds=offset, moment=at, audience=row["audience"], state="planned" if ahead else "past")


def _pattern(q: str | None) -> str | None:
    """For LIKE, with its own marks taken as text."""
    if not q:
        return None
    return "%" + q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
