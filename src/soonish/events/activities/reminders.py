"""Reminders of the engine `temporal`: their schedules, made and removed by pages, and the telling of one of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from temporalio import activity

from soonish import failpoints
from soonish.db.pool import Tx
from soonish.errors import SoonishError
from soonish.events.actions import schedules
from soonish.events.actions.handed import Events
from soonish.events.actions.reminding import EARLY, remind_one
from soonish.events.actions.schedules import Page, Scheduled
from soonish.events.activities.within import SQL, Within, alive
from soonish.events.model.signals import schedule_id
from soonish.temporal.engine import Engine
from soonish.temporal.plans import Once

WORKFLOW: Final = "ReminderWorkflow"
AT_ONCE: Final = 16  # calls of the server
LONGEST_WAIT: Final = 30.0  # seconds, for a moment that the database's clock has not reached yet

_log: Final = logging.getLogger("soonish.events")


class Reminders:
    """What is handed in once a process, for all events."""

    def __init__(self, within: Within, events: Events, engine: Engine) -> None:
        self._in = within
        self._events = events
        self._engine = engine

    @activity.defn
    async def create_reminder_schedules(self, event_id: int, cursor: int = 0) -> dict[str, int | None]:
        """Make the schedules of the next subscriptions what they are to be; a second call finds them so."""
        return await self._plan(event_id, cursor, schedules.LAST)

    @activity.defn
    async def create_reminder_schedules_for_subscription(
        self, event_id: int, subscription_id: int
    ) -> dict[str, int | None]:
        """The same for one subscription."""
        return await self._plan(event_id, subscription_id - 1, subscription_id)

    @activity.defn
    async def delete_reminder_schedules(self, event_id: int, cursor: int = 0) -> dict[str, int | None]:
        """Remove all schedules of the next subscriptions that have any; one that is gone already is removed."""
        return await self._unplan(event_id, cursor, schedules.LAST)

    @activity.defn
    async def delete_reminder_schedules_for_subscription(
        self, event_id: int, subscription_id: int
    ) -> dict[str, int | None]:
        """The same for one subscription."""
        return await self._unplan(event_id, subscription_id - 1, subscription_id)

    @activity.defn
    async def send_reminder_notification(
        self, event_id: int, subscription_id: int, offset_seconds: int, scheduled_at: str
    ) -> str:
        """Tell one reminder, never early; the ledger knows of a second call."""
        at = datetime.fromisoformat(scheduled_at)
        if await self._in.workspace(event_id) is None:
            return "event_not_found"
        async with alive():
            while (word := await self._remind(event_id, Scheduled(subscription_id, offset_seconds, at))) == EARLY:
                left: float = await self._in.run(event_id, _seconds_until, at)
                await asyncio.sleep(min(left, LONGEST_WAIT))
        return word

    async def _plan(self, event_id: int, after: int, until: int) -> dict[str, int | None]:
        async with alive():
            page = await self._in.run(event_id, schedules.plan_page, self._events, event_id, after, until)
            done = await self._each(event_id, self._make, page.wanted)
            done += await self._each(event_id, self._tell_missed, page.missed)
            answer = await self._removed(event_id, page, len(page.wanted) + len(page.missed) - len(done))
            if until == schedules.LAST and answer["cursor"] is None and not answer["failed"]:
                await self._in.run(event_id, schedules.drop_items, event_id)  # the new plan stands: the old one may go
            return answer

    async def _unplan(self, event_id: int, after: int, until: int) -> dict[str, int | None]:
        async with alive():
            page = await self._in.run(event_id, schedules.unplan_page, event_id, after, until)
            return await self._removed(event_id, page, 0)

    async def _removed(self, event_id: int, page: Page, failed: int) -> dict[str, int | None]:
        """What is not wanted goes last, and is forgotten when it is gone."""
        gone = await self._each(event_id, self._remove, page.unwanted)
        if gone:
            await self._in.run(event_id, schedules.forget, gone)
        failed += len(page.unwanted) - len(gone)
        return {"count": len(page.wanted) + len(gone), "cursor": page.cursor, "failed": failed}

    async def _each(
        self, event_id: int, do: Callable[[int, Scheduled], Awaitable[object]], some: Sequence[Scheduled]
    ) -> list[Scheduled]:
        """Do it for each, some at once; answers those for which it went well. A failing one stops no other."""
        places = asyncio.Semaphore(AT_ONCE)

        async def attempt(one: Scheduled) -> bool:
            async with places:
                try:
                    await do(event_id, one)
                except SoonishError as error:
                    name = schedule_id(event_id, one.subscription_id, one.offset)
                    _log.warning("events.schedule_failed id=%s: %s", name, error.message)
                    return False
                return True

        done = await asyncio.gather(*map(attempt, some))
        return [one for one, well in zip(some, done, strict=True) if well]

    async def _make(self, event_id: int, one: Scheduled) -> None:
        args, note = (event_id, one.subscription_id, one.offset), f"Reminder for event {event_id}"
        once = Once(WORKFLOW, args, one.moment, self._events.terms.reminder_late, note)
        await self._engine.plan_once(schedule_id(event_id, one.subscription_id, one.offset), once)

    async def _remove(self, event_id: int, one: Scheduled) -> None:
        await self._engine.unplan(schedule_id(event_id, one.subscription_id, one.offset))

    async def _tell_missed(self, event_id: int, one: Scheduled) -> None:
        """Its moment passed before there was a schedule for it."""
        await self._remind(event_id, one)

    async def _remind(self, event_id: int, one: Scheduled) -> str:
        ids = event_id, one.subscription_id, one.offset
        word = await self._in.run(event_id, remind_one, self._events, *ids, one.moment)
        if word != EARLY:
            failpoints.reach("events.reminder_told")
        return word


async def _seconds_until(tx: Tx, at: datetime) -> float:
    left: float = await SQL.seconds_until.value(tx, at=at)
    return left
