"""Events as files: for calendars, and for tables."""

from collections.abc import Sequence
from typing import Any

from soonish.events.actions import showing
from soonish.events.actions.handed import events_of
from soonish.events.model.calendar import calendar_file
from soonish.events.routes.public import calendar
from soonish.web.auth import Role
from soonish.web.operation import Caller, Database, Reply, Request, get


@get("/v1/events/{event_id:int}/event.ics", role=Role.READ)
async def event_file(request: Request, db: Database, caller: Caller, event_id: int) -> Reply:
    """Give an event as a calendar file."""
    event = await showing.get_shown(db, caller, event_id)
    return calendar(request, calendar_file(event), "event.ics")


@get("/v1/events/{event_id:int}/subscriptions.csv", role=Role.WRITE)
async def subscribers_file(request: Request, db: Database, caller: Caller, event_id: int) -> Reply:
    """Give the subscriptions of an event as a table."""
    text = await showing.csv_of(db, events_of(request), caller, event_id)
    return table(text, f"event-{event_id}-subscribers.csv")


def table(text: str, name: str) -> Reply:
    disposition = f'attachment; filename="{name}"'.encode()
    head = [(b"content-type", b"text/csv; charset=utf-8"), (b"content-disposition", disposition)]
    return Reply(200, head, text.encode())


routes: Sequence[Any] = [event_file, subscribers_file]
