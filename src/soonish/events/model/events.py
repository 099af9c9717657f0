"""An event as it is kept, and the steps of its life. Pure: the time is an argument, rows come in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from msgspec import Struct

State: TypeAlias = Literal["draft", "scheduled", "live", "completed", "cancelled"]
ReminderEngine: TypeAlias = Literal["due", "temporal"]
ShowTimeIn: TypeAlias = Literal["event", "recipient"]

ACTIVE: Final = ("scheduled", "live")


class Event(Struct, frozen=True, kw_only=True):
    """A row of `event`, and the database's clock at the moment it was read."""

    id: int
    workspace_id: int
    organizer_id: int | None
    name: str
    description: str
    location: str
    link: str | None
    timezone: str
    start_date: datetime
    end_date: datetime | None
    effective_end_date: datetime
    is_public: bool
    reminder_offsets: list[int] | None
    state: State
    show_time_in: ShowTimeIn
    reminder_engine: ReminderEngine
    uid: UUID
    sequence: int
    link_generation: int
    cancel_message: str | None
    planned_at: datetime
    published_at: datetime | None
    live_at: datetime | None
    completed_at: datetime | None
    cancelled_at: datetime | None
    closed_at: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime
    read_at: datetime

    @property
    def is_draft(self) -> bool:
        return self.state == "draft"

    @property
    def is_active(self) -> bool:
        """Scheduled or live, whatever the clock says of its end."""
        return self.state in ACTIVE

    @property
    def is_open(self) -> bool:
        """Scheduled or live with the effective end ahead: what may still change and be told."""
        return self.is_active and self.effective_end_date > self.read_at


def event_of(row: Mapping[str, Any]) -> Event:
    return Event(**{name: row[name] for name in Event.__struct_fields__})
