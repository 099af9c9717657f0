"""What the workflow of an event hears and remembers: signals become work, and work goes on in the next run.

Ids, counts and public texts; never a list of people. Pure: whoever signals by hand may write nonsense, and is then
understood as far as it goes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from soonish.events.model.events import Event

START: Final = "start"
ADDED: Final = "participant_added"
REMOVED: Final = "participant_removed"
UPDATED: Final = "event_updated"
ANNOUNCED: Final = "send_manual_notification"
CANCELLED: Final = "cancel_event"

# What no row stands behind: the first steps of a run that is not resumed, and what somebody signalled by hand.
BEGIN: Final = "begin"
LOOK: Final = "look"
ANNOUNCE_BY_HAND: Final = "announce_by_hand"
CANCEL_BY_HAND: Final = "cancel_by_hand"
_BY_HAND: Final = {ANNOUNCED: ANNOUNCE_BY_HAND, CANCELLED: CANCEL_BY_HAND}

DATA: Final = ("name", "start_date", "end_date", "location", "timezone", "link")


@dataclass(frozen=True, slots=True)
class Work:
    """One thing to do: a signal as it was understood. Without `seq` somebody signalled by hand."""

    name: str
    seq: int | None = None
    broadcast_id: int | None = None
    subscription_id: int | None = None
    moments: bool = False  # whether reminders come at other moments now
    mark: str | None = None  # of what was asked by hand, so that it is written once
    asked: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resume:
    """What a run leaves to the next one."""

    queue: list[Work] = field(default_factory=list)
    last_seq: int = 0
    cancel: Work | None = None
    completed: bool = False
    cursor: int = 0
    failed_pages: list[int] = field(default_factory=list)


def work_of(name: str, payload: Mapping[str, Any], mark: str) -> Work:
    """A signal as work; `mark` names it where nobody numbered it."""
    seq = _id(payload.get("seq"))
    if seq is None:
        return Work(_BY_HAND[name], mark=mark, asked=dict(payload)) if name in _BY_HAND else Work(LOOK)
    return Work(
        name,
        seq,
        broadcast_id=_id(payload.get("broadcast_id")),
        subscription_id=_id(payload.get("subscription_id")),
        moments=bool(payload.get("reminders_changed") or "start_date" in payload),
    )


def changed(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What a signal says of the event's data."""
    return {name: payload[name] for name in DATA if name in payload}


def together(queue: Sequence[Work], rows: Sequence[Work]) -> list[Work]:
    """Both, each once, in the order in which they were asked for; what came by hand is last."""
    numbered = {work.seq: work for work in (*rows, *queue) if work.seq is not None}
    return [numbered[seq] for seq in sorted(numbered)] + [work for work in queue if work.seq is None]


def event_data(event: Event) -> dict[str, Any]:
    """What a workflow is told of its event when it starts."""
    return {
        "name": event.name,
        "start_date": event.start_date.isoformat(),
        "end_date": event.end_date.isoformat() if event.end_date else None,
        "location": event.location,
        "timezone": event.timezone,
        "effective_end_date": event.effective_end_date.isoformat(),
        "version": event.version,
    }


def end_of(data: Mapping[str, Any]) -> datetime | None:
    """When the event ends, as far as its data say."""
    try:
        end = datetime.fromisoformat(data["effective_end_date"])
    except (KeyError, TypeError, ValueError):
        return None
    return end if end.tzinfo else None


def schedule_id(event_id: int, subscription_id: int, offset: int) -> str:
    return f"event-{event_id}-sub-{subscription_id}-reminder-{offset}s"


def _id(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63 else None
