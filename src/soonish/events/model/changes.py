"""What changed of an event, which of it subscribers see, and what is left of many changes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from soonish.clock import show_instant
from soonish.events.model.events import Event

Changes: TypeAlias = dict[str, dict[str, Any]]
"""Old and new by field, as JSON has them."""

VISIBLE: Final = ("name", "start_date", "end_date", "timezone", "location", "link", "description")
HEARD: Final = ("name", "start_date", "end_date", "timezone", "location", "link")
"""What the workflow of an event is told of them."""
MOST_NOTES: Final = 15  # of one message


class EventChange(Struct, frozen=True, kw_only=True):
    """A change that subscribers see: old and new by field, and whether they were told."""

    id: int
    version: int
    at: datetime
    actor: str
    changes: dict[str, Any]
    note: str | None
    told: bool
    broadcast_id: int | None


@dataclass(frozen=True, slots=True)
class Gathered:
    """What is left of several changes: the oldest value and the present one of each field, and all notes in order."""

    changes: Changes
    notes: Sequence[str]


def change_of(row: Mapping[str, Any]) -> EventChange:
    values = {name: row[name] for name in EventChange.__struct_fields__}
    return EventChange(**values | {"changes": msgspec.json.decode(row["changes"])})


def differing(event: Event, wish: Mapping[str, Any]) -> Changes:
    """The fields of the wish that are not so already."""
    return {
        name: {"old": plain(old), "new": plain(value)}
        for name, value in wish.items()
        if (old := getattr(event, name)) != value
    }


def visible(changes: Changes) -> Changes:
    return {name: changes[name] for name in VISIBLE if name in changes}


def heard(changes: Changes) -> dict[str, Any]:
    """The same as the workflow of the event is told it."""
    found = {name: changes[name]["new"] for name in HEARD if name in changes}
    more = (("description", "description_updated"), ("reminder_offsets", "reminders_changed"))
    return found | {word: True for name, word in more if name in changes}


def gather(rows: Iterable[Mapping[str, Any]], event: Event) -> Gathered:
    """One message for several changes, the oldest first; what is as it was before them is left out."""
    oldest: dict[str, Any] = {}
    notes: list[str] = []
    for row in rows:
        for name, change in msgspec.json.decode(row["changes"]).items():
            oldest.setdefault(name, change["old"])
        notes += [row["note"]] if row["note"] else []
    present = {name: plain(getattr(event, name)) for name in oldest}
    changes: Changes = {name: {"old": oldest[name], "new": present[name]} for name in VISIBLE if name in oldest}
    left = {name: change for name, change in changes.items() if change["old"] != change["new"]}
    return Gathered(left, notes[:MOST_NOTES])


def plain(value: Any) -> Any:
    """As JSON has it."""
    return show_instant(value) if isinstance(value, datetime) else value
