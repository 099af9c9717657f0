"""The whole product for a bench: `soonish up` in a process of its own, on a new database of the server of the bench.

What is asked goes over HTTP; crowds that would take minutes to make so are written into the tables.
"""

import asyncio
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from bench.server import Server

PATIENCE = 60.0
PEOPLE = """
WITH made AS (INSERT INTO person (workspace_id, name, timezone, locale)
  SELECT 1, 'Person ' || n, 'UTC', 'en' FROM generate_series(1, $1) n RETURNING id)
INSERT INTO address (workspace_id, person_id, kind, label, scheme, target_hint, target_print, tags, health)
SELECT 1, m.id, 'console', 'inbox', 'console', 'inbox', sha256(int8send(m.id)), '{}', 'ok' FROM made m"""
SUBSCRIBE = (
    "INSERT INTO subscription (workspace_id, event_id, person_id, source) SELECT 1, $1, p.id, 'api' FROM person p"
)


class Product:
    """A running one. `call` asks it over HTTP; `sql` is the owner of its tables."""

    def __init__(self, url: str, key: str, sql: asyncpg.Connection, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.headers = {"authorization": f"Bearer {key}"}
        self.sql = sql
        self.session = session

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer; raises where it is a refusal."""
        async with self.session.request(method, self.url + path, json=body, headers=self.headers) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise AssertionError(f"{method} {path}: {answer.status} {text}")
            return await answer.json() if text else None

    async def crowd(self, count: int) -> None:
        """So many people in workspace 1, each with an inbox."""
        await self.sql.execute(PEOPLE, count)
        await self.sql.execute("VACUUM (ANALYZE) person, address")

    async def subscribe_all(self, event_id: int) -> None:
        await self.sql.execute(SUBSCRIBE, event_id)
        await self.sql.execute("VACUUM (ANALYZE) subscription")


@asynccontextmanager
async def product(server: Server, **settings: str) -> AsyncIterator[Product]:
    """Run it while the block does."""
    folder, database = Path(tempfile.mkdtemp(prefix="soonish-bench-product-")), await server.create("product")
    environ = _environ(folder, {"database_url": database} | settings)
    command = [sys.executable, "-m", "soonish", "up"]
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        facts = await asyncio.wait_for(_facts(process), PATIENCE)
        sql = await asyncpg.connect(database)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Product(facts["api"], facts["admin key"], sql, session)
        await sql.close()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)
        await server.drop(database)


async def _facts(process: asyncio.subprocess.Process) -> dict[str, str]:
    """What it prints until it is ready."""
    assert process.stdout
    facts: dict[str, str] = {}
    labels = ("api", "admin key")
    async for line in process.stdout:
        text = line.decode().strip()
        if text == "ready":
            return facts
        facts |= {label: text.removeprefix(f"{label} ") for label in labels if text.startswith(f"{label} ")}
    raise AssertionError(f"`soonish up` ended with {await process.wait()} before it was ready")


def _environ(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """The environment without settings of this machine."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("SOONISH_", "TEMPORAL_"))}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bind = f"127.0.0.1:{probe.getsockname()[1]}"
    ours = {"data_dir": str(folder), "bind": bind, "log": "warning"} | settings
    return mine | {f"SOONISH_{name.upper()}": value for name, value in ours.items()} | {"PYTHONUNBUFFERED": "1"}
