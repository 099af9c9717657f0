"""What forms about events carry: offsets as boxes and minutes, times by the clock of a zone."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

from soonish.clock import zone
from soonish.errors import FieldError, Invalid
from soonish.events.model.offsets import LARGEST, MOST
from soonish.people.model.quiet import first_instant
from soonish.web.fields import checked, items, line

DEFAULT: Final = "default"
LOCAL: Final = "%Y-%m-%dT%H:%M"  # as a browser's field for date and time has it
_PERSON: Final = re.compile(r"(?:^#?|\(#)([1-9][0-9]{0,17})\)?$")
_PRESETS: Final = (604_800, 172_800, 86_400, 10_800, 3_600, 900, 0)


def read_offsets(given: Sequence[str], minutes: str = "") -> list[int] | None:
    """Offsets in seconds from boxes, each a comma list, and others in minutes; `default` = none of its own."""
    words = [word.strip() for text in given for word in text.split(",")]
    if DEFAULT in words:
        return None
    found = {_number(word, 1) for word in words if word}
    found |= {_number(word.strip(), 60) for word in minutes.replace(";", ",").split(",") if word.strip()}
    if len(found) > MOST:
        told = f"At most {MOST} reminders fit here; these are {len(found)}"
        raise Invalid("", FieldError("reminder_offsets", "length", told))
    return sorted(found, reverse=True)


def too_many(given: Sequence[str] | None, minutes: str) -> Sequence[FieldError]:
    """What is wrong with boxes and minutes that are good each by itself."""
    try:
        read_offsets(given or (), minutes)
    except Invalid as error:
        return error.errors
    return ()


def presets(*more: int) -> list[int]:
    """The boxes that are offered, and those that are ticked already; the largest first."""
    return sorted({*_PRESETS, *more}, reverse=True)


def _number(word: str, size: int) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise Invalid(f"{word[:40]!r} is no whole number", code="type")
    if int(word) * size > LARGEST:
        raise Invalid(f"A reminder comes {LARGEST // 86_400} days before at most", code="range")
    return int(word) * size


def _boxes(text: str) -> str:
    read_offsets([text])
    return text


def _minutes(text: str) -> str:
    read_offsets((), text)
    return text


Given = Annotated[list[Annotated[str, line(400, least=0), checked(_boxes)]], items(60)]
"""Boxes of offsets, each a comma list of seconds, or the word for none of one's own."""
Minutes = Annotated[str, line(200, least=0), checked(_minutes)]
"""Further offsets in minutes, with commas between."""


def _person(text: str) -> str:
    if person_of(text) is None:
        raise Invalid("Choose somebody from the list, or write the number of a person", code="pattern")
    return text


PersonText = Annotated[str, line(250), checked(_person)]
"""Somebody as a form suggests them: `Ben (#7)`; or a number alone."""


def person_of(text: str | None) -> int | None:
    """Their id."""
    found = _PERSON.search(text.strip()) if text else None
    return int(found[1]) if found else None


def person_text(person_id: int | None, name: str | None) -> str:
    return "" if person_id is None else f"{name or 'somebody'} (#{person_id})"


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
