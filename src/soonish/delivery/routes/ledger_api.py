"""The JSON face of the ledger: what was sent to whom, try by try, and letting it go again."""

import asyncio
from typing import Annotated, Final

from msgspec import Struct

from soonish.delivery.actions import ledger
from soonish.delivery.model.ledger import (
    ChannelName,
    Delivery,
    DeliveryDetail,
    Ended,
    Reopened,
    State,
    Wanted,
)
from soonish.web.answers import write_cursor
from soonish.web.auth import Role
from soonish.web.fields import Body, Instant, Paged, Query, line, number
from soonish.web.hub import Follower, Hub
from soonish.web.operation import Accepted, Caller, Database, Listing, Request, Tx, get, post
from soonish.web.sse import name

LOOK_EVERY: Final = 1.0  # seconds between two looks of one who waits and hears nothing

Id = Annotated[int, number(1, 2**63 - 1)]
Reason = Annotated[str, line(100)]
FactType = Annotated[str, line(64)]
Cause = Annotated[str, line(200)]
Millis = Annotated[int, number(0, 10**12)]


class LedgerQuery(Paged):
    """Which deliveries; `since` and `until` are about when they were written."""

    state: State | None = None
    reason: Reason | None = None
    channel: ChannelName | None = None
    person_id: Id | None = None
    address_id: Id | None = None
    endpoint_id: Id | None = None
    message_id: Id | None = None
    fact_id: Id | None = None
    fact_type: FactType | None = None
    cause_prefix: Cause | None = None
    since: Instant | None = None
    until: Instant | None = None
    late_over_ms: Millis | None = None


class WaitQuery(Query):
    """How many seconds to wait at most for the end of a delivery that is on its way."""

    wait: Annotated[int, number(0, 30)] = 0


class Chosen(Struct):
    """Which deliveries, among those that ended."""

    state: Ended | None = None
    reason: Reason | None = None
    channel: ChannelName | None = None
    person_id: Id | None = None
    address_id: Id | None = None
    endpoint_id: Id | None = None
    message_id: Id | None = None
    fact_id: Id | None = None
    fact_type: FactType | None = None
    cause_prefix: Cause | None = None
    since: Instant | None = None
    until: Instant | None = None
    late_over_ms: Millis | None = None


class Again(Chosen, Body):
    """Which deliveries shall go again; without a state those that failed, and those of which nobody knows."""

    limit: Annotated[int, number(1, 10_000)] = 10_000


@get("/v1/deliveries", role=Role.READ)
async def list_deliveries(db: Database, caller: Caller, query: LedgerQuery) -> Listing[Delivery]:
    """List deliveries, newest first.

    One look takes 10,000 of them at most: where few fit, a part has fewer items than the limit, or none, and still a
    next one.
    """
    part = await ledger.list_deliveries(db, caller, wanted(query), before=query.position(int), limit=query.limit)
    following = None if part.before is None else write_cursor((part.before,))
    return Listing([one.delivery for one in part.entries], following)


@get("/v1/deliveries/{delivery_id:int}", role=Role.READ)
async def show_delivery(
    request: Request, db: Database, caller: Caller, delivery_id: int, query: WaitQuery
) -> DeliveryDetail:
    """Show a delivery with its tries.

    With `wait` the answer comes when it has ended, or after so many seconds.
    """
    found = await ledger.get_delivery(db, caller, delivery_id)
    if not query.wait or found.state != "pending":
        return found
    state = request.scope["state"]
    hub: Hub = state["kit"].hub
    async with hub.following([name(caller.workspace_id, f"delivery/{delivery_id}")], state["secret"]) as follower:
        return await _until_ended(db, caller, delivery_id, follower, query.wait)


@post("/v1/deliveries/{delivery_id:int}/retry", role=Role.WRITE, codes=["already_sent", "still_pending", "target_gone"])
async def retry_delivery(tx: Tx, caller: Caller, delivery_id: int) -> Accepted[Delivery]:
    """Let a delivery go again that was not sent: under the same wire id, with a fresh ladder."""
    return Accepted(await ledger.retry_one(tx, caller, delivery_id))


@post("/v1/deliveries/retry", role=Role.WRITE)
async def retry_deliveries(tx: Tx, caller: Caller, body: Again) -> Accepted[Reopened]:
    """Let all that fit go again, the newest first, at most `limit` of them.

    Those whose target is gone stay as they are. What was skipped goes only by `"state": "skipped"`.
    """
    return Accepted(Reopened(count=await ledger.retry_many(tx, caller, wanted(body), body.limit)))


def wanted(given: LedgerQuery | Chosen) -> Wanted:
    return Wanted(**{name: getattr(given, name) for name in Wanted.__slots__})


async def _until_ended(
    db: Database, caller: Caller, delivery_id: int, follower: Follower, seconds: float
) -> DeliveryDetail:
    """Look again at each ring, and each second; nothing of the database is held meanwhile."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        follower.take()
        found = await ledger.get_delivery(db, caller, delivery_id)
        left = end - clock()
        if found.state != "pending" or left <= 0 or follower.ended:
            return found
        await follower.wait(min(LOOK_EVERY, left))


routes = [list_deliveries, show_delivery, retry_deliveries, retry_delivery]
