"""Streams to clients: rows behind a cursor as server-sent events, and `/live`, which says that something changed.

A stream reads from the database at its client's pace and keeps nothing, so no client can fill this process. Where rows
come from is known to the function that a route hands in.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from litestar.types import Receive, Scope, Send

from soonish.db import sql
from soonish.db.pool import Tx
from soonish.errors import BadRequest, Forbidden, Unavailable
from soonish.web.auth import Role
from soonish.web.fields import Query, line
from soonish.web.hub import Follower, Hub
from soonish.web.operation import Caller, Request, get
from soonish.web.reading import Headers

_sql = sql.load(__file__)

BATCH: Final = 200  # rows in one look
BEHIND_ROWS: Final = 1000
BEHIND_BYTES: Final = 1024 * 1024
SLOW: Final = 1.0  # seconds that one write may take before it is asked how far behind the client is
PING_EVERY: Final = 15.0
BLOCKED: Final = 30.0  # seconds after which a client that reads nothing is closed
HELD: Final = (0.02, 2.0)  # seconds until the first, and the longest, further look for rows that are held back
COALESCE: Final = 0.2  # seconds in which changes of a page become one

_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class Event:
    """One row of a stream; `id` is the cursor after it."""

    id: str
    type: str
    data: Any


@dataclass(frozen=True, slots=True)
class Batch:
    """What a look found: rows strictly after the cursor, in an order in which none can ever appear between them.

    `held`: there are rows that a transaction still under way holds back. `reset`: the cursor is older than what is
    kept, and the rows begin with the oldest.
    """

    events: Sequence[Event]
    held: bool = False
    reset: bool = False


Fetch: TypeAlias = Callable[[str | None, int], Awaitable[Batch]]


async def ring(tx: Tx, workspace_id: int, topic: str) -> None:
    """Wake the followers of a topic, in all processes, when this transaction commits."""
    await _sql.ring.run(tx, stream=name(workspace_id, topic))


def name(workspace_id: int, topic: str) -> str:
    """A stream; those of workspace 0 are everybody's."""
    return f"{workspace_id}:{topic}"


class Slow(Exception):
    """The client does not read."""


class Pen:
    """Writes to one client, and notices when it does not read."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.slow = False  # the last write took long

    async def start(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
        await self.write(b"retry: 2000\n\n")

    async def write(self, text: bytes) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(BLOCKED):
                await self._send({"type": "http.response.body", "body": text, "more_body": True})
        except TimeoutError as error:
            raise Slow from error
        self.slow = clock() - began > SLOW

    async def end(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class Stream:
    """The answer of a route that streams: rows of `fetch` after the client's cursor, then those to come."""

    def __init__(self, topic: str, fetch: Fetch, after: str | None = None) -> None:
        self._topic = topic
        self._fetch = fetch
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: dict[str, Any] = scope["state"]
        hub: Hub = state["kit"].hub
        self._after = _last_event_id(scope) or self._after
        streams = [name(state["caller"].workspace_id, self._topic)]
        async with hub.following(streams, state["secret"]) as follower, _until_gone(receive, follower):
            follower.take()
            first = await self._fetch(self._after, BATCH)  # before the first byte: a wrong cursor gets its own answer
            pen = Pen(send)
            with suppress(Slow):
                await pen.start()
                await self._write(pen, first)
                await self._follow(pen, follower, first)
            await pen.end()

    async def _follow(self, pen: Pen, follower: Follower, last: Batch) -> None:
        """Look, write, wait; each look begins where the last row that was written ended."""
        held = HELD[0]
        while not follower.ended:
            if last.events or await self._pause(pen, follower, held if last.held else PING_EVERY):
                held = HELD[0]
            else:
                held = min(held * 2, HELD[1])
            follower.take()
            last = await self._look(pen, follower)
            await self._write(pen, last)

    async def _pause(self, pen: Pen, follower: Follower, seconds: float) -> bool:
        """Wait for a ring; a long silence is broken by pings, which cost no look."""
        while not (woken := await follower.wait(seconds)) and seconds >= PING_EVERY:
            await pen.write(b": ping\n\n")
        return woken

    async def _look(self, pen: Pen, follower: Follower) -> Batch:
        """The next rows. A client that was slow to take the last ones must not be far behind."""
        batch = None
        while batch is None and not follower.ended:
            batch = await self._try_to_look(pen)
        if batch and pen.slow and (len(batch.events) >= BEHIND_ROWS or len(written(batch.events)) >= BEHIND_BYTES):
            raise Slow
        return batch or Batch(())

    async def _try_to_look(self, pen: Pen) -> Batch | None:
        """None while the database is away: the client stays, and misses nothing."""
        try:
            return await self._fetch(self._after, BEHIND_ROWS if pen.slow else BATCH)
        except Unavailable:
            await pen.write(b": ping\n\n")
            await asyncio.sleep(1)
            return None

    async def _write(self, pen: Pen, batch: Batch) -> None:
        text = written(batch.events)
        if batch.reset:
            text = b"event: reset\ndata: {}\n\n" + text
        if text:
            await pen.write(text)
        if batch.events:
            self._after = batch.events[-1].id


