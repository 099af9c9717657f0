"""One reminder of one subscription, of the engine `temporal`. Knows when it was to be, not whether it still is."""

from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from soonish.events.workflow.ways import do, is_final

SCHEDULED_AT: Final = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")


@workflow.defn
class ReminderWorkflow:
    """One reminder of one subscription, started by its schedule."""

    @workflow.run
    async def run(self, event_id: int, subscription_id: int, offset_seconds: int) -> str:
        """Answers `success`, or why nobody was told."""
        details = await do("get_event_details", event_id)
        if details is None:
            return "event_not_found"
        info = workflow.info()
        at = info.typed_search_attributes.get(SCHEDULED_AT) or info.start_time
        limits = details["limits"]
        while workflow.now() <= at + timedelta(seconds=limits["late"]):
            try:
                said: str = await do(
                    "send_reminder_notification", event_id, subscription_id, offset_seconds, at.isoformat()
                )
                return said
            except ActivityError as error:
                if is_cancelled_exception(error) or is_final(error):
                    raise
            await workflow.sleep(limits["round"])
        return "too_late"
