"""Leads: numbers of seconds before a start, and the moments that they stand for. Pure; the time is an argument."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

AT_THE_START: Final = timedelta(minutes=5)
"""For how long a reminder at the very start is worth telling."""


def in_order(leads: Iterable[int]) -> list[int]:
    """Each once, the largest first: in the order of their moments."""
    return sorted(set(leads), reverse=True)


def moment(start: datetime, lead: int) -> datetime:
    return start - timedelta(seconds=lead)


def ends(start: datetime, lead: int) -> datetime:
    """From when on it is of no use: nobody is reminded of what has begun."""
    return start if lead else start + AT_THE_START


def is_over(start: datetime, lead: int, now: datetime) -> bool:
    """Whether it is of no use any more; at the very start it still is, for a while."""
    return now >= start if lead else now > ends(start, lead)
