"""The way out of Apprise: its HTTP client dials through the guard, and each try keeps account of what happened.

What a service does in a try goes through `Session`, made for `requests` of the library's modules. A second wall stands
behind it for whatever opens sockets by itself: an audit hook that judges each connection of a thread that is in a try.
"""

import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from time import monotonic
from types import ModuleType
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, NewConnectionError

from soonish.delivery.channel import ANSWER_LENGTH
from soonish.delivery.egress import Dialled, EgressRefused, Guard
from soonish.delivery.model.networks import literal
from soonish.errors import DeliveryFailed

READ: Final = 1_048_576  # of an answer: some services read on in it
LINGER: Final = 4.0  # seconds that an answer may take once its status is known
_CONNECT: Final = 5.0
_DIALS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
# Python tells of threads from 3.12 on; services that need some of their own are not spoken to from here at all.
_FLIGHTS: Final = frozenset(
    {
        "_thread.start_new_thread",
        "_thread.start_joinable_thread",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.system",
        "subprocess.Popen",
    }
)
_METHODS: Final = ("delete", "get", "head", "options", "patch", "post", "put", "request")


class Barred(PermissionError):
    """What the code of a service sees when it is not let through."""


@dataclass(eq=False)
class Account:
    """What happened in one try. `ends_at` is by the monotonic clock."""

    guard: Guard
    ends_at: float
    written: int = 0  # requests begun on the wire
    statuses: list[int] = field(default_factory=list)
    answer: str = ""  # the beginning of the last one
    retry_after: str | None = None
    refusal: DeliveryFailed | None = None
    raw: bool = False  # a socket was opened past HTTP: nobody saw what was written
    _connections: set[HTTPConnection] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)
    _over: bool = False

    @property
    def lost(self) -> bool:
        """A request was written, and its answer did not come."""
        return self.written > len(self.statuses)

    def left(self) -> float:
        """Seconds; it raises when none are."""
        left = self.ends_at - monotonic()
        if self._over or left <= 0:
            raise Barred("the time of this try is over")
        return left

    def dial(self, connection: HTTPConnection, host: str, port: int, options: Any) -> socket.socket:
        """A socket to a place that was judged; raises OSError."""
        self.left()
        with self._lock:
            self._connections.add(connection)
        with _outside():  # what the guard does is its own affair
            try:
                places = self.guard.resolve_sync(host, port)
            except DeliveryFailed as error:
                self.refusal = error
                raise Barred(error.message) from error
            return self._first(places, options)

    def _first(self, places: Sequence[Dialled], options: Any) -> socket.socket:
        last = OSError("no address")
        for family, place in places:
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                for option in options or ():
                    sock.setsockopt(*option)
                sock.settimeout(min(self.left(), _CONNECT))
                sock.connect(place)
                return sock
            except OSError as error:
                sock.close()
                last = error
        raise last

    def begin(self) -> None:
        """A request is about to be written; none is once the try was given up."""
        with self._lock:
            self.left()
            self.written += 1

    def judge(self, place: Any) -> None:
        """Of a socket that was not dialled here: only to an address that may be dialled, for a name may change."""
        host, port = place[:2] if isinstance(place, tuple) else ("", 0)
        try:
            if literal(str(host)) is None:
                raise EgressRefused("a name cannot be held to one address here; write the address")
            with _outside():
                self.guard.resolve_sync(str(host), port)
        except DeliveryFailed as error:
            self.refusal = error
            raise Barred(error.message) from error
        self.left()
        self.raw = True

    def flee(self, event: str) -> None:
        self.refusal = EgressRefused(f"its service wants to leave the guarded thread ({event})")
        raise Barred(self.refusal.message)

    def end(self) -> None:
        """Cut what is open, so that a thread nobody waits for comes to its end."""
        with self._lock:
            self._over = True
            sockets = [each.sock for each in self._connections if each.sock is not None]
        for sock in sockets:
            with suppress(OSError):
                # Not by the TLS object, which must not be touched while another thread reads from it.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


_account: ContextVar[Account | None] = ContextVar("account", default=None)


