"""Quiet hours go by the wall clock, also where a clock jumps."""

from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from soonish.people.model.quiet import first_instant, quiet_until

BERLIN = "Europe/Berlin"
NIGHT = (time(22), time(7))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "zone", "now", "until"),
    [
        (NIGHT, BERLIN, "2026-12-01 20:59:59", None),
        (NIGHT, BERLIN, "2026-12-01 21:00", "2026-12-02 06:00"),
        (NIGHT, BERLIN, "2026-12-02 05:59:59", "2026-12-02 06:00"),
        (NIGHT, BERLIN, "2026-12-02 06:00", None),
        ((time(13), time(14, 30)), BERLIN, "2026-12-01 12:00", "2026-12-01 13:30"),
        ((time(13), time(14, 30)), BERLIN, "2026-12-01 13:30", None),
        ((time(13), time(14, 30)), "Asia/Kathmandu", "2026-12-01 08:00", "2026-12-01 08:45"),
        ((time(0), time(6)), BERLIN, "2026-12-01 23:00", "2026-12-02 05:00"),
        (NIGHT, "Asia/Tokyo", "2026-12-31 13:30", "2026-12-31 22:00"),
    ],
)
def test_it_is_quiet_from_start_to_end_by_the_clock_on_the_wall(
    hours: tuple[time, time], zone: str, now: str, until: str | None
) -> None:
    assert quiet_until(*hours, zone, at(now)) == (at(until) if until else None)


def test_without_hours_it_is_never_quiet() -> None:
    assert quiet_until(None, None, BERLIN, at("2026-12-01 23:00")) is None


def test_an_end_that_the_clock_jumps_over_is_the_jump() -> None:
    """In Berlin 02:00 is followed by 03:00 on 29 March 2026, at 01:00 UTC."""
    assert quiet_until(time(22), time(2, 30), BERLIN, at("2026-03-29 00:30")) == at("2026-03-29 01:00")
    assert quiet_until(time(22), time(2, 30), BERLIN, at("2026-03-29 01:00")) is None


def test_an_end_that_the_clock_shows_twice_is_the_first() -> None:
    """In Berlin 02:00 to 03:00 comes twice on 25 October 2026, from 00:00 and from 01:00 UTC."""
    assert quiet_until(time(22), time(2, 30), BERLIN, at("2026-10-25 00:15")) == at("2026-10-25 00:30")
    assert quiet_until(time(22), time(2, 30), BERLIN, at("2026-10-25 00:30")) is None
    assert quiet_until(time(22), time(2, 30), BERLIN, at("2026-10-25 01:15")) is None, "it ended, though it is 02:15"


def test_a_day_that_a_country_left_out_ends_where_it_would_have_begun() -> None:
    """Samoa had no 30 December 2011."""
    apia = ZoneInfo("Pacific/Apia")
    assert first_instant(datetime(2011, 12, 30, 7), apia) == at("2011-12-30 10:00")
    assert quiet_until(*NIGHT, "Pacific/Apia", at("2011-12-30 09:00")) == at("2011-12-30 10:00")


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        (BERLIN, "2026-03-28"),
        (BERLIN, "2026-10-24"),
        ("America/New_York", "2026-03-07"),
        ("America/New_York", "2026-10-31"),
        ("Australia/Lord_Howe", "2026-04-04"),
        ("Australia/Lord_Howe", "2026-10-03"),
        ("Africa/Casablanca", "2026-02-14"),
        ("Asia/Beirut", "2026-03-28"),
    ],
)
@pytest.mark.parametrize("hours", [NIGHT, (time(1, 15), time(2, 15)), (time(23, 30), time(0, 15)), (time(2), time(3))])
def test_quiet_never_ends_early_and_lasts_as_long_as_the_wall_says(
    zone: str, day: str, hours: tuple[time, time]
) -> None:
    """Minute by minute over three days: the end lies ahead, does not move back, and nothing is quiet at it."""
    start = at(f"{day} 00:00")
    moments = [start + timedelta(minutes=n) for n in range(3 * 24 * 60)]
    ends = [(now, quiet_until(*hours, zone, now)) for now in moments]
    for now, end in ends:
        if end is not None:
            assert now < end <= now + timedelta(hours=26)
            assert quiet_until(*hours, zone, end) is None
            assert end.astimezone(ZoneInfo(zone)).replace(tzinfo=None).time() >= hours[1] or hours[1] > hours[0]
    known = [end for _, end in ends if end is not None]
    assert all(first <= second for first, second in pairwise(known))
