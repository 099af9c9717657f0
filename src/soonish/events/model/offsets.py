"""Which reminders a subscription gets, and how each stands. Pure: the moment is an argument."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from soonish.events.model.events import Event
from soonish.events.model.shown import OneReminder, ReminderState
from soonish.events.model.subscriptions import Subscription
from soonish.reminders.leads import is_over, moment

MOST: Final = 20  # offsets of an event or of a subscription
MOST_OF_EVENT: Final = 500  # different ones of all subscriptions of an event
LARGEST: Final = 31_622_400


def inherited(event: Event, default: Sequence[int]) -> Sequence[int]:
    """What holds for subscriptions that say nothing."""
    return default if event.reminder_offsets is None else event.reminder_offsets


def effective(subscription: Subscription, event: Event, default: Sequence[int]) -> Sequence[int]:
    """What a subscription wants; none at all is a wish too."""
    own = subscription.reminder_offsets
    return inherited(event, default) if own is None else own


def source(subscription: Subscription, event: Event) -> str:
    """Whose wish it is."""
    if subscription.reminder_offsets is not None:
        return "the subscription's own"
    return "the event's" if event.reminder_offsets is not None else "the workspace's default"


def since(subscription: Subscription, event: Event) -> datetime:
    """What was past then is never sent."""
    return max(subscription.asked_at, event.planned_at)


def reminders(
    subscription: Subscription, event: Event, default: Sequence[int], ledger: Mapping[int, Any], late: timedelta
) -> list[OneReminder]:
    """How each reminder of a subscription stands; `ledger` has state and reason of what was told, by offset."""
    return [
        _reminder(offset, subscription, event, ledger.get(offset), late)
        for offset in effective(subscription, event, default)
    ]


def _reminder(offset: int, subscription: Subscription, event: Event, told: Any, late: timedelta) -> OneReminder:
    at = moment(event.start_date, offset)
    if told is not None:
        return OneReminder(offset_seconds=offset, moment=at, state=told["state"], reason=told["reason"])
    return OneReminder(
        offset_seconds=offset, moment=at, state=_untold(offset, at, subscription, event, late), reason=None
    )


def _untold(offset: int, at: datetime, subscription: Subscription, event: Event, late: timedelta) -> ReminderState:
    if at < since(subscription, event) or not subscription.is_active or not (event.is_active or event.is_draft):
        return "past"
    may_come = at + late > event.read_at and not is_over(event.start_date, offset, event.read_at)
    return "planned" if may_come else "missed"
