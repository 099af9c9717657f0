"""The words in which a route says what it takes: bodies, queries, forms, and the kinds of their fields.

All of them are msgspec structs; how they are checked stands in shapes, where they are read in reading.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta

from soonish import clock
from soonish.errors import Invalid
from soonish.web.answers import Listing, listing, read_cursor

__all__ = [
    "LOCALE", "OWN_PAGE", "UNSET", "ZONE", "Body", "Form", "Instant", "Paged", "Query", "Unset",
    "changes", "checked", "items", "line", "lines", "number", "raw",
]  # fmt: skip

T = TypeVar("T")
Unset: TypeAlias = msgspec.UnsetType

_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?")


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON body. May have `rules(self) -> Iterable[FieldError]`, called when each field is good by itself."""


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """Query parameters."""

    unknown: ClassVar[str] = "unknown_parameter"


class Paged(Query):
    """The parameters of a list."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    after: Annotated[str, Meta(max_length=1000)] | None = None

    def position(self, *kinds: type) -> Any:
        """Where this part of the list begins: the values in `after`, alone if there is one; None for the first part."""
        if self.after is None:
            return None
        parts = read_cursor(self.after, kinds)
        return parts if len(kinds) > 1 else parts[0]

    def listing(self, rows: Sequence[T], key: Callable[[T], tuple[Any, ...]]) -> Listing[T]:
        """The answer, from `limit + 1` rows asked for; `key(row)` is what `position` gives back."""
        return listing(rows, self.limit, key)


class Form(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of an HTML form; its `csrf` is taken out and checked before."""


def line(most: int, least: int = 1, pattern: str | None = None) -> Meta:
    """One line of text: trimmed, normalized, without control characters."""
    return Meta(min_length=least, max_length=most, pattern=pattern, extra={"text": "line"})


def lines(most: int, least: int = 0) -> Meta:
    """Text in which only tab and line feed stand for themselves."""
    return Meta(min_length=least, max_length=most, extra={"text": "lines"})


def raw(most: int, least: int = 1) -> Meta:
    """Text exactly as it was sent: for secrets."""
    return Meta(min_length=least, max_length=most, extra={"text": "raw"})


def number(ge: int | None = None, le: int | None = None) -> Meta:
    """A number from `ge` to `le`."""
    return Meta(ge=ge, le=le)


def items(most: int, least: int = 0) -> Meta:
    """How many items a list has."""
    return Meta(min_length=least, max_length=most)


def checked(function: Callable[[Any], Any], schema: dict[str, Any] | None = None) -> Meta:
    """`function(value)` answers the value to keep, or raises Invalid, whose code becomes the field's."""
    return Meta(extra={"check": function}, extra_json_schema=schema)


def changes(body: msgspec.Struct) -> dict[str, Any]:
    """The fields of a PATCH that were sent."""
    return {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not UNSET}


def _zone(name: str) -> str:
    clock.zone(name)
    return name


def _locale(name: str) -> str:
    if not _LOCALE.fullmatch(name):
        raise Invalid(f"{name!r} is no language tag; write one like 'en' or 'pt-BR'", code="unknown_locale")
    return name


# An instant with offset; it arrives in UTC.
Instant: TypeAlias = Annotated[datetime, Meta(tz=True)]
# A time zone, by its IANA name; an alias stays as it was given.
ZONE: TypeAlias = Annotated[str, line(100), checked(_zone)]
# A page of ours, to go back to.
OWN_PAGE: TypeAlias = Annotated[str, line(1_000, pattern=r"^/($|[^/\\].*)")]
# A language tag.
LOCALE: TypeAlias = Annotated[str, line(35), checked(_locale)]
