"""How activities are called from workflows: within which time, how often, and when another try can help."""

from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError


def _way(limit: float, attempts: int, first: float, longest: float, beat: float | None = None) -> dict[str, Any]:
    waits = timedelta(seconds=first), timedelta(seconds=longest)
    return {
        "start_to_close_timeout": timedelta(seconds=limit),
        "heartbeat_timeout": timedelta(seconds=beat) if beat else None,
        "retry_policy": RetryPolicy(initial_interval=waits[0], maximum_interval=waits[1], maximum_attempts=attempts),
    }


SURE: Final = _way(30, 0, 1, 30)
TELLING: Final = _way(300, 3, 1, 10, beat=30)
REMINDING: Final = _way(300, 3, 2, 30)
PLANNING: Final = _way(60, 2, 2, 30, beat=30)
WAYS: Final = {
    "send_notification": TELLING,
    "notify_organizer": TELLING,
    "announce_by_hand": TELLING,
    "cancel_by_hand": TELLING,
    "send_reminder_notification": REMINDING,
    "create_reminder_schedules": PLANNING,
    "delete_reminder_schedules": PLANNING,
    "create_reminder_schedules_for_subscription": PLANNING,
    "delete_reminder_schedules_for_subscription": PLANNING,
}


async def do(activity: str, *args: Any) -> Any:
    """Carry out an activity in its way; those without one are tried until they succeed."""
    return await workflow.execute_activity(activity, args=list(args), **WAYS.get(activity, SURE))


def is_final(error: ActivityError) -> bool:
    """Whether it was asked wrongly, so that no other try can help."""
    return isinstance(error.cause, ApplicationError) and error.cause.non_retryable


def reason(error: ActivityError) -> str:
    return (isinstance(error.cause, ApplicationError) and error.cause.type) or "error"
