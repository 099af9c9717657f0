"""Webhooks: a signed POST over HTTP.

The bytes and the id are the same in every try, so a receiver that remembers ids sees each fact once. Redirects are not
followed and bodies hardly read: what counts is the status. Knows HTTP; not which try is the last, nor whose it is.

A request is laid out once a target and written as bytes. Connections, TLS and the reading of answers are aiohttp's; its
session is not used, because it costs twice what all of these cost together.
"""

import asyncio
import os
import re
import ssl
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp import ClientError, ClientRequest, ClientSSLError, StreamReader, TCPConnector
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, RawResponseMessage
from multidict import CIMultiDict
from yarl import URL

from soonish.delivery.channel import ANSWER_LENGTH, Outcome, Parcel, Target, failed, hushed, refused, unknown
from soonish.delivery.egress import CONNECT, Guard
from soonish.delivery.model.webhooks import pause, reserved_header, signature
from soonish.errors import DeliveryFailed, Invalid

READ: Final = 65_536  # of an answer
LINGER: Final = 2.0  # seconds that a body may take once the status is known
# Shorter than the patience of usual servers (5 s and up): whoever closes first must be us, because a request that meets
# a closing connection is one whose end nobody knows.
IDLE: Final = 4.0
_KEPT: Final = 10_000
_AGAIN: Final = (408, 425, 429)
_GONE: Final = 410
_SENT: Final = {status: Outcome("sent", status=status) for status in range(200, 300)}
_NO_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class _Way(NamedTuple):
    """What is the same for all parcels to one target."""

    request: ClientRequest  # names the connection that is wanted; it is never sent
    head: bytes
    secrets: Sequence[str]  # what of it no answer may tell again


class Webhook:
    """The channel. Connections are kept open between tries, for a few seconds."""

    def __init__(self, guard: Guard, version: str, timeout: float, tries_4xx: int = 1) -> None:
        self._guard = guard
        self._agent = f"Soonish/{version}"
        self._timeout = timeout
        self._limits = aiohttp.ClientTimeout(connect=min(CONNECT, timeout))
        self._tries_4xx = tries_4xx
        self._ways: dict[tuple[int, int, str], _Way] = {}
        self._connector: TCPConnector | None = None

    async def send(self, target: Target, what: Parcel) -> Outcome:
        """POST it once."""
        ends = asyncio.get_running_loop().time() + self._timeout
        try:
            way = self._ways.get((target.id, target.version, target.address)) or self._learn(target)
            connection = await self._opened().connect(way.request, [], self._limits)
        except Invalid as error:
            return refused("egress_refused", error.message)
        except DeliveryFailed as error:
            return refused(error.code, error.message) if error.permanent else failed(error.code, error.message)
        except ClientSSLError as error:
            return failed("tls", _reason(error))
        except (ClientError, OSError) as error:
            return failed("connect", _reason(error))
        except ValueError:  # what was stored makes no request at all
            return refused("bad_request")
        return await self._posted(connection, way, way.head + _rest(target, what), what, ends)

    async def close(self) -> None:
        if self._connector:
            await self._connector.close()
            self._connector = None

    async def _posted(self, connection: Connection, way: _Way, request: bytes, what: Parcel, ends: float) -> Outcome:
        """From here on something may have arrived."""
        try:
            async with asyncio.timeout_at(ends):
                message, body = await _exchange(connection, request)
            sent = _SENT.get(message.code)
            answer = "" if sent and body.is_eof() else await _read(body, ends)
            connection.release()  # which closes it, unless the answer was read to its end
            return sent or self._unsent(message, hushed(answer, way.secrets), what)
        except TimeoutError:
            return unknown("timeout")
        except (ClientError, HttpProcessingError, OSError, RuntimeError):  # uvloop: RuntimeError, when it is closed
            return unknown("lost")
        finally:
            connection.close()  # whose answer may still come: it must not meet the next request

    def _unsent(self, message: RawResponseMessage, answer: str, what: Parcel) -> Outcome:
        status = message.code
        if status == _GONE or (400 <= status < 500 and status not in _AGAIN and what.n >= self._tries_4xx):
            return refused(f"http_{status}", answer, status=status)
        wait = pause(message.headers.get("retry-after"), what.sent_at)
        return failed(f"http_{status}", answer, status=status, retry_after=wait)

    def _opened(self) -> TCPConnector:
        if self._connector is None:
            # How many go at once is decided where they are handed over, for each target.
            self._connector = self._guard.connector(limit=0, keepalive_timeout=IDLE)
        return self._connector

    def _learn(self, target: Target) -> _Way:
        """Judge the URL, which may have been stored under other settings, and lay ready what each request needs."""
        self._guard.check_url(target.address, plain=False)
        url = URL(target.address)
        if len(self._ways) >= _KEPT:
            self._ways.clear()
        own = target.config.get("headers") or {}
        secrets = [url.user, url.raw_user, url.password, url.raw_password, *own.values()]
        way = _Way(ClientRequest("POST", url.with_user(None)), self._head(url, own), list(filter(None, secrets)))
        self._ways[target.id, target.version, target.address] = way
        return way

    def _head(self, url: URL, own: Any) -> bytes:
        headers = CIMultiDict({"user-agent": self._agent, "accept": "*/*", "accept-encoding": "identity"})
        if url.user is not None:
            user = b64encode(f"{url.user}:{url.password or ''}".encode()).decode()
            headers["authorization"] = f"Basic {user}"
        headers.update({name: value for name, value in own.items() if not reserved_header(name)})
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if any(map(_NO_HEADER.search, lines)):
            raise ValueError("a header would end the line")
        first = f"POST {url.raw_path_qs} HTTP/1.1\r\nhost: {url.host_port_subcomponent}\r\n"
        return (first + "".join(f"{line}\r\n" for line in lines) + "content-type: application/json\r\n").encode()


def _rest(target: Target, what: Parcel) -> bytes:
    """What a try adds to the head of its target: the headers of its own, and the body."""
    at, wire_id = int(what.sent_at.timestamp()), what.wire_id
    signed = signature(target.secrets, wire_id, at, what.body)
    headers = (
        f"webhook-id: {wire_id}\r\nx-idempotency-key: {wire_id}\r\nwebhook-timestamp: {at}\r\n"
        f"webhook-signature: {signed}\r\nsoonish-attempt: {what.n}\r\ncontent-length: {len(what.body)}\r\n\r\n"
    )
    return headers.encode() + what.body


async def _exchange(connection: Connection, request: bytes) -> tuple[RawResponseMessage, StreamReader]:
    """Write the request, and wait for the head of an answer."""
    protocol, transport = connection.protocol, connection.transport
    if protocol is None or transport is None:
        raise ConnectionResetError
    protocol.set_response_params(read_until_eof=True, auto_decompress=False)
    transport.write(request)
    answer = await protocol.read()
    while 100 <= answer[0].code < 200 and answer[0].code != 101:  # not yet an answer
        answer = await protocol.read()
    return answer


async def _read(body: StreamReader, ends: float) -> str:
    """The beginning of a body. A body that is too long or too slow costs its connection, and nothing else."""
    kept, patience = bytearray(), asyncio.get_running_loop().time() + LINGER
    with suppress(ClientError, OSError):
        async with asyncio.timeout_at(min(ends, patience)):
            while len(kept) < READ and (chunk := await body.readany()):
                kept += chunk
    return kept[: 8 * ANSWER_LENGTH].decode("utf-8", "replace").replace("\0", "")


def _reason(error: Exception) -> str:
    """What the system said; its own sentences tell the address that a name had."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLError):
        return cause.reason or "TLS failed"
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else "no connection"
