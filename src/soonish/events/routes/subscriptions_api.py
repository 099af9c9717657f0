"""The JSON face of subscriptions: who hears of an event, how, and when once more."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from soonish.events.actions import looking, rows, snoozes, subscriptions
from soonish.events.actions.handed import events_of
from soonish.events.model.shown import Snooze, SubscriptionDetail, SubscriptionShown
from soonish.events.model.subscriptions import Subscription
from soonish.events.routes.bodies import (
    ManySubscriptions,
    NewSnooze,
    NewSubscription,
    SubscriptionChange,
    SubscriptionsQuery,
    subscription_wish,
    wish_of,
)
from soonish.web.answers import Created, Listing
from soonish.web.auth import Role
from soonish.web.fields import Paged
from soonish.web.operation import Caller, Database, IfMatch, Request, Tx, delete, get, patch, post


class Added(Struct, frozen=True, kw_only=True):
    """How many were subscribed, and how many were subscribed before."""

    added: int
    already: int


@post("/v1/events/{event_id:int}/subscriptions", role=Role.WRITE, codes=["already_subscribed", "event_closed"])
async def subscribe(
    request: Request, tx: Tx, caller: Caller, event_id: int, body: NewSubscription
) -> Created[SubscriptionDetail]:
    """Subscribe a person to an event."""
    wish = wish_of(body)
    made = await subscriptions.subscribe(
        tx, events_of(request), caller, event_id, wish.person_id,
        reminder_offsets=wish.reminder_offsets, selectors=wish.selectors, welcome=body.welcome,
    )  # fmt: skip
    shown = await _shown(request, tx, caller, event_id, made)
    return Created(shown, f"/v1/events/{event_id}/subscriptions/{made.id}")


@post("/v1/events/{event_id:int}/subscriptions/batch", role=Role.WRITE, codes=["event_closed"])
async def subscribe_many(request: Request, tx: Tx, caller: Caller, event_id: int, body: ManySubscriptions) -> Added:
    """Subscribe up to 1000 people: all of them, or none where one cannot be."""
    done = await subscriptions.subscribe_many(
        tx, events_of(request), caller, event_id, body.wishes(), welcome=body.welcome
    )
    return Added(added=done.added, already=done.already)


@get("/v1/events/{event_id:int}/subscriptions", role=Role.READ)
async def list_subscriptions(
    request: Request, db: Database, caller: Caller, event_id: int, query: SubscriptionsQuery
) -> Listing[SubscriptionShown]:
    """List who is subscribed, or was."""
    found = await looking.list_subscriptions(
        db, events_of(request), caller, event_id,
        state=query.state, q=query.q, person_id=query.person_id, after=query.position(int), limit=query.limit + 1,
    )  # fmt: skip
    return query.listing(found, lambda row: (row.id,))


@get("/v1/events/{event_id:int}/subscriptions/{subscription_id:int}", role=Role.READ)
async def show_subscription(
    request: Request, db: Database, caller: Caller, event_id: int, subscription_id: int
) -> SubscriptionDetail:
    """Show a subscription, and how each of its reminders stands."""
    return await looking.show_subscription(db, events_of(request), caller, event_id, subscription_id)


@patch("/v1/events/{event_id:int}/subscriptions/{subscription_id:int}", role=Role.WRITE, codes=["event_closed"])
async def change_subscription(
    request: Request,
    tx: Tx,
    caller: Caller,
    event_id: int,
    subscription_id: int,
    body: SubscriptionChange,
    if_match: IfMatch,
) -> SubscriptionDetail:
    """Change when somebody is reminded, and where."""
    wish = subscription_wish(body)
    changed = await subscriptions.change_subscription(
        tx, events_of(request), caller, event_id, subscription_id, wish, if_match
    )
    return await _shown(request, tx, caller, event_id, changed)


@delete("/v1/events/{event_id:int}/subscriptions/{subscription_id:int}", role=Role.WRITE)
async def unsubscribe(request: Request, tx: Tx, caller: Caller, event_id: int, subscription_id: int) -> None:
    """Let somebody hear no more of an event."""
    await subscriptions.leave(tx, events_of(request), caller, event_id, subscription_id, "organizer")


@post(
    "/v1/events/{event_id:int}/subscriptions/{subscription_id:int}/snoozes",
    role=Role.WRITE,
    codes=["event_closed", "too_many"],
)
async def add_snooze(tx: Tx, caller: Caller, event_id: int, subscription_id: int, body: NewSnooze) -> Created[Snooze]:
    """Remind somebody once more, at a moment of their own."""
    made = await snoozes.add_snooze(tx, caller, event_id, subscription_id, at=body.at, in_seconds=body.in_seconds)
    return Created(made, f"/v1/events/{event_id}/subscriptions/{subscription_id}/snoozes/{made.id}")


@get("/v1/events/{event_id:int}/subscriptions/{subscription_id:int}/snoozes", role=Role.READ)
async def list_snoozes(
    db: Database, caller: Caller, event_id: int, subscription_id: int, query: Paged
) -> Listing[Snooze]:
    """List the snoozes of a subscription, newest first."""
    found = await snoozes.list_snoozes(
        db, caller, event_id, subscription_id, before=query.position(int), limit=query.limit + 1
    )
    return query.listing(found, lambda row: (row.id,))


@get("/v1/events/{event_id:int}/subscriptions/{subscription_id:int}/snoozes/{snooze_id:int}", role=Role.READ)
async def show_snooze(db: Database, caller: Caller, event_id: int, subscription_id: int, snooze_id: int) -> Snooze:
    """Show a snooze."""
    return await snoozes.get_snooze(db, caller, event_id, subscription_id, snooze_id)


@delete("/v1/events/{event_id:int}/subscriptions/{subscription_id:int}/snoozes/{snooze_id:int}", role=Role.WRITE)
async def remove_snooze(tx: Tx, caller: Caller, event_id: int, subscription_id: int, snooze_id: int) -> None:
    """Remind nobody then."""
    await snoozes.remove_snooze(tx, caller, event_id, subscription_id, snooze_id)


async def _shown(request: Request, tx: Tx, caller: Caller, event_id: int, one: Subscription) -> SubscriptionDetail:
    event = await rows.get_event(tx, event_id)
    return await looking.subscription_detail(tx, events_of(request), caller, event, one)


routes: Sequence[Any] = [
    subscribe, subscribe_many, list_subscriptions, show_subscription, change_subscription, unsubscribe, add_snooze,
    list_snoozes, show_snooze, remove_snooze,
]  # fmt: skip
