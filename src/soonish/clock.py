"""Instants, spans and zones: read from text, and written as text.

The only file that reads this machine's clock; what is due is decided by the database's clock alone. Knows no rules of
when anything happens.
"""

import re
import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

from soonish.errors import Invalid

# The pinned tzdata wheel alone decides: two hosts, or a host before and after its upgrade, must not read one rule
# in two ways.
zoneinfo.reset_tzpath(to=())
ZoneInfo.clear_cache()

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_SPAN: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_NO_PLACE: Final = {"Factory", "localtime", "posixrules"}


class UnknownZone(Invalid):
    """A time zone this server cannot place on the map."""

    code = "unknown_zone"


def utc_now() -> datetime:
    return datetime.now(UTC)


def parse_instant(text: str) -> datetime:
    """Read an RFC 3339 instant, whose offset is never guessed; answers it in UTC."""
    match = _INSTANT.fullmatch(text.upper())
    if match and not match[2]:
        raise Invalid(f"{text!r} has no offset; write it like '{text}Z' or '{text}+02:00'", code="naive_time")
    try:
        if match:
            return datetime.fromisoformat(match[0]).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Invalid(f"{text!r} is no instant; write it like '2026-12-01T18:00:00Z'", code="type")


def show_instant(at: datetime) -> str:
    """In UTC with a Z, and with microseconds only where there are any."""
    if at.tzinfo is None:
        raise ValueError("an instant without an offset is none")
    return at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def zone(name: str) -> ZoneInfo:
    """The zone of an IANA name, case-sensitive; an alias keeps the name that was given."""
    if name not in zones():
        raise UnknownZone(f"{name!r} is not a zone known here; use a name like 'Europe/Lisbon'")
    return ZoneInfo(name)


@cache
def zones() -> frozenset[str]:
    """The names that `zone` takes."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text().split()) - _NO_PLACE


def parse_span(text: str) -> timedelta:
    """Read a span such as 15s, 5m or 3d."""
    match = _SPAN.fullmatch(text)
    try:
        if match:
            return int(match[1]) * _UNITS[match[2]]
    except OverflowError:
        pass
    raise Invalid(f"{text!r} is no span; write it like 500ms, 15s, 5m, 2h or 3d")


def show_span(span: timedelta) -> str:
    """In the greatest unit that leaves no rest; below a millisecond nothing is shown."""
    if not span:
        return "0s"
    for unit, length in _UNITS.items():
        if not span % length:
            return f"{span // length}{unit}"
    return f"{span // _UNITS['ms']}ms"
