"""Moments, spans and counts in words, for people.

Each takes `now` and the zone as arguments, or finds them in the context of a template. No rule of when anything
happens is known here.
"""

import json
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from soonish.clock import show_instant

_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_PLAIN: Final = Markup("")
_REACHED: Final = Markup(' tabindex="0"')  # by keyboard: then it shows its UTC, as it does under a pointer


def relative(at: datetime, now: datetime) -> str:
    """How far away: "in 12 min", "3 d ago", "now"."""
    gap = at - now
    if abs(gap) < _SECOND:
        return "now"
    words = roughly(abs(gap))
    return f"in {words}" if gap > timedelta() else f"{words} ago"


def roughly(gap: timedelta) -> str:
    """A span in its one fitting unit."""
    for unit, word, until in ((_SECOND, "s", 90), (_MINUTE, "min", 90), (_HOUR, "h", 36), (_DAY, "d", 60)):
        if gap < unit * until:
            return f"{max(1, gap // unit)} {word}"
    return f"{gap // (_DAY * 30)} months" if gap < _DAY * 700 else f"{gap // (_DAY * 365)} years"


def precisely(gap: timedelta) -> str:
    """A span in two units at most: "2 h 5 min", "40 ms"."""
    if gap < timedelta():
        return f"-{precisely(-gap)}"
    if gap < _SECOND:
        return f"{gap // timedelta(milliseconds=1)} ms"
    parts = []
    for unit, word in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s")):
        count, gap = divmod(gap, unit)
        if count:
            parts.append(f"{count} {word}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts)


def local(at: datetime, now: datetime, zone: tzinfo) -> str:
    """By the viewer's clock, with as much of the date as is needed."""
    at, now = at.astimezone(zone), now.astimezone(zone)
    clock = f"{at:%H:%M}"
    if at.date() == now.date():
        return clock
    if abs(at - now) < 6 * _DAY:
        return f"{at:%a} {clock}"
    return f"{at:%a} {at.day} {at:%b} {clock}" if at.year == now.year else f"{at.day} {at:%b %Y} {clock}"


def place(zone: tzinfo) -> str:
    """What people call a zone: "Berlin" for Europe/Berlin."""
    return zone.key.rpartition("/")[2].replace("_", " ") if isinstance(zone, ZoneInfo) else "UTC"


def utc(at: datetime) -> str:
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"  # noqa: UP017 - the name that people read


def count(number: int) -> str:
    """Exact up to 10,000; then "12.4 k"."""
    if abs(number) <= 10_000:
        return f"{number:,}"
    for size, word in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if abs(number) >= size:
            short = f"{number / size:.1f}".removesuffix(".0")
            return f"{short} {word}"
    return str(number)


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


# --- the same as filters of templates


@pass_context
def _when(context: Context, at: datetime | None) -> Markup:
    """ "in 12 min · Fri 19:00 Berlin": script keeps the first part true, UTC is there on hover and focus."""
    words = _words(context, at)
    return _time(at, Markup("{} · {}").format(*words), Markup(' class="when"') + _REACHED) if at else _PLAIN


@pass_context
def _local(context: Context, at: datetime | None) -> Markup:
    return _time(at, _words(context, at)[1], _REACHED) if at else _PLAIN


@pass_context
def _relative(context: Context, at: datetime | None) -> Markup:
    """Only beside the local time of the same moment, which is the one to reach."""
    return _time(at, _words(context, at)[0]) if at else _PLAIN


def _words(context: Context, at: datetime | None) -> tuple[Markup, str]:
    """How far away, and when by the viewer's clock."""
    if at is None:
        return _PLAIN, ""
    now, zone = context["now"], context["zone"]
    away = Markup("<span data-relative>{}</span>").format(relative(at, now))
    return away, f"{local(at, now, zone)} {place(zone)}"


def _time(at: datetime, words: str, extra: str = _PLAIN) -> Markup:
    return Markup('<time datetime="{}" data-utc="{}"{}>{}</time>').format(show_instant(at), utc(at), extra, words)


FILTERS: Final[dict[str, Any]] = {
    "when": _when,
    "local": _local,
    "relative": _relative,
    "instant": show_instant,
    "zone_name": lambda zone: zone.key if isinstance(zone, ZoneInfo) else "UTC",
    "span": precisely,
    "millis": lambda number: precisely(timedelta(milliseconds=number)),
    "json": lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    "count": count,
    "plural": plural,
}
