"""Events with real workflows: the process of the product, its loop, a Temporal server, and rows as requests write them.

Each process of tests has one Temporal server; ids of events and the task queue are a test's own, for they share it.
"""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle

from soonish.access.actions.closed import ClosedWorkspaces
from soonish.app.parts import Process, due_loop, opened
from soonish.due import Lane, Put
from soonish.events.actions.replanning import ask_to_convert
from soonish.events.actions.signals import add_signal
from soonish.vault import make_key
from tests.support.due import until
from tests.support.service import Service
from tests.support.site import House, Site, settings_of, site
from tests.support.temporal import Server

_numbers = itertools.count(1)
FAST = {"events_round": "1s", "events_resend": "1s", "events_watch_grace": "1s", "egress_allow": "127.0.0.0/8"}
PATIENCE = 40.0
KILLED_PATIENCE = 240.0  # what a killed worker held is given to another after half a minute
KILLED = 137


@dataclass
class Lives:
    """One process that works, and workspace 1 of its database."""

    product: Site
    server: Server
    client: Client
    settings: dict[str, str]

    @property
    def house(self) -> House:
        return self.product.main

    @property
    def process(self) -> Process:
        assert self.product.process
        return self.product.process

    # -- rows, as requests write them

    async def person(self, name: str = "Ben", *, inbox: bool = True) -> int:
        rows = await self.house.rows(
            "INSERT INTO person (workspace_id, name, timezone, locale) VALUES ($1, $2, 'UTC', 'en') RETURNING id",
            self.house.id,
            name,
        )
        person_id = int(rows[0]["id"])
        if inbox:
            await self.house.run(
                """INSERT INTO address (workspace_id, person_id, kind, label, scheme, target_hint, target_print)
                   VALUES ($1, $2, 'console', 'inbox', 'console', '', 'x')""",
                self.house.id,
                person_id,
            )
        return person_id

    async def event(self, start: float = 3600, end: float | None = None, *, plan: bool = True, **columns: Any) -> int:
        """An event that begins and ends in so many seconds, published, with its signal and its items."""
        now = await self.now()
        at = now.replace(microsecond=0) + timedelta(seconds=start)
        over = at + timedelta(days=1) if end is None else now + timedelta(seconds=end)
        row = {
            "name": "Party", "timezone": "Europe/Berlin", "location": "Yard", "start_date": at,
            "end_date": None if end is None else over, "effective_end_date": over, "state": "scheduled",
            "reminder_engine": "due", "planned_at": now, "published_at": now,
        } | columns  # fmt: skip
        event_id = int(await self._insert("event", row))
        if plan:
            await self.signal(event_id, "start")
            await self.watch(event_id, over + self.process.events.terms.watch_grace)
        return event_id

    async def subscribe(self, event_id: int, *people: int, **columns: Any) -> list[int]:
        return [
            int(await self._insert("subscription", {"event_id": event_id, "person_id": one, "source": "api"} | columns))
            for one in people
        ]

    async def crowd(self, event_id: int, count: int) -> None:
        """So many subscribers, none of whom has an address."""
        await self.house.run(
            """WITH p AS (INSERT INTO person (workspace_id, name, timezone, locale)
                          SELECT $1, 'Person ' || n, 'UTC', 'en' FROM generate_series(1, $3::int) n RETURNING id)
               INSERT INTO subscription (workspace_id, event_id, person_id, source)
               SELECT $1, $2, p.id, 'api' FROM p""",
            self.house.id,
            event_id,
            count,
        )

    async def broadcast(self, event_id: int, title: str = "Hello", kind: str = "announcement", **columns: Any) -> int:
        row = {
            "event_id": event_id, "kind": kind, "notification_level": "info", "title": title, "body": "Text",
            "created_by": "key:1", "state": "queued",
        } | columns  # fmt: skip
        return int(await self._insert("broadcast", row))

    async def announce(self, event_id: int, title: str = "Hello", **columns: Any) -> int:
        """A broadcast and its signal."""
        broadcast_id = await self.broadcast(event_id, title, **columns)
        payload = {"broadcast_id": broadcast_id, "title": title, "notification_level": "info"}
        await self.signal(event_id, "send_manual_notification", **payload)
        return broadcast_id

    async def cancel(self, event_id: int, *, notify: bool = True) -> int | None:
        await self.house.run("UPDATE event SET state = 'cancelled', cancelled_at = now() WHERE id = $1", event_id)
        if not notify:
            await self.signal(event_id, "cancel_event")
            return None
        broadcast_id = await self.broadcast(event_id, "Cancelled", "cancelled", notification_level="critical")
        await self.signal(event_id, "cancel_event", broadcast_id=broadcast_id)
        return broadcast_id

    async def end_at(self, event_id: int, seconds: float) -> None:
        """Move the end, and tell the workflow."""
        over = await self.now() + timedelta(seconds=seconds)
        await self.house.run(
            "UPDATE event SET end_date = $2, effective_end_date = $2, version = version + 1 WHERE id = $1",
            event_id,
            over,
        )
        await self.signal(event_id, "event_updated", end_date=over.isoformat())
        await self.watch(event_id, over + self.process.events.terms.watch_grace)

    async def signal(self, event_id: int, name: str, **payload: Any) -> int:
        async with self.house.db.transaction(self.house.id) as tx:
            await tx.execute("SELECT 1 FROM event WHERE id = $1 FOR UPDATE", event_id)
            return await add_signal(tx, event_id, name, payload)

    async def watch(self, event_id: int, at: datetime) -> None:
        await self.house.put(Put("events.watch", str(event_id), at))

    # -- what became of it

    async def now(self) -> datetime:
        found: datetime = (await self.house.rows("SELECT clock_timestamp() AS now"))[0]["now"]
        return found

    async def value(self, statement: str, *values: Any) -> Any:
        rows = await self.house.rows(statement, *values)
        return rows[0][0] if rows else None

    def workflow(self, event_id: int) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(f"event-{event_id}")

    async def result(self, event_id: int) -> Any:
        """How its workflow ended, through all its runs."""
        await self.until("SELECT closed_at FROM event WHERE id = $1", event_id)
        async with asyncio.timeout(PATIENCE):
            return await self.workflow(event_id).result()

    async def status(self, event_id: int) -> dict[str, Any]:
        found: dict[str, Any] = await self.workflow(event_id).query("get_status")
        return found

    async def until(self, statement: str, *values: Any, within: float = PATIENCE) -> Any:
        """What a look answers as soon as it is true."""
        return await until(lambda: self.value(statement, *values), within)

    async def told(self, event_id: int) -> list[str]:
        """The titles of what was told of an event, in the order of the ledger."""
        rows = await self.house.rows(
            """SELECT m.title FROM delivery d JOIN message m ON m.id = d.message_id
               WHERE d.cause LIKE $1 ORDER BY d.id""",
            f"event/{event_id}/%",
        )
        return [row["title"] for row in rows]

    async def outcomes(self, event_id: int) -> list[tuple[str, str | None]]:
        rows = await self.house.rows("SELECT name, outcome FROM event_signal WHERE event_id = $1 ORDER BY id", event_id)
        return [(row["name"], row["outcome"]) for row in rows]

    async def all_handled(self, event_id: int) -> None:
        statement = "SELECT NOT EXISTS (SELECT FROM event_signal WHERE event_id = $1 AND handled_at IS NULL)"
        await self.until(statement, event_id)

    async def ran(self, event_id: int, *wanted: str) -> None:
        """Until these are the runs of its workflow, the first one first; the server lists them a little later."""

        async def listed() -> bool:
            found = [one async for one in self.client.list_workflows(f"WorkflowId = 'event-{event_id}'")]
            found.sort(key=lambda one: one.start_time)
            return [one.status.name for one in found if one.status] == list(wanted)

        await until(listed, PATIENCE)

    # -- what may happen to it

    def worker(self, **settings: str) -> Service:
        """A process of its own that works on the same, not started yet; it may be killed."""
        named: dict[str, Any] = {f"SOONISH_{name.upper()}": one for name, one in (self.settings | settings).items()}
        return Service(command="work", SOONISH_DATABASE_URL=str(self.process.settings.database_url), **named)

    @asynccontextmanager
    async def stopped(self) -> AsyncIterator[None]:
        """While the Temporal server is away."""
        await asyncio.to_thread(self.server.stop)
        try:
            yield
        finally:
            await asyncio.to_thread(self.server.start)

    async def dies_at(self, point: str, **settings: str) -> None:
        """A worker that ends without any cleanup when it first passes that point."""
        worker = self.worker(failpoints=f"{point}=exit@1", lease="5s", **settings)
        worker.begin()
        try:
            assert await asyncio.to_thread(worker.end, KILLED_PATIENCE) == KILLED, worker.log[-3000:]
        finally:
            worker.remove()

    async def _insert(self, table: str, row: dict[str, Any]) -> Any:
        values = {name: json.dumps(value) if name == "selectors" else value for name, value in row.items()}
        names, places = ", ".join(values), ", ".join(f"${n}" for n in range(2, len(values) + 2))
        statement = f"INSERT INTO {table} (workspace_id, {names}) VALUES ($1, {places}) RETURNING id"
        return (await self.house.rows(statement, self.house.id, *values.values()))[0]["id"]


