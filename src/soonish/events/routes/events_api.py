"""The JSON face of events: make, find, change, publish, cancel; what changed, and what is planned."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import asdict

from soonish.events.actions import cancelling, defaults, events, looking
from soonish.events.actions.handed import events_of
from soonish.events.model.changes import EventChange as Change
from soonish.events.model.defaults import EventDefaults
from soonish.events.model.shown import EventChanged, EventDetail, EventShown, Reminder
from soonish.events.routes.bodies import (
    Cancellation,
    DefaultsChange,
    EventChange,
    EventsQuery,
    NewEvent,
    event_wish,
    ordered,
)
from soonish.web.answers import Created, Listing
from soonish.web.auth import Role
from soonish.web.fields import Paged, changes
from soonish.web.operation import Caller, Database, IfMatch, Request, Tx, delete, get, patch, post

SILENT: Final = Cancellation()


@post("/v1/events", role=Role.WRITE)
async def make_event(request: Request, tx: Tx, caller: Caller, body: NewEvent) -> Created[EventDetail]:
    """Make an event: scheduled, or a draft of which nobody hears."""
    hand = events_of(request)
    wish = event_wish(body)
    made = await events.create_event(tx, hand, caller, {**wish, "timezone": body.timezone or caller.timezone})
    return Created(await looking.detail(tx, hand, made), f"/v1/events/{made.id}")


@get("/v1/events", role=Role.READ)
async def list_events(request: Request, db: Database, caller: Caller, query: EventsQuery) -> Listing[EventShown]:
    """List events by their start."""
    wanted = looking.Wanted(
        states=query.state, since=query.from_, until=query.to, q=query.q, organizer_id=query.organizer_id,
        person_id=query.person_id,
    )  # fmt: skip
    position = query.position(datetime, int)
    rows = await looking.list_events(db, events_of(request), caller, wanted, after=position, limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.start_date, row.id))


@get("/v1/events/{event_id:int}", role=Role.READ)
async def show_event(request: Request, db: Database, caller: Caller, event_id: int) -> EventDetail:
    """Show an event, and how many subscribers it has."""
    return await looking.show_event(db, events_of(request), caller, event_id)


@patch("/v1/events/{event_id:int}", role=Role.WRITE, codes=["event_closed"])
async def change_event(
    request: Request, tx: Tx, caller: Caller, event_id: int, body: EventChange, if_match: IfMatch
) -> EventChanged:
    """Change an event; its subscribers are told of what they see, unless `notify` is false."""
    hand = events_of(request)
    changed = await events.change_event(
        tx, hand, caller, event_id, event_wish(body), if_match, notify=body.notify, note=body.note or None
    )
    shown = await looking.detail(tx, hand, changed.event)
    return EventChanged(**asdict(shown), broadcast_id=changed.broadcast_id)


@delete("/v1/events/{event_id:int}", role=Role.WRITE, codes=["not_closed"])
async def delete_event(tx: Tx, caller: Caller, event_id: int, if_match: IfMatch) -> None:
    """Remove a draft, or an event that is over and closed."""
    await events.delete_event(tx, caller, event_id, if_match)


@post("/v1/events/{event_id:int}/publish", role=Role.WRITE, codes=["already_published", "event_closed"])
async def publish_event(request: Request, tx: Tx, caller: Caller, event_id: int) -> EventDetail:
    """Let a draft become a scheduled event: from now on people are told."""
    hand = events_of(request)
    return await looking.detail(tx, hand, await events.publish_event(tx, hand, caller, event_id))


@post("/v1/events/{event_id:int}/cancel", role=Role.WRITE, codes=["not_published", "event_closed"])
async def cancel_event(
    request: Request, tx: Tx, caller: Caller, event_id: int, body: Cancellation = SILENT
) -> EventDetail:
    """Cancel an event: from now on nothing else of it is told."""
    hand = events_of(request)
    cancelled = await cancelling.cancel_event(
        tx, hand, caller, event_id, message=body.message or None, notify=body.notify
    )
    return await looking.detail(tx, hand, cancelled)


@post("/v1/events/{event_id:int}/rotate-link", role=Role.WRITE, codes=["event_closed"])
async def rotate_link(request: Request, tx: Tx, caller: Caller, event_id: int) -> EventDetail:
    """Give the public page another address; the old one leads nowhere."""
    return await looking.detail(tx, events_of(request), await events.rotate_link(tx, caller, event_id))


@get("/v1/events/{event_id:int}/changes", role=Role.READ)
async def list_changes(db: Database, caller: Caller, event_id: int, query: Paged) -> Listing[Change]:
    """List what changed that subscribers see, newest first."""
    rows = await looking.list_changes(db, caller, event_id, before=query.position(int), limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.id,))


@get("/v1/events/{event_id:int}/reminders", role=Role.READ)
async def list_reminders(
    request: Request, db: Database, caller: Caller, event_id: int, query: Paged
) -> Listing[Reminder]:
    """List every offset that an active subscription wants, by its moment."""
    below = query.position(int)
    rows = await looking.list_reminders(db, events_of(request), caller, event_id, below=below, limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.offset_seconds,))


@get("/v1/event-defaults", role=Role.READ)
async def show_defaults(db: Database, caller: Caller) -> EventDefaults:
    """Show what holds for the events of the workspace; null = as the operator decided."""
    return await defaults.show_defaults(db, caller)


@patch("/v1/event-defaults", role=Role.ADMIN)
async def change_defaults(
    request: Request, tx: Tx, caller: Caller, body: DefaultsChange, if_match: IfMatch
) -> EventDefaults:
    """Change what holds for the events of the workspace."""
    return await defaults.change_defaults(tx, events_of(request), caller, ordered(changes(body)), if_match)


routes: Sequence[Any] = [
    make_event, list_events, show_event, change_event, delete_event, publish_event, cancel_event, rotate_link,
    list_changes, list_reminders, show_defaults, change_defaults,
]  # fmt: skip
