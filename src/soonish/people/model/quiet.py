"""Quiet hours: whether it is quiet for somebody now, and until when. Pure; `now` is an argument."""

from datetime import UTC, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from soonish import clock

_SECOND: Final = timedelta(seconds=1)


def quiet_until(start: time | None, end: time | None, timezone: str, now: datetime) -> datetime | None:
    """When the quiet hours end that `now` lies in, in UTC; None where it is not quiet.

    They go by the wall clock of the zone, across midnight where they start after they end. Where the clock jumps over
    their end, it is the jump; where it shows it twice, the first time.
    """
    if start is None or end is None:
        return None
    zone = clock.zone(timezone)
    there = now.astimezone(zone)
    wall = there.time()
    if not (start <= wall < end if start < end else wall >= start or wall < end):
        return None
    day = there.date() if wall < end else there.date() + timedelta(days=1)
    ends = first_instant(datetime.combine(day, end), zone)
    # In the hour that comes twice the wall clock says "quiet" again, after the quiet hours have ended.
    return ends if ends > now else None


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant at which a clock of the zone shows this or a later time, in UTC."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == wall:
        return first
    early, late = wall.replace(tzinfo=zone, fold=1).astimezone(UTC), first
    while late - early > _SECOND:
        middle = early + (late - early) // (2 * _SECOND) * _SECOND
        if middle.astimezone(zone).replace(tzinfo=None) < wall:
            early = middle
        else:
            late = middle
    return late