@asynccontextmanager
async def lives(
    database_url: str, folder: Path, server: Server, role: str = "work", **settings: str
) -> AsyncIterator[Lives]:
    """The product on a database of its own, and at work unless it only serves."""
    number = next(_numbers)
    mine = {"temporal_address": server.address, "temporal_task_queue": f"test-{os.getpid()}-{number}"}
    own = mine | {"secrets_keys": make_key()} | FAST | settings
    async with AsyncExitStack() as stack:
        product = await stack.enter_async_context(site(database_url, folder, role, **own))
        await _own_ids(product, number)
        client = await Client.connect(server.address)
        assert product.process
        if engine := product.process.engine:
            await stack.enter_async_context(working(product.process))
            await engine.wait_up(PATIENCE)
        yield Lives(product, server, client, own)


@asynccontextmanager
async def working(process: Process) -> AsyncIterator[None]:
    """The loop of a process, as `work` has it."""
    async with ClosedWorkspaces(process.db) as closed, due_loop(process, frozenset(Lane), closed):
        await ask_to_convert(process.db, process.events.terms)
        yield


@asynccontextmanager
async def another(first: Lives, **settings: str) -> AsyncIterator[Process]:
    """A process that works on the same, with settings of its own."""
    url = first.process.settings.database_url
    read = settings_of(str(url), first.process.settings.data_dir, **first.settings | settings)
    async with opened(read, first.process.vault, "work") as process, working(process):
        assert process.engine
        await process.engine.wait_up(PATIENCE)
        yield process


async def _own_ids(product: Site, number: int) -> None:
    con = await product.db.connect()
    try:
        first = (os.getpid() % 100_000) * 1_000_000 + number * 1_000
        await con.execute(f"ALTER TABLE event ALTER COLUMN id RESTART WITH {first}")
    finally:
        await con.close()


def titles(count: int) -> list[str]:
    return [f"News {n}" for n in range(1, count + 1)]
