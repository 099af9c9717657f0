"""When an event may begin and end. Pure: the moment is an argument."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from soonish.errors import FieldError

LATE_START: Final = timedelta(hours=1)  # what began this little ago may still be entered
MOST_AHEAD: Final = timedelta(days=3_653)
LONGEST: Final = timedelta(days=366)


def whole(at: datetime) -> datetime:
    """Without the fraction of its second."""
    return at.replace(microsecond=0)


def next_whole(at: datetime) -> datetime:
    """The first whole second that is not before."""
    return at if not at.microsecond else whole(at) + timedelta(seconds=1)


def complaints(
    now: datetime,
    start: datetime,
    end: datetime | None,
    effective_end: datetime,
    *,
    start_set: bool = True,
    end_set: bool = True,
) -> Iterator[FieldError]:
    """What is wrong with the times, named by the fields that were set: the others were fine before."""
    if start_set:
        yield from _of_start(now, start)
    if end is not None and (start_set or end_set):
        yield from _of_end(now, start, end, "end_date" if end_set else "start_date")
    elif effective_end <= now and now - LATE_START <= start:
        field = "start_date" if start_set else "end_date"
        yield FieldError(field, "in_past", "It would be over already; give an end that is ahead")


def _of_start(now: datetime, start: datetime) -> Iterator[FieldError]:
    if start < now - LATE_START:
        yield FieldError("start_date", "in_past", "This is past; an event may have begun an hour ago at most")
    if start > now + MOST_AHEAD:
        yield FieldError("start_date", "too_far", "This is more than 10 years ahead")


def _of_end(now: datetime, start: datetime, end: datetime, field: str) -> Iterator[FieldError]:
    if end <= start:
        yield FieldError(field, "end_before_start", "An event ends after it has begun; move the other one too")
    elif end <= now:
        yield FieldError(field, "in_past", "This is past; give an end that is ahead")
    elif end - start > LONGEST:
        yield FieldError(field, "too_far", "An event lasts 366 days at most")
