"""A calendar of somebody's events: a link that calendars read by themselves, which can be ended and made anew.

The link is signed and stored nowhere; of it there is only a number, which each new one raises.
"""

from datetime import datetime
from typing import Final

from msgspec import Struct

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.errors import NotFound
from soonish.events.actions.handed import Events
from soonish.events.actions.public import GONE, made_links, read_link
from soonish.events.actions.rows import SQL
from soonish.events.model.calendar import feed_file
from soonish.events.model.events import event_of
from soonish.events.model.links import FEED
from soonish.people.actions.people import lock_person, person_in
from soonish.web.auth import Caller

MOST: Final = 1_000  # events of a calendar


class Feed(Struct, frozen=True, kw_only=True):
    """Where somebody's events are read by their calendar."""

    url: str


async def get_feed(db: Database, events: Events, caller: Caller, person_id: int) -> Feed:
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        await person_in(tx, person_id)
        generation = await SQL.feed.value(tx, person_id=person_id)
    if generation is None:
        raise NotFound(f"Person {person_id} has no calendar link; POST makes one")
    return await _feed(events, caller, person_id, generation)


async def open_feed(tx: Tx, events: Events, caller: Caller, person_id: int) -> Feed:
    """A new link; those before it lead nowhere any more."""
    await lock_person(tx, person_id)
    generation = await SQL.open_feed.value(tx, person_id=person_id)
    await record(tx, caller, "make", f"event_feed/{person_id}")
    return await _feed(events, caller, person_id, generation)


async def close_feed(tx: Tx, caller: Caller, person_id: int) -> None:
    """End the link, if there is one."""
    await lock_person(tx, person_id)
    if await SQL.close_feed.run(tx, person_id=person_id):
        await record(tx, caller, "remove", f"event_feed/{person_id}")


async def read_feed(db: Database, events: Events, token: str, now: datetime) -> str:
    """The calendar behind a link."""
    claim = await read_link(events, FEED, token, now)
    person_id = int(claim.ids[0])
    async with db.transaction(claim.workspace_id, readonly=True) as tx:
        if await SQL.feed.value(tx, person_id=person_id) != claim.version:
            raise NotFound(GONE)
        await person_in(tx, person_id)
        rows = await SQL.events_of_feed.rows(tx, person_id=person_id, k=MOST)
    return feed_file([event_of(row) for row in rows])


async def _feed(events: Events, caller: Caller, person_id: int, generation: int) -> Feed:
    return Feed(url=(await made_links(events)).feed(caller.workspace_id, person_id, generation))
