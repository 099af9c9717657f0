"""Events as calendar files: RFC 5545, with METHOD and the rules of each zone that they name. Pure.

A file is the same whenever it is made of the same row. It names nobody: no organizer, no attendee.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from soonish import clock
from soonish.events.model.events import Event

OCTETS: Final = 75  # of a line, its end not counted
_STEP: Final = timedelta(days=7)  # no zone changes its clock twice in such a time
_YEAR: Final = timedelta(days=366)
_SECOND: Final = timedelta(seconds=1)
_UTC: Final = frozenset({"UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Universal", "Etc/Universal"})
_STATUS: Final = {"draft": "TENTATIVE", "cancelled": "CANCELLED"}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPED: Final = {"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n", "\u2028": "\\n", "\u2029": "\\n"}


class Shift(NamedTuple):
    """A moment from which on the clock of a zone is another one."""

    at: datetime | None  # none: it has been so for as long as matters
    before: timedelta
    after: timedelta
    name: str
    summer: bool


def calendar_file(event: Event) -> str:
    """The file of one event: a cancelled one takes itself out of the calendars that have it."""
    method = "CANCEL" if event.state == "cancelled" else "PUBLISH"
    return _file([f"METHOD:{method}"], [event])


def feed_file(events: Sequence[Event]) -> str:
    """The file of many events, which a calendar reads anew each hour."""
    head = ["METHOD:PUBLISH", "X-WR-CALNAME:Soonish", "REFRESH-INTERVAL;VALUE=DURATION:PT1H", "X-PUBLISHED-TTL:PT1H"]
    return _file(head, events)


def _file(head: Sequence[str], events: Sequence[Event]) -> str:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Soonish//Events//EN", "CALSCALE:GREGORIAN", *head]
    for name, span in _zones(events).items():
        lines += _zone(clock.zone(name), *span)
    for event in events:
        lines += _event(event)
    return "".join(f"{folded}\r\n" for line in [*lines, "END:VCALENDAR"] for folded in _folded(line))


def _event(event: Event) -> Iterator[str]:
    changed = _utc(event.updated_at)
    yield "BEGIN:VEVENT"
    yield f"UID:{event.uid}@soonish"
    yield f"SEQUENCE:{event.sequence}"
    yield f"DTSTAMP:{changed}"
    yield f"LAST-MODIFIED:{changed}"
    yield f"DTSTART{_when(event.start_date, event.timezone)}"
    if event.end_date is not None:
        yield f"DTEND{_when(event.end_date, event.timezone)}"
    yield f"SUMMARY:{_text(event.name)}"
    for name, value in (("LOCATION", event.location), ("DESCRIPTION", event.description)):
        if value:
            yield f"{name}:{_text(value)}"
    if event.link:
        yield f"URL:{_uri(event.link)}"
    yield f"STATUS:{_STATUS.get(event.state, 'CONFIRMED')}"
    yield "END:VEVENT"


def _when(at: datetime, timezone: str) -> str:
    there = at.astimezone(clock.zone(timezone))
    # Of an hour that comes twice, a local time without offset always means the first: the second is told in UTC.
    if timezone in _UTC or there.fold:
        return f":{_utc(at)}"
    return f";TZID={timezone}:{there:%Y%m%dT%H%M%S}"


def _utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"


# --- the rules of zones -----------------------------------------------------------------------------------------------


def _zones(events: Sequence[Event]) -> dict[str, tuple[datetime, datetime]]:
    """The zones that are named, each with the time that its rules must cover."""
    found: dict[str, tuple[datetime, datetime]] = {}
    for event in events:
        if event.timezone not in _UTC:
            first, last = event.start_date, event.end_date or event.start_date
            known = found.get(event.timezone, (first, last))
            found[event.timezone] = (min(known[0], first), max(known[1], last))
    return found


def _zone(zone: ZoneInfo, first: datetime, last: datetime) -> Iterator[str]:
    yield "BEGIN:VTIMEZONE"
    yield f"TZID:{zone.key}"
    for shift in shifts(zone, first, last):
        kind = "DAYLIGHT" if shift.summer else "STANDARD"
        onset = (shift.at or datetime(1970, 1, 1, tzinfo=UTC) - shift.before) + shift.before
        yield f"BEGIN:{kind}"
        yield f"DTSTART:{onset:%Y%m%dT%H%M%S}"
        yield f"TZOFFSETFROM:{_offset(shift.before)}"
        yield f"TZOFFSETTO:{_offset(shift.after)}"
        yield f"TZNAME:{_text(shift.name)}"
        yield f"END:{kind}"
    yield "END:VTIMEZONE"


def shifts(zone: ZoneInfo, first: datetime, last: datetime) -> list[Shift]:
    """What holds at first, and each change until a little after the last moment."""
    at, found = first - _YEAR, list[Shift]()
    while at < last + _STEP:
        if _rule(zone, at) != _rule(zone, at + _STEP):
            found.append(_shift(zone, _change(zone, at, at + _STEP)))
        at += _STEP
    earlier = [shift for shift in found if shift.at and shift.at <= first]
    if earlier:
        return found[len(earlier) - 1 :]
    offset, name, summer = _rule(zone, first)
    return [Shift(None, offset, offset, name, summer), *found]


def _rule(zone: ZoneInfo, at: datetime) -> tuple[timedelta, str, bool]:
    there = at.astimezone(zone)
    return there.utcoffset() or timedelta(), there.tzname() or "", bool(there.dst())


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The second from which on the later rule holds; both moments are whole seconds."""
    rule = _rule(zone, before)
    while after - before > _SECOND:
        middle = before + (after - before) // 2 // _SECOND * _SECOND
        before, after = (middle, after) if _rule(zone, middle) == rule else (before, middle)
    return after


def _shift(zone: ZoneInfo, at: datetime) -> Shift:
    offset, name, summer = _rule(zone, at)
    return Shift(at, _rule(zone, at - _SECOND)[0], offset, name, summer)


def _offset(span: timedelta) -> str:
    seconds = round(span.total_seconds())
    sign, seconds = "-" if seconds < 0 else "+", abs(seconds)
    rest = f"{seconds % 60:02}" if seconds % 60 else ""
    return f"{sign}{seconds // 3600:02}{seconds // 60 % 60:02}{rest}"


# --- text -------------------------------------------------------------------------------------------------------------


def _text(value: str) -> str:
    """TEXT: nothing in it can begin a line of its own."""
    plain = _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n"))
    return "".join(_ESCAPED.get(letter, letter) for letter in plain)


def _uri(value: str) -> str:
    return "".join(letter for letter in value if letter.isprintable() and letter != " ")


def _folded(line: str) -> Iterator[str]:
    """A line in pieces of so many octets; no letter is cut in two."""
    piece, size, room = "", 0, OCTETS
    for letter in line:
        width = len(letter.encode("utf-8", "replace"))
        if size + width > room:
            yield piece
            piece, size, room = " ", 1, OCTETS
        piece, size = piece + letter, size + width
    yield piece
