"""Speak to a Soonish server over HTTP.

    async with Soonish("http://127.0.0.1:8787", "sk_...") as soonish:
        print(await soonish.get("/v1/me"))

JSON goes in and out; a problem becomes the error that it names. Stands on asyncio and `h11`, because a command must not
wait for a large HTTP library to load. Knows errors alone: no settings, no tables.
"""

import asyncio
import json
import ssl
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

import h11

from soonish.errors import (
    BadRequest,
    Conflict,
    FieldError,
    Forbidden,
    Invalid,
    NotFound,
    SoonishError,
    Stale,
    TooLarge,
    TooMany,
    Unauthorized,
    Unavailable,
    UnsupportedMedia,
)

Json: TypeAlias = Any
CHUNK = 65_536
_BY_STATUS: dict[int, type[SoonishError]] = {
    error.status: error
    for error in (BadRequest, Unauthorized, Forbidden, NotFound, Conflict, TooLarge, UnsupportedMedia)
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said: `body` is JSON where it sent JSON, else text; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: Json


class Soonish:
    """One server and one key. Use it as an async context manager, or call `close` at the end."""

    def __init__(self, url: str = "http://127.0.0.1:8787", api_key: str = "", *, timeout: float = 30.0) -> None:
        self.url = url.rstrip("/")
        self._api_key = api_key
        self._timeout = timeout
        self._idle: list[_Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def get(self, path: str, **query: Json) -> Json:
        return (await self.request("GET", path, query=query)).body

    async def post(self, path: str, body: Json = None) -> Json:
        return (await self.request("POST", path, body)).body

    async def put(self, path: str, body: Json = None) -> Json:
        return (await self.request("PUT", path, body)).body

    async def patch(self, path: str, body: Json, *, version: int | None = None) -> Json:
        """Change fields; with `version` only if nobody changed the thing since (else `Stale`)."""
        return (await self.request("PATCH", path, body, headers=_if_match(version))).body

    async def delete(self, path: str, *, version: int | None = None, **query: Json) -> Json:
        return (await self.request("DELETE", path, query=query, headers=_if_match(version))).body

    async def list(self, path: str, **query: Json) -> AsyncIterator[Json]:
        """All items of a list, fetched page by page."""
        while True:
            page = await self.get(path, **query)
            for item in page["items"]:
                yield item
            if page["next"] is None:
                return
            query["after"] = page["next"]

    async def request(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        query: Mapping[str, Json] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Any call; raises the error that the problem names.

        A POST carries an Idempotency-Key, so that a repeat after a lost connection does nothing twice.
        """
        content = b"" if body is None else json.dumps(body).encode()
        own = {"idempotency-key": uuid.uuid4().hex} if method == "POST" else {}
        request = self._head(method, _target(path, query), content, own | dict(headers or {}))
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._exchange(request, content)
        except TimeoutError as error:
            raise Unavailable(f"{self.url} did not answer within {self._timeout:g} s") from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise Unavailable(f"Nobody answers at {self.url}; is `soonish up` running there?") from error
        if answer.status >= 400:
            raise problem(answer)
        return answer

    def _head(self, method: str, target: str, content: bytes, more: Mapping[str, str]) -> h11.Request:
        headers = {"host": urlsplit(self.url).netloc, "accept": "application/json", "user-agent": "soonish"}
        if self._api_key:
            headers["authorization"] = f"Bearer {self._api_key}"
        if content:
            headers["content-type"] = "application/json"
        headers["content-length"] = str(len(content))
        return h11.Request(method=method, target=target, headers=list((headers | dict(more)).items()))

    async def _exchange(self, request: h11.Request, content: bytes) -> Answer:
        """On an idle connection if there is one; the server may have closed it just now, then on a fresh one."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.ended and (answer := await self._over_idle(connection, request, content)):
                return answer
        return await self._over(await _Connection.open(self.url), request, content)

    async def _over_idle(self, connection: "_Connection", request: h11.Request, content: bytes) -> Answer | None:
        try:
            return await self._over(connection, request, content)
        except (OSError, h11.RemoteProtocolError):
            if request.method == b"PATCH":  # nothing makes its repeat harmless
                raise
            return None

    async def _over(self, connection: "_Connection", request: h11.Request, content: bytes) -> Answer:
        try:
            answer = await connection.exchange(request, content)
        except BaseException:
            connection.close()
            raise
        if connection.ready_for_next():
            self._idle.append(connection)
        else:
            connection.close()
        return answer


class _Connection:
    """One connection; one exchange at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, url: str) -> Self:
        parts = urlsplit(url)
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        port = parts.port or (443 if tls else 80)
        return cls(*await asyncio.open_connection(parts.hostname, port, ssl=tls))

    @property
    def ended(self) -> bool:
        return self._reader.at_eof()

    def ready_for_next(self) -> bool:
        with suppress(h11.LocalProtocolError):
            self._http.start_next_cycle()
            return True
        return False

    def close(self) -> None:
        self._writer.close()

    async def exchange(self, request: h11.Request, content: bytes) -> Answer:
        for event in (request, h11.Data(data=content), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        await self._writer.drain()
        response, received = None, bytearray()
        while not isinstance(event := await self._event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                received += event.data
        if response is None:
            raise h11.RemoteProtocolError("an end without an answer")
        headers = {name.decode(): value.decode("latin-1") for name, value in response.headers}
        return Answer(response.status_code, headers, _decoded(headers.get("content-type", ""), bytes(received)))

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(CHUNK))
        if isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("closed in the middle")
        return event


def problem(answer: Answer) -> SoonishError:
    """The error that a refusal names; its message is the server's sentence."""
    told = answer.body if isinstance(answer.body, dict) else {}
    text = str(told.get("detail") or f"The server answered {answer.status}")
    code = str(told.get("code") or "internal")
    if answer.status == Invalid.status:
        return Invalid(text, *map(_field_error, told.get("errors") or ()), code=code)
    if answer.status == Stale.status:
        return Stale(text, int(answer.headers.get("etag", "").strip('"') or 0))
    if answer.status in (TooMany.status, Unavailable.status):
        kind = TooMany if answer.status == TooMany.status else Unavailable
        return kind(text, _seconds(answer.headers.get("retry-after")), code=code)
    return _BY_STATUS.get(answer.status, SoonishError)(text, code=code)


def _field_error(told: Mapping[str, str]) -> FieldError:
    return FieldError(told.get("field", ""), told.get("code", ""), told.get("message", ""))


def _seconds(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 1


def _decoded(content_type: str, content: bytes) -> Json:
    if "json" in content_type:
        return json.loads(content) if content else None
    return content.decode(errors="replace") or None


def _target(path: str, query: Mapping[str, Json] | None) -> str:
    pairs = [(name, _text(value)) for name, value in (query or {}).items() if value is not None]
    return quote(path, safe="/?&=%:@,*~") + (f"?{urlencode(pairs)}" if pairs else "")


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"if-match": f'"{version}"'}
