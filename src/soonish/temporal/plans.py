"""A workflow that its server starts by itself, one time: what is asked for, and the schedule that does it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from temporalio.client import Schedule

LEAST_CATCH_UP: Final = timedelta(seconds=10)  # the server's own minimum


@dataclass(frozen=True, slots=True)
class Once:
    """A workflow that its server starts by itself, one time, at a whole second; missed by no more than `catch_up`."""

    workflow: str
    args: tuple[Any, ...]
    at: datetime
    catch_up: timedelta
    note: str


def schedule(once: Once, schedule_id: str, queue: str) -> "Schedule":
    """One entry of a calendar, from the second to the year, and one start."""
    from temporalio import client

    at = once.at.astimezone(UTC)
    year, month, day, hour, minute, second = ([client.ScheduleRange(value)] for value in at.timetuple()[:6])
    entry = client.ScheduleCalendarSpec(
        year=year, month=month, day_of_month=day, hour=hour, minute=minute, second=second
    )
    return client.Schedule(
        action=client.ScheduleActionStartWorkflow(
            once.workflow, args=list(once.args), id=schedule_id, task_queue=queue
        ),
        spec=client.ScheduleSpec(calendars=[entry], time_zone_name="UTC"),
        policy=client.SchedulePolicy(
            overlap=client.ScheduleOverlapPolicy.ALLOW_ALL, catchup_window=max(once.catch_up, LEAST_CATCH_UP)
        ),
        state=client.ScheduleState(note=once.note, limited_actions=True, remaining_actions=1),
    )
