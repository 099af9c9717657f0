"""The guard at the way out: whatever a user can name is dialled through it, or not at all.

A name is resolved once, every answer is judged, and what is dialled is an answer that was judged, so that no second
look-up can lead elsewhere. Knows hosts, ports and what the operator opened; not what is said over the connection.
"""

import asyncio
import concurrent.futures
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import IPv6Address
from threading import BoundedSemaphore, Thread
from typing import Any, Final, NamedTuple, Self, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from soonish.delivery.model.networks import complaint, literal, opened
from soonish.errors import DeliveryFailed, Invalid
from soonish.settings import Settings
from soonish.spelling import Network

Place: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
"""What a socket connects to."""
Resolve: TypeAlias = Callable[[str, int], Iterable[str]]
"""How a name becomes addresses; it may block."""

LOOKUP: Final = 5.0
CONNECT: Final = 5.0
RELAYED: Final = 16  # connections through one relay at a time
NO_HEADERS: Final[Mapping[str, str]] = {}
_CHUNK: Final = 65_536
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_HARMLESS: Final = {"accept", "accept-language", "if-modified-since", "if-none-match", "range", "user-agent"}
_DEFAULT_PORTS: Final = {"http": 80, "https": 443, "amqp": 5672, "amqps": 5671}
_OPEN_IT: Final = "the operator can open private networks with SOONISH_EGRESS_ALLOW"


class EgressRefused(DeliveryFailed):
    """What a user named must not be dialled. The message never tells which address a name had."""

    def __init__(self, why: str) -> None:
        super().__init__(_sentence(why), permanent=True, code="egress_refused")


class Dialled(NamedTuple):
    """One checked answer."""

    family: int
    place: Place


