"""An Apprise API server of the operator's, which sends in place of this program.

Its own address is a setting and trusted; what a user named is judged by the guard before it is told to it. Knows that
server's protocol, and nothing of the services behind it.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

import aiohttp
from aiohttp import ClientConnectorError, ClientError, ConnectionTimeoutError

from soonish.clock import utc_now
from soonish.delivery.channel import Letter, Outcome, Target, failed, refused, unknown
from soonish.delivery.channels.apprise_library import judge_place
from soonish.delivery.egress import Guard
from soonish.delivery.model.targets import apprise_text, apprise_type, check_apprise, masked
from soonish.delivery.model.webhooks import pause
from soonish.errors import DeliveryFailed, Invalid

LIMIT: Final = 30.0
READ: Final = 65_536
_HEADERS: Final = {"accept": "application/json", "x-apprise-log-level": "INFO"}
_AGAIN: Final = (408, 424, 429)


class AppriseApi:
    """One server, several requests at once."""

    def __init__(self, url: str, guard: Guard, allow: frozenset[str] | None = None, *, limit: float = LIMIT) -> None:
        self._url = f"{url.rstrip('/')}/notify"
        self._guard = guard
        self._allow = allow
        self._limits = aiohttp.ClientTimeout(total=limit, connect=min(5.0, limit * 0.8))
        self._session: aiohttp.ClientSession | None = None

    async def send(self, target: Target, what: Letter) -> Outcome:
        url = target.address
        try:
            await self._judge(url)
            async with self._opened().post(self._url, json=_request(url, what), allow_redirects=False) as response:
                return outcome(response, await _read(response), url)
        except Invalid as error:
            return refused(error.code, error.message)
        except DeliveryFailed as error:
            return refused(error.code, error.message) if error.permanent else failed(error.code, error.message)
        except (ClientConnectorError, ConnectionTimeoutError):
            return failed("no_connection", "The Apprise API cannot be reached")
        except TimeoutError:
            return unknown("timeout")
        except (ClientError, OSError):
            return unknown("lost")

    async def close(self) -> None:
        if self._session:
            await self._session.close()
            self._session = None

    async def _judge(self, url: str) -> None:
        """What it will dial in our place; raises what the guard says of it."""
        said = check_apprise(url, self._allow)
        host, port = await asyncio.to_thread(judge_place, said, url, self._guard)
        if host:
            await self._guard.resolve(host, port or 443)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(timeout=self._limits, headers=_HEADERS, cookie_jar=jar)
        return self._session


def outcome(response: aiohttp.ClientResponse, body: bytes, url: str) -> Outcome:
    """What an answer means. 424 = not all of it: whether anything was, its lines tell."""
    status = response.status
    answer = masked(_said(body), url)
    if status == 200:
        return Outcome("sent", status=status)
    if status == 424 and any(_is_sent(line) for line in _lines(body)):
        return Outcome("partial", "partial", status=status, answer=answer)
    if status == 204:
        return refused("no_service", "The Apprise API has no service for this address", status=status)
    if 400 <= status < 500 and status not in _AGAIN:
        return refused("rejected" if status == 400 else f"http_{status}", answer, status=status)
    wait = pause(response.headers.get("retry-after"), utc_now())
    return failed(f"http_{status}", answer, status=status, retry_after=wait)


def _request(url: str, letter: Letter) -> dict[str, str]:
    title, body = apprise_text(letter)
    return {"urls": url, "title": title, "body": body, "type": apprise_type(letter.level), "format": "text"}


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of a body; what is lost of it changes nothing, for the status is known."""
    kept = bytearray()
    with suppress(ClientError, OSError):
        while len(kept) < READ and (chunk := await response.content.readany()):
            kept += chunk
    return bytes(kept[:READ])


def _is_sent(line: Any) -> bool:
    """Of the form [level, time, text]."""
    return isinstance(line, list) and len(line) == 3 and line[0] == "INFO" and str(line[2]).startswith("Sent ")


def _lines(body: bytes) -> list[Any]:
    found = _json(body)
    details = found.get("details") if isinstance(found, dict) else None
    return details if isinstance(details, list) else []


def _said(body: bytes) -> str:
    found = _json(body)
    if isinstance(found, dict) and isinstance(found.get("error"), str):
        return str(found["error"])
    return body.decode("utf-8", "replace").replace("\0", "")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
