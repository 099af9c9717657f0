"""A receiver that keeps a ledger of its own and misbehaves as it is told: the other side of every delivery over HTTP.

It reads HTTP by hand, so that it can break it, and shares no code with what sends.
"""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, Self, TypeAlias

from multidict import CIMultiDict, CIMultiDictProxy

PATIENCE: Final = 60.0
Way: TypeAlias = Literal["answer", "hang", "cut", "cut body", "drip", "huge", "garbage", "early", "pieces"]


@dataclass(frozen=True)
class Reply:
    """How one request is answered. `delay` is before the answer, and `after` is what it waits for; what drips and what
    is huge never ends by itself."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    after: asyncio.Event | None = None
    way: Way = "answer"


OK: Final = Reply()


@dataclass(frozen=True)
class Arrival:
    """What came in."""

    id: str
    method: str
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes
    at: datetime


class Receiver:
    """Listens on loopback while the block lasts. Replies are given in turn, and the last one again and again."""

    def __init__(self, *replies: Reply | int, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.arrivals: list[Arrival] = []
        self.connections = 0
        self.open = 0
        self._tls, self._host = tls, host
        self._changed = asyncio.Condition()
        self._talks: set[asyncio.Task[None]] = set()
        self.answer(*(replies or (OK,)))

    @property
    def url(self) -> str:
        """With an address as its host; `port` serves those who have a name for it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}/in"

    @property
    def ids(self) -> list[str]:
        return [arrival.id for arrival in self.arrivals]

    def answer(self, *replies: Reply | int) -> None:
        """From now on."""
        self._replies = [Reply(one) if isinstance(one, int) else one for one in replies]

    async def wait(self, count: int = 1) -> list[Arrival]:
        """All arrivals, as soon as there are so many."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.arrivals) >= count)
        return self.arrivals

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk
        self._talks.add(talk)
        self.connections += 1
        self.open += 1
        try:
            with suppress(OSError, EOFError, RuntimeError, asyncio.CancelledError):  # uvloop: RuntimeError, when closed
                while await self._turn(reader, writer):
                    pass
        finally:
            self.open -= 1
            self._talks.discard(talk)
            writer.transport.abort()

    async def _turn(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; says whether another may follow."""
        await self._note(await _request(reader))
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        await asyncio.sleep(reply.delay)
        if reply.after:
            await reply.after.wait()
        await _say(reply, writer)
        return reply.way in ("answer", "pieces")

    async def _note(self, arrival: Arrival) -> None:
        async with self._changed:
            self.arrivals.append(arrival)
            self._changed.notify_all()


async def _request(reader: asyncio.StreamReader) -> Arrival:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    method, path, _ = first.split(" ")
    headers = CIMultiDict(_headers(lines))
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Arrival(headers.get("webhook-id", ""), method, path, CIMultiDictProxy(headers), body, datetime.now(UTC))


def _headers(lines: Iterable[str]) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in lines if line)
    return [(name, value.strip()) for name, _, value in pairs]


async def _say(reply: Reply, writer: asyncio.StreamWriter) -> None:
    match reply.way:
        case "hang":
            await asyncio.Event().wait()
        case "cut":
            return
        case "garbage":
            writer.write(b"220 mail.example.org ESMTP\r\n")
            await writer.drain()
            writer.close()
        case "answer" | "cut body":
            writer.write(_head(reply, len(reply.body) + (reply.way == "cut body")) + reply.body)
            await writer.drain()
        case "early":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + _head(Reply(202), 0))
            await writer.drain()
        case "pieces":
            writer.write(_head(Reply(reply.status, {"transfer-encoding": "chunked"})))
            for byte in reply.body:
                writer.write(b"1\r\n%c\r\n" % byte)
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        case "drip":
            await _forever(reply, writer, b"x", pause=0.05)
        case "huge":
            await _forever(reply, writer, b"x" * 65_536, pause=0)


async def _forever(reply: Reply, writer: asyncio.StreamWriter, chunk: bytes, pause: float) -> None:
    writer.write(_head(reply, 10**9))
    while True:
        writer.write(chunk)
        await writer.drain()
        await asyncio.sleep(pause)


def _head(reply: Reply, length: int | None = None) -> bytes:
    headers = ({} if length is None else {"content-length": str(length)}) | dict(reply.headers)
    lines = [f"HTTP/1.1 {reply.status} Said", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
