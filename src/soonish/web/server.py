"""Build the HTTP application from what the composition root hands in: routes, callers, templates, streams.

Knows no slice: which operations there are, and who may ask, comes from outside.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from litestar import Litestar
from litestar.datastructures import State
from litestar.types import Scope

from soonish.db.listen import Listener
from soonish.db.pool import Database
from soonish.settings import Settings
from soonish.web import routes, sse
from soonish.web.answers import Reply
from soonish.web.auth import Caller, Door, FindCaller, FindEnded
from soonish.web.front import Front, Rules
from soonish.web.hub import Heads, Hub
from soonish.web.openapi import document
from soonish.web.operation import Handler, Idempotency, Operation
from soonish.web.pages import Health, Nav, Pages, refusal_page, wants_html
from soonish.web.plan import Gate
from soonish.web.problems import refusal
from soonish.web.serving import Kit

__all__ = ["Health", "Nav", "Parts", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an application is made of.

    `listener` is not yet started; the one who made it starts and stops it. `heads` tells the newest number of each
    stream, for the look that makes up for lost rings. `on_start` and `on_stop` run with the application.
    """

    settings: Settings
    find_caller: FindCaller
    find_ended: FindEnded
    db: Database | None = None
    routes: Sequence[Any] = ()
    idempotency: Idempotency | None = None
    navigation: Sequence[Nav] = ()
    templates: Sequence[Path] = ()
    health: Callable[[Caller], Awaitable[Health]] | None = None
    gate: Gate | None = None
    listener: Listener | None = None
    heads: Heads | None = None
    on_start: Sequence[Callable[[], Awaitable[None]]] = ()
    on_stop: Sequence[Callable[[], Awaitable[None]]] = ()
    state: dict[str, Any] = field(default_factory=dict)


def create(parts: Parts) -> Litestar:
    """The application. Its `state` has `parts`, and `hub`, whose `end()` ends all streams before the server stops."""
    kit = _kit(parts)
    if parts.listener:
        kit.hub.listen(parts.listener)
    app = Litestar(
        [*_OWN, *parts.routes],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,  # the front and the reader count
        exception_handlers={Exception: lambda request, error: _ready(kit.refuse(request.scope, error))},
        on_startup=[kit.hub.start, *parts.on_start],
        on_shutdown=[kit.hub.stop, *parts.on_stop],
        state=State({"parts": parts, "hub": kit.hub, **parts.state}),
    )
    # Around the routing, so that a key is asked for before anybody learns which paths there are.
    app.asgi_handler = Front(app.asgi_handler, kit, _rules(parts.settings))
    return app


def operations(routes: Sequence[Any]) -> list[Operation]:
    """The operations among the routes."""
    return [route.opt["operation"] for route in routes if isinstance(route, Handler)]


def _kit(parts: Parts) -> Kit:
    pages = Pages(parts.templates, parts.navigation, parts.health)
    door = Door(parts.find_caller, parts.settings.rate_api)
    hub = Hub(parts.find_ended, parts.heads, parts.settings.streams)
    described = operations([*_OWN, *parts.routes])

    @cache
    def text() -> bytes:
        return msgspec.json.encode(document(described, parts.settings.public_url))

    def refuse(scope: Scope, error: Exception) -> Reply:
        found = refusal(error, scope["state"]["request_id"])
        return refusal_page(pages, scope, found) if wants_html(scope) else found.reply(scope["state"]["request_id"])

    return Kit(door, parts.db, parts.idempotency, refuse, hub, pages, text, parts.gate)


def _rules(settings: Settings) -> Rules:
    https = settings.public_url.startswith("https://")
    return Rules(settings.trusted_proxies, settings.cors_origins, https)


class _Ready:
    """An answer that is made already, where the framework expects one to make."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def to_asgi_response(self, **_: Any) -> Reply:
        return self._reply


def _ready(reply: Reply) -> Any:
    return _Ready(reply)


_OWN: Final = [*routes.routes, sse.live]
