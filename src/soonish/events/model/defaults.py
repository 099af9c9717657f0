"""What holds for the events of a workspace where they say nothing themselves. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from soonish.events.model.terms import Terms


class EventDefaults(Struct, frozen=True, kw_only=True):
    """What a workspace decided; null = as the operator did."""

    reminder_offsets: list[int] | None
    default_duration_s: int | None
    coalesce_s: int | None
    version: int
    updated_at: datetime | None  # never, where nobody decided anything


class Defaults(Struct, frozen=True, kw_only=True):
    """What holds, whoever decided it."""

    reminder_offsets: Sequence[int]
    duration: timedelta
    coalesce: timedelta


UNSAID: Final = EventDefaults(
    reminder_offsets=None, default_duration_s=None, coalesce_s=None, version=1, updated_at=None
)


def defaults_of(row: Mapping[str, Any]) -> EventDefaults:
    return EventDefaults(**{name: row[name] for name in EventDefaults.__struct_fields__})


def holding(own: EventDefaults | None, terms: Terms) -> Defaults:
    offsets, duration_s, coalesce_s = (
        (None, None, None) if own is None else (own.reminder_offsets, own.default_duration_s, own.coalesce_s)
    )
    return Defaults(
        reminder_offsets=list(terms.reminder_offsets) if offsets is None else offsets,
        duration=terms.default_duration if duration_s is None else timedelta(seconds=duration_s),
        coalesce=terms.coalesce if coalesce_s is None else timedelta(seconds=coalesce_s),
    )
