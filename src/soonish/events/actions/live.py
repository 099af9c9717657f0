"""Tell pages that are open that something of an event has changed; they fetch it anew."""

from typing import Final

from soonish.db.pool import Tx
from soonish.web.sse import ring

LIVE: Final = "events"
"""The topic of pages that show events."""


async def ring_event(tx: Tx, workspace_id: int, event_id: int) -> None:
    """Wake the pages of this event and those that list events, when this transaction commits."""
    await ring(tx, workspace_id, LIVE)
    await ring(tx, workspace_id, f"event/{event_id}")
