"""The JSON face of calendar links: one a person."""

from collections.abc import Sequence
from typing import Any

from soonish.events.actions import feeds
from soonish.events.actions.feeds import Feed
from soonish.events.actions.handed import events_of
from soonish.web.answers import Created
from soonish.web.auth import Role
from soonish.web.operation import Caller, Database, Request, Tx, delete, get, post


@get("/v1/people/{person_id:int}/event-feed", role=Role.WRITE)
async def show_feed(request: Request, db: Database, caller: Caller, person_id: int) -> Feed:
    """Show the calendar link of a person."""
    return await feeds.get_feed(db, events_of(request), caller, person_id)


@post("/v1/people/{person_id:int}/event-feed", role=Role.WRITE)
async def make_feed(request: Request, tx: Tx, caller: Caller, person_id: int) -> Created[Feed]:
    """Make a new calendar link for a person; older ones end."""
    made = await feeds.open_feed(tx, events_of(request), caller, person_id)
    return Created(made, f"/v1/people/{person_id}/event-feed")


@delete("/v1/people/{person_id:int}/event-feed", role=Role.WRITE)
async def remove_feed(tx: Tx, caller: Caller, person_id: int) -> None:
    """End the calendar link of a person."""
    await feeds.close_feed(tx, caller, person_id)


routes: Sequence[Any] = [show_feed, make_feed, remove_feed]
