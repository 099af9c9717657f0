"""Tell subscribers that an event is near: all who want one offset, page by page, or one of them.

Both engines end here. Whatever fires twice tells once: the cause names event, offset and start, and the ledger keeps
one row a person and address.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from soonish.db.pool import Tx
from soonish.delivery.model.letters import Message, Recipient
from soonish.delivery.outbox import Fact
from soonish.errors import NotFound
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import SQL, find_subscription, lock_event
from soonish.events.model import facts, offsets, texts
from soonish.events.model.broadcasts import NO_TARGETS
from soonish.events.model.events import Event
from soonish.events.model.items import fact_cause, reminder_cause, subject
from soonish.events.model.links import merge_of
from soonish.events.model.terms import Terms
from soonish.reminders.leads import ends, is_over, moment

PAGE: Final = 5_000  # subscriptions of one transaction
EARLY: Final = "early"
MORE: Final = "more"
SUCCESS: Final = "success"
MERGED: Final = "merged"


class Turn(NamedTuple):
    """How a turn of reminding ended: `success`, `more` after this subscription, `early`, or why nobody was told."""

    word: str
    after: int = 0
    some: bool = False  # whether anybody was told so far
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Firing:
    """One offset of an event that is due, as it stands under the event's lock."""

    event: Event
    offset: int
    default: Any

    @property
    def moment(self) -> datetime:
        return moment(self.event.start_date, self.offset)

    @property
    def cause(self) -> str:
        return reminder_cause(self.event.id, self.offset, self.event.start_date)

    def is_late(self, terms: Terms) -> bool:
        """Late enough to give way to one that is nearer to the start."""
        return self.event.read_at - self.moment > terms.merge_after


async def remind_all(
    tx: Tx, events: Events, event_id: int, offset: int, start: datetime, *, after: int = 0, some: bool = False
) -> Turn:
    """Tell the next page of those who want this offset; the last one states the fact, if anybody was told."""
    firing = await _firing(tx, events, event_id, offset, start)
    if isinstance(firing, str):
        return Turn(firing, at=moment(start, offset))
    rows = await SQL.audience.rows(tx, **_wanted(firing, events.terms), after=after, k=PAGE)
    if rows:
        people = [_recipient(firing.event, row) for row in rows]
        await events.outbox.tell(tx, firing.cause, _message(firing, events.terms), people)
    some = some or any(not row["merged"] for row in rows)
    if len(rows) == PAGE:
        return Turn(MORE, rows[-1]["id"], some)
    if some:
        await events.outbox.state(tx, _fact(firing))
    return Turn(SUCCESS if some else "nobody", some=some)


async def remind_one(
    tx: Tx, events: Events, event_id: int, subscription_id: int, offset: int, scheduled_at: datetime
) -> str:
    """Tell one subscription; answers a word of T8, or `early` before the moment."""
    firing = await _firing(tx, events, event_id, offset, None, scheduled_at)
    if isinstance(firing, str):
        return firing
    subscription = await find_subscription(tx, event_id, subscription_id)
    if subscription is None:
        return "subscription_not_found"
    wanted = offsets.effective(subscription, firing.event, firing.default)
    if not subscription.is_active or offset not in wanted:
        return "not_wanted"
    if firing.moment < offsets.since(subscription, firing.event):
        return "asked_late"
    merged = await SQL.merged_one.value(
        tx, late=firing.is_late(events.terms), wanted=list(wanted), offset=offset, start_date=firing.event.start_date
    )
    to = Recipient(
        subscription.person_id,
        subscription.selectors,
        merge_of(firing.event, subscription_id),
        MERGED if merged else None,
    )
    told = await events.outbox.tell(tx, firing.cause, _message(firing, events.terms), [to])
    if merged:
        return MERGED
    await events.outbox.state(tx, _fact(firing))
    return await _word(tx, firing, subscription.person_id, told.pending, told.skipped)


async def _word(tx: Tx, firing: _Firing, person_id: int, pending: int, skipped: int) -> str:
    if pending:
        return SUCCESS
    if not skipped:
        return "already_told"
    rows = await SQL.told_reminders.rows(tx, causes=[firing.cause], person_id=person_id)
    return "no_targets" if rows and rows[0]["reason"] in NO_TARGETS else SUCCESS


async def _firing(
    tx: Tx, events: Events, event_id: int, offset: int, start: datetime | None, scheduled_at: datetime | None = None
) -> _Firing | str:
    """The offset under the event's lock, or why it is not to be told.

    For all who want it the lock is held alone, so that whoever is just subscribing is waited for.
    """
    try:
        event = await lock_event(tx, event_id, shared=start is None)
    except NotFound:
        return "event_not_found"
    at = moment(event.start_date, offset)
    planned = scheduled_at.replace(microsecond=0) == at if scheduled_at is not None else start == event.start_date
    if word := _hindrance(event, offset, events.terms, planned=planned):
        return word
    return _Firing(event, offset, (await defaults_in(tx, events.terms)).reminder_offsets)


def _hindrance(event: Event, offset: int, terms: Terms, *, planned: bool) -> str | None:
    """Why nobody is to be told, in the order in which one looks."""
    at, now = moment(event.start_date, offset), event.read_at
    if not event.is_active:
        return "not_active"
    if not planned:
        return "moved"
    if now < at:
        return EARLY
    if now - at > terms.reminder_late:
        return "too_late"
    return "started" if is_over(event.start_date, offset, now) else None


def _wanted(firing: _Firing, terms: Terms) -> dict[str, Any]:
    """Whom the audience has."""
    event = firing.event
    return {
        "event_id": event.id,
        "offset": firing.offset,
        "inherited": list(offsets.inherited(event, firing.default)),
        "planned_at": event.planned_at,
        "start_date": event.start_date,
        "late": firing.is_late(terms),
    }


def _recipient(event: Event, row: Any) -> Recipient:
    selectors = None if row["selectors"] is None else msgspec.json.decode(row["selectors"])
    return Recipient(row["person_id"], selectors, merge_of(event, row["id"]), MERGED if row["merged"] else None)


def _message(firing: _Firing, terms: Terms) -> Message:
    """The words of now; the promise was the moment."""
    title, body = texts.reminder(firing.event, firing.offset, firing.event.read_at)
    return Message(
        title=title,
        body=body,
        level="warning",
        link=firing.event.link,
        hold="never" if terms.reminder_hold == "never" else "quiet",
        send_at=firing.moment,
        expires_at=ends(firing.event.start_date, firing.offset),
        because={"event_id": firing.event.id, "offset_seconds": firing.offset, "engine": firing.event.reminder_engine},
    )


def _fact(firing: _Firing) -> Fact:
    event, offset = firing.event, firing.offset
    return Fact(
        cause=fact_cause(event.id, "reminder_due", offset, int(event.start_date.timestamp())),
        type=facts.REMINDER_DUE,
        subject=subject(event.id),
        data=facts.data_of(
            event,
            offset_seconds=offset,
            moment=firing.moment,
            seconds_left=facts.seconds_left(event, event.read_at),
        ),
        due_at=firing.moment,
        deliver_until=ends(event.start_date, offset),
    )
