"""Workflows and activities for tests of the workflow engine."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from soonish.errors import Invalid

SOON = timedelta(seconds=10)


@activity.defn
async def greet(name: str) -> str:
    """Answers with the queue on which it was done."""
    return f"hello {name} from {activity.info().task_queue}"


@activity.defn
async def fail(how: str) -> None:
    """Fails for good, or in the middle of a secret."""
    if how == "invalid":
        raise Invalid("there is no such thing", code="no_such_thing")
    raise RuntimeError("could not reach https://ben:hunter2@hooks.example.org")


@workflow.defn
class Greeting:
    """One activity, and its answer."""

    @workflow.run
    async def run(self, name: str) -> str:
        answer: str = await workflow.execute_activity(greet, name, start_to_close_timeout=SOON)
        return answer


@workflow.defn
class Failing:
    """One activity that fails, tried twice where that may help."""

    @workflow.run
    async def run(self, how: str) -> None:
        twice = RetryPolicy(maximum_attempts=2, initial_interval=timedelta(milliseconds=10))
        await workflow.execute_activity(fail, how, start_to_close_timeout=SOON, retry_policy=twice)


@workflow.defn
class Listening:
    """Keeps what it is signalled until it is told to end."""

    def __init__(self) -> None:
        self._heard: list[dict[str, Any]] = []

    @workflow.run
    async def run(self, _: Any) -> list[dict[str, Any]]:
        await workflow.wait_condition(lambda: any(said.get("word") == "end" for said in self._heard))
        return self._heard

    @workflow.signal
    def say(self, said: dict[str, Any]) -> None:
        self._heard.append(said)


@workflow.defn
class Sleeping:
    """Runs until it is cancelled."""

    @workflow.run
    async def run(self, _: Any) -> None:
        await asyncio.sleep(3600)
