"""Instants, spans and zones: read, shown, refused."""

import zoneinfo
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soonish import clock
from soonish.errors import Invalid

instants = st.datetimes(
    datetime(2, 1, 1),
    datetime(9998, 1, 1),
    timezones=st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m))),
)


@given(instants)
def test_an_instant_survives_being_shown_and_read(at: datetime) -> None:
    assert clock.parse_instant(clock.show_instant(at)) == at


@given(instants)
def test_an_instant_is_read_with_the_offset_that_it_has(at: datetime) -> None:
    assert clock.parse_instant(at.isoformat()) == at


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2026, 12, 1, 18, tzinfo=UTC), "2026-12-01T18:00:00Z"),
        (datetime(2026, 12, 1, 18, 0, 0, 4000, tzinfo=UTC), "2026-12-01T18:00:00.004000Z"),
        (datetime(2026, 12, 1, 18, tzinfo=timezone(timedelta(hours=2))), "2026-12-01T16:00:00Z"),
    ],
)
def test_an_instant_is_shown_in_utc_with_microseconds_only_where_there_are_any(at: datetime, text: str) -> None:
    assert clock.show_instant(at) == text


def test_an_instant_may_be_written_with_small_letters_a_space_and_many_digits() -> None:
    assert clock.parse_instant("2026-12-01 18:00:00.1234567z") == datetime(2026, 12, 1, 18, 0, 0, 123456, UTC)


def test_an_instant_without_an_offset_is_refused_with_a_code_of_its_own() -> None:
    with pytest.raises(Invalid, match="offset") as refused:
        clock.parse_instant("2026-12-01T18:00:00")
    assert refused.value.code == "naive_time"


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-12-01", "2026-12-01T18:00Z", "2026-13-01T18:00:00Z", "2026-12-01T18:00:60Z",
     "0001-01-01T00:00:00+05:00", "2026-W01-1T00:00:00Z", "20261201T180000Z", "2026-12-01T18:00:00Z\n",
     "٢٠٢٦-12-01T18:00:00Z"],
)  # fmt: skip
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="no instant") as refused:
        clock.parse_instant(text)
    assert refused.value.code == "type"


def test_a_naive_instant_is_never_shown() -> None:
    with pytest.raises(ValueError, match="offset"):
        clock.show_instant(datetime(2026, 1, 1))


def test_now_is_in_utc() -> None:
    assert clock.utc_now().tzinfo is UTC


@pytest.mark.parametrize("name", ["Europe/Berlin", "Asia/Calcutta", "US/Pacific", "UTC", "Etc/GMT+3"])
def test_zones_and_aliases_keep_the_name_that_was_given(name: str) -> None:
    assert clock.zone(name).key == name


@pytest.mark.parametrize(
    "name",
    [
        "europe/berlin",
        "Mars/Base",
        "localtime",
        "Factory",
        "posixrules",
        "",
        "../etc/passwd",
        "Europe",
        "Europe/Berlin ",
    ],
)
def test_what_is_not_on_the_map_is_refused(name: str) -> None:
    with pytest.raises(clock.UnknownZone) as refused:
        clock.zone(name)
    assert refused.value.code == "unknown_zone"


def test_the_zones_of_the_host_are_never_asked() -> None:
    assert zoneinfo.TZPATH == ()
    assert clock.zones() == zoneinfo.available_timezones() - {"Factory"}


@given(st.integers(0, 10**12))
def test_a_span_survives_being_shown_and_read(milliseconds: int) -> None:
    span = timedelta(milliseconds=milliseconds)
    assert clock.parse_span(clock.show_span(span)) == span


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=1500), "1500ms"),
        (timedelta(seconds=90), "90s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(hours=36), "36h"),
        (timedelta(days=400), "400d"),
    ],
)
def test_a_span_is_shown_in_the_greatest_unit_that_leaves_no_rest(span: timedelta, text: str) -> None:
    assert clock.show_span(span) == text


@pytest.mark.parametrize("text", ["", "5", "m", "-5m", "1.5h", "5 m", "5M", "1h30m", "999999999999d", "٣s"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="no span"):
        clock.parse_span(text)
