"""Calendar files: read by another program, they say what the row says, whatever stands in it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from icalendar import Calendar

from soonish.clock import zone, zones
from soonish.events.model.calendar import OCTETS, calendar_file, feed_file, shifts
from tests.events.test_texts import START, event

STAMP = datetime(2026, 11, 4, 18, 0, tzinfo=UTC)


def read(text: str) -> Any:
    """As RFC 5545 wants it: CRLF, lines of 75 octets; and as another program understands it."""
    assert text.endswith("\r\n")
    lines = text.encode().split(b"\r\n")
    assert [line for line in lines if len(line) > OCTETS or b"\n" in line or b"\r" in line] == []
    return Calendar.from_ical(text)


def only(text: str) -> Any:
    [found] = read(text).walk("VEVENT")
    return found


def test_a_file_says_what_the_row_says_and_names_nobody() -> None:
    said = event(
        description="Bring a coat.\nIt is outside.",
        link="https://x.org/a?b=1;c=2,3",
        end_date=START + timedelta(hours=3),
    )
    text = calendar_file(said)
    found = only(text)
    assert str(found["UID"]) == "0b9f0c1e-6f3a-4f0e-9a51-2f7c3f1d2a10@soonish"
    assert (found["SEQUENCE"], str(found["STATUS"]), str(read(text)["METHOD"])) == (0, "CONFIRMED", "PUBLISH")
    assert (found["DTSTAMP"].dt, found["LAST-MODIFIED"].dt) == (STAMP, STAMP)
    assert (found["DTSTART"].dt, found["DTEND"].dt) == (START, START + timedelta(hours=3))
    assert (str(found["SUMMARY"]), str(found["LOCATION"])) == ("Garden party", "Yard")
    assert str(found["DESCRIPTION"]) == "Bring a coat.\nIt is outside."
    assert str(found["URL"]) == "https://x.org/a?b=1;c=2,3"
    assert {"ORGANIZER", "ATTENDEE"} & set(found) == set()
    assert "DTSTART;TZID=Europe/Berlin:20261204T190000\r\n" in text
    assert calendar_file(said) == text


def test_what_is_empty_is_left_out_and_utc_needs_no_rules() -> None:
    text = calendar_file(event(timezone="UTC", location=""))
    assert {"DTEND", "LOCATION", "DESCRIPTION", "URL"} & set(only(text)) == set()
    assert "DTSTART:20261204T180000Z\r\n" in text
    assert "VTIMEZONE" not in text


@pytest.mark.parametrize(
    ("state", "method", "status"),
    [
        ("draft", "PUBLISH", "TENTATIVE"),
        ("live", "PUBLISH", "CONFIRMED"),
        ("completed", "PUBLISH", "CONFIRMED"),
        ("cancelled", "CANCEL", "CANCELLED"),
    ],
)
def test_a_cancelled_event_takes_itself_out(state: str, method: str, status: str) -> None:
    text = calendar_file(event(state=state, sequence=4))
    assert (str(read(text)["METHOD"]), str(only(text)["STATUS"]), only(text)["SEQUENCE"]) == (method, status, 4)


def test_a_feed_holds_many_and_the_rules_of_each_zone_once() -> None:
    many = [
        event(),
        event(start_date=START + timedelta(days=200)),
        event(timezone="America/New_York", state="cancelled"),
        event(timezone="UTC"),
    ]
    text = feed_file(many)
    found = read(text)
    assert str(found["METHOD"]) == "PUBLISH"
    assert "REFRESH-INTERVAL;VALUE=DURATION:PT1H\r\n" in text
    assert sorted(str(one["TZID"]) for one in found.walk("VTIMEZONE")) == ["America/New_York", "Europe/Berlin"]
    assert [one["DTSTART"].dt for one in found.walk("VEVENT")] == [one.start_date for one in many]
    assert [str(one["STATUS"]) for one in found.walk("VEVENT")] == ["CONFIRMED", "CONFIRMED", "CANCELLED", "CONFIRMED"]
    assert read(feed_file([])).walk("VEVENT") == []


def test_the_rules_of_a_zone_are_those_that_hold_then() -> None:
    text = calendar_file(event(end_date=START + timedelta(days=120)))
    [rules] = read(text).walk("VTIMEZONE")
    kinds = [(one.name, one["DTSTART"].dt, one["TZOFFSETTO"].td, str(one["TZNAME"])) for one in rules.subcomponents]
    assert kinds == [
        ("STANDARD", datetime(2026, 10, 25, 3), timedelta(hours=1), "CET"),
        ("DAYLIGHT", datetime(2027, 3, 28, 2), timedelta(hours=2), "CEST"),
    ]
    [only_rule] = read(calendar_file(event(timezone="Asia/Kolkata"))).walk("STANDARD")
    assert (only_rule["TZOFFSETFROM"].td, only_rule["TZOFFSETTO"].td) == (timedelta(hours=5.5), timedelta(hours=5.5))


def test_the_second_of_two_equal_hours_is_told_in_utc() -> None:
    """A local time of that hour, read without its offset, is the first of them."""
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert "DTSTART;TZID=Europe/Berlin:20261025T023000\r\n" in calendar_file(event(start_date=first))
    assert "DTSTART:20261025T013000Z\r\n" in calendar_file(event(start_date=first + timedelta(hours=1)))


@pytest.mark.parametrize(
    "name", ["Europe/Dublin", "Africa/Casablanca", "America/Sao_Paulo", "Pacific/Apia", "Asia/Tehran"]
)
def test_each_change_of_a_clock_is_found_at_its_second(name: str) -> None:
    first, there = datetime(2021, 1, 1, tzinfo=UTC), zone(name)
    found = [one for one in shifts(there, first, first + timedelta(days=800)) if one.at]
    for one in found:
        assert one.at is not None
        assert (one.at - timedelta(seconds=1)).astimezone(there).utcoffset() == one.before
        assert one.at.astimezone(there).utcoffset() == one.after
    halves = [first + timedelta(minutes=30 * n) for n in range(800 * 48)]
    offsets = [at.astimezone(there).utcoffset() for at in halves]
    changes = [at for at, old, new in zip(halves[1:], offsets, offsets[1:], strict=False) if old != new]
    told = [one.at for one in found if one.at and first < one.at < halves[-1] and one.before != one.after]
    assert changes == told


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(zones())), days=st.integers(0, 4_000), minutes=st.integers(0, 1_440))
def test_any_start_in_any_zone_is_read_back_as_the_same_instant(name: str, days: int, minutes: int) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=days, minutes=minutes)
    found = only(calendar_file(event(start_date=start, timezone=name)))
    assert found["DTSTART"].dt.astimezone(UTC) == start


@pytest.mark.parametrize("field", ["name", "location", "description", "link"])
@pytest.mark.parametrize(
    "hostile",
    [
        "a\r\nATTENDEE:mailto:x@example.org",
        "a\nBEGIN:VEVENT\nEND:VEVENT",
        "a\rX:1",
        "a\\nb;c,d\\",
        "é" * 200 + "\N{PARTY POPPER}" * 100,
        "a\x00\x1b[0m\x85b\u2028DTSTART:1",
        "END:VCALENDAR",
    ],
)
def test_no_text_begins_a_line_of_its_own(field: str, hostile: str) -> None:
    text = calendar_file(event(**{field: hostile}))
    found = read(text)
    assert [one.name for one in found.walk()] == ["VCALENDAR", "VTIMEZONE", "STANDARD", "VEVENT"]
    assert not {"ATTENDEE", "X"} & {str(key) for one in found.walk() for key in one}
    if field != "link" and "\x00" not in hostile and "\r" not in hostile:
        known: dict[str, Any] = {"name": "SUMMARY", "location": "LOCATION", "description": "DESCRIPTION"}
        assert str(only(text)[known[field]]) == hostile
