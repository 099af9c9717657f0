"""What forms about events carry: offsets as boxes and minutes, times by the clock of a zone."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

from soonish.clock import zone
from soonish.errors import FieldError, Invalid
from soonish.events.model.offsets import LARGEST, MOST
from soonish.people.model.quiet import first_instant
from soonish.web.fields import checked, line

DEFAULT: Final = "default"
LOCAL: Final = "%Y-%m-%dT%H:%M"  # as a browser's field for date and time has it
_PRESETS: Final = (604_800, 172_800, 86_400, 10_800, 3_600, 900, 0)


def read_offsets(given: Sequence[str], minutes: str = "") -> list[int] | None:
    """Offsets in seconds from boxes, each a comma list, and others in minutes; `default` = none of its own."""
    words = [word.strip() for text in given for word in text.split(",")]
    if DEFAULT in words:
        return None
    found = {_number(word, 1, "reminder_offsets") for word in words if word}
    found |= {_number(word.strip(), 60, "minutes") for word in minutes.replace(";", ",").split(",") if word.strip()}
    if len(found) > MOST:
        raise _bad("reminder_offsets", "length", f"At most {MOST} reminders fit here; these are {len(found)}")
    return sorted(found, reverse=True)


def presets(*more: int) -> list[int]:
    """The boxes that are offered, and those that are ticked already; the largest first."""
    return sorted({*_PRESETS, *more}, reverse=True)


def _number(word: str, size: int, field: str) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise _bad(field, "type", f"{word[:40]!r} is no whole number")
    if int(word) * size > LARGEST:
        raise _bad(field, "range", f"A reminder comes {LARGEST // 86_400} days before at most")
    return int(word) * size


def _bad(field: str, code: str, message: str) -> Invalid:
    return Invalid("", FieldError(field, code, message))


def _local(text: str) -> str:
    try:
        datetime.fromisoformat(text[:19])
    except ValueError as error:
        raise Invalid("Write a date and a time, like 2026-12-01T18:00", code="type") from error
    return text[:19]


LocalTime = Annotated[str, line(19), checked(_local)]
"""A date and a time without a zone, which another field names."""


def instant_of(local: str, timezone: str) -> datetime:
    """When the clock of that zone shows this for the first time."""
    return first_instant(datetime.fromisoformat(local), zone(timezone))


def local_of(at: datetime | None, timezone: str) -> str:
    """The same back, as the field of a form shows it; seconds only where there are any."""
    if at is None:
        return ""
    there = at.astimezone(zone(timezone))
    return there.strftime(f"{LOCAL}:%S" if there.second else LOCAL)
