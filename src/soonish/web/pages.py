"""Pages: templates with what all of them need, forms that were refused, and the way back after a change.

A page is complete without script; script makes it live. What a page shows is decided by its slice.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar.types import Scope

from soonish import clock
from soonish.web import assets, moments
from soonish.web.answers import Headers, Reply
from soonish.web.auth import Caller, Role, read_cookie
from soonish.web.plan import Request
from soonish.web.problems import Refusal
from soonish.web.reading import Headers as Asked

TEMPLATES: Final = Path(__file__).with_name("templates")
TOAST: Final = "soonish_toast"
THEME: Final = "soonish_theme"
THEMES: Final = ("light", "dark")

_HTML: Final = (b"content-type", b"text/html; charset=utf-8")
_NO_TOAST: Final = (b"set-cookie", f"{TOAST}=; Path=/; Max-Age=0".encode())


@dataclass(frozen=True, slots=True)
class Nav:
    """One entry of the rail; `g` and then the key goes there."""

    title: str
    url: str
    key: str
    icon: str = "dot"
    role: Role = Role.READ
    also: Sequence[str] = ()  # pages that belong to it and have other addresses

    def has(self, path: str) -> bool:
        """Whether that page is here, or below."""
        if self.url == "/":
            return path == "/"
        return any(f"{path}/".startswith(f"{url}/") for url in (self.url, *self.also))


@dataclass(frozen=True, slots=True)
class Health:
    """How the whole is: "ok", "warn" or "bad", and why in words."""

    tone: str
    words: str
    url: str = ""


class Pages:
    """The templates of this process."""

    def __init__(
        self,
        folders: Sequence[Path],
        navigation: Sequence[Nav] = (),
        health: Callable[[Caller], Awaitable[Health]] | None = None,
    ) -> None:
        _check_names([TEMPLATES, *folders])
        self._navigation = navigation
        self._health = health
        self._environment = Environment(
            loader=FileSystemLoader([TEMPLATES, *folders]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(moments.FILTERS)
        self._environment.globals.update(asset=assets.url, roles={role.name.lower(): role for role in Role})

    async def look(self, scope: Scope, caller: Caller) -> None:
        """Find out how the whole is, for the page that is about to be made for this caller."""
        if self._health:
            scope["state"]["health"] = await self._health(caller)

    def render(self, scope: Scope, template: str, status: int, context: dict[str, Any]) -> Reply:
        state: dict[str, Any] = scope["state"]
        cookies = Asked(scope).get(b"cookie")
        toast = read_toast(cookies)
        words = {**self._common(scope, state, cookies), "toast": toast, **context}
        body = self._environment.get_template(template).render(words).encode()
        filled = state.get("filled")
        headers: Headers = [_HTML, _NO_TOAST] if toast else [_HTML]
        return Reply(filled.status if filled and status == 200 else status, headers, body)

    def _common(self, scope: Scope, state: dict[str, Any], cookies: str | None) -> dict[str, Any]:
        caller: Caller | None = state.get("caller")
        theme, now, zone = read_cookie(cookies, THEME), clock.utc_now(), _zone(caller)
        return {
            "caller": caller,
            "role": caller.role if caller else 0,
            "csrf_token": (caller.csrf or "") if caller else "",
            "nav": [one for one in self._navigation if caller and caller.role >= one.role],
            "health": state.get("health"),
            "now": now,
            "zone": zone,
            "hands": angle(now, zone),
            "path": scope["path"],
            "live": state["live"],
            "theme": theme if theme in THEMES else "",
            "filled": state.get("filled"),
            "request_id": state["request_id"],
        }


def page(request: Request, template: str, status: int = 200, **context: Any) -> Reply:
    """A page. Where a form was refused, it knows what was typed, and answers with the status of the refusal."""
    pages: Pages = request.scope["state"]["kit"].pages
    return pages.render(request.scope, template, status, context)


def refusal_page(pages: Pages, scope: Scope, refusal: Refusal) -> Reply:
    """A refusal as a page that names the remedy."""
    scope["state"].pop("filled", None)
    reply = pages.render(scope, "refusal.html", refusal.status, {"title": refusal.title, "refusal": refusal})
    reply.headers += refusal.headers
    return reply


def see_other(request: Request, location: str, toast: str | None = None, headers: Headers | None = None) -> Reply:
    """303 to another page, which shows the toast once: what was done, and what will happen next."""
    del request
    found: Headers = [(b"location", location.encode()), *(headers or [])]
    if toast:
        found.append((b"set-cookie", _toast_cookie(toast)))
    return Reply(303, found)


def wants_html(scope: Scope) -> bool:
    """A browser that opens a page, not a program and not the API."""
    return not scope["path"].startswith("/v1/") and "text/html" in (Asked(scope).get(b"accept") or "")


def read_toast(cookies: str | None) -> str:
    """What the page before left to say."""
    given = read_cookie(cookies, TOAST)
    try:
        return base64.urlsafe_b64decode(given).decode()[:500] if given else ""
    except (binascii.Error, UnicodeError, ValueError):
        return ""


def _toast_cookie(toast: str) -> bytes:
    text = base64.urlsafe_b64encode(toast[:500].encode()).decode()
    return f"{TOAST}={text}; Path=/; Max-Age=60; HttpOnly; SameSite=Strict".encode()


def _zone(caller: Caller | None) -> tzinfo:
    return clock.zone(caller.timezone) if caller else UTC


def _check_names(folders: Sequence[Path]) -> None:
    """Two slices with one name for a template would show the page of one to the reader of the other."""
    seen: dict[str, Path] = {}
    for folder in folders:
        for path in folder.glob("**/*.html"):
            name = path.relative_to(folder).as_posix()
            if name in seen:
                raise ValueError(f"two templates are named {name}: in {seen[name]} and {folder}")
            seen[name] = folder


def angle(now: datetime, zone: tzinfo) -> tuple[int, int]:
    """Where the hands of a clock stand: degrees of the hour hand and of the minute hand."""
    at = now.astimezone(zone)
    return (at.hour % 12) * 30 + at.minute // 2, at.minute * 6
