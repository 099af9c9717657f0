"""Hundreds of lives of events, while workers and the Temporal server are killed again and again."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.due import until
from tests.support.lives import KILLED_PATIENCE, Lives, another, lives, titles
from tests.support.parties import Parties
from tests.support.service import Service
from tests.support.temporal import Server

EVENTS = 500
WORKERS = 2
KILLS = 12
NEWS = 4
PATIENCE = 900.0
Say = Callable[..., None]


@pytest.fixture
def server() -> Iterator[Server]:
    """A Temporal server for one test, which may kill it."""
    with TemporaryDirectory(prefix="soonish-test-") as folder:
        server = Server(Path(folder) / "data")
        yield server
        server.stop()


@pytest.fixture
async def life(database_url: str, tmp_path: Path, server: Server) -> AsyncIterator[Lives]:
    """Rows and requests; who works on them is killed."""
    async with lives(database_url, tmp_path, server, "serve", events_resend="30s") as found:
        yield found


@asynccontextmanager
async def crew(life: Lives) -> AsyncIterator[list[Service]]:
    """Workers in processes of their own."""
    workers = [life.worker(lease="5s") for _ in range(WORKERS)]
    try:
        for worker in workers:
            await asyncio.to_thread(worker.start)
        yield workers
    finally:
        for worker in workers:
            worker.remove()


async def kill_one(life: Lives, workers: list[Service]) -> str:
    """A worker, or now and then the server; it is started again."""
    if random.random() < 0.25:
        await asyncio.to_thread(life.server.kill)
        await asyncio.to_thread(life.server.start)
        return "server"
    worker = random.choice(workers)
    worker.tell(signal.SIGKILL)
    await asyncio.to_thread(worker.end)
    await asyncio.to_thread(worker.start)
    return "worker"


async def live_on(life: Lives, ids: list[int]) -> None:
    """All that organizers do, in small steps: news of all events, then half of them end and half are cancelled."""
    for title in titles(NEWS):
        for event_id in ids:
            await life.announce(event_id, title)
    for event_id in ids[::2]:
        answer = await life.house.write.post(f"/v1/events/{event_id}/cancel", {})
        assert answer.status == 200
    for event_id in ids[1::2]:
        await life.house.run("UPDATE event SET start_date = now() - interval '1 h' WHERE id = $1", event_id)
        await life.end_at(event_id, 2)


async def tally(life: Lives) -> dict[str, Any]:
    [row] = await life.house.rows(
        """SELECT count(*) FILTER (WHERE closed_at IS NULL) AS open,
             count(*) FILTER (WHERE state = 'completed') AS completed,
             count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
             (SELECT count(*) FROM event_signal WHERE handled_at IS NULL) AS unhandled,
             (SELECT count(*) FROM fact WHERE type = 'event.completed') AS facts,
             (SELECT count(*) FROM broadcast WHERE state NOT IN ('told', 'withdrawn')) AS untold FROM event"""
    )
    return dict(row)


async def test_nothing_is_lost_doubled_or_out_of_order(life: Lives, say: Say) -> None:
    ben = await life.person("Ben")
    ids = [await life.event(start=36_000) for _ in range(EVENTS)]
    for event_id in ids:
        await life.subscribe(event_id, ben)
    killed: list[str] = []
    async with crew(life) as workers:
        asked = asyncio.create_task(live_on(life, ids))
        while len(killed) < KILLS:
            killed.append(await kill_one(life, workers))
            await asyncio.sleep(random.uniform(2, 10))
        await asked

        async def all_closed() -> bool:
            return bool((await tally(life))["open"] == 0)

        with suppress(TimeoutError):
            await until(all_closed, PATIENCE)
    counts = await tally(life)
    say(killed=len(killed), servers=killed.count("server"), **counts)
    half = EVENTS // 2
    assert (counts["completed"], counts["cancelled"], counts["facts"]) == (half, half, half)
    assert (counts["open"], counts["unhandled"], counts["untold"]) == (0, 0, 0)
    for number, event_id in enumerate(ids):
        told = await life.told(event_id)
        if number % 2:
            assert told == titles(NEWS)
        else:
            assert told[-1] == "Event Cancelled: Party"  # it wins over news that was not told yet
            assert told[:-1] == titles(NEWS)[: len(told) - 1]


@pytest.mark.parametrize("engine", ["due", "temporal"])
async def test_one_that_dies_after_a_reminder_and_one_at_the_end_leave_nothing_undone(
    database_url: str, tmp_path: Path, server: Server, engine: str
) -> None:
    async with lives(database_url, tmp_path, server, "serve", reminder_engine=engine) as life:
        parties = Parties(life.product, life.house)
        ann = await parties.guest("Ann")
        event = await parties.event(3_600, reminder_offsets=[600])
        await parties.subscribe(event, ann)
        async with another(life):
            await life.all_handled(event["id"])
        await parties.change(event, start_date=await parties.at(602), notify=False)
        await life.dies_at("events.reminder_told")
        reminded = "SELECT count(*) FROM delivery WHERE cause LIKE 'event/%/reminder/600/%'"
        async with another(life):
            await life.until(
                f"SELECT ({reminded}) = 1", within=KILLED_PATIENCE
            )  # it was told, or fires again when its lease has ended

        await life.house.run("UPDATE event SET start_date = now() - interval '1 h'")
        await life.end_at(event["id"], 1)
        await life.dies_at("events.completed")
        assert await life.value("SELECT state FROM event") == "completed"
        async with another(life):
            await life.until("SELECT closed_at FROM event", within=KILLED_PATIENCE)
            assert await life.result(event["id"]) == "completed"
        assert await life.value(reminded) == 1
        assert len(await parties.facts("event.completed")) == 1
