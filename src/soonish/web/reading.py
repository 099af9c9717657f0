"""Read a request: its bytes, JSON, query, form, and the headers that set conditions.

Refuses what cannot be read, each with its own code. Knows nothing of routes, callers or rules of a slice.
"""

import re
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec
from litestar.types import Receive, Scope

from soonish.errors import BadRequest, FieldError, Invalid, Stale, TooLarge, UnsupportedMedia
from soonish.web.answers import matches

MOST_BYTES: Final = 1024 * 1024
MOST_DEPTH: Final = 32
MOST_PARAMETERS: Final = 1000

_JSON: Final = re.compile(r'application/json\s*(;\s*charset="?utf-8"?\s*)?', re.IGNORECASE)
_FORM: Final = re.compile(r"application/x-www-form-urlencoded\s*(;.*)?", re.IGNORECASE)
_TAGS: Final = re.compile(r'\s*(\*|(W/)?"[\x21\x23-\x7e]*"(\s*,\s*(W/)?"[\x21\x23-\x7e]*")*)\s*')
_SLASH: Final = "\udc2f"
_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")


class Disconnected(Exception):
    """The client went away before it had sent everything."""


class Headers:
    """The headers of a request; a look-up is one pass, which is cheaper than to index them all."""

    __slots__ = ("_pairs",)

    def __init__(self, scope: Scope) -> None:
        self._pairs = scope["headers"]

    def get(self, name: bytes) -> str | None:
        """The value; of several, all of them with commas between."""
        found = [value for key, value in self._pairs if key == name]
        return b", ".join(found).decode("latin-1") if found else None


def has_slash(scope: Scope) -> bool:
    """Whether a part of the path holds a slash, written %2F."""
    return b"%2f" in scope["raw_path"].lower()


def path_with_marks(scope: Scope) -> str:
    """The path as it is routed: a slash within a part of it parts nothing, and is a mark that no text can hold."""
    parts = scope["raw_path"].decode("ascii").split("/")
    return "/".join(unquote(part).replace("/", _SLASH) for part in parts)


def with_slashes(part: str) -> str:
    """A part of the path as it was meant."""
    return part.replace(_SLASH, "/")


async def read_body(receive: Receive) -> bytes:
    """The whole body; no more than 1 MiB of it is ever held."""
    message = await receive()
    body: bytes = message.get("body", b"")  # type: ignore[assignment]
    parts, size = [body], len(body)
    while message.get("more_body") and size <= MOST_BYTES:
        message = await receive()
        parts.append(message.get("body", b""))  # type: ignore[arg-type]
        size += len(parts[-1])
    if message["type"] == "http.disconnect":
        raise Disconnected
    if size > MOST_BYTES:
        raise too_large()
    return b"".join(parts)


def too_large() -> TooLarge:
    return TooLarge("The body is greater than 1 MiB; send less at once")


def sends_json(headers: Headers) -> bool:
    """Whether the body is JSON, where a form would do as well."""
    return _JSON.fullmatch(headers.get(b"content-type") or "") is not None


def asks_json(headers: Headers) -> bool:
    """Whether a program asks, where a browser would be shown a page."""
    return "application/json" in (headers.get(b"accept") or "") or sends_json(headers)


def need_json(content_type: str | None) -> None:
    if content_type is None or not _JSON.fullmatch(content_type):
        raise UnsupportedMedia("Send JSON, with the header Content-Type: application/json")


def need_form(content_type: str | None) -> None:
    if content_type is None or not _FORM.fullmatch(content_type):
        raise UnsupportedMedia("Send a form, with the header Content-Type: application/x-www-form-urlencoded")


def read_json(body: bytes) -> Any:
    """Strict JSON: UTF-8, no NaN, no NUL, no deeper than 32."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError as error:
        raise _bad_json(f"deeper than {MOST_DEPTH}") from error
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise _bad_json(str(error) if body else "the body is empty") from error
    if body.count(b"{") + body.count(b"[") > MOST_DEPTH and _depth(value) > MOST_DEPTH:
        raise _bad_json(f"deeper than {MOST_DEPTH}")
    if b"\\u0000" in body and _has_nul(value):
        raise _bad_json("it holds a NUL character")
    return value


def _bad_json(why: str) -> BadRequest:
    return BadRequest(f"The body cannot be read as JSON: {why}")


def _depth(value: Any) -> int:
    """How deep it is, level by level: nothing here may overflow a stack."""
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def _has_nul(value: Any) -> bool:
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, str) and "\0" in one:
            return True
        if isinstance(one, dict):
            rest += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            rest += one
    return False


def read_query(query: bytes) -> dict[str, list[str]]:
    """The query parameters, each with all its values."""
    return _pairs(query) if query else {}


def read_form(body: bytes) -> dict[str, list[str]]:
    """The fields of a form. A browser ends lines in its own way; here they end with a line feed."""
    found = _pairs(body) if body else {}
    return {name: [one.replace("\r\n", "\n") for one in values] for name, values in found.items()}


def _pairs(text: bytes) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS)
    except UnicodeError as error:
        raise Invalid("", FieldError("", "type", "Write it in UTF-8, percent-encoded")) from error
    except ValueError as error:
        raise Invalid("", FieldError("", "length", f"At most {MOST_PARAMETERS} parameters fit")) from error
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


class IfMatch:
    """The condition of a change: the version that the client saw."""

    __slots__ = ("_tags",)

    def __init__(self, header: str | None) -> None:
        if header is not None and not _TAGS.fullmatch(header):
            raise BadRequest('Write If-Match like "7", with the quotes, as the ETag was', code="bad_header")
        self._tags = header

    def check(self, version: int) -> None:
        """Raise Stale if the client saw another version than the current one; call it with the row locked."""
        if self._tags is not None and not matches(self._tags, f'"{version}"'):
            raise Stale(f"It was changed since you looked: this is version {version} now. Read it again", version)


def idempotency_key(header: str | None) -> str | None:
    if header is not None and not _KEY.fullmatch(header):
        raise BadRequest("Write an Idempotency-Key of 1 to 200 visible ASCII characters", code="bad_header")
    return header
