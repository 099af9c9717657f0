"""Fill the placeholders of a message for one person, at one moment.

`{{name}}`, `{{local:<instant>}}`, `{{left:<instant>}}` and the keys of a merge; what is none of these stays as it was
written. Pure: values are plain text, and whoever makes HTML of it escapes all of it.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from soonish.clock import parse_instant
from soonish.errors import Invalid

_PLACE: Final = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*)(?: *: *([0-9TtZz:.+ -]{1,64}?))? *\}\}")
_SECOND: Final = timedelta(seconds=1)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# How dates are written where a language is read; without an entry, as ISO 8601 has it.
_POINTS: Final = "{d:02}.{m:02}.{y} {h:02}:{n:02}"
_SLASHES: Final = "{d:02}/{m:02}/{y} {h:02}:{n:02}"
_HYPHENS: Final = "{y}-{m:02}-{d:02} {h:02}:{n:02}"
_FORMS: Final = {
    **dict.fromkeys(
        ("be", "bg", "cs", "da", "de", "et", "fi", "hr", "is", "lv", "nb", "no", "pl", "ro", "ru"), _POINTS
    ),
    **dict.fromkeys(("sk", "sl", "sr", "tr", "uk", "az", "ka", "hy", "kk", "mk"), _POINTS),
    **dict.fromkeys(("ca", "el", "es", "fr", "ga", "gl", "hi", "id", "it", "ms", "pt", "vi"), _SLASHES),
    **dict.fromkeys(("ja", "zh"), "{y}/{m:02}/{d:02} {h:02}:{n:02}"),
    "hu": "{y}. {m:02}. {d:02}. {h:02}:{n:02}",
    "ko": "{y}. {m}. {d}. {h:02}:{n:02}",
    "nl": "{d:02}-{m:02}-{y} {h:02}:{n:02}",
    "en": "{day} {d} {month} {y} {h:02}:{n:02}",
    "en-us": "{day} {month} {d} {y} {h12}:{n:02} {half}",
}


def fill(text: str, *, now: datetime, name: str, zone: ZoneInfo, locale: str, merge: Mapping[str, Any]) -> str:
    """The text for this person now; what a value brings along is not filled again."""

    def place(found: re.Match[str]) -> str:
        word, instant = found[1], found[2]
        if instant is not None:
            return _moment(word, instant, now, zone, locale) or found[0]
        if word == "name":
            return name
        return str(merge[word]) if word in merge else found[0]

    return _PLACE.sub(place, text) if "{{" in text else text


def _moment(word: str, text: str, now: datetime, zone: ZoneInfo, locale: str) -> str | None:
    """None where the word or the instant cannot be read."""
    try:
        at = parse_instant(text)
    except Invalid:
        return None
    if word == "left":
        return left(at - now)
    return local(at, zone, locale) if word == "local" else None


def left(gap: timedelta) -> str:
    """How long it is until then: "45 seconds", "2 hours 5 minutes", and from two days on "3 days 4 hours"."""
    # To the nearest second: a try that begins some milliseconds after the promise must not lose a whole minute.
    seconds = max(0, round(gap / _SECOND))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if not minutes:
        return _count(seconds, "second")
    if hours < 48:
        return _joined(_count(hours, "hour"), _count(minutes % 60, "minute"))
    return _joined(_count(days, "day"), _count(hours % 24, "hour"))


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if not part.startswith("0 "))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def local(at: datetime, zone: ZoneInfo, locale: str) -> str:
    """The wall clock of a zone as it is written in that language, with the name of the time there."""
    try:
        there = at.astimezone(zone)
    except OverflowError:  # at the ends of the calendar
        there = at
    words = locale.lower()
    form = _FORMS.get(words) or _FORMS.get(words.partition("-")[0], _HYPHENS)
    shown = form.format(
        y=f"{there.year:04}",
        m=there.month,
        d=there.day,
        h=there.hour,
        n=there.minute,
        h12=there.hour % 12 or 12,
        half="AM" if there.hour < 12 else "PM",
        day=_DAYS[there.weekday()],
        month=_MONTHS[there.month - 1],
    )
    return f"{shown} {_abbreviation(there)}"


def _abbreviation(there: datetime) -> str:
    """`CET`; where a zone has only a number for a name, that from UTC."""
    name = there.tzname() or "UTC"
    return f"UTC{name}" if name[0] in "+-" else name
