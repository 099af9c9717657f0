"""What happens to each request before it is routed, and to each answer after: the outermost layer, pure ASGI.

Gives the request its id and its real address, refuses what is too large, lets in those who may use the API, puts the
security headers on, and counts. Knows no route.
"""

import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Final

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from soonish import telemetry
from soonish.errors import BadRequest
from soonish.spelling import Network
from soonish.web.answers import Headers, Reply
from soonish.web.reading import MOST_BYTES, has_slash, path_with_marks, too_large
from soonish.web.reading import Headers as Asked
from soonish.web.serving import Kit

CSP: Final = b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
_SECURITY: Final[Headers] = [
    (b"content-security-policy", CSP),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
]
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
_FRESH: Final = (b"cache-control", b"private, no-cache")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ASKED: Final = (
    b"authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, x-csrf-token, x-request-id"
)
_TOLD: Final = b"etag, location, retry-after, idempotent-replay, x-request-id, allow"
_PREFLIGHT: Final = b"access-control-request-method"
_WANTED: Final = frozenset({b"x-request-id", b"content-length", b"x-forwarded-proto", b"origin"} | {_PREFLIGHT})
# How the routes are asked. No route knows ANY, and so its refusal names all that it knows; the framework's own answer
# to OPTIONS forgets methods that were registered later.
_INSTEAD: Final = {"HEAD": "GET", "OPTIONS": "ANY"}


@dataclass(frozen=True)
class Rules:
    """What the operator decided about the outside."""

    trusted_proxies: tuple[Network, ...] = ()
    cors_origins: tuple[str, ...] = ()
    https: bool = False  # people reach it by https, whatever the last hop speaks

    @cached_property
    def origins(self) -> frozenset[bytes]:
        return frozenset(origin.encode() for origin in self.cors_origins)

    def trusts(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found  # so a peer is called where we listen on [::]
        return any(found in network for network in self.trusted_proxies)


class Front:
    """The layer around the routes."""

    def __init__(self, app: ASGIApp, kit: Kit, rules: Rules) -> None:
        self._app = app
        self._kit = kit
        self._rules = rules

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": ""})
            return
        began = time.perf_counter()
        headers = {name: value for name, value in scope["headers"] if name in _WANTED}
        state = self._state(scope, headers)
        telemetry.request_id.set(state["request_id"])
        method: str = scope["method"]
        out = _Out(send, self._added(state, headers), method)
        if method in _INSTEAD and not _is_preflight(method, headers):
            scope = {**scope, "method": _INSTEAD[method]}  # a copy: the server must know that no body will come
        if has_slash(scope):
            scope = {**scope, "path": path_with_marks(scope)}  # a copy: the server writes the path down
        try:
            await self._pass(scope, receive, out, headers)
        finally:
            _count(method, scope, out.status, time.perf_counter() - began)

    async def _pass(self, scope: Any, receive: Receive, out: "_Out", headers: dict[bytes, bytes]) -> None:
        try:
            answer = self._app
            if int(headers.get(b"content-length", b"0") or b"0") > MOST_BYTES:
                raise too_large()
            if _is_preflight(scope["method"], headers):
                answer = Reply(204, [])
            elif scope["path"].startswith("/v1/"):
                await self._kit.door.enter(scope)
        except Exception as error:
            answer = self._kit.refuse(scope, error if not isinstance(error, ValueError) else _bad_length())
        await answer(scope, receive, out)

    def _state(self, scope: Any, headers: dict[bytes, bytes]) -> dict[str, Any]:
        state: dict[str, Any] = scope.setdefault("state", {})
        client = scope["client"]
        peer = client[0] if client else "local"
        forwarded = self._rules.trusted_proxies and self._rules.trusts(peer)
        state["kit"] = self._kit
        state["live"] = self._kit.hub.mark  # before anything is read: what rings from now on may not be in the answer
        state["request_id"] = _request_id(headers.get(b"x-request-id"))
        state["address"] = self._address(peer, scope) if forwarded else peer
        state["https"] = self._rules.https or bool(forwarded and headers.get(b"x-forwarded-proto") == b"https")
        return state

    def _address(self, peer: str, scope: Any) -> str:
        """The last hop that is no proxy of ours; what stands before it, anybody may have written.

        Some proxies add a line of their own instead of writing on: several lines are one list.
        """
        hops = (Asked(scope).get(b"x-forwarded-for") or "").split(",")
        for hop in reversed([one.strip() for one in hops if one.strip()]):
            if not self._rules.trusts(hop):
                return hop[:64]
        return peer

    def _added(self, state: dict[str, Any], headers: dict[bytes, bytes]) -> Headers:
        added: Headers = [(b"x-request-id", state["request_id"].encode()), *_SECURITY]
        if state["https"]:
            added.append(_HSTS)
        if self._rules.cors_origins:
            added += _cors(headers, self._rules.origins)
        return added


class _Out:
    """The way out: adds headers, keeps the status, and sends no body to HEAD and OPTIONS."""

    __slots__ = ("_added", "_method", "_send", "status")

    def __init__(self, send: Send, added: Headers, method: str) -> None:
        self._send = send
        self._added = added
        self._method = method
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._send(self._start(message))
            if not self._has_body:  # not even that of a stream, which learns by it that its client wants no more
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        elif self._has_body:
            await self._send(message)

    def _start(self, message: Any) -> Any:
        self.status, headers = message["status"], list(message["headers"])
        if self._method == "OPTIONS" and self.status == 405:
            self.status, headers = 204, [pair for pair in headers if pair[0] == b"allow"]
        headers += self._added
        if not any(name == b"cache-control" for name, _ in headers):
            headers.append(_FRESH)
        return {**message, "status": self.status, "headers": headers}

    @property
    def _has_body(self) -> bool:
        return self._method != "HEAD" and (self._method != "OPTIONS" or self.status != 204)


def _is_preflight(method: str, headers: dict[bytes, bytes]) -> bool:
    return method == "OPTIONS" and _PREFLIGHT in headers


def _request_id(given: bytes | None) -> str:
    """The client's, if it is a UUID, or a new one."""
    if given is not None and len(given) == 36:
        try:
            return str(uuid.UUID(given.decode("ascii")))
        except ValueError:
            pass
    return str(uuid.uuid4())


def _cors(headers: dict[bytes, bytes], origins: Iterable[bytes]) -> Headers:
    """Without credentials: a page of another origin brings a key, never our cookie."""
    origin = headers.get(b"origin", b"")
    if origin not in origins:
        return [(b"vary", b"Origin")]
    found: Headers = [(b"vary", b"Origin"), (b"access-control-allow-origin", origin)]
    if _PREFLIGHT not in headers:
        return [*found, (b"access-control-expose-headers", _TOLD)]
    return [
        *found,
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", _ASKED),
        (b"access-control-max-age", b"600"),
    ]


def _bad_length() -> BadRequest:
    return BadRequest("Content-Length is no number", code="bad_header")


_counters: dict[tuple[str, str, int], tuple[Callable[[], None], Callable[[float], None]]] = {}


def _count(method: str, scope: Scope, status: int, seconds: float) -> None:
    key = (method if method in _METHODS else "other", str(scope.get("path_template") or "none"), status)
    if key not in _counters:  # to look a counter up by its labels costs more than to count
        counter = telemetry.http_requests_total.labels(key[0], key[1], str(status))
        _counters[key] = (counter.inc, telemetry.http_request_seconds.labels(key[0], key[1]).observe)
    inc, observe = _counters[key]
    inc()
    if not key[1].endswith("/stream") and key[1] != "/live":
        observe(seconds)
