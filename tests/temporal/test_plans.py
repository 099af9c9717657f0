"""Workflows that the server starts by itself, once: at their moment, moved, and removed."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from temporalio.client import Client

from soonish.temporal.engine import Crew, Engine
from soonish.temporal.plans import Once
from tests.support import workflows as flows
from tests.support.due import until
from tests.support.temporal import Server, engine_of

CREW = Crew(workflows=[flows.Greeting], activities=[flows.greet])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with TemporaryDirectory(prefix="soonish-test-") as folder:
        server = Server(Path(folder) / "data")
        yield server
        server.stop()


@pytest.fixture
async def engine(server: Server) -> AsyncIterator[Engine]:
    async with engine_of(server.address, CREW) as engine:
        await engine.wait_up(20)
        yield engine


def greeting(at: datetime, name: str = "Ben") -> Once:
    return Once("Greeting", (name,), at, timedelta(minutes=1), "a greeting")


async def started(client: Client, schedule_id: str) -> list[str]:
    """What the workflows of a schedule answered, as far as they have ended."""
    description = await client.get_schedule_handle(schedule_id).describe()
    ids = [action.action.workflow_id for action in description.info.recent_actions]  # type: ignore[attr-defined]
    return [await client.get_workflow_handle(one).result() for one in ids]


async def test_it_is_started_once_at_its_moment_and_can_be_moved_even_after_that(
    engine: Engine, server: Server
) -> None:
    client = await Client.connect(server.address)
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    far = at + timedelta(days=400)
    await engine.plan_once("greeting", greeting(far))
    described = await client.get_schedule_handle("greeting").describe()
    assert list(described.info.next_action_times) == [far]
    assert (described.schedule.state.remaining_actions, described.schedule.state.note) == (1, "a greeting")
    assert described.schedule.policy.catchup_window == timedelta(minutes=1)

    await engine.plan_once("greeting", greeting(at, "Ann"))  # the schedule that is there is changed
    await until(lambda: started(client, "greeting"), 30)
    assert datetime.now(UTC) >= at
    assert await started(client, "greeting") == ["hello Ann from soonish-task-queue"]

    later = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    await engine.plan_once("greeting", greeting(later, "Cleo"))  # and has its one start again

    async def both() -> bool:
        return len(await started(client, "greeting")) == 2

    await until(both, 30)
    assert (await started(client, "greeting"))[-1] == "hello Cleo from soonish-task-queue"


async def test_one_that_is_removed_is_gone_and_removing_it_again_is_no_error(engine: Engine) -> None:
    await engine.plan_once("never", greeting(datetime.now(UTC) + timedelta(days=1)))
    assert await engine.is_planned("never")
    assert await engine.unplan("never")
    assert not await engine.is_planned("never")
    assert not await engine.unplan("never")
    await engine.plan_once("never", greeting(datetime.now(UTC) + timedelta(days=2)))
    assert await engine.is_planned("never")
