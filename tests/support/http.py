"""Speak to an application over a real connection, and keep the whole answer. Knows no operation."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from litestar import Litestar
from multidict import CIMultiDictProxy
from yarl import URL

from soonish.app.listening import door, served
from soonish.spelling import Bind

PATIENCE: Final = 60.0
NOTHING: Final = object()


@dataclass(frozen=True)
class Answer:
    """All that came back."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem."""
        return self.json["code"]  # type: ignore[no-any-return]

    @property
    def fields(self) -> dict[str, str]:
        """The bad fields of a problem, each with its code."""
        return {error["field"]: error["code"] for error in self.json.get("errors", [])}

    @property
    def refused(self) -> tuple[int, str]:
        return self.status, self.code


@dataclass(frozen=True)
class Client:
    """Asks one address, with one key; keeps no cookie."""

    session: aiohttp.ClientSession
    url: str
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def by(self, key: str | None, **headers: str) -> "Client":
        """The same address with another key; words of a header's name are joined by hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Client(self.session, self.url, key, {**self.headers, **named})

    async def ask(self, method: str, path: str, body: Any = NOTHING, **headers: str) -> Answer:
        """`body`: bytes go as they are, anything else as JSON."""
        async with self.asking(method, path, body, **headers) as response:
            return Answer(response.status, response.headers, await response.read())

    @asynccontextmanager
    async def asking(
        self, method: str, path: str, body: Any = NOTHING, **headers: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The same for an answer that is read bit by bit."""
        sent = self._headers(headers)
        data: Any = None
        if body is not NOTHING:
            data = body if isinstance(body, bytes | AsyncIterator) else json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        async with self.session.request(
            method, URL(self.url + path, encoded=True), data=data, headers=sent, allow_redirects=False
        ) as response:
            yield response

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, **headers)

    async def post(self, path: str, body: Any = NOTHING, **headers: str) -> Answer:
        return await self.ask("POST", path, body, **headers)

    async def patch(self, path: str, body: Any, **headers: str) -> Answer:
        return await self.ask("PATCH", path, body, **headers)

    async def delete(self, path: str, **headers: str) -> Answer:
        return await self.ask("DELETE", path, **headers)

    async def form(self, path: str, body: str = "", **headers: str) -> Answer:
        return await self.ask(
            "POST", path, body.encode(), **{"content_type": "application/x-www-form-urlencoded", **headers}
        )

    async def every(self, path: str) -> list[Any]:
        """All items of a list, page by page."""
        found: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            mark = "&" if "?" in path else "?"
            answer = await self.get(path + (f"{mark}after={cursor}" if cursor else ""))
            assert answer.status == 200, answer.body
            found += answer.json["items"]
            cursor = answer.json["next"]
        return found

    def head(self, first: str, *more: str) -> bytes:
        """The head of a request, line by line as it will go out."""
        key = [f"authorization: Bearer {self.key}"] if self.key else []
        return "\r\n".join([f"{first} HTTP/1.1", "host: here", *key, *more, "", ""]).encode()

    async def raw(self, first: str, *more: str, body: bytes = b"") -> bytes:
        """A request on a connection of its own, and all that comes back until the other side closes."""
        reader, writer = await self.connect()
        writer.write(self.head(first, "connection: close", *more) + body)
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
        return answer

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return await asyncio.open_connection(host, int(port))

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        found = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return found | dict(self.headers) | {name.replace("_", "-"): value for name, value in more.items()}


@asynccontextmanager
async def listening(application: Litestar) -> AsyncIterator[Client]:
    """The application behind a free port of this machine, served as the product serves it."""
    with door(Bind("127.0.0.1", 0)) as entrance:
        async with served(application, entrance):
            timeout = aiohttp.ClientTimeout(total=PATIENCE)
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(
                timeout=timeout, connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            ) as session:
                yield Client(session, f"http://127.0.0.1:{entrance.getsockname()[1]}")


@dataclass(frozen=True)
class Sent:
    """One block of a stream of events; `comment` where it is no event."""

    id: str | None = None
    type: str | None = None
    data: str | None = None
    retry: str | None = None
    comment: str | None = None

    @property
    def json(self) -> Any:
        assert self.data is not None
        return json.loads(self.data)


class Events:
    """A stream of events, block by block."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self, within: float = PATIENCE) -> Sent | None:
        """The next block; None where the stream ended."""
        async with asyncio.timeout(within):
            lines = [line async for line in self._lines()]
        if not lines:
            return None
        found: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            found[{"": "comment", "event": "type"}.get(name, name)] = value.removeprefix(" ")
        return Sent(**found)

    async def rows(self, count: int) -> list[Sent]:
        """The next so many events; comments and `retry` are left out."""
        found: list[Sent] = []
        while len(found) < count:
            block = await self.next()
            assert block is not None, f"it ended after {len(found)} of {count}"
            if block.data is not None:
                found.append(block)
        return found

    async def end(self) -> list[Sent]:
        """All that comes until it ends."""
        found: list[Sent] = []
        while block := await self.next():
            found.append(block)
        return found

    async def _lines(self) -> AsyncIterator[str]:
        while line := await self.response.content.readline():
            if line == b"\n":
                return
            yield line.decode().rstrip("\n")


@asynccontextmanager
async def events(client: Client, path: str, **headers: str) -> AsyncIterator[Events]:
    """A stream that was opened: its answer is 200."""
    async with client.asking("GET", path, **headers) as response:
        assert response.status == 200, await response.read()
        yield Events(response)
