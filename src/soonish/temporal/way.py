"""How work passes through a worker: activities find their own queue, and what fails is told without secrets."""

import logging
from typing import TYPE_CHECKING, Any, Final

from soonish import telemetry
from soonish.errors import Invalid, NotFound, SoonishError

if TYPE_CHECKING:
    from temporalio.worker import Interceptor, StartActivityInput, WorkflowRunner
    from temporalio.workflow import ActivityHandle

_log: Final = logging.getLogger("soonish.temporal")


def way(activity_queue: str) -> "Interceptor":
    """How work passes through a worker: activities find their own queue, and what fails is told without secrets."""
    from temporalio import worker

    class Outbound(worker.WorkflowOutboundInterceptor):
        def start_activity(self, input: "StartActivityInput") -> "ActivityHandle[Any]":  # noqa: A002 - the library's
            input.task_queue = input.task_queue or activity_queue
            return super().start_activity(input)

    class Inbound(worker.WorkflowInboundInterceptor):
        def init(self, outbound: worker.WorkflowOutboundInterceptor) -> None:
            super().init(Outbound(outbound))

    class Activities(worker.ActivityInboundInterceptor):
        async def execute_activity(self, input: worker.ExecuteActivityInput) -> Any:  # noqa: A002
            try:
                return await super().execute_activity(input)
            except Exception as error:
                raise _told(error) from None  # its history would keep the cause, with all that it says

    class Way(worker.Interceptor):
        def intercept_activity(self, next: worker.ActivityInboundInterceptor) -> Activities:  # noqa: A002
            return Activities(next)

        def workflow_interceptor_class(self, _: worker.WorkflowInterceptorClassInput) -> type[Inbound]:
            return Inbound

    return Way()


def runner() -> "WorkflowRunner":
    """How workflows run: walled in, but with our modules as they are loaded.

    Loading them anew for each workflow is two thirds of its cost, and what they may import is checked by the build.
    """
    from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules("soonish"))


def _told(error: Exception) -> Exception:
    """What a workflow learns of an activity that failed; only what was asked wrongly is not tried again."""
    from temporalio.exceptions import ApplicationError, FailureError

    if isinstance(error, FailureError):  # made for workflows, by whoever wrote the activity
        return error
    final = isinstance(error, Invalid | NotFound)
    if not isinstance(error, SoonishError):
        _log.error("temporal.activity_failed", exc_info=error)
    kind = error.code if isinstance(error, SoonishError) else type(error).__name__
    return ApplicationError(telemetry.redact(str(error)), type=kind, non_retryable=final)