def written(events: Sequence[Event]) -> bytes:
    """Rows as the stream carries them."""
    lines = (
        b"id: %s\nevent: %s\ndata: %s\n\n" % (one.id.encode(), one.type.encode(), msgspec.json.encode(one.data))
        for one in events
    )
    return b"".join(lines)


def _last_event_id(scope: Scope) -> str | None:
    given = Headers(scope).get(b"last-event-id")
    if given is not None and (len(given) > 200 or not given.isprintable()):
        raise BadRequest("This Last-Event-ID was not made by this stream", code="bad_cursor")
    return given or None


@asynccontextmanager
async def _until_gone(receive: Receive, follower: Follower) -> AsyncIterator[None]:
    """End the follower when its client goes away; nothing else would tell while there is nothing to write."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        follower.end()

    task = asyncio.create_task(watch(), name="stream-watch")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class Live:
    """The answer of `/live`: one event `changed` with the topics, as often as needed and no more."""

    def __init__(self, workspace_id: int, topics: Sequence[str], since: str) -> None:
        self._topics = {name(one, topic): topic for topic in topics for one in (workspace_id, 0)}
        self._since = since

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: dict[str, Any] = scope["state"]
        hub: Hub = state["kit"].hub
        streams = tuple(self._topics)
        async with hub.following(streams, state["secret"]) as follower, _until_gone(receive, follower):
            follower.take()
            pen = Pen(send)
            with suppress(Slow):
                await pen.start()
                await self._tell(pen, hub.changed_since(self._since, streams))
                await self._follow(pen, follower)
            await pen.end()

    async def _follow(self, pen: Pen, follower: Follower) -> None:
        while not follower.ended:
            if not await follower.wait(PING_EVERY):
                await pen.write(b": ping\n\n")
            elif changed := follower.take():
                await self._tell(pen, changed)
                await asyncio.sleep(COALESCE)

    async def _tell(self, pen: Pen, streams: set[str]) -> None:
        if streams:
            topics = sorted({self._topics[stream] for stream in streams})
            await pen.write(b"event: changed\ndata: %s\n\n" % msgspec.json.encode({"topics": topics}))


class LiveQuery(Query):
    """What a page shows, and the moment at which it was made."""

    topics: Annotated[str, line(500, pattern=r"^[a-z0-9][a-z0-9:/_-]{0,99}(,[a-z0-9][a-z0-9:/_-]{0,99}){0,19}$")]
    since: Annotated[str, line(40, least=0)] = ""


@get("/live", role=Role.READ, page=True)
async def live(request: Request, caller: Caller, query: LiveQuery) -> Live:
    """Tell a page which of its topics changed; it fetches those parts anew."""
    del request
    if caller.csrf is None:
        raise Forbidden("Live pages are for sign-ins; with a key, follow a stream under /v1")
    return Live(caller.workspace_id, query.topics.split(","), query.since)
