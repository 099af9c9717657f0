"""Rows of people and addresses as values, and values as rows. Knows the columns, no rule."""

from collections.abc import Mapping, Sequence
from datetime import time
from pathlib import Path
from typing import Any, Final

from soonish.db.pool import Tx
from soonish.db.sql import load
from soonish.people.model.address import Address
from soonish.people.model.person import FIELDS, Person, Place, QuietHours

SQL = load(str(Path(__file__).parent))

_PLAIN: Final = tuple(name for name in Person.__struct_fields__ if name != "quiet_hours")
_QUIET: Final = ("quiet_start", "quiet_end", "quiet_critical")
_NO_QUIET: Final[tuple[time | None, time | None, str]] = (None, None, "send")


async def place_of(tx: Tx, workspace_id: int) -> Place:
    """What holds in the workspace where nothing else is said."""
    return Place(**await SQL.place.row(tx, id=workspace_id))


def person_of(row: Any) -> Person:
    times = row["quiet_start"], row["quiet_end"]
    hours = QuietHours.of(*times, row["quiet_critical"]) if times[0] is not None else None
    return Person(**{name: row[name] for name in _PLAIN}, quiet_hours=hours)


def address_of(row: Any) -> Address:
    return Address(**{name: row[name] for name in Address.__struct_fields__})


def columns(people: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of many people, a list for each column."""
    found: dict[str, Any] = {name: [one[name] for one in people] for name in FIELDS if name != "quiet_hours"}
    quiet = [_quiet(one["quiet_hours"]) for one in people]
    return found | {name: [one[n] for one in quiet] for n, name in enumerate(_QUIET)}


def _quiet(hours: QuietHours | None) -> tuple[time | None, time | None, str]:
    return (*hours.times, hours.critical) if hours else _NO_QUIET