@contextmanager
def keeping(account: Account) -> Iterator[None]:
    """All that this thread does in the block belongs to one try."""
    _arm()
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)


def lend(modules: Iterable[ModuleType]) -> None:
    """Give these modules our `requests` in place of the one they imported."""
    ours = _requests()
    for module in modules:
        if vars(module).get("requests") is requests:
            vars(module)["requests"] = ours


class Session(requests.Session):
    """Takes nothing from the environment, follows nothing, reads a bounded answer, and notes it."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False  # no proxies, and nobody's .netrc
        for prefix in ("https://", "http://"):
            self.mount(prefix, _Adapter(max_retries=0))

    def request(self, method: str | bytes, url: Any, *args: Any, **options: Any) -> requests.Response:
        account = _current()
        stream = options.get("stream")
        options |= {"allow_redirects": False, "proxies": None, "stream": True}
        options["timeout"] = _bounded(options.get("timeout"), account.left())
        response = super().request(method, url, *args, **options)  # type: ignore[arg-type]
        account.retry_after = response.headers.get("retry-after")
        if not stream:
            account.answer = _read(response)
        return response


class _Dialled(HTTPConnection):
    """A connection that the guard has judged, and that notes what goes over it."""

    _begun = False

    def _new_conn(self) -> socket.socket:
        try:
            return _current().dial(self, self._dns_host, self.port or self.default_port, self.socket_options)
        except OSError as error:
            raise NewConnectionError(self, type(error).__name__) from error

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        if not self._begun:
            _current().begin()
            self._begun = True
        super().send(data)

    def getresponse(self) -> Any:
        response = super().getresponse()
        self._begun = False
        _current().statuses.append(response.status)
        return response


class _DialledTls(_Dialled, HTTPSConnection):
    """The same with TLS, which is under way before a request is written."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Dialled


class _PoolTls(HTTPSConnectionPool):
    ConnectionCls = _DialledTls


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _PoolTls}


@cache
def _requests() -> ModuleType:
    """The module as plugins use it, with every request in a session of ours."""
    ours = ModuleType("requests")
    vars(ours).update(vars(requests))
    vars(ours)["Session"] = vars(ours)["session"] = Session
    vars(ours).update({name: _one(name) for name in _METHODS})
    return ours


def _one(name: str) -> Callable[..., requests.Response]:
    def ask(*args: Any, **options: Any) -> requests.Response:
        with Session() as session:
            response: requests.Response = getattr(session, name)(*args, **options)
            return response

    return ask


def _current() -> Account:
    """The account of this try; outside of one nothing is dialled."""
    account = _account.get()
    if account is None:
        raise Barred("nothing is sent outside of a try")
    return account


@contextmanager
def _outside() -> Iterator[None]:
    token = _account.set(None)
    try:
        yield
    finally:
        _account.reset(token)


@cache
def _arm() -> None:
    """Once a process: hooks of this kind cannot be taken off again."""
    sys.addaudithook(_wall)


def _wall(event: str, args: tuple[Any, ...]) -> None:
    """Stand in the way of sockets, threads and programs that the code of a service starts by itself."""
    if event in _DIALS:
        if (account := _account.get()) is not None and args[1] is not None:
            account.judge(args[1])
    elif event in _FLIGHTS and (account := _account.get()) is not None:
        account.flee(event)


def _bounded(timeout: Any, left: float) -> tuple[float, float]:
    """What a URL asks for, and no more than the try has."""
    connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    return min(connect or _CONNECT, _CONNECT, left), min(read or left, left)


def _read(response: requests.Response) -> str:
    """The beginning of an answer. Its status is known: what is slow, long or cut of the rest changes nothing."""
    body, until = bytearray(), monotonic() + LINGER
    with suppress(HTTPError, OSError):
        while len(body) < READ and monotonic() < until and (chunk := response.raw.read1(65_536, decode_content=True)):
            body += chunk
    response.close()
    response._content, response._content_consumed = bytes(body), True  # so that the service reads this
    return bytes(body[: 4 * ANSWER_LENGTH]).decode("utf-8", "replace").replace("\0", "")[:ANSWER_LENGTH]
