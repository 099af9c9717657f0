"""The due items of events: the names of their kinds, their keys, and the causes of what is told. Pure."""

from datetime import datetime
from typing import Final

SIGNAL: Final = "events.signal"
REMINDER: Final = "events.reminder"
SNOOZE: Final = "events.snooze"
ANNOUNCE: Final = "events.announce"
LIVE: Final = "events.live"
WATCH: Final = "events.watch"
JOIN: Final = "events.join"
FORGET: Final = "events.forget"
REPLAN: Final = "events.replan"


def reminder_key(event_id: int, offset: int) -> str:
    return f"{event_id}/{offset}"


def subject(event_id: int) -> str:
    """What the facts of an event are about."""
    return f"event/{event_id}"


def cause(event_id: int, *parts: int | str) -> str:
    """Of what people are told: `event/12/broadcast/31`."""
    return "/".join(["event", str(event_id), *map(str, parts)])


def fact_cause(event_id: int, *parts: int | str) -> str:
    """Of what machines are told: `event.fact/12/created`."""
    return "/".join(["event.fact", str(event_id), *map(str, parts)])


def reminder_cause(event_id: int, offset: int, start: datetime) -> str:
    """One a start: an event that moves reminds anew."""
    return cause(event_id, "reminder", offset, int(start.timestamp()))


def broadcast_cause(event_id: int, broadcast_id: int) -> str:
    return cause(event_id, "broadcast", broadcast_id)
