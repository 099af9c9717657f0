"""The steps of an event's life, each an activity: it may be tried again, and does nothing twice."""

from typing import Any, Final

import msgspec
from temporalio import activity

from soonish import failpoints
from soonish.db.pool import Tx
from soonish.events.actions import closing, telling
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import find_event
from soonish.events.activities.within import SQL, Within, alive
from soonish.events.model.signals import event_data

AT_ONCE: Final = 500  # signals that are answered at once


class Life:
    """What is handed in once a process, for all events."""

    def __init__(self, within: Within, events: Events) -> None:
        self._in = within
        self._events = events

    @activity.defn
    async def validate_event_exists(self, event_id: int) -> bool:
        """Whether there is such an event."""
        return await self._in.workspace(event_id) is not None

    @activity.defn
    async def get_event_details(self, event_id: int) -> dict[str, Any] | None:
        """The event as a workflow knows it, who plans its reminders, and what the operator decided; None without it."""
        if await self._in.workspace(event_id) is None:
            return None
        return await self._in.run(event_id, self._details, event_id)

    @activity.defn
    async def unhandled_signals(self, event_id: int, after: int) -> list[dict[str, Any]]:
        """What was asked and is not done, in order; so a run that begins anew knows what the one before it knew."""
        return await self._in.run(event_id, _unhandled, event_id, after)

    @activity.defn
    async def send_notification(self, event_id: int, broadcast_id: int, seq: int | None = None) -> dict[str, int]:
        """Tell a broadcast; a second call goes on where the first one ended, and one that is told stays told."""
        async with alive():
            while not await self._in.run(event_id, telling.tell_page, self._events, event_id, broadcast_id, seq):
                failpoints.reach("events.page_told")
            return await self._in.run(event_id, telling.reached, event_id, broadcast_id)

    @activity.defn
    async def notify_organizer(self, event_id: int) -> dict[str, int]:
        """Tell the organizer that the event is under way; the ledger knows of a second call."""
        return await self._in.run(event_id, telling.notify_organizer, self._events, event_id)

    @activity.defn
    async def complete_event(self, event_id: int) -> dict[str, Any]:
        """Complete the event if its end is reached, and say how it stands."""
        if await self._in.workspace(event_id) is None:
            return {"state": "gone"}
        answer = await self._in.run(event_id, closing.complete_event, self._events, event_id)
        if answer["state"] == "completed":
            failpoints.reach("events.completed")
        return answer

    @activity.defn
    async def close_event(self, event_id: int) -> str:
        """The workflow has finished; answers the word for how the event ended."""
        if await self._in.workspace(event_id) is None:
            return "completed"
        return await self._in.run(event_id, closing.close_event, self._events, event_id)

    @activity.defn
    async def settle_signals(self, event_id: int, seqs: list[int], outcome: str = "done") -> None:
        """Signals on which there is nothing else to do."""
        if await self._in.workspace(event_id) is not None:
            await self._in.run(event_id, telling.settle, event_id, seqs, outcome)

    async def _details(self, tx: Tx, event_id: int) -> dict[str, Any] | None:
        event, terms = await find_event(tx, event_id), self._events.terms
        if event is None:
            return None
        return {
            "event_data": event_data(event),
            "state": event.state,
            "reminder_engine": event.reminder_engine,
            "has_schedules": await SQL.has_schedules.value(tx, event_id=event_id),
            "limits": {
                "notifications": terms.max_notifications,
                "round": terms.round.total_seconds(),
                "late": terms.reminder_late.total_seconds(),
            },
        }


async def _unhandled(tx: Tx, event_id: int, after: int) -> list[dict[str, Any]]:
    rows = await SQL.unhandled.rows(tx, event_id=event_id, after=after, k=AT_ONCE)
    return [
        {"signal": row["name"], "payload": {**msgspec.json.decode(row["payload"]), "seq": row["id"]}} for row in rows
    ]