class Guard:
    """Judges targets, and makes the connectors and relays that dial what it has judged."""

    def __init__(
        self, allow: Sequence[Network] = (), *, plain_http: bool = False, resolve: Resolve | None = None
    ) -> None:
        self._allow = tuple(allow)
        self._plain_http = plain_http
        self._lookup = resolve or _ask_the_system
        self._lookups = BoundedSemaphore(256)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(settings.egress_allow, plain_http=settings.egress_plain_http)

    def check_url(
        self,
        url: str,
        *,
        schemes: Sequence[str] = ("https", "http"),
        default_port: int | None = None,
        plain: bool = True,
    ) -> None:
        """Judge a URL before it is stored: scheme, port, an address that stands in it. Names are judged when dialled.

        `plain=False`: without TLS only where the operator opened the address, or all plain HTTP.
        """
        parts = _parse(url)
        if parts.scheme not in schemes:
            raise _invalid(f"its scheme is none of {', '.join(schemes)}")
        host = parts.raw_host or ""
        port = parts.explicit_port
        self.check_host(host, _DEFAULT_PORTS.get(parts.scheme, default_port) if port is None else port)
        if parts.scheme == "http" and not (plain or self._plain_http or self._is_opened(host)):
            raise _invalid("it is without TLS; write https, or let it be with SOONISH_EGRESS_PLAIN_HTTP")

    def check_host(self, host: str, port: int | None = None) -> None:
        """The same of a host alone."""
        if why := complaint(host, port, self._allow):
            raise _invalid(why)

    async def resolve(self, host: str, port: int) -> list[Dialled]:
        """The addresses of a host, all of them checked: one that is refused refuses all."""
        if not self._must_look_up(host, port):
            return self._checked([host], port)
        try:
            found = await asyncio.wait_for(asyncio.wrap_future(self._begin(host, port)), LOOKUP)
        except (OSError, UnicodeError) as error:
            raise _unresolved() from error
        return self._checked(found, port)

    def resolve_sync(self, host: str, port: int) -> list[Dialled]:
        """The same for a thread."""
        if not self._must_look_up(host, port):
            return self._checked([host], port)
        try:
            found = self._begin(host, port).result(LOOKUP)
        except (OSError, UnicodeError) as error:
            raise _unresolved() from error
        return self._checked(found, port)

    def connector(self, **options: Any) -> aiohttp.TCPConnector:
        """A connector of aiohttp that dials only what was judged here; `options` are its own."""
        return aiohttp.TCPConnector(resolver=_Names(self), socket_factory=self._socket, **options)

    def session(self, *, limit: int = 100, keepalive_timeout: float = 15.0, **options: Any) -> aiohttp.ClientSession:
        """A session over such a connector, which keeps no cookies and asks the environment for no proxy."""
        connector = self.connector(limit=limit, keepalive_timeout=keepalive_timeout)
        jar = aiohttp.DummyCookieJar()
        return aiohttp.ClientSession(connector=connector, cookie_jar=jar, trust_env=False, **options)

    @asynccontextmanager
    async def fetch(
        self, session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] = NO_HEADERS, *, redirects: int = 3
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """GET over a session of this guard; each redirect is judged like the first URL.

        Credentials go no further than the origin that they were meant for.
        """
        here, sent = self._judged(url), headers
        for _ in range(redirects + 1):
            async with session.get(here, headers=sent, allow_redirects=False) as response:
                location = response.headers.get("location")
                if response.status not in _REDIRECTS or location is None:
                    yield response
                    return
            before, here = here, self._judged(_joined(here, location))
            if here.origin() != before.origin():
                sent = {name: value for name, value in sent.items() if name.lower() in _HARMLESS}
        raise DeliveryFailed(f"More than {redirects} redirects", permanent=False, code="redirects")

    async def connect(self, host: str, port: int) -> socket.socket:
        """A connected socket, for a client that takes one."""
        return await _dial(await self.resolve(host, port))

    @asynccontextmanager
    async def relay(self, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
        """A door on loopback to one checked target, for a client that wants to dial by itself. It ends with the block.

        The name is resolved here, so that a refusal is raised and not seen as a connection that was closed.
        """
        relay = _Relay(await self.resolve(host, port))
        server = await asyncio.start_server(relay.serve, "127.0.0.1", 0, limit=_CHUNK)
        try:
            address: tuple[str, int] = server.sockets[0].getsockname()
            yield address
        finally:
            server.close()
            await relay.end()

    def _judged(self, url: str) -> URL:
        """A URL that may be fetched."""
        try:
            self.check_url(url)
        except Invalid as error:
            raise DeliveryFailed(error.message, permanent=True, code=error.code) from error
        return URL(url)

    def _is_opened(self, host: str) -> bool:
        address = literal(host)
        return address is not None and opened(address, self._allow)

    def _must_look_up(self, host: str, port: int) -> bool:
        if why := complaint(host, port, self._allow):
            raise EgressRefused(why)
        return literal(host) is None

    def _checked(self, found: Iterable[str], port: int) -> list[Dialled]:
        answers = [literal(one) for one in found]
        if not answers:
            raise _unresolved()
        for address in answers:
            why = "an answer of its name is none" if address is None else complaint(str(address), port, self._allow)
            if why:
                raise EgressRefused(why)
        return [_dialled(str(address), port, isinstance(address, IPv6Address)) for address in answers]

    def _begin(self, host: str, port: int) -> concurrent.futures.Future[list[str]]:
        """Look up in a thread of its own: a resolver that hangs holds up no other, and no end of the process."""
        if not self._lookups.acquire(blocking=False):
            raise _unresolved()
        future: concurrent.futures.Future[list[str]] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # whoever stops waiting does not stop the thread
        Thread(target=self._look_up, args=(host, port, future), daemon=True, name="lookup").start()
        return future

    def _look_up(self, host: str, port: int, future: concurrent.futures.Future[list[str]]) -> None:
        try:
            future.set_result(list(self._lookup(host, port)))
        except BaseException as error:
            future.set_exception(error)
        finally:
            self._lookups.release()

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """The last look before a connection: a literal in a URL comes here without having been resolved."""
        family, kind, proto, _, place = info
        if why := complaint(place[0], place[1], self._allow):
            raise EgressRefused(why)
        return socket.socket(family, kind, proto)


class _Names(AbstractResolver):
    """How aiohttp asks for addresses."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._guard.resolve(host, port)
        return [
            ResolveResult(hostname=host, host=one.place[0], port=port, family=one.family, proto=0, flags=0)
            for one in found
            if family in (socket.AF_UNSPEC, one.family)
        ]

    async def close(self) -> None:
        """Nothing is kept."""


class _Relay:
    """Carries bytes between a client on loopback and one of the checked places."""

    def __init__(self, places: Sequence[Dialled]) -> None:
        self._places = places
        self._carrying: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._carrying.add(task)
        try:
            with suppress(OSError, RuntimeError, asyncio.CancelledError):  # uvloop: RuntimeError, when it is closed
                if len(self._carrying) <= RELAYED:
                    await self._carry(reader, writer)
        finally:
            self._carrying.discard(task)
            writer.transport.abort()

    async def end(self) -> None:
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(sock=await _dial(self._places), limit=_CHUNK)
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        finally:
            back.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Carry one direction to its end, and tell the other side of that end; no faster than it is taken."""
    while chunk := await source.read(_CHUNK):
        sink.write(chunk)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


async def _dial(places: Sequence[Dialled]) -> socket.socket:
    """Connect to the first that answers; raises the last one's OSError."""
    loop, last = asyncio.get_running_loop(), OSError("no address")
    for family, place in places:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await asyncio.wait_for(loop.sock_connect(sock, place), CONNECT)
            return sock
        except OSError as error:
            sock.close()
            last = error
        except BaseException:
            sock.close()
            raise
    raise last


def _ask_the_system(host: str, port: int) -> Iterable[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return dict.fromkeys(str(place[0]) for *_, place in found)


def _dialled(address: str, port: int, v6: bool) -> Dialled:
    return Dialled(socket.AF_INET6, (address, port, 0, 0)) if v6 else Dialled(socket.AF_INET, (address, port))


def _parse(url: str) -> URL:
    """Read by the parser of the client that will dial, so that both mean the same host."""
    if any(character <= " " or character in "\\\x7f" for character in url):
        raise Invalid("A URL has no spaces, backslashes or control characters", code="pattern")
    try:
        parts = URL(url)
    except ValueError as error:
        raise Invalid("This is no URL; write it like https://example.org/in", code="pattern") from error
    # What stands in brackets and is no address of IPv6 would be taken for a name here, and for something else there.
    bare = "[" in url.partition("//")[2].partition("/")[0] and ":" not in (parts.raw_host or "")
    if bare or not parts.scheme or not parts.raw_host:
        raise Invalid("A URL has a scheme and a host; write it like https://example.org/in", code="pattern")
    return parts


def _joined(base: URL, location: str) -> str:
    """Where a redirect leads; what makes no URL stays as it is, to be judged."""
    try:
        return str(base.join(URL(location)))
    except ValueError:
        return location


def _sentence(why: str) -> str:
    return f"This target is not reached from here: {why}; {_OPEN_IT}"


def _invalid(why: str) -> Invalid:
    return Invalid(_sentence(why), code="egress_refused")


def _unresolved() -> DeliveryFailed:
    return DeliveryFailed("The host's name could not be resolved", permanent=False, code="dns")
