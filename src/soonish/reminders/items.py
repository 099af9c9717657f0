"""The due items that remind of one thing: one a lead, at its moment. Knows neither what starts nor who is told."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from soonish.db.pool import Tx
from soonish.due import Put, queue
from soonish.due.model import Replanned
from soonish.reminders.leads import ends, moment


def item(kind: str, thing_id: int, lead: int, start: datetime, payload: Mapping[str, Any]) -> Put:
    """The item of one lead: `<thing>/<lead>`, gone when it is of no use."""
    return Put(kind, f"{thing_id}/{lead}", moment(start, lead), payload, expires_at=ends(start, lead))


async def replan(tx: Tx, kind: str, thing_id: int, wanted: Iterable[Put], reason: str) -> Replanned:
    """Make the items of a thing those that are wanted; what is past is not put."""
    return await queue.replan(tx, kind, f"{thing_id}/", wanted, reason=reason)
