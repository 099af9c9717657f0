"""Let what an endpoint did not get go again. Asked for here; carried out by the due item `delivery.replay`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from soonish.access.actions.audit import record
from soonish.clock import show_instant
from soonish.db.pool import Database, Tx
from soonish.delivery.actions.facts import SQL
from soonish.delivery.model.endpoints import MOST_REPLAYED, REPLAYABLE, Replay, Replayable, endpoint
from soonish.due import Lane, Put, put
from soonish.errors import Conflict, NotFound
from soonish.web.auth import Caller

REPLAY: Final = "delivery.replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Deliveries of an endpoint that were written in a span of time and ended in one of these states."""

    since: datetime
    until: datetime | None = None
    states: Sequence[Replayable] = REPLAYABLE
    limit: int = MOST_REPLAYED


async def ask_for_replay(tx: Tx, caller: Caller, endpoint_id: int, which: Which) -> Replay:
    """Put the due item, one a request; the ids that receivers know stay the same."""
    row = await SQL.endpoint_for_update.row(tx, id=endpoint_id)
    if row is None:
        raise NotFound(f"There is no endpoint {endpoint_id}")
    if not endpoint(row).works:
        raise Conflict(f"Endpoint {endpoint_id} hears nothing now: enable it, or make it active, and replay then")
    count, key = await _count(tx, endpoint_id, which), f"{endpoint_id}/{caller.request_id}"
    payload = {
        "since": show_instant(which.since),
        "until": show_instant(which.until) if which.until else None,
        "states": list(which.states),
        "limit": which.limit,
        "after": 0,
    }
    await put(tx, [Put(REPLAY, key, payload=payload, lane=Lane.BULK)])
    await record(tx, caller, "replay", f"endpoint/{endpoint_id}", payload | {"count": count})
    return Replay(endpoint_id=endpoint_id, count=count, key=key)


async def count_replayed(db: Database, caller: Caller, endpoint_id: int, which: Which) -> int:
    """How many would go again."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await _count(tx, endpoint_id, which)


async def _count(tx: Tx, endpoint_id: int, which: Which) -> int:
    count: int = await SQL.count_replayed.value(
        tx, endpoint_id=endpoint_id, states=list(which.states), since=which.since, until=which.until, k=which.limit
    )
    return count
