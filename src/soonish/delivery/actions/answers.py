"""What the page of an endpoint shows beside it: what it answered last, and which secrets sign."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from soonish.db.pool import Database
from soonish.delivery.actions.facts import SQL
from soonish.web.auth import Caller

LAST: Final = 12


class Answer(Struct, frozen=True, kw_only=True):
    """A delivery of a fact, and the last that was said to it; nothing yet where it was not tried."""

    delivery_id: int
    type: str
    state: str
    reason: str | None
    tries: int
    due_at: datetime
    next_at: datetime | None
    tried_at: datetime | None
    code: str | None
    status: int | None
    answer: str | None
    latency_ms: int | None


class Signing(Struct, frozen=True, kw_only=True):
    """A secret that signs: when it was made, and when it ends."""

    created_at: datetime
    ends_at: datetime | None


async def last_answers(db: Database, caller: Caller, endpoint_id: int) -> Sequence[Answer]:
    """The newest deliveries of an endpoint."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return [Answer(**row) for row in await SQL.last_answers.rows(tx, endpoint_id=endpoint_id, k=LAST)]


async def signing(db: Database, caller: Caller, endpoint_id: int) -> Sequence[Signing]:
    """The secrets that sign for a webhook, the newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return [Signing(**row) for row in await SQL.signing.rows(tx, endpoint_id=endpoint_id)]
