"""A way to the database that a test can freeze: connections stay open, and nothing passes any more. Knows bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.postgres import PostgresServer


class Proxy:
    """Forwards a port of this machine to the socket of a server."""

    def __init__(self, server: PostgresServer) -> None:
        self._target = Path(server.folder) / ".s.PGSQL.5432"
        self._pumps: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    def url(self, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}?sslmode=disable"

    def freeze(self) -> None:
        """All connections of now are half-open from now on; new ones pass."""
        for pump in self._pumps:
            pump.cancel()
        self._pumps.clear()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(str(self._target))
        self._writers += [writer, back]
        self._pumps += [asyncio.create_task(_pump(reader, back)), asyncio.create_task(_pump(there, writer))]

    def close(self) -> None:
        self.freeze()
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def proxy(server: PostgresServer) -> AsyncIterator[Proxy]:
    """A proxy before the server, while the block runs."""
    mine = Proxy(server)
    listening: Any = await asyncio.start_server(mine.accept, "127.0.0.1", 0)
    mine.port = listening.sockets[0].getsockname()[1]
    try:
        yield mine
    finally:
        listening.close()
        mine.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
