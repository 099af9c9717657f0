"""Histories of workflows as a server keeps them; `python -m tests.support.histories` plays their stories anew.

A change of a workflow that a stored history does not fit would leave the events that are under way stuck. So these are
made anew only with a workflow of another name, or while none has been released.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from soonish.db.migrate import migrate
from tests.support.lives import Lives, lives, titles
from tests.support.postgres import PostgresServer
from tests.support.temporal import Server

FOLDER: Final = Path(__file__).parents[1] / "events" / "histories"
_MACHINE: Final = re.compile(r"\d+@[\w.-]+")


async def record(folder: Path = FOLDER) -> None:
    """Play each story, and write the histories of its workflows."""
    async with _product(max_notifications="3") as life:
        await _write(folder, "renewed", life, await _told_and_cancelled(life))
        await _write(folder, "completed", life, await _completed(life))
        await _write(folder, "reminded", life, *await _reminded(life))


async def _told_and_cancelled(life: Lives) -> int:
    """Enough for a second run, then a move and a poison, then the end."""
    event_id = await life.event(organizer_id=await life.person("Ann"))
    await life.subscribe(event_id, await life.person("Ben"))
    for title in titles(3):
        await life.announce(event_id, title)
    await life.all_handled(event_id)
    await life.signal(event_id, "send_manual_notification", broadcast_id=987_654_321)
    await life.end_at(event_id, 7_200)
    await life.all_handled(event_id)
    await life.cancel(event_id)
    await life.result(event_id)
    return event_id


async def _completed(life: Lives) -> int:
    """With a signal by hand, and an end that moved."""
    event_id = await life.event(start=1, end=2)
    await life.all_handled(event_id)
    await life.workflow(event_id).signal("send_manual_notification", {"title": "By hand", "body": "Hello"})
    await life.end_at(event_id, 3)
    await life.result(event_id)
    return event_id


async def _reminded(life: Lives) -> tuple[int, str]:
    """By schedules of the engine `temporal`, one of which comes."""
    event_id = await life.event(start=8, end=12, reminder_engine="temporal", reminder_offsets=[4, 2])
    [subscription_id] = await life.subscribe(event_id, await life.person("Ben"))
    await life.all_handled(event_id)
    await life.result(event_id)
    wanted = f"WorkflowId STARTS_WITH 'event-{event_id}-sub-{subscription_id}-reminder-4s'"
    [one] = [found async for found in life.client.list_workflows(wanted)]
    return event_id, one.id


async def _write(folder: Path, name: str, life: Lives, event_id: int, *more: str) -> None:
    runs = [one async for one in life.client.list_workflows(f"WorkflowId = 'event-{event_id}'")]
    runs.sort(key=lambda one: one.start_time)
    handles = [life.client.get_workflow_handle(one.id, run_id=one.run_id) for one in runs]
    handles += [life.client.get_workflow_handle(one) for one in more]
    for number, handle in enumerate(handles, 1):
        history = json.dumps(json.loads((await handle.fetch_history()).to_json()), indent=1)
        (folder / f"{name}_{number}.json").write_text(_MACHINE.sub("1@worker", history) + "\n")


@asynccontextmanager
async def _product(**settings: str) -> AsyncIterator[Lives]:
    postgres = PostgresServer()
    postgres.start()
    try:
        with TemporaryDirectory() as folder:
            url = await postgres.create("histories")
            await migrate(url)
            named = {f"events_{name}": value for name, value in settings.items()}
            server = Server(Path(folder) / "temporal")
            try:
                async with lives(url, Path(folder) / "data", server, **named) as life:
                    yield life
            finally:
                server.stop()
    finally:
        postgres.stop()


if __name__ == "__main__":
    asyncio.run(record(*map(Path, sys.argv[1:])))
