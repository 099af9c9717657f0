"""What is told to the subscribers of an event at once: a broadcast as it is kept, its figures, who got it. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from soonish.delivery.model.letters import Level

BroadcastKind: TypeAlias = Literal["updated", "cancelled", "announcement"]
BroadcastState: TypeAlias = Literal["scheduled", "queued", "telling", "told", "withdrawn"]
Status: TypeAlias = Literal["delivered", "failed", "unknown", "pending", "skipped", "no_targets"]

LEVELS: Final[Mapping[str, Level]] = {"updated": "warning", "cancelled": "critical"}
NO_TARGETS: Final = ("no_address", "no_match", "muted")
"""Reasons of rows that had nowhere to go."""
MOST_NAMED: Final = 10_000  # subscriptions of one announcement


class Broadcast(Struct, frozen=True, kw_only=True):
    """A row of `broadcast`."""

    id: int
    event_id: int
    kind: BroadcastKind
    notification_level: Level
    title: str
    body: str
    link: str | None
    subscription_ids: list[int] | None
    send_at: datetime
    created_by: str
    state: BroadcastState
    reason: str | None
    first_change_at: datetime | None
    telling_at: datetime | None
    told_at: datetime | None
    after_id: int
    total: int | None
    created_at: datetime


class Stats(Struct, frozen=True, kw_only=True):
    """Counted in subscriptions: one is delivered where at least one address was reached."""

    total: int
    delivered: int
    failed: int
    unknown: int
    pending: int
    skipped: int
    no_targets: int  # the part of the skipped that had nowhere to go


class BroadcastShown(Struct, frozen=True, kw_only=True):
    """A broadcast as the API shows it."""

    id: int
    event_id: int
    kind: BroadcastKind
    notification_level: Level
    title: str
    body: str
    link: str | None
    subscription_ids: list[int] | None
    send_at: datetime
    state: BroadcastState
    reason: str | None
    created_by: str
    created_at: datetime
    told_at: datetime | None


class BroadcastDetail(BroadcastShown, frozen=True, kw_only=True):
    """The same with what became of it."""

    stats: Stats


class Recipient(Struct, frozen=True, kw_only=True):
    """What became of a broadcast for one subscription."""

    subscription_id: int
    person_id: int
    status: Status
    reason: str | None
    tried: int
    delivered: int
    failed: int
    delivery_ids: Sequence[int]


class Preview(Struct, frozen=True, kw_only=True):
    """Whom an announcement would reach: so many subscriptions, by so many addresses; so many have none."""

    total: int
    targets: int
    no_targets: int


def broadcast_of(row: Mapping[str, Any]) -> Broadcast:
    return Broadcast(**{name: row[name] for name in Broadcast.__struct_fields__})


def shown(one: Broadcast) -> BroadcastShown:
    return BroadcastShown(**{name: getattr(one, name) for name in BroadcastShown.__struct_fields__})


def detail(one: Broadcast, stats: Stats) -> BroadcastDetail:
    return BroadcastDetail(**{name: getattr(one, name) for name in BroadcastShown.__struct_fields__}, stats=stats)


def recipient_of(row: Mapping[str, Any]) -> Recipient:
    return Recipient(**{name: row[name] for name in Recipient.__struct_fields__})
