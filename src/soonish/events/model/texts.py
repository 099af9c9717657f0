"""What people are told of an event: title and body of each message, in plain words. Pure; the moment comes in.

Knows no audience and no channel. What others wrote (names, places, notes) is taken as it is: one who makes HTML, a
header or a calendar file of it escapes it there.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from soonish import clock
from soonish.events.model.events import Event

TITLE_LENGTH: Final = 200
CLOSE: Final = 30  # seconds within which a reminder counts as on time
DAY: Final = 86_400
HOUR: Final = 3_600

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNITS: Final = ((DAY, "day"), (HOUR, "hour"), (60, "minute"), (1, "second"))
_NONE: Final = "none"


class Text(NamedTuple):
    """Title and body."""

    title: str
    body: str


def created(event: Event) -> Text:
    """For the organizer."""
    return _text(f"Event Created: {event.name}", "Your event has been created and is now active.")


def updated(event: Event, changes: Mapping[str, Mapping[str, Any]], notes: Iterable[str | None] = ()) -> Text:
    """What is different, a line a field, and what the organizer said to it. `changes` has old and new by field."""
    lines = [f"• {_LINES[name](event, changes[name])}" for name in _LINES if name in changes]
    body = "\n".join(["Event details have been updated:", *lines])
    return _text(f"Event Update: {event.name}", _with(body, *notes))


def cancelled(event: Event, message: str | None = None) -> Text:
    """The last that subscribers hear of it."""
    body = "This event has been cancelled by the organizer."
    return _text(f"Event Cancelled: {event.name}", _with(body, message))


def reminder(event: Event, offset: int, now: datetime) -> Text:
    """At its moment in the words of its lead; later in those of the time that is really left."""
    gap = (event.start_date - now) // timedelta(seconds=1)
    on_time = abs((event.start_date - now).total_seconds() - offset) <= CLOSE
    title = _TITLES.get(offset, _PLAIN) if on_time else _PLAIN
    words = lead(offset) if on_time else left(gap)
    return _text(title.format(name=event.name), _with(f"{event.name} starts {words}.", _where(event)))


def snoozed(event: Event, now: datetime) -> Text:
    """The reminder that somebody asked for again."""
    gap = (event.start_date - now) // timedelta(seconds=1)
    said = f"{event.name} has started." if now >= event.start_date else f"{event.name} starts {left(gap)}."
    return _text(f"Reminder: {event.name}", _with(said, _where(event)))


def welcome(event: Event) -> Text:
    """For who has subscribed."""
    lines = [f"Time: {moment(event, event.start_date)}", *_place(event)]
    return _text(f"Subscribed: {event.name}", "\n".join(lines))


def joining(event: Event, hours: str) -> Text:
    """For a mailbox whose owner has yet to agree; the link is put in when it is sent."""
    body = (
        f"Somebody wants to subscribe this mailbox to {event.name}. If it was you, open this page and press the button:"
        f"\n\n{{{{join_url}}}}\n\nThe link works for {hours}. If it was not you, do nothing: no more mail will come."
    )
    return _text(f"Please confirm: {event.name}", body)


def joined_already(event: Event) -> Text:
    """For a mailbox that is subscribed: the way to its own page, in place of the link to confirm."""
    body = (
        f"This mailbox is subscribed to {event.name} already. Here its owner changes reminders, or leaves:"
        "\n\n{{manage_url}}\n\nIf you did not ask for this, do nothing: nothing has changed."
    )
    return _text(f"You are subscribed: {event.name}", body)


def moment(event: Event, at: datetime) -> str:
    """`Fri 4 Dec 2026, 19:00 CET (UTC+01:00)` where the event is; or what is filled in where its reader lives."""
    if event.show_time_in == "recipient":
        return f"{{{{local:{clock.show_instant(at)}}}}}"
    return local(at, event.timezone)


def local(at: datetime, timezone: str) -> str:
    """The wall clock of a zone, with its name there if it has one, and how far it is from UTC."""
    there = at.astimezone(clock.zone(timezone))
    name = there.tzname() or ""
    named = f" {name}" if name[:1].isalpha() else ""  # some zones have a number for a name, which follows anyway
    day = f"{_DAYS[there.weekday()]} {there.day} {_MONTHS[there.month - 1]} {there.year}"
    seconds = f":{there:%S}" if there.second else ""
    return f"{day}, {there:%H:%M}{seconds}{named} (UTC{_distance(there)})"


def lead(seconds: int) -> str:
    """How a lead is called: `tomorrow`, `in 1 hour 30 minutes`, `now`."""
    if seconds == DAY:
        return "tomorrow"
    return f"in {span(seconds)}" if seconds > 0 else "now"


def left(seconds: int) -> str:
    """The real time left: in whole minutes, below one in seconds."""
    whole = seconds if seconds < 60 else seconds // 60 * 60
    return f"in {span(whole)}" if whole > 0 else "now"


def span(seconds: int) -> str:
    """The two largest units that are not zero: `1 day 1 hour`, `45 seconds`."""
    parts = []
    for size, word in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {word}" if count == 1 else f"{count} {word}s")
    return " ".join(parts[:2]) or "0 seconds"


_PLAIN: Final = "Reminder: {name}"
_TITLES: Final = {DAY: "Reminder: {name} is tomorrow", HOUR: "Starting Soon: {name}"}


def _text(title: str, body: str) -> Text:
    return Text(title if len(title) <= TITLE_LENGTH else f"{title[: TITLE_LENGTH - 1]}…", body)


def _with(first: str, *more: str | None) -> str:
    """Paragraphs, those that are empty left out."""
    return "\n\n".join([first, *(part for part in more if part)])


def _where(event: Event) -> str:
    return "\n".join([*_place(event), f"Time: {moment(event, event.start_date)}"])


def _place(event: Event) -> list[str]:
    return [f"Location: {event.location}"] if event.location else []


def _distance(there: datetime) -> str:
    """From UTC: `+01:00`."""
    minutes = round((there.utcoffset() or timedelta()).total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _at(event: Event, value: Any) -> str:
    if value is None:
        return _NONE
    return moment(event, value if isinstance(value, datetime) else clock.parse_instant(value))


def _was(event: Event, change: Mapping[str, Any]) -> str:
    return f"{_at(event, change['new'])} (was {_at(event, change['old'])})"


# What is said of each field that subscribers see, in this order.
_LINES: Final[dict[str, Callable[[Event, Mapping[str, Any]], str]]] = {
    "name": lambda _, change: f"Name: {change['new']}",
    "start_date": lambda event, change: f"Start time: {_was(event, change)}",
    "end_date": lambda event, change: f"End time: {_was(event, change)}",
    "timezone": lambda _, change: f"Time zone: {change['new']}",
    "location": lambda _, change: f"Location: {change['new'] or _NONE} (was {change['old'] or _NONE})",
    "link": lambda _, change: f"Link: {change['new'] or _NONE}",
    "description": lambda *_: "Description updated",
}
