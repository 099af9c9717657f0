"""What somebody asked of a workflow by hand: done as by HTTP, once, and told by the signals that follow from it."""

from typing import Any

from temporalio import activity

from soonish.access.actions.audit import system_caller
from soonish.db.pool import Tx
from soonish.errors import Conflict
from soonish.events.actions.announcements import NewAnnouncement, announce
from soonish.events.actions.cancelling import cancel_event
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import lock_event
from soonish.events.activities.within import SQL, Within
from soonish.events.model.by_hand import announcement


class ByHand:
    """What is handed in once a process, for all events."""

    def __init__(self, within: Within, events: Events) -> None:
        self._in = within
        self._events = events

    @activity.defn
    async def announce_by_hand(self, event_id: int, mark: str, asked: dict[str, Any]) -> str:
        """Make an announcement; its mark tells a second call, and an event that is over takes none."""
        new = NewAnnouncement(**announcement(asked))
        try:
            return await self._in.run(event_id, _announce, event_id, f"temporal:{mark}", new)
        except Conflict as error:
            return error.code

    @activity.defn
    async def cancel_by_hand(self, event_id: int) -> str:
        """Cancel the event; what is over stays as it is."""
        try:
            return await self._in.run(event_id, self._cancel, event_id)
        except Conflict as error:
            return error.code

    async def _cancel(self, tx: Tx, event_id: int) -> str:
        event = await lock_event(tx, event_id)
        return (await cancel_event(tx, self._events, system_caller(event.workspace_id), event_id)).state


async def _announce(tx: Tx, event_id: int, mark: str, new: NewAnnouncement) -> str:
    event = await lock_event(tx, event_id)
    if await SQL.by_hand.value(tx, event_id=event_id, mark=mark):
        return "done"
    await announce(tx, system_caller(event.workspace_id), event_id, new, created_by=mark)
    return "done"
