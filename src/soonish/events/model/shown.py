"""Events, subscriptions and reminders as the API shows them. Pure: rows and links come in."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from soonish.events.model.events import Event, ReminderEngine, ShowTimeIn, State
from soonish.events.model.subscriptions import RemovedBy, Source, Subscription

ReminderState: TypeAlias = Literal["planned", "pending", "sent", "failed", "unknown", "skipped", "missed", "past"]


class EventShown(Struct, frozen=True, kw_only=True):
    """An event."""

    id: int
    name: str
    description: str
    location: str
    link: str | None
    start_date: datetime
    end_date: datetime | None
    effective_end_date: datetime
    timezone: str
    show_time_in: ShowTimeIn
    is_public: bool
    public_url: str | None
    organizer_id: int | None
    reminder_offsets: list[int] | None
    effective_offsets: Sequence[int]
    state: State
    cancel_message: str | None
    workflow_id: str
    reminder_engine: ReminderEngine
    sequence: int
    version: int
    created_at: datetime
    updated_at: datetime
    published_at: datetime | None
    live_at: datetime | None
    completed_at: datetime | None
    cancelled_at: datetime | None
    closed_at: datetime | None


class EventDetail(EventShown, frozen=True, kw_only=True):
    """An event, and how many subscribers it has."""

    subscribers: int


class EventChanged(EventDetail, frozen=True, kw_only=True):
    """An event that was changed, and what its subscribers are told of it: nothing where this is null."""

    broadcast_id: int | None


class SubscriptionShown(Struct, frozen=True, kw_only=True):
    """Who wants to hear of an event, and how. Only those who may write see the link of the subscription's own page."""

    id: int
    event_id: int
    person_id: int
    state: Literal["active", "removed"]
    source: Source
    reminder_offsets: list[int] | None
    effective_offsets: Sequence[int]
    selectors: Sequence[dict[str, Any]] | None
    manage_url: str | None
    activations: int
    activated_at: datetime
    removed_at: datetime | None
    removed_by: RemovedBy | None
    version: int
    created_at: datetime
    updated_at: datetime


class OneReminder(Struct, frozen=True, kw_only=True):
    """A reminder of one subscription."""

    offset_seconds: int
    moment: datetime
    state: ReminderState
    reason: str | None


class SubscriptionDetail(SubscriptionShown, frozen=True, kw_only=True):
    """A subscription, and how each of its reminders stands."""

    reminders: Sequence[OneReminder]


class Reminder(Struct, frozen=True, kw_only=True):
    """An offset of an event, and how many subscriptions are reminded then."""

    offset_seconds: int
    moment: datetime
    audience: int
    state: Literal["planned", "past"]


class Snooze(Struct, frozen=True, kw_only=True):
    """A reminder that somebody asked for once more."""

    id: int
    subscription_id: int
    at: datetime
    state: Literal["planned", "told", "dropped"]
    reason: str | None
    created_at: datetime


def workflow_id(event_id: int) -> str:
    return f"event-{event_id}"


def event_fields(event: Event, effective: Sequence[int], public_url: str | None) -> dict[str, Any]:
    """What an event shows of itself."""
    made = {"effective_offsets": effective, "public_url": public_url, "workflow_id": workflow_id(event.id)}
    return made | {name: getattr(event, name) for name in EventShown.__struct_fields__ if name not in made}


def subscription_fields(one: Subscription, effective: Sequence[int], manage_url: str | None) -> dict[str, Any]:
    """What a subscription shows of itself."""
    made = {"effective_offsets": effective, "manage_url": manage_url}
    return made | {name: getattr(one, name) for name in SubscriptionShown.__struct_fields__ if name not in made}
