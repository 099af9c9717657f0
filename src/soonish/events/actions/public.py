"""What is behind the links of events: who holds one is let in to that one thing, and to nothing else.

A link says which workspace it is of. Whether what it names is still there, and may be seen, is looked up each time; all
that is wrong with a link is answered alike.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from soonish.access.actions.audit import system_caller
from soonish.db.pool import Database, Tx
from soonish.errors import NotFound
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import SQL, find_event
from soonish.events.model import offsets
from soonish.events.model.events import Event
from soonish.events.model.joining import ACTOR
from soonish.events.model.links import PAGE, Links
from soonish.events.model.subscriptions import Subscription, subscription_of
from soonish.vault import Claim
from soonish.web.auth import Caller

GONE: Final = "This link is not valid, or what it led to is gone; ask whoever gave it to you"


async def made_links(events: Events) -> Links:
    return Links(await events.hmac(), events.public_url)


async def read_link(events: Events, purpose: str, token: str, now: datetime) -> Claim:
    """What a link says; raises NotFound for one that was not made here for this."""
    claim = (await events.hmac()).check(purpose, token, now)
    if claim is None:
        raise NotFound(GONE)
    return claim


def stranger(workspace_id: int, request_id: str) -> Caller:
    """Who asks, where a link alone says so."""
    return replace(system_caller(workspace_id), actor=ACTOR, request_id=request_id)


class Seen(NamedTuple):
    """An event, and the offsets of those who say nothing."""

    event: Event
    inherited: Sequence[int]


async def look_at_event(db: Database, events: Events, token: str, now: datetime) -> Seen:
    """The event of a page that everybody may see."""
    claim = await read_link(events, PAGE, token, now)
    async with db.transaction(claim.workspace_id, readonly=True) as tx:
        event = await public_event(tx, claim)
        return Seen(event, offsets.inherited(event, (await defaults_in(tx, events.terms)).reminder_offsets))


async def public_event(tx: Tx, claim: Claim) -> Event:
    """The event of such a link, unless it is a draft, not public, or has another link by now."""
    event = await find_event(tx, int(claim.ids[0]))
    if event is None or event.is_draft or not event.is_public or event.link_generation != claim.version:
        raise NotFound(GONE)
    return event


async def subscription_behind(tx: Tx, subscription_id: int) -> Subscription:
    row: Any = await SQL.subscription_by_id.row(tx, id=subscription_id)
    if row is None:
        raise NotFound(GONE)
    return subscription_of(row)
