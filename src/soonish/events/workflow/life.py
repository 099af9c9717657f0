"""The life of an event, from its publication to its end.

Thin: ids go in, ids come out, and each effect is an activity. What was promised stands in rows, so a run that is lost
is begun again from them. Knows the order of things, not how one of them is done.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from soonish.events.model import signals
    from soonish.events.model.signals import Resume, Work
    from soonish.events.workflow.ways import do, is_final, reason

GIVE_UP: Final = timedelta(hours=1)  # after the end: as long as what was announced before it may still be told


@workflow.defn
class EventWorkflow:
    """One an event. Signals are heard at once and carried out one after the other."""

    @workflow.init
    def __init__(self, event_id: int, event_data: dict[str, Any] | None = None, resume: Resume | None = None) -> None:
        before = resume or Resume()
        self._id = event_id
        self._data = dict(event_data or {})
        self._end = signals.end_of(self._data)
        self._queue = list(before.queue)
        self._last_seq = before.last_seq
        self._cancel = before.cancel
        self._completed = before.completed
        self._cursor = before.cursor
        self._failed_pages = list(before.failed_pages)
        self._limits: dict[str, int] = {}
        self._temporal = self._scheduled = False  # whether reminders are to have schedules, and have some
        self._count = 0
        self._by_hand = 0
        self._again_at: datetime | None = None
        self._pages_at: datetime | None = None
        self._steps: dict[str, Callable[[Work], Awaitable[None]]] = {
            signals.BEGIN: self._begin,
            signals.START: self._begin,
            signals.ADDED: self._add,
            signals.REMOVED: self._remove,
            signals.UPDATED: self._update,
            signals.ANNOUNCED: self._tell,
            signals.CANCELLED: self._tell,
            signals.LOOK: self._look,
            signals.ANNOUNCE_BY_HAND: self._announce_by_hand,
            signals.CANCEL_BY_HAND: self._cancel_by_hand,
        }

    @workflow.run
    async def run(
        self,
        event_id: int,
        event_data: dict[str, Any] | None = None,  # noqa: ARG002 - it made the state already
        resume: Resume | None = None,
    ) -> str:
        """Until the event is `cancelled` or `completed`."""
        if resume is None and not await do("validate_event_exists", event_id):
            raise ApplicationError(f"Event {event_id} not found", type="EventNotFound", non_retryable=True)
        await self._refresh()
        if resume is None:
            await self._recollect()
            if not any(work.name == signals.START for work in self._queue):
                self._queue.insert(0, Work(signals.BEGIN))
        while not self._is_finished():
            await self._turn()
            self._renew()
            await self._wait()
        return await self._close()

    # -- what it hears: at once, and without waiting ------------------------------------------------------------------

    @workflow.signal
    def participant_added(self, payload: dict[str, Any]) -> None:
        """Somebody subscribed, or wants to be reminded at other moments."""
        self._hear(signals.ADDED, payload)

    @workflow.signal
    def participant_removed(self, payload: dict[str, Any]) -> None:
        """Somebody left."""
        self._hear(signals.REMOVED, payload)

    @workflow.signal
    def event_updated(self, payload: dict[str, Any]) -> None:
        """The event is not what it was."""
        self._hear(signals.UPDATED, payload)

    @workflow.signal
    def send_manual_notification(self, payload: dict[str, Any]) -> None:
        """The organizer has something to say."""
        self._hear(signals.ANNOUNCED, payload)

    @workflow.signal
    def cancel_event(self, payload: dict[str, Any] | None = None) -> None:
        """The event does not take place."""
        self._hear(signals.CANCELLED, payload or {})

    @workflow.query
    def get_status(self) -> dict[str, Any]:
        """Where it stands."""
        return {
            "event_id": self._id,
            "is_cancelled": self._cancel is not None,
            "notification_count": self._count,
            "queued": len(self._queue),
            "last_seq": self._last_seq,
            "event_data": self._data,
        }

    def _hear(self, name: str, payload: dict[str, Any]) -> None:
        self._by_hand += 1
        work = signals.work_of(name, payload, f"{workflow.info().run_id}/{self._by_hand}")
        if work.seq is None:
            self._take(work)
        elif work.seq > self._last_seq:  # rows are numbered in the order of the changes, and sent in it
            self._last_seq = work.seq
            self._data |= signals.changed(payload)
            self._take(work)
        elif not self._is_known(work):  # done, or numbered anew by a database that was put back: the rows will say
            self._take(Work(signals.LOOK))

    def _is_known(self, work: Work) -> bool:
        seqs = {one.seq for one in self._queue}
        return work.seq in seqs or bool(self._cancel)

    def _take(self, work: Work) -> None:
        if work.name == signals.CANCELLED:
            self._cancel = work
            self._again_at = None  # it waits for no round
        elif work != Work(signals.LOOK) or work not in self._queue:  # one look sees all
            self._queue.append(work)

    # -- its turns -----------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        """A cancellation first, then the oldest, then what waited for its round, and the end last."""
        if self._cancel and self._is_ready():
            if await self._carried(self._cancel):
                self._queue, self._completed = [], True
        elif self._is_ready():
            work = next((one for one in self._queue if one.name == signals.CANCEL_BY_HAND), self._queue[0])
            if await self._carried(work):
                self._queue.remove(work)
        elif self._is_over() and not self._completed:
            await self._complete()
        elif self._pages_at and self._pages_at <= workflow.now():
            await self._plan_failed()

    async def _carried(self, work: Work) -> bool:
        """Whether it is done with; what failed for lack of an engine stays, for the next round."""
        try:
            await self._steps[work.name](work)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            if not is_final(error):
                self._again_at = workflow.now() + self._round
                return False
            await self._settle(work, f"failed: {reason(error)}")
        return True

    async def _wait(self) -> None:
        """Until there is something to do. The timer is armed anew each time, for its moment may have moved."""
        moments = [at for at in (self._again_at, self._pages_at, self._last_moment()) if at]
        left = min(moments) - workflow.now() if moments else None
        if not self._is_finished() and (left is None or left > timedelta()):
            with suppress(TimeoutError):
                await workflow.wait_condition(self._is_ready, timeout=left)
        if self._again_at and self._again_at <= workflow.now():
            self._again_at = None

    def _is_ready(self) -> bool:
        return self._again_at is None and bool(self._cancel or self._queue)

    def _is_over(self) -> bool:
        return self._end is not None and self._end <= workflow.now()

    def _is_finished(self) -> bool:
        """Its end is on record, and nothing that was asked before is left, or it cannot be told any more."""
        if not self._completed:
            return False
        return not self._queue or bool(self._end and self._end + GIVE_UP <= workflow.now())

    def _last_moment(self) -> datetime | None:
        if self._end and self._completed:
            return self._end + GIVE_UP
        return self._end

    @property
    def _round(self) -> timedelta:
        return timedelta(seconds=self._limits.get("round", 60))

    def _renew(self) -> None:
        """Go on in a new run, with all that is not done, before the history of this one grows too long."""
        suggested = workflow.info().is_continue_as_new_suggested()
        many = self._count >= self._limits.get("notifications", 100) and not self._cancel
        if (many or suggested) and not self._is_finished():
            resume = Resume(
                self._queue, self._last_seq, self._cancel, self._completed, self._cursor, self._failed_pages
            )
            workflow.continue_as_new(args=[self._id, self._data, resume])

    # -- looking at the rows -------------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        details = await do("get_event_details", self._id)
        if details is None:
            return
        self._data = details["event_data"]
        self._end = signals.end_of(self._data)
        self._limits = details["limits"]
        self._temporal = details["reminder_engine"] == "temporal"
        self._scheduled = details["has_schedules"]

    async def _recollect(self) -> None:
        """All that was asked and is not done: a run that nobody remembers leaves nothing undone, nor out of order."""
        rows: list[Work] = []
        while page := await do("unhandled_signals", self._id, rows[-1].seq if rows else 0):
            rows += [signals.work_of(one["signal"], one["payload"], "") for one in page]
        heard, self._queue = self._queue, []
        for work in signals.together(heard, rows):
            self._last_seq = max(self._last_seq, work.seq or 0)
            self._take(work)

    # -- the steps -----------------------------------------------------------------------------------------------------

    async def _begin(self, work: Work) -> None:
        """What the first run does, and no resumed one."""
        notice = await do("notify_organizer", self._id)
        self._count += notice["total"] > 0
        await self._plan()
        await self._settle(work)

    async def _tell(self, work: Work) -> None:
        """Tell a broadcast; the activity finishes its row."""
        if work.broadcast_id is None:
            return await self._settle(work)
        await do("send_notification", self._id, work.broadcast_id, work.seq)
        self._count += 1
        return None

    async def _update(self, work: Work) -> None:
        """Tell first, then the schedules. Those follow the rows, so that a second run finds nothing to do."""
        await self._refresh()
        if work.broadcast_id is not None:
            await self._tell(work)
        if work.moments:
            await self._plan()
        if work.broadcast_id is None:
            await self._settle(work)

    async def _add(self, work: Work) -> None:
        page = await do("create_reminder_schedules_for_subscription", self._id, work.subscription_id)
        self._scheduled = True
        if page["failed"]:
            self._try_later(max(0, (work.subscription_id or 0) - 1))
        await self._settle(work)

    async def _remove(self, work: Work) -> None:
        await do("delete_reminder_schedules_for_subscription", self._id, work.subscription_id)
        await self._settle(work)

    async def _look(self, _: Work) -> None:
        """Somebody signalled by hand, who changes nothing but may know of a change; or a number that is too low."""
        await self._refresh()
        await self._recollect()

    async def _announce_by_hand(self, work: Work) -> None:
        await do("announce_by_hand", self._id, work.mark, work.asked)

    async def _cancel_by_hand(self, _: Work) -> None:
        """As by HTTP; the signal that follows from it ends this."""
        await do("cancel_by_hand", self._id)

    async def _settle(self, work: Work, outcome: str = "done") -> None:
        if work.seq is not None:
            await do("settle_signals", self._id, [work.seq], outcome)

    # -- schedules -----------------------------------------------------------------------------------------------------

    async def _plan(self) -> None:
        """Make the schedules what the rows say, by pages; the other engine's event loses all that it has."""
        if not (self._temporal or self._scheduled):
            return
        cursor: int | None = self._cursor
        while cursor is not None and not self._cancel:
            self._cursor = cursor
            cursor = await self._page(cursor)
        self._cursor = 0
        self._scheduled = self._temporal

    async def _page(self, cursor: int) -> int | None:
        verb = "create" if self._temporal else "delete"
        page = await do(f"{verb}_reminder_schedules", self._id, cursor)
        if page["failed"]:
            self._try_later(cursor)
        following: int | None = page["cursor"]
        return following

    async def _plan_failed(self) -> None:
        """Try the pages again on which a call failed; a failing one is harmless, and waits for the next round."""
        pages, self._failed_pages, self._pages_at = self._failed_pages, [], None
        for cursor in pages:
            try:
                await self._page(cursor)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                self._try_later(cursor)

    def _try_later(self, cursor: int) -> None:
        if cursor not in self._failed_pages:
            self._failed_pages.append(cursor)
        self._pages_at = workflow.now() + self._round

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _complete(self) -> None:
        """Ask the row, which knows the end better than a timer that was armed before its last change."""
        answer = await do("complete_event", self._id)
        if answer["state"] == "open":
            self._end = workflow.now() + timedelta(seconds=answer["seconds_left"])
        elif answer["state"] == "cancelled":
            await self._recollect()
            self._cancel = self._cancel or Work(signals.CANCELLED, broadcast_id=answer["broadcast_id"])
        else:
            self._completed = True

    async def _close(self) -> str:
        """Clean up, and say how it ended. A schedule that stays behind starts what finds the event closed."""
        if self._temporal or self._scheduled:
            with suppress(ActivityError):
                cursor: int | None = 0
                while cursor is not None:
                    cursor = (await do("delete_reminder_schedules", self._id, cursor))["cursor"]
        ended: str = await do("close_event", self._id)
        return ended
