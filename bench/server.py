"""One PostgreSQL for all that is measured: the embedded one, with the settings with which the product runs it.

So fsync, synchronous_commit and autovacuum are on, and everybody reaches it by the same unix socket.
"""

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import asyncpg

from soonish.embedded.postgres import DATABASE, Postgres

FACTS = "fsync", "synchronous_commit", "autovacuum", "shared_buffers", "max_wal_size", "checkpoint_timeout", "jit"


class Server:
    """Makes databases."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._numbers = itertools.count(1)

    async def create(self, name: str) -> str:
        """The URL of a new, empty database."""
        name = f"{name}_{next(self._numbers)}"
        await self._execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url.replace(f"/{DATABASE}?", f"/{name}?")

    async def drop(self, url: str) -> None:
        await self._execute(f"DROP DATABASE {urlsplit(url).path[1:]} WITH (FORCE)")

    async def facts(self) -> str:
        con = await asyncpg.connect(self.url)
        try:
            version = await con.fetchval("SHOW server_version")
            settings = [f"{name} {await con.fetchval(f'SHOW {name}')}" for name in FACTS]
        finally:
            await con.close()
        return f"PostgreSQL {version} (embedded, unix socket): {', '.join(settings)}"

    async def _execute(self, statement: str) -> None:
        con = await asyncpg.connect(self.url)
        try:
            await con.execute(statement)
        finally:
            await con.close()


@asynccontextmanager
async def server() -> AsyncIterator[Server]:
    """A server in a folder of its own that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="soonish-bench-"))
    try:
        async with Postgres(folder) as postgres:
            yield Server(postgres.url)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def settle(url: str) -> None:
    """Let the database tidy up before it is measured, as it would have in the time that a bench does not wait."""
    con = await asyncpg.connect(url)
    try:
        await con.execute("VACUUM (ANALYZE)")
        await con.execute("CHECKPOINT")
    finally:
        await con.close()


def for_psycopg(url: str, scheme: str = "postgresql") -> str:
    """The same URL for drivers that want the user and the folder of the socket spelled otherwise."""
    parts = urlsplit(url)
    folder = parts.query.partition("host=")[2]
    return f"{scheme}://{parts.username}@/{parts.path[1:]}?host={quote(folder, safe='%')}"
