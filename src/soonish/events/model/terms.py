"""What the operator decided about events: the settings of this slice as values. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from soonish.events.model.events import ReminderEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Each as its setting is called, without the `events_`."""

    reminder_engine: ReminderEngine
    reminder_offsets: Sequence[int]
    default_duration: timedelta
    coalesce: timedelta
    reminder_late: timedelta
    merge_after: timedelta
    reminder_hold: str
    footer: str
    max_notifications: int
    resend: timedelta
    round: timedelta
    watch: timedelta
    watch_grace: timedelta
    join_ttl: timedelta
    join_pause: timedelta
    join_per_mailbox_day: int
    join_per_event_hour: int
