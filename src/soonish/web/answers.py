"""What a route answers, and how it becomes bytes: JSON, ETag, Location, pages of a list.

Knows nothing of who asks. Errors are answered elsewhere.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

import msgspec
from litestar.types import Receive, Scope, Send

from soonish.errors import BadRequest

T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]

JSON: Final = b"application/json"
_BIGINT: Final = 2**63


class Reply:
    """An answer, ready to send."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Headers, body: bytes = b"") -> None:
        self.status = status
        self.headers = headers
        self.body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        headers = self.headers
        if self.status not in (204, 304):
            headers = [*headers, (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


@dataclass(frozen=True, slots=True)
class Created(Generic[T]):
    """201, and where it is."""

    value: T
    location: str


@dataclass(frozen=True, slots=True)
class Accepted(Generic[T]):
    """202: it is due now; the value names what to look at."""

    value: T


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """An answer with a status and headers of its own, such as 200 or 201 of an upsert."""

    value: T
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list, and the cursor of the next one."""

    items: Sequence[T]
    next: str | None


def listing(rows: Sequence[T], limit: int, key: Callable[[T], tuple[Any, ...]]) -> Listing[T]:
    """Of `limit + 1` rows asked for, those of this part; `key` is what the next part begins after."""
    if len(rows) <= limit:
        return Listing(rows, None)
    return Listing(rows[:limit], write_cursor(key(rows[limit - 1])))


def write_cursor(position: tuple[Any, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def read_cursor(text: str, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """The position in a cursor, whose parts are of these types."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        parts: tuple[Any, ...] = msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True), type=tuple[kinds])  # type: ignore[valid-type]
    except (UnicodeError, binascii.Error, msgspec.MsgspecError) as error:
        raise _bad_cursor() from error
    if not all(_storable(part) for part in parts):
        raise _bad_cursor()
    return parts


def _storable(part: Any) -> bool:
    if isinstance(part, int):
        return -_BIGINT <= part < _BIGINT
    if isinstance(part, datetime):
        return part.utcoffset() == timedelta()  # as they are written here; another one may have no name in UTC
    return not isinstance(part, str) or "\0" not in part


def _bad_cursor() -> BadRequest:
    return BadRequest("This cursor was not made by this list; take `next` of an answer as it is", code="bad_cursor")


def etag(value: Any) -> bytes | None:
    """The ETag of a value that has a version."""
    version = value.get("version") if isinstance(value, dict) else getattr(value, "version", None)
    return b'"%d"' % version if isinstance(version, int) else None


def render(value: Any, if_none_match: str | None = None) -> Reply:
    """What a route returned, as an answer."""
    if value is None:
        return Reply(204, [])
    if isinstance(value, Created):
        return _json(201, value.value, [(b"location", value.location.encode())])
    if isinstance(value, Accepted):
        return _json(202, value.value, [])
    if isinstance(value, Ok):
        return _json(value.status, value.value, [(k.lower().encode(), v.encode()) for k, v in value.headers.items()])
    tag = etag(value)
    if tag and if_none_match and matches(if_none_match, tag.decode()):
        return Reply(304, [(b"etag", tag)])
    return _json(200, value, [], tag)


def matches(header: str, tag: str) -> bool:
    """Whether `If-Match` or `If-None-Match` names this tag; a weak one counts, since versions are exact."""
    given = [one.strip().removeprefix("W/") for one in header.split(",")]
    return "*" in given or tag in given


def _json(status: int, value: Any, headers: Headers, tag: bytes | None = None) -> Reply:
    tag = tag or etag(value)
    found = [(b"content-type", JSON), *headers, *([(b"etag", tag)] if tag else [])]
    return Reply(status, found, msgspec.json.encode(value))
