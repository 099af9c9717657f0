"""The workflow engine: start, plan, signal, describe and cancel workflows, and run the workers that carry them out.

One client a process. It connects in the background and again whenever it must; what is asked of it meanwhile is
`Unavailable`, so that due items hold and go on by themselves. Requests never come here. Knows no workflow of a slice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar

from soonish.due.model import Item
from soonish.errors import Invalid, Unavailable
from soonish.settings import Settings
from soonish.temporal.plans import Once, schedule
from soonish.temporal.way import runner, way

if TYPE_CHECKING:  # it takes half a second to load, and a process that only serves never needs it
    from temporalio.client import Client
    from temporalio.runtime import Runtime
    from temporalio.service import RPCError
    from temporalio.worker import Worker

T = TypeVar("T")
Signalled: TypeAlias = Literal["sent", "closed"]

DEADLINE: Final = timedelta(seconds=10)
LOOK_EVERY: Final = 2.0  # seconds between two looks at a server that answers
LOOK_AGAIN: Final = 0.5  # and at one that does not
FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 5.0
GRACE: Final = timedelta(seconds=2)  # for activities, when the process ends

_log = logging.getLogger("soonish.temporal")


@dataclass(frozen=True, slots=True)
class Crew:
    """What a worker can do: on the common queues, or on those of the slice that it names."""

    workflows: Sequence[type] = ()
    activities: Sequence[Callable[..., Any]] = ()
    slice: str | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """A workflow as its server sees it."""

    workflow_id: str
    run_id: str
    status: str  # running, completed, failed, canceled, terminated, continued_as_new, timed_out
    started_at: datetime
    closed_at: datetime | None


def cause_of(item: Item) -> dict[str, Any]:
    """What every signal carries, so that a workflow can tell a second arrival from a new one."""
    return {"kind": item.kind, "key": item.key, "id": item.id}


class Engine:
    """One a process, from `async with` to its end: the client, and a worker for each crew."""

    def __init__(self, settings: Settings, crews: Sequence[Crew] = (), *, address: str | None = None) -> None:
        self._settings = settings
        self._address = address or settings.temporal_address
        self._crews = crews
        self._client: Client | None = None
        self._answers = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def take_on(self, *crews: Crew) -> None:
        """Add crews; before it is entered, for those whose work needs this engine."""
        self._crews = (*self._crews, *crews)

    @property
    def up(self) -> bool:
        """Whether it answered the last time that it was asked."""
        return self._answers.is_set()

    async def wait_up(self, seconds: float) -> None:
        """Return as soon as it answers; TimeoutError where it does not."""
        async with asyncio.timeout(seconds):
            await self._answers.wait()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep(), name="temporal")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._answers.clear()

    def queue(self, work: Literal["workflows", "activities"], of: str | None = None) -> str:
        """The task queue on which such work of a slice is done."""
        own = self._settings
        name = own.temporal_workflow_queue if work == "workflows" else own.temporal_activity_queue
        name = name or own.temporal_task_queue
        return f"{name}-{of}" if of else name

    # -- what one may ask --------------------------------------------------------------------------------------------

    async def start_once(
        self, workflow: str, workflow_id: str, arg: Any, *, of: str | None = None, rerun: bool = False
    ) -> bool:
        """Start a workflow; one that runs or ever ran is left alone (with `rerun`: only one that runs).

        `arg` is what it is given, a tuple if that is more than one thing.
        Answers whether this call started it. So a second claim of the same item is harmless.
        """
        started = await self._start(workflow, workflow_id, arg, of, rerun)
        return started is not None

    async def signal(self, workflow_id: str, name: str, cause: Mapping[str, Any], /, **payload: Any) -> Signalled:
        """Signal a workflow; one that is unknown or has ended answers `closed`, and the caller decides."""
        handle = self._connected().get_workflow_handle(workflow_id)
        sent = await self._ask(lambda: handle.signal(name, {**payload, "cause": dict(cause)}, rpc_timeout=DEADLINE))
        return "closed" if sent is GONE else "sent"

    async def signal_with_start(
        self,
        workflow: str,
        workflow_id: str,
        arg: Any,
        name: str,
        cause: Mapping[str, Any],
        /,  # so that a payload may have a name too
        *,
        of: str | None = None,
        rerun: bool = True,
        **payload: Any,
    ) -> Signalled:
        """Signal a workflow, started first where it does not run; without `rerun` one that ended answers `closed`."""
        signal = {"start_signal": name, "start_signal_args": [{**payload, "cause": dict(cause)}]}
        started = await self._start(workflow, workflow_id, arg, of, rerun, **signal)
        return "closed" if started is None else "sent"

    async def cancel(self, workflow_id: str) -> Signalled:
        """Ask a workflow to end; an unknown one answers `closed`, for one that has ended already nothing changes."""
        handle = self._connected().get_workflow_handle(workflow_id)
        asked = await self._ask(lambda: handle.cancel(rpc_timeout=DEADLINE))
        return "closed" if asked is GONE else "sent"

    async def describe(self, workflow_id: str, within: timedelta = DEADLINE) -> Execution | None:
        """How a workflow stands; None where there never was one, or it is forgotten."""
        handle = self._connected().get_workflow_handle(workflow_id)
        found = await self._ask(lambda: handle.describe(rpc_timeout=within), patient=within >= DEADLINE)
        if found is GONE:
            return None
        status = found.status.name.lower() if found.status else "running"
        return Execution(found.id, found.run_id, status, found.start_time, found.close_time)

    async def plan_once(self, schedule_id: str, once: Once, *, of: str | None = None) -> None:
        """Let a workflow be started once; a schedule of that name is changed, and has its one start again."""
        from temporalio.client import ScheduleAlreadyRunningError, ScheduleUpdate

        client, plan = self._connected(), schedule(once, schedule_id, self.queue("workflows", of))
        handle = client.get_schedule_handle(schedule_id)
        with suppress(ScheduleAlreadyRunningError):
            await self._ask(lambda: client.create_schedule(schedule_id, plan, rpc_timeout=DEADLINE), gone=False)
            return
        update = await self._ask(lambda: handle.update(lambda _: ScheduleUpdate(plan), rpc_timeout=DEADLINE))
        if update is GONE:  # it ended between the two
            await self._ask(lambda: client.create_schedule(schedule_id, plan, rpc_timeout=DEADLINE), gone=False)

    async def unplan(self, schedule_id: str) -> bool:
        """Remove a schedule; answers whether there was one."""
        handle = self._connected().get_schedule_handle(schedule_id)
        return await self._ask(lambda: handle.delete(rpc_timeout=DEADLINE)) is not GONE

    async def is_planned(self, schedule_id: str) -> bool:
        """Whether there is such a schedule, used up or not."""
        handle = self._connected().get_schedule_handle(schedule_id)
        return await self._ask(lambda: handle.describe(rpc_timeout=DEADLINE)) is not GONE

    async def _start(
        self, workflow: str, workflow_id: str, arg: Any, of: str | None, rerun: bool, **more: Any
    ) -> Any | None:
        from temporalio.common import WorkflowIDReusePolicy as Policy
        from temporalio.exceptions import WorkflowAlreadyStartedError

        client = self._connected()
        try:
            return await self._ask(
                lambda: client.start_workflow(
                    workflow,
                    args=arg if isinstance(arg, tuple) else (arg,),
                    id=workflow_id,
                    task_queue=self.queue("workflows", of),
                    id_reuse_policy=Policy.ALLOW_DUPLICATE if rerun else Policy.REJECT_DUPLICATE,
                    rpc_timeout=DEADLINE,
                    **more,
                ),
                gone=False,
            )
        except WorkflowAlreadyStartedError:
            return None

    def _connected(self) -> "Client":
        """The client of a server that answers: while one is known to be away, nobody waits for a deadline to say so."""
        if self._client is None or not self.up:
            raise Unavailable("Temporal does not answer just now; what needs it waits, and goes on by itself")
        return self._client

    async def _ask(self, call: Callable[[], Awaitable[Any]], *, gone: bool = True, patient: bool = True) -> Any:
        """One call. An engine that cannot answer is `Unavailable`; only wrong arguments are the caller's fault.

        With `gone`, a workflow that is unknown or has ended is GONE. Who is not `patient` proves nothing by a deadline.
        """
        from temporalio.service import RPCError

        try:
            async with asyncio.timeout(DEADLINE.total_seconds()):
                answer = await call()
        except RPCError as error:
            if gone and _is_gone(error):
                return GONE
            raise self._translated(error, patient) from error
        except (OSError, TimeoutError) as error:
            raise self._away(str(error)) from error
        self._answers.set()
        return answer

    def _translated(self, error: "RPCError", patient: bool) -> Exception:
        if error.status.name in ("INVALID_ARGUMENT", "OUT_OF_RANGE", "UNIMPLEMENTED"):
            return Invalid(f"Temporal refuses these arguments: {error.message}", code="workflow_arguments")
        if error.status.name == "UNAVAILABLE" or (patient and error.status.name == "DEADLINE_EXCEEDED"):
            return self._away(error.message)
        return Unavailable(f"Temporal refuses this just now ({error.message}); it is asked again by itself")

    def _away(self, why: str) -> Unavailable:
        if self.up:
            _log.warning("temporal.away: %s", why)
        self._answers.clear()
        return Unavailable(f"Temporal does not answer ({why}); what needs it waits, and goes on by itself")

    # -- keeping -----------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Connect, run the workers, watch; begin anew when that ends. No error ends it."""
        wait = FIRST_WAIT
        while True:
            try:
                self._client = await self._connect()
                wait = FIRST_WAIT
                async with AsyncExitStack() as stack:
                    for worker in self._workers(self._client):
                        await stack.enter_async_context(worker)
                    await self._watch(self._client)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                self._away(f"{type(error).__name__}: {error}")
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _connect(self) -> "Client":
        runtime = await asyncio.to_thread(_runtime)
        from temporalio.client import Client

        own = self._settings
        async with asyncio.timeout(DEADLINE.total_seconds()):
            client = await Client.connect(
                self._address or "",
                namespace=own.temporal_namespace,
                tls=own.temporal_tls or own.temporal_api_key is not None,
                api_key=own.temporal_api_key,
                runtime=runtime,
            )
            await _look(client)
        self._answers.set()
        _log.info("temporal.up address=%s namespace=%s", self._address, own.temporal_namespace)
        return client

    async def _watch(self, client: "Client") -> None:
        """See that it still answers. The client and the workers find back by themselves."""
        while True:
            with suppress(Unavailable):
                await self._ask(lambda: _look(client), gone=False)
            await asyncio.sleep(LOOK_EVERY if self.up else LOOK_AGAIN)

    def _workers(self, client: "Client") -> "list[Worker]":
        from temporalio.worker import Worker

        return [
            Worker(
                client,
                task_queue=name,
                graceful_shutdown_timeout=GRACE,
                interceptors=[way(self.queue("activities", of))],
                workflow_runner=runner(),
                **hands,
            )
            for (name, of), hands in self._queues().items()
        ]

    def _queues(self) -> dict[tuple[str, str | None], dict[str, Any]]:
        """What is to be done on each queue: one worker for all its crews, for two would take each other's work."""
        queues: dict[tuple[str, str | None], dict[str, Any]] = {}
        for crew in self._crews:
            for work in ("workflows", "activities"):
                if hands := getattr(crew, work):
                    place = self.queue(work, crew.slice), crew.slice
                    queues.setdefault(place, {}).setdefault(work, []).extend(hands)
        return queues


class _Gone:
    """The answer for a workflow that is not there."""


GONE: Final = _Gone()


async def _look(client: "Client") -> None:
    """Ask for our namespace: a server without it can do nothing for us."""
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest

    await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=client.namespace), timeout=timedelta(seconds=3)
    )


def _is_gone(error: "RPCError") -> bool:
    """Not found, and it is the workflow that was not found, not the whole namespace."""
    if error.status.name != "NOT_FOUND":
        return False
    return not any("NamespaceNotFound" in detail.type_url for detail in error.grpc_status.details)


@cache
def _runtime() -> "Runtime":
    """One a process; what the library logs goes our way, and not to the standard output."""
    from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

    forwarding = LogForwardingConfig(logging.getLogger("temporalio"))
    levels = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=levels, forwarding=forwarding)))
