"""A pooler that swallows notifications: a way to the database on which LISTEN works and nothing is ever heard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

NOTIFICATION = b"A"


@asynccontextmanager
async def deaf_pooler(socket: Path) -> AsyncIterator[int]:
    """The port at which it stands before the server of this socket."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(str(socket))
        with suppress(OSError, asyncio.IncompleteReadError):
            await asyncio.gather(_forward(reader, back), _answer(there, writer))
        writer.close()
        back.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Message by message: a letter, a length that counts itself, and the rest."""
    while head := await reader.readexactly(5):
        body = await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
        if not head.startswith(NOTIFICATION):
            writer.write(head + body)
