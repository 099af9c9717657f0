"""Every error as an answer: problem+json with a stable code, and for a browser a page that names the remedy.

Nothing of the inside is ever in it: what is no error of ours says "Internal error" and an id, and is logged with it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from litestar.exceptions import HTTPException, MethodNotAllowedException

from soonish import errors
from soonish.errors import FieldError, Invalid, SoonishError, Stale, Unauthorized
from soonish.web.answers import Headers, Reply

_log = logging.getLogger(__name__)

TYPE: Final = "urn:soonish:problem:"
INSTANCE: Final = "urn:soonish:request:"

# Codes of a field that say no more than `invalid` does; any other one has a name of its own.
PLAIN: Final = frozenset(
    {"required", "unknown_field", "unknown_parameter", "type", "length", "range"}
    | {"pattern", "one_of", "control_character", "naive_time"}
)
# The codes of this kit, by status. Operations state further ones.
CODES: Final[dict[int, tuple[str, ...]]] = {
    400: ("bad_json", "bad_cursor", "bad_header"),
    401: ("unauthorized",),
    403: ("forbidden", "csrf"),
    404: ("not_found",),
    405: ("method_not_allowed",),
    409: ("conflict", "idempotency_in_flight"),
    412: ("stale",),
    413: ("too_large",),
    415: ("unsupported_media_type",),
    422: ("invalid", "idempotency_mismatch"),
    429: ("rate_limited", "too_many_streams"),
    500: ("internal",),
    503: ("unavailable", "storage_full"),
}

_TITLES: Final = {
    one.status: one.title for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SoonishError)
} | {405: "Method not allowed", 500: "Internal error"}


class Problem(msgspec.Struct, omit_defaults=True):
    """A problem, as RFC 9457 writes it."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    instance: str
    errors: list[FieldError] = []


@dataclass(frozen=True, slots=True)
class Refusal:
    """What went wrong, in the words for a stranger."""

    status: int
    code: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ()
    ids: Mapping[str, int] = field(default_factory=dict)  # of what stands in the way

    @property
    def title(self) -> str:
        return _TITLES.get(self.status, "Error")

    def reply(self, request_id: str) -> Reply:
        """As problem+json."""
        shown = Problem(
            TYPE + self.code, self.title, self.status, self.code, self.detail, INSTANCE + request_id, [*self.errors]
        )
        headers: Headers = [(b"content-type", b"application/problem+json"), *self.headers]
        return Reply(self.status, headers, msgspec.json.encode(msgspec.to_builtins(shown) | dict(self.ids)))


def refusal(error: Exception, request_id: str) -> Refusal:
    """What an error means to a stranger; one that is not ours is logged and hidden."""
    if isinstance(error, SoonishError) and error.status != 500:
        return _ours(error)
    if isinstance(error, HTTPException) and error.status_code < 500:
        return _of_routing(error)
    _log.error("http.failed request_id=%s", request_id, exc_info=error)
    return Refusal(500, "internal", f"Internal error; whoever runs this finds it in the logs under {request_id}")


def _ours(error: SoonishError) -> Refusal:
    headers = tuple(_headers(error))
    if isinstance(error, Invalid) and error.errors:
        count = len(error.errors)
        detail = "1 field needs a change." if count == 1 else f"{count} fields need a change."
        said = error.message if error.message != error.title else detail
        return Refusal(error.status, _shared_code(error), said, tuple(error.errors), headers)
    return Refusal(error.status, error.code, error.message, (), headers, getattr(error, "ids", {}))


def _shared_code(error: Invalid) -> str:
    """The one named code that all errors have, if there is one."""
    codes = {one.code for one in error.errors}
    if len(codes) == 1 and not codes & PLAIN:
        return codes.pop()
    return error.code


def _headers(error: SoonishError) -> Headers:
    found: Headers = []
    wait: Any = getattr(error, "retry_after", 1 if error.code == "idempotency_in_flight" else None)
    if wait is not None:
        found.append((b"retry-after", b"%d" % wait))
    if isinstance(error, Stale):
        found.append((b"etag", b'"%d"' % error.version))
    if isinstance(error, Unauthorized):
        found.append((b"www-authenticate", b"Bearer"))
    return found


def _of_routing(error: HTTPException) -> Refusal:
    """What the framework found before any of our code ran."""
    if isinstance(error, MethodNotAllowedException):
        allow = (error.headers or {}).get("allow", "")
        methods = sorted({*allow.split(", "), "OPTIONS", *(["HEAD"] if "GET" in allow else [])})
        detail = f"This path knows only {', '.join(methods)}"
        return Refusal(405, "method_not_allowed", detail, headers=((b"allow", ", ".join(methods).encode()),))
    if error.status_code == 404:
        return Refusal(404, "not_found", "There is nothing here; the paths are in /openapi.json")
    return Refusal(400, "bad_header", "A header of the request cannot be read; check Host above all")
