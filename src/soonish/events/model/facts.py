"""What machines are told of events: the types of facts, and their data. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from soonish.delivery.model.facts import FactType, Json, Ladder, too_large
from soonish.events.model.changes import Changes, plain
from soonish.events.model.events import Event

CREATED: Final = "event.created"
UPDATED: Final = "event.updated"
CANCELLED: Final = "event.cancelled"
COMPLETED: Final = "event.completed"
REMINDER_DUE: Final = "event.reminder_due"
SUBSCRIBER_ADDED: Final = "event.subscriber_added"
SUBSCRIBER_REMOVED: Final = "event.subscriber_removed"

_NAMES: Final = (
    "id", "name", "state", "start_date", "end_date", "effective_end_date", "timezone", "location", "is_public",
    "sequence", "version",
)  # fmt: skip


def data_of(event: Event, **more: Any) -> Json:
    """The event as each of its facts has it, and what this one says besides."""
    return {"event": {name: plain(getattr(event, name)) for name in _NAMES}} | {
        name: plain(value) for name, value in more.items()
    }


def updated(event: Event, changes: Changes, *, told: bool, broadcast_id: int | None, note: str | None) -> Json:
    """Old and new by field; where that would be too much for a fact, only which fields."""
    quiet = {"changed": True}
    said: dict[str, Any] = {name: quiet if name == "description" else change for name, change in changes.items()}
    found = data_of(event, changes=said, told=told, broadcast_id=broadcast_id, note=note)
    return found if not too_large(found) else found | {"changes": dict.fromkeys(said, quiet)}


_Field: TypeAlias = tuple[Mapping[str, Any], Any]
"""The schema of a field, and a value for the example."""

_TEXT: Final = {"type": "string"}
_ID: Final = {"type": "integer"}
_MAYBE_ID: Final = {"type": ["integer", "null"]}
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_BOOL: Final = {"type": "boolean"}
_OBJECT: Final = {"type": "object"}
_EVENT: Final = {
    "id": 12, "name": "Garden party", "state": "scheduled", "start_date": "2026-12-04T18:00:00Z", "end_date": None,
    "effective_end_date": "2026-12-05T18:00:00Z", "timezone": "Europe/Berlin", "location": "Yard", "is_public": True,
    "sequence": 1, "version": 2,
}  # fmt: skip
_AT: Final = "2026-12-04T18:00:00Z"


def _types() -> Iterator[FactType]:
    yield _type(CREATED, organizer_id=(_MAYBE_ID, 7))
    changes = {"location": {"old": "Yard", "new": "Hall"}}
    yield _type(
        UPDATED,
        changes=(_OBJECT, changes), told=(_BOOL, True), broadcast_id=(_MAYBE_ID, 31), note=(_MAYBE_TEXT, "Rain."),
    )  # fmt: skip
    yield _type(CANCELLED, cancel_message=(_MAYBE_TEXT, "The yard is flooded."), cancelled_at=(_TEXT, _AT))
    yield _type(COMPLETED, completed_at=(_TEXT, _AT))
    yield _type(
        REMINDER_DUE, "short",
        offset_seconds=(_ID, 3600), moment=(_TEXT, "2026-12-04T17:00:00Z"), seconds_left=(_ID, 3600),
    )  # fmt: skip
    subscriber: dict[str, _Field] = {"subscription_id": (_ID, 88), "person_id": (_ID, 9)}
    yield _type(SUBSCRIBER_ADDED, **subscriber, source=(_TEXT, "api"))
    yield _type(SUBSCRIBER_REMOVED, **subscriber, removed_by=(_TEXT, "person"))


def _type(name: str, ladder: Ladder = "long", /, **fields: _Field) -> FactType:
    said = {"event": (_OBJECT, _EVENT), **fields}
    schema = {"type": "object", "properties": {key: one[0] for key, one in said.items()}, "required": list(said)}
    return FactType(name=name, ladder=ladder, schema=schema, example={key: one[1] for key, one in said.items()})


FACT_TYPES: Final = tuple(_types())


def seconds_left(event: Event, now: datetime) -> int:
    return int((event.start_date - now).total_seconds())
