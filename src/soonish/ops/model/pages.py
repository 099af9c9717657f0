"""What the pages show beside rows: steps for a newcomer, the addresses of filters, the story of one item. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from soonish.clock import show_instant
from soonish.ops.model.items import DueDetail, PastItem

STATE_TONES: Final = {"waiting": "quiet", "leased": "info", "retrying": "warn", "overdue": "warn", "paused": "warn"}
FATE_TONES: Final = {"done": "ok", "dropped": "quiet", "cancelled": "quiet", "expired": "warn", "dead": "bad"}
_REASONS: Final = {
    "budget": "its tries were used up",
    "late": "it was late, and of no use any more",
    "too_late": "it was too late to be of use",
    "workspace_closed": "its workspace was closed",
}
_ENDS: Final = {
    "done": "Done",
    "dropped": "Dropped",
    "cancelled": "Cancelled",
    "expired": "Expired before it had worked",
    "dead": "Died",
}


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A card on the page of a fresh installation: what to do, where, and the same as a line for a terminal."""

    title: str
    text: str
    link: str
    action: str
    curl: str | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """A line of an item's story; the last error, for one, has no time that is known."""

    at: datetime | None
    text: str
    tone: str = "quiet"
    note: str | None = None
    href: str | None = None


def url(path: str, filters: Mapping[str, Any]) -> str:
    """A page with those of its filters that are set."""
    chosen = {name: _text(value) for name, value in filters.items() if value not in (None, "")}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return show_instant(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def in_words(reason: str | None) -> str | None:
    """The reason of an end; those of handlers and of people are words already."""
    return _REASONS.get(reason, reason) if reason else None


def ahead(item: DueDetail | PastItem) -> list[Moment]:
    """What will happen to an item."""
    if isinstance(item, PastItem):
        return []
    found = [_next(item)]
    if item.expires_at:
        found.append(Moment(item.expires_at, "It expires, if it has not worked by then."))
    return found


def behind(item: DueDetail | PastItem) -> list[Moment]:
    """What happened to an item, in the order of time as far as it is known."""
    found = list(_end(item) if isinstance(item, PastItem) else _put(item))
    return sorted([*found, *_tries(item)], key=lambda moment: (moment.at is None, moment.at))


def _next(item: DueDetail) -> Moment:
    if item.state == "paused":
        return Moment(None, "It waits until its kind is resumed.", "warn", href="/due/pauses")
    if item.state == "leased":
        return Moment(item.lease_until, "It is being worked on; unless that ends before, it is due again.", "info")
    if item.state == "overdue":
        return Moment(item.wake_at, "It is due, and waits for a free worker.", "warn")
    tried = f"It is tried again, as try {item.tries + 1}." if item.last_error else "It happens."
    return Moment(item.wake_at, tried, STATE_TONES[item.state])


def _put(item: DueDetail) -> Iterator[Moment]:
    yield Moment(item.created_at, "It was put.")
    if item.wait_s <= 0 or item.first_at:
        yield Moment(item.due_at, "It was due.")


def _tries(item: DueDetail | PastItem) -> Iterator[Moment]:
    if item.first_at:
        yield Moment(item.first_at, "It was claimed for the first time.")
    if item.last_error:
        which = f"The last of {item.tries} tries" if item.tries > 1 else "The try"
        yield Moment(None, f"{which} failed.", "bad", item.last_error)


def _end(item: PastItem) -> Iterator[Moment]:
    yield Moment(item.due_at, "It was due.")
    why = f": {in_words(item.reason)}" if item.reason else ""
    yield Moment(item.finished_at, f"{_ENDS[item.fate]}{why}.", FATE_TONES[item.fate])
    if item.revived_at:
        yield Moment(item.revived_at, "It was let live again, as a new item.", "info")
