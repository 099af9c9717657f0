"""The door to the workflow engine, before a real server: asked once, done once, and no harm while it is away."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import asyncpg
import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from soonish.due import DONE, Fate, Item, Kind, Lane, Loop, Put
from soonish.errors import Invalid, Unavailable
from soonish.temporal import engine as temporal
from soonish.temporal.engine import Crew, Engine, cause_of
from tests.support import workflows as flows
from tests.support.due import Watcher, ended, put
from tests.support.service import environ
from tests.support.temporal import Server, engine_of

ALL = Crew(
    workflows=[flows.Greeting, flows.Failing, flows.Listening, flows.Sleeping], activities=[flows.greet, flows.fail]
)
IN_TIME = 8.0  # less than the deadline of a call
PATIENCE = 60.0
CAUSE = {"kind": "test.thing", "key": "7", "id": 7}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with TemporaryDirectory(prefix="soonish-test-") as folder:
        server = Server(Path(folder) / "data")
        yield server
        server.stop()


@pytest.fixture
async def engine(server: Server) -> AsyncIterator[Engine]:
    """Connected, with a worker that can do all that the tests know."""
    async with engine_of(server.address, ALL) as engine:
        await engine.wait_up(PATIENCE)
        yield engine


async def result(server: Server, workflow_id: str) -> Any:
    client = await Client.connect(server.address)
    async with asyncio.timeout(PATIENCE):
        return await client.get_workflow_handle(workflow_id).result()


async def status(engine: Engine, workflow_id: str, wanted: str) -> None:
    """Until a workflow stands so."""
    async with asyncio.timeout(PATIENCE):
        while (found := await engine.describe(workflow_id)) is None or found.status != wanted:
            await asyncio.sleep(0.02)


# --- asked and done


async def test_a_workflow_is_started_once_however_often_it_is_asked_for(engine: Engine, server: Server) -> None:
    wishes = [engine.start_once("Greeting", "greeting-1", "Ben") for _ in range(5)]
    assert sorted(await asyncio.gather(*wishes)) == [False] * 4 + [True]
    assert await result(server, "greeting-1") == "hello Ben from soonish-task-queue"


async def test_one_that_ever_ran_is_started_again_only_where_that_is_allowed(engine: Engine, server: Server) -> None:
    assert await engine.start_once("Greeting", "greeting-2", "Ben")
    await result(server, "greeting-2")
    assert not await engine.start_once("Greeting", "greeting-2", "Ann")
    assert await engine.start_once("Greeting", "greeting-2", "Ann", rerun=True)
    assert await result(server, "greeting-2") == "hello Ann from soonish-task-queue"


async def test_one_that_runs_is_not_started_a_second_time_even_so(engine: Engine) -> None:
    assert await engine.start_once("Sleeping", "sleeping-1", None)
    assert not await engine.start_once("Sleeping", "sleeping-1", None, rerun=True)


async def test_a_signal_carries_its_cause(engine: Engine, server: Server) -> None:
    await engine.start_once("Listening", "listening-1", None)
    assert await engine.signal("listening-1", "say", CAUSE, word="end") == "sent"
    assert await result(server, "listening-1") == [{"word": "end", "cause": CAUSE}]


def test_the_cause_is_the_due_item() -> None:
    class Due:
        kind, key, id, payload = "event.start", "7", 12, "a secret"

    assert cause_of(Due()) == {"kind": "event.start", "key": "7", "id": 12}  # type: ignore[arg-type]


async def test_what_is_unknown_or_has_ended_is_closed(engine: Engine, server: Server) -> None:
    assert await engine.signal("never", "say", CAUSE) == "closed"
    assert await engine.cancel("never") == "closed"
    await engine.start_once("Greeting", "greeting-3", "Ben")
    await result(server, "greeting-3")
    assert await engine.signal("greeting-3", "say", CAUSE) == "closed"
    await engine.cancel("greeting-3")
    await status(engine, "greeting-3", "completed")


async def test_a_signal_can_start_what_does_not_run(engine: Engine, server: Server) -> None:
    for word in ("hello", "end"):
        assert await engine.signal_with_start("Listening", "listening-2", None, "say", CAUSE, word=word) == "sent"
    assert [said["word"] for said in await result(server, "listening-2")] == ["hello", "end"]

    once: dict[str, Any] = {"rerun": False, "word": "end"}
    assert await engine.signal_with_start("Listening", "listening-2", None, "say", CAUSE, **once) == "closed"
    assert await engine.signal_with_start("Listening", "listening-2", None, "say", CAUSE, word="end") == "sent"
    assert [said["word"] for said in await result(server, "listening-2")] == ["end"]


async def test_a_workflow_is_described_as_it_stands(engine: Engine, server: Server) -> None:
    assert await engine.describe("never") is None
    await engine.start_once("Sleeping", "sleeping-2", None)
    running = await engine.describe("sleeping-2")
    assert running
    assert (running.workflow_id, running.status, running.closed_at) == ("sleeping-2", "running", None)
    assert await engine.cancel("sleeping-2") == "sent"
    await status(engine, "sleeping-2", "canceled")
    over = await engine.describe("sleeping-2")
    assert over
    assert over.run_id == running.run_id
    assert over.closed_at
    assert over.closed_at > running.started_at


async def test_wrong_arguments_are_the_fault_of_who_asks(engine: Engine) -> None:
    with pytest.raises(Invalid, match="refuses these arguments") as refused:
        await engine.start_once("Greeting", "x" * 2_000, "Ben")
    assert refused.value.code == "workflow_arguments"
    assert engine.up


# --- who works


async def test_workflows_and_activities_can_be_parted(server: Server) -> None:
    queues = {"workflow_queue": "thinking", "activity_queue": "doing"}
    thinks, does = Crew(workflows=ALL.workflows), Crew(activities=ALL.activities)
    async with engine_of(server.address, thinks, **queues) as one, engine_of(server.address, does, **queues) as other:
        await asyncio.gather(one.wait_up(PATIENCE), other.wait_up(PATIENCE))
        assert await one.start_once("Greeting", "parted", "Ben")
        assert await result(server, "parted") == "hello Ben from doing"


async def test_a_slice_has_queues_of_its_own(server: Server) -> None:
    crew = Crew(ALL.workflows, ALL.activities, slice="feeds")
    async with engine_of(server.address, crew, task_queue="mine") as engine:
        await engine.wait_up(PATIENCE)
        await engine.start_once("Greeting", "of a slice", "Ben", of="feeds")
        assert await result(server, "of a slice") == "hello Ben from mine-feeds"


async def test_what_was_asked_wrongly_is_not_tried_again_and_what_failed_is_told_without_secrets(
    engine: Engine, server: Server
) -> None:
    causes = []
    for how in ("invalid", "secret"):
        await engine.start_once("Failing", f"failing-{how}", how)
        with pytest.raises(WorkflowFailureError) as failed:
            await result(server, f"failing-{how}")
        activity: Any = failed.value.cause
        causes.append(activity.cause)
        assert activity.retry_state.name == (
            "NON_RETRYABLE_FAILURE" if how == "invalid" else "MAXIMUM_ATTEMPTS_REACHED"
        )
    assert [(cause.type, cause.message) for cause in causes] == [
        ("no_such_thing", "there is no such thing"),
        ("RuntimeError", "could not reach https://***@hooks.example.org"),
    ]
    client = await Client.connect(server.address)
    for how in ("invalid", "secret"):
        history = await client.get_workflow_handle(f"failing-{how}").fetch_history()
        assert "hunter2" not in history.to_json()


# --- away


async def away(engine: Engine) -> None:
    """Until it is known to be away."""
    async with asyncio.timeout(PATIENCE):
        while engine.up:
            await asyncio.sleep(0.02)


async def test_where_nobody_answers_it_says_so_at_once(server: Server) -> None:
    async with engine_of("127.0.0.1:1") as engine:
        began = monotonic()
        for ask in (engine.start_once("Greeting", "x", "Ben"), engine.signal("x", "say", CAUSE), engine.describe("x")):
            with pytest.raises(Unavailable, match="goes on by itself"):
                await ask
        assert monotonic() - began < IN_TIME
        assert not engine.up
        with pytest.raises(TimeoutError):
            await engine.wait_up(0.05)


async def test_a_namespace_that_is_not_there_is_an_engine_that_is_away(server: Server) -> None:
    async with engine_of(server.address, namespace="nowhere") as engine:
        with pytest.raises(TimeoutError):
            await engine.wait_up(1)
        with pytest.raises(Unavailable):
            await engine.start_once("Greeting", "x", "Ben")


async def test_when_the_server_is_back_all_goes_on_without_a_restart(engine: Engine, server: Server) -> None:
    assert await engine.start_once("Listening", "over the gap", None)
    await asyncio.to_thread(server.stop)
    await away(engine)
    began = monotonic()
    with pytest.raises(Unavailable):
        await engine.signal("over the gap", "say", CAUSE, word="end")
    assert monotonic() - began < IN_TIME
    await asyncio.to_thread(server.start)
    await engine.wait_up(PATIENCE)
    assert await engine.signal("over the gap", "say", CAUSE, word="end") == "sent"
    assert await result(server, "over the gap") == [{"word": "end", "cause": CAUSE}]


async def test_a_server_that_hangs_costs_no_more_than_the_deadline(
    engine: Engine, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporal, "DEADLINE", timedelta(seconds=1))
    server.tell(signal.SIGSTOP)
    try:
        began = monotonic()
        with pytest.raises(Unavailable):
            await engine.start_once("Greeting", "hanging", "Ben")
        assert monotonic() - began < IN_TIME
        assert not engine.up
    finally:
        server.tell(signal.SIGCONT)
    await engine.wait_up(PATIENCE)
    await engine.start_once("Greeting", "hanging", "Ben")  # the first call may have arrived after all
    assert await result(server, "hanging") == "hello Ben from soonish-task-queue"


@pytest.mark.parametrize("code", ["RESOURCE_EXHAUSTED", "PERMISSION_DENIED", "INTERNAL"])
async def test_a_refusal_of_one_call_takes_the_engine_from_nobody_else(engine: Engine, code: str) -> None:
    async def refused() -> None:
        raise RPCError("busy workflow", RPCStatusCode[code], b"")

    with pytest.raises(Unavailable, match="busy workflow"):
        await engine._ask(refused)
    assert engine.up
    assert await engine.describe("never") is None


async def test_an_impatient_look_that_finds_nothing_in_time_takes_the_engine_from_nobody_else(engine: Engine) -> None:
    with pytest.raises(Unavailable):
        await engine.describe("never", within=timedelta(microseconds=1))
    assert engine.up


async def test_crews_that_share_a_queue_share_a_worker(server: Server) -> None:
    crews = Crew(workflows=[flows.Greeting]), Crew(workflows=[flows.Sleeping], activities=[flows.greet])
    async with engine_of(server.address, *crews, task_queue="shared") as engine:
        await engine.wait_up(PATIENCE)
        assert [sorted(hands) for hands in engine._queues().values()] == [["activities", "workflows"]]
        await engine.start_once("Greeting", "greeting-shared", "Ben")
        assert await result(server, "greeting-shared") == "hello Ben from shared"


async def test_a_process_ends_in_time_while_the_server_is_away(server: Server) -> None:
    async with engine_of(server.address, ALL) as engine:
        await engine.wait_up(PATIENCE)
        await asyncio.to_thread(server.stop)
        began = monotonic()
    assert monotonic() - began < IN_TIME
    await asyncio.to_thread(server.start)


async def test_what_is_due_holds_while_the_server_is_away_and_is_done_after_its_return(
    server: Server, pool: asyncpg.Pool
) -> None:
    async with engine_of(server.address, ALL) as engine:
        await engine.wait_up(PATIENCE)

        async def start(item: Item) -> Fate:
            await engine.start_once("Greeting", f"due-{item.key}", item.key)
            return DONE

        await asyncio.to_thread(server.stop)
        await away(engine)
        watcher = Watcher()
        kind = Kind("test.start", start, Lane.CONTROL, tries=1)
        async with Loop(pool, [kind], observer=watcher):
            await put(pool, *(Put("test.start", f"{n:02}") for n in range(50)))
            await watcher.wait_until(lambda: [fate for _, fate in watcher.fates].count("held") >= 50)
            await asyncio.to_thread(server.start)
            await watcher.wait_until(lambda: [fate for _, fate in watcher.fates].count("done") == 50, PATIENCE)
        assert sorted(await ended(pool)) == [(f"{n:02}", "done", None) for n in range(50)]
        for n in ("00", "49"):
            assert await result(server, f"due-{n}") == f"hello {n} from soonish-task-queue"


# --- a process with it


def test_it_writes_nothing_to_the_standard_output(server: Server) -> None:
    program = f"""
import asyncio
from soonish.settings import Settings
from soonish.temporal.engine import Engine

async def main():
    for address in ("127.0.0.1:1", "{server.address}"):
        async with Engine(Settings.read({{}}), address=address) as engine:
            try:
                await engine.wait_up(1.5)
                await engine.describe("x")
            except TimeoutError:
                pass

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], env=environ(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_library_is_loaded_only_where_it_is_used() -> None:
    program = "import sys, soonish.temporal.engine; print('temporalio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
