"""Who wants to hear of an event, and how: a subscription as it is kept. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

Source: TypeAlias = Literal["api", "public"]
RemovedBy: TypeAlias = Literal["organizer", "person", "one_click", "erased"]


class Subscription(Struct, frozen=True, kw_only=True):
    """A row of `subscription`."""

    id: int
    event_id: int
    person_id: int
    state: Literal["active", "removed"]
    source: Source
    reminder_offsets: list[int] | None
    selectors: Sequence[Mapping[str, Any]] | None
    activations: int
    activated_at: datetime
    asked_at: datetime
    removed_at: datetime | None
    removed_by: RemovedBy | None
    version: int
    created_at: datetime
    updated_at: datetime

    @property
    def is_active(self) -> bool:
        return self.state == "active"


def subscription_of(row: Mapping[str, Any]) -> Subscription:
    chosen = row["selectors"]
    values = {name: row[name] for name in Subscription.__struct_fields__ if name != "selectors"}
    return Subscription(**values, selectors=None if chosen is None else msgspec.json.decode(chosen))
