"""`soonish receiver`: a webhook's other side, to see what arrives and to try what happens when it goes wrong.

It checks signatures by the standard alone, sharing no code with what signs, and stands by itself: no database, no
settings.
"""

import asyncio
import base64
import errno
import hmac
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from aiohttp import web

from soonish import clock
from soonish.errors import Conflict

LARGEST: Final = 1024 * 1024
NONE: Final = "-"  # what stands for an id where there is none
TOLERANCE: Final = 300  # seconds that a timestamp may be off
Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request, and what was answered."""

    at: datetime
    wire_id: str
    type: str
    verified: bool | None  # None: there is no secret to check it by
    repeated: bool
    status: int

    def __str__(self) -> str:
        checked = {True: "verified", False: "NOT VERIFIED", None: "not checked"}[self.verified]
        again = "  again" if self.repeated else ""
        return f"{self.at:%H:%M:%S.%f}  {self.wire_id}  {self.type}  {checked}  {self.status}{again}"


class Receiver:
    """Answers `statuses` in turn, the last one again and again; `secrets` are the bytes behind `whsec_`."""

    def __init__(self, tell: Tell, statuses: Sequence[int] = (200,), secrets: Sequence[bytes] = ()) -> None:
        self._tell, self._secrets = tell, tuple(secrets)
        self._statuses: Iterator[int] = itertools.chain(statuses[:-1], itertools.repeat(statuses[-1]))
        self._seen: set[str] = set()

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[str]:
        """Receive while the block lasts; answers the address."""
        application = web.Application(client_max_size=LARGEST)
        application.router.add_route("*", "/{path:.*}", self._receive)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await runner.setup()
        try:
            await _listen(web.TCPSite(runner, host, port), host, port)
            yield _url(*runner.addresses[0][:2])
        finally:
            await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        wire_id = request.headers.get("webhook-id", NONE)
        now = clock.utc_now()
        arrival = Arrival(
            now,
            _shown(wire_id),
            _shown(_type(body)),
            verified(self._secrets, request.headers, body, now) if self._secrets else None,
            wire_id in self._seen and wire_id != NONE,
            next(self._statuses),
        )
        self._seen.add(wire_id)
        self._tell(str(arrival))
        return web.Response(status=arrival.status)


async def run(tell: Tell, host: str, port: int, statuses: Sequence[int], secrets: Sequence[bytes]) -> None:
    """Receive until the program is interrupted, and tell each arrival."""
    async with Receiver(tell, statuses, secrets).listening(host, port) as url:
        tell(f"listening on {url}")
        await asyncio.Event().wait()


def verified(secrets: Iterable[bytes], headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Whether one of the secrets signed this body, a short time ago. Names of headers are in lower case."""
    timestamp = headers.get("webhook-timestamp", "")
    if not re.fullmatch(r"\d{1,12}", timestamp, re.ASCII) or abs(now.timestamp() - int(timestamp)) > TOLERANCE:
        return False
    signed = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    given = [one.removeprefix("v1,") for one in headers.get("webhook-signature", "").split() if one.startswith("v1,")]
    wanted = [base64.b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets]
    return any(hmac.compare_digest(one.encode(), other.encode()) for one in given for other in wanted)


async def _listen(site: web.TCPSite, host: str, port: int) -> None:
    try:
        await site.start()
    except OSError as error:
        why = "somebody listens there already" if error.errno == errno.EADDRINUSE else "nobody can listen there"
        raise Conflict(f"{_url(host, port)}: {why}; choose another --bind", code="address_in_use") from error


def _type(body: bytes) -> str:
    try:
        envelope = json.loads(body)
    except (ValueError, RecursionError):
        return "-"
    return str(envelope.get("type", "-")) if isinstance(envelope, dict) else "-"


def _shown(text: str) -> str:
    """What strangers send, fit for a terminal."""
    return "".join(one if "!" <= one <= "~" else "?" for one in text[:100]) or "-"


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
