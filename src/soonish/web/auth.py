"""Who asks, and whether they may: keys, sign-ins, roles, the token against forged forms, rates.

Which keys exist is not known here: a function that looks one up is handed in.
"""

import hmac
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final, TypeAlias

from litestar.types import Scope

from soonish.errors import Forbidden, TooMany, Unauthorized
from soonish.web.rates import Rate
from soonish.web.reading import Headers

COOKIE: Final = "soonish_signin"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_PUBLIC_A_MINUTE: Final = 30
_FAILED_AN_HOUR: Final = 20


class Role(IntEnum):
    """What one may do; each may all that the ones before it may."""

    READ = 1
    WRITE = 2
    ADMIN = 3
    OPERATOR = 4  # an admin of workspace 1, by key or by sign-in


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a key or a sign-in of one workspace, or the system itself."""

    workspace_id: int
    role: Role
    actor: str  # "key:12", "sign_in:5" or "system"
    person_id: int | None
    request_id: str
    csrf: str | None = None  # of a sign-in
    slug: str = ""
    timezone: str = "UTC"
    locale: str = "en"


FindCaller: TypeAlias = Callable[[str, str, str], Awaitable[Caller | None]]
Secret: TypeAlias = tuple[str, str]  # ("key" or "sign_in", what was shown)
FindEnded: TypeAlias = Callable[[Sequence[Secret]], Awaitable[Collection[Secret]]]
"""Which of these secrets open nothing any more."""


class Door:
    """Lets callers in. One a process: it counts how often each asks."""

    def __init__(self, find_caller: FindCaller, rate_api: float) -> None:
        self._find = find_caller
        self._api = Rate(rate_api, rate_api * 2) if rate_api else None
        self._public = Rate(_PUBLIC_A_MINUTE / 60, _PUBLIC_A_MINUTE)
        self._failed = Rate(_FAILED_AN_HOUR / 3600, _FAILED_AN_HOUR)

    async def enter(self, scope: Scope) -> Caller:
        """Who asks; found once a request, and counted."""
        state: dict[str, Any] = scope["state"]
        if "caller" not in state:
            secret = secret_of(scope)
            caller = await self.find(secret, state["request_id"])
            self._count(caller)
            state["caller"], state["secret"] = caller, secret
        found: Caller = state["caller"]
        return found

    async def find(self, secret: Secret | None, request_id: str) -> Caller:
        """The caller with this secret; all that is wrong with one is answered alike."""
        if secret is None:
            raise Unauthorized("Send a key as `Authorization: Bearer sk_...`, or sign in")
        caller = await self._find(*secret, request_id)
        if caller is None:
            raise Unauthorized("This key or sign-in is not known here, or has ended")
        return caller if caller.request_id == request_id else replace(caller, request_id=request_id)

    def _count(self, caller: Caller) -> None:
        if self._api and (wait := self._api.take(f"{caller.workspace_id} {caller.actor}")):
            raise TooMany(f"This key asks too often; ask again in {wait} s", wait)

    def count_public(self, address: str) -> None:
        """A page that anybody may open, for one address."""
        if wait := self._public.take(address):
            raise TooMany(f"Too many requests from your address; ask again in {wait} s", wait)

    def check_tokens(self, address: str) -> None:
        """Refuse an address that has tried too many wrong tokens."""
        if wait := self._failed.wait(address):
            raise TooMany(f"Too many wrong links from your address; ask again in {wait} s", wait)

    def count_wrong_token(self, address: str) -> None:
        self._failed.take(address)


def secret_of(scope: Scope) -> Secret | None:
    """What the request shows: its key, or else its cookie."""
    headers = Headers(scope)
    if (authorization := headers.get(b"authorization")) is not None:
        scheme, _, key = authorization.partition(" ")
        return ("key", key.strip()) if scheme.lower() == "bearer" else ("key", "")
    if (cookie := read_cookie(headers.get(b"cookie"), COOKIE)) is not None:
        return ("sign_in", cookie)
    return None


def read_cookie(header: str | None, name: str) -> str | None:
    """One cookie of the header; the first, where there are several of that name."""
    # Browsers send along what other programs of this host have set, on whatever port, and not all of it is well formed.
    for pair in (header or "").split(";"):
        called, equals, value = pair.partition("=")
        if equals and called.strip() == name:
            return value.strip()
    return None


def check_role(caller: Caller, needed: Role) -> None:
    if caller.role < needed:
        raise Forbidden(f"This needs the role {needed.name.lower()}; yours is {caller.role.name.lower()}")


def check_token(caller: Caller, given: str | None) -> None:
    """A change by cookie needs the token that only our own pages can know."""
    wanted = (caller.csrf or "").encode()
    if not wanted or not hmac.compare_digest(wanted, (given or "").encode("utf-8", "replace")):
        raise _forged()


def check_origin(scope: Scope) -> None:
    """A form that anybody may send must come from our own page, as far as the browser tells."""
    site = Headers(scope).get(b"sec-fetch-site")
    if site not in (None, "same-origin", "none"):
        raise _forged()


def _forged() -> Forbidden:
    return Forbidden("This form was not sent from a page of ours, or is too old; load the page again", code="csrf")


def sign_in_cookie(scope: Scope, secret: str, max_age: int) -> tuple[bytes, bytes]:
    """The Set-Cookie header of a sign-in; with an empty secret and age 0 it ends it."""
    secure = "; Secure" if scope["state"]["https"] else ""
    text = f"{COOKIE}={secret}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}"
    return (b"set-cookie", text.encode("ascii"))
