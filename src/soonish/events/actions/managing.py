"""The page of one subscription, for whoever holds its link: what they hear and when, and the ways out and back.

What it changes is changed by the same actions as by the API, in the name of the mailbox that the link went to.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from soonish.db.again import run_again
from soonish.db.pool import Database, Tx
from soonish.errors import NotFound
from soonish.events.actions import snoozes, subscriptions
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.handed import Events
from soonish.events.actions.public import made_links, read_link, stranger, subscription_behind
from soonish.events.actions.rows import SQL, get_event
from soonish.events.model import offsets
from soonish.events.model.events import Event
from soonish.events.model.joining import SOURCE
from soonish.events.model.links import LEAVE, MANAGE
from soonish.events.model.shown import Snooze
from soonish.events.model.subscriptions import RemovedBy, Subscription
from soonish.web.auth import Caller
from soonish.web.reading import IfMatch

Step: TypeAlias = Callable[[Tx, Events, Caller, Subscription], Awaitable[Any]]

KEPT: Final = 100  # snoozes among which those that are to come stand
_ANY: Final = IfMatch(None)


@dataclass(frozen=True, slots=True)
class Managed:
    """A subscription, its event, and what it inherits of that."""

    event: Event
    subscription: Subscription
    inherited: Sequence[int]
    snoozes: Sequence[Snooze]
    manage_url: str

    @property
    def effective(self) -> Sequence[int]:
        own = self.subscription.reminder_offsets
        return self.inherited if own is None else own


async def look(db: Database, events: Events, token: str, now: datetime, purpose: str = MANAGE) -> Managed:
    """What a link leads to; looking changes nothing."""
    claim = await read_link(events, purpose, token, now)
    async with db.transaction(claim.workspace_id, readonly=True) as tx:
        return await _managed(tx, events, claim.workspace_id, await subscription_behind(tx, int(claim.ids[0])))


async def act(db: Database, events: Events, token: str, now: datetime, request_id: str, step: Step) -> Managed:
    """Take a step on the subscription of a link, and show it as it is then."""
    claim = await read_link(events, MANAGE, token, now)
    return await run_again(_act, db, events, int(claim.ids[0]), stranger(claim.workspace_id, request_id), step)


async def leave_by_link(
    db: Database, events: Events, token: str, now: datetime, request_id: str, by: RemovedBy
) -> Managed | None:
    """Unsubscribe, as often as the link is used; None where there is nothing left to leave."""
    claim = await read_link(events, LEAVE, token, now)
    caller = stranger(claim.workspace_id, request_id)
    try:
        return await run_again(_act, db, events, int(claim.ids[0]), caller, leave(by))
    except NotFound:
        return None


def leave(by: RemovedBy = "person") -> Step:
    async def step(tx: Tx, events: Events, caller: Caller, one: Subscription) -> None:
        await subscriptions.leave(tx, events, caller, one.event_id, one.id, by)

    return step


def come_back() -> Step:
    """Subscribe again as before; who never left stays as they are."""

    async def step(tx: Tx, events: Events, caller: Caller, one: Subscription) -> None:
        if one.is_active:
            return
        wish: dict[str, Any] = {"reminder_offsets": one.reminder_offsets, "selectors": one.selectors}
        await subscriptions.subscribe(
            tx, events, caller, one.event_id, one.person_id, **wish, welcome=False, source=SOURCE
        )

    return step


def remind(wanted: list[int] | None) -> Step:
    """Other reminders; none of its own: those of the event."""

    async def step(tx: Tx, events: Events, caller: Caller, one: Subscription) -> None:
        await subscriptions.change_subscription(
            tx, events, caller, one.event_id, one.id, {"reminder_offsets": wanted}, _ANY
        )

    return step


def snooze(in_seconds: int) -> Step:
    async def step(tx: Tx, _: Events, caller: Caller, one: Subscription) -> None:
        await snoozes.add_snooze(tx, caller, one.event_id, one.id, in_seconds=in_seconds)

    return step


async def _act(db: Database, events: Events, subscription_id: int, caller: Caller, step: Step) -> Managed:
    async with db.transaction(caller.workspace_id) as tx:
        await step(tx, events, caller, await subscription_behind(tx, subscription_id))
        return await _managed(tx, events, caller.workspace_id, await subscription_behind(tx, subscription_id))


async def _managed(tx: Tx, events: Events, workspace_id: int, one: Subscription) -> Managed:
    event = await get_event(tx, one.event_id)
    default = (await defaults_in(tx, events.terms)).reminder_offsets
    rows = await SQL.snoozes.rows(tx, subscription_id=one.id, before=None, k=KEPT)
    planned = [snoozes.snooze_of(row) for row in rows if row["state"] == "planned"]
    manage = (await made_links(events)).manage(workspace_id, one.id)
    return Managed(event, one, offsets.inherited(event, default), planned, manage)
