"""Why something happened, in a sentence and in steps of time: of a delivery, of a person, of a due item.

Pure: rows and what slices tell come in. The words are those of the glossary, said to the one who asks.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from soonish.delivery.model.ledger import (
    HELD,
    Attempt,
    DeliveryDetail,
    Entry,
    hold_words,
    in_words,
    late_ms,
    late_words,
)
from soonish.web.moments import place, precisely

What: TypeAlias = Literal["asked", "planned", "fired", "audience", "held", "tried", "ended"]

ORDER: Final[tuple[What, ...]] = ("asked", "planned", "fired", "audience", "held", "tried", "ended")
TITLES: Final[dict[What, str]] = {
    "asked": "Asked", "planned": "Planned", "fired": "Came due", "audience": "For whom", "held": "Held",
    "tried": "Tried", "ended": "Ended",
}  # fmt: skip
_NO_ADDRESS: Final = ("muted", "no_address", "no_match")


class Step(Struct, frozen=True, kw_only=True):
    """One thing that happened or will; `ref` is the page of it. A moment that nobody noted is null."""

    at: datetime | None
    what: What
    text: str
    ref: str | None = None


class Why(Struct, frozen=True, kw_only=True):
    """The answer in one sentence, and the steps that led there."""

    sentence: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a slice is asked to explain: a cause with what was noted then, or a due item with its payload."""

    name: str  # the cause, or the kind
    key: str = ""  # of a due item
    noted: Mapping[str, Any] = field(default_factory=dict)
    person_id: int | None = None
    endpoint_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What a slice tells. `because` ends the sentence; `cause` is the prefix of what a due item told."""

    because: str | None = None
    steps: Sequence[Step] = ()
    cause: str | None = None


Teller: TypeAlias = Callable[[Any, About], Awaitable[Story | None]]
"""`(tx, about) -> story`, or None where the thing has vanished and only the record can tell."""

Ahead: TypeAlias = Callable[[Any, int, datetime | None, datetime | None], Awaitable[Sequence[Step]]]
"""`(tx, person_id, since, until)`: what this slice will tell a person that is on no delivery yet."""


def teller_of(tellers: Mapping[str, Teller], name: str) -> Teller | None:
    """The one for the longest prefix of whole words of a kind (`game.reminder`) or of a cause (`game/17/...`)."""
    mark = "/" if "/" in name else "."
    words = name.split(mark)
    prefixes = (mark.join(words[:count]) for count in range(len(words), 0, -1))
    return next((tellers[prefix] for prefix in prefixes if prefix in tellers), None)


def in_order(steps: Sequence[Step]) -> list[Step]:
    """By time; at one moment as one thing leads to another. What has no moment stands before what it led to."""
    known = [step.at for step in steps if step.at is not None]
    first = min(known, default=None)
    return sorted(
        steps, key=lambda step: (step.at or first, ORDER.index(step.what)) if first else ORDER.index(step.what)
    )


# --- a delivery


def delivery_steps(
    entry: Entry, detail: DeliveryDetail, zone: tzinfo, now: datetime, taken_at: datetime | None
) -> list[Step]:
    """What the ledger itself knows: the promise, the target, each try, what holds it, the end."""
    found = [*_fired(entry, zone, taken_at), *_target(entry), *map(_tried, detail.attempts), *_waits(entry, now)]
    return [*found, *_ended(entry)]


def noted_steps(entry: Entry, noted: Mapping[str, Any]) -> Iterator[Step]:
    """What was noted when it was asked for, so that it outlives what it was about."""
    one = entry.delivery
    if rule := noted.get("rule"):
        yield Step(at=one.created_at, what="planned", text=str(rule), ref=_item_ref(noted))
    if audience := noted.get("audience"):
        yield Step(at=one.created_at, what="audience", text=str(audience))


def delivery_sentence(entry: Entry, detail: DeliveryDetail, zone: tzinfo, now: datetime, because: str | None) -> str:
    """The answer: whether, when, which way, how late, and why."""
    head = {
        "sent": _was_sent, "pending": _is_pending, "failed": _has_failed, "unknown": _is_unknown,
        "skipped": _was_skipped,
    }[entry.delivery.state](entry, detail, zone, now)  # fmt: skip
    return f"{head}, because {because}." if because else f"{head}."


def audience_sentence(to: Mapping[str, Any], selectors: Sequence[Mapping[str, Any]] | None) -> str:
    """To whom a message was put, and which of their addresses it chose."""
    if "tag" in to:
        whom = f"everybody who has an address with the tag “{to['tag']}” when it is told"
    else:
        count = len(to.get("person_ids", ()))
        whom = "one person, by name" if count == 1 else f"{count:,} people, by name"
    return f"It is for {whom}{_which(selectors)}."


def _which(selectors: Sequence[Mapping[str, Any]] | None) -> str:
    if selectors is None:
        return ", by all of their addresses"
    words = [f"“{one['tag']}”" if "tag" in one else f"number {one['address_id']}" for one in selectors]
    return f", by the addresses {' and '.join(words)}" if words else ", and muted: it chooses no address"


def moment(at: datetime, zone: tzinfo) -> str:
    """A moment in a sentence: to the millisecond where it is not a whole second, by the clock of the workspace."""
    there = at.astimezone(zone)
    parts = f".{there.microsecond // 1000:03}" if there.microsecond >= 1000 else ""
    return f"{there:%H:%M:%S}{parts} {place(zone)} on {there:%a} {there.day} {there:%b %Y}"


def _was_sent(entry: Entry, detail: DeliveryDetail, zone: tzinfo, now: datetime) -> str:
    del now
    at = detail.attempts[-1].started_at if detail.attempts else entry.delivery.ended_at
    when = f" at {moment(at, zone)}" if at else ""
    tries = f", at try {len(detail.attempts)}" if len(detail.attempts) > 1 else ""
    part = "in part " if entry.delivery.partial else ""
    return f"{entry.who} was {part}told {entry.quoted} by {entry.where}{when}, {_late(entry)}{tries}"


def _late(entry: Entry) -> str:
    words = late_words(entry.delivery.late_ms)
    return f"first tried {words}" if entry.delivery.tries > 1 else words


def _is_pending(entry: Entry, detail: DeliveryDetail, zone: tzinfo, now: datetime) -> str:
    del detail
    one = entry.delivery
    at = one.next_at or one.due_at
    when = f"at {moment(at, zone)}" if at > now else "now"
    return f"{entry.who} will be told {entry.quoted} by {entry.where} {when}{_pending_words(one.reason, one.tries)}"


def _pending_words(reason: str | None, tries: int) -> str:
    words = hold_words(reason, tries).strip(" .")
    return f" ({words[0].lower()}{words[1:]})" if words else ""


def _has_failed(entry: Entry, detail: DeliveryDetail, zone: tzinfo, now: datetime) -> str:
    del now
    one, tries = entry.delivery, len(detail.attempts)
    when = f", given up at {moment(one.ended_at, zone)}" if one.ended_at else ""
    count = "" if not tries else f" after {tries} {'try' if tries == 1 else 'tries'}"
    last = f", the last with “{detail.attempts[-1].answer}”" if tries and detail.attempts[-1].answer else ""
    why = in_words(one.reason)
    return f"{entry.who} was not told {entry.quoted} by {entry.where}{count}: {why}{last}{when}"


def _is_unknown(entry: Entry, detail: DeliveryDetail, zone: tzinfo, now: datetime) -> str:
    del now
    at = detail.attempts[-1].started_at if detail.attempts else entry.delivery.ended_at
    when = f" at {moment(at, zone)}" if at else ""
    why = in_words(entry.delivery.reason)
    return f"{entry.who} may have been told {entry.quoted} by {entry.where}{when}: {why}, so nobody can know"


def _was_skipped(entry: Entry, detail: DeliveryDetail, zone: tzinfo, now: datetime) -> str:
    del detail, zone, now
    return f"{entry.who} was not told {entry.quoted}, on purpose: {in_words(entry.delivery.reason)}"


def _fired(entry: Entry, zone: tzinfo, taken_at: datetime | None) -> Iterator[Step]:
    """Taken up is when the queue handed it over; where it keeps no record of that, the first try."""
    one = entry.delivery
    yield Step(at=one.created_at, what="planned", text=f"It was written, promised for {moment(one.due_at, zone)}.")
    if at := taken_at or one.first_at:
        text = f"It came due, and was taken up {late_words(late_ms(one.due_at, at))}."
        yield Step(at=at, what="fired", text=text)


def _target(entry: Entry) -> Iterator[Step]:
    one = entry.delivery
    if one.endpoint_id is not None:
        text = f"The endpoint “{entry.who}” hears of {entry.title}."
        yield Step(at=one.created_at, what="audience", text=text, ref=f"/endpoints/{one.endpoint_id}")
    elif one.person_id is not None:
        text = f"{entry.who} was among those to be told{_chosen(entry)}."
        yield Step(at=one.created_at, what="audience", text=text, ref=f"/people/{one.person_id}")


def _chosen(entry: Entry) -> str:
    if entry.delivery.address_id is None:
        return f", but {in_words(entry.delivery.reason)}" if entry.delivery.reason in _NO_ADDRESS else ""
    return f", by the address “{entry.where}”"


def _tried(one: Attempt) -> Step:
    again = " once more, for the one before may have arrived" if one.repeat else ""
    how = {"sent": "went well", "partial": "went well in part", "failed": "failed", "unknown": "has an unknown end"}
    why = "" if one.outcome in ("sent", "partial") else f": {in_words(one.code)}"
    said = f", with “{one.answer}”" if one.answer else ""
    text = (
        f"Try {one.n}{again} {how[one.outcome]} after {precisely(timedelta(milliseconds=one.latency_ms))}{why}{said}."
    )
    return Step(at=one.started_at, what="tried", text=text)


def _waits(entry: Entry, now: datetime) -> Iterator[Step]:
    one = entry.delivery
    if one.state != "pending":
        return
    at = one.next_at or one.due_at
    if one.reason in HELD:
        yield Step(at=at, what="held", text=f"{HELD[one.reason]} Then it is tried.")
    elif at > now:
        number = f" as try {one.tries + 1}" if one.tries else ""
        yield Step(at=at, what="planned", text=f"It will be sent{number}.")
    else:
        yield Step(at=at, what="planned", text="It is on its way.")


def _ended(entry: Entry) -> Iterator[Step]:
    one = entry.delivery
    if one.state == "pending":
        return
    words = {"sent": "It was sent", "failed": "It was given up", "unknown": "Nobody can know whether it arrived"}
    text = words.get(one.state, "It was left out on purpose")
    # What is skipped as it is written ends at the beginning of that transaction, a moment before its row.
    at = max(one.ended_at, one.created_at) if one.ended_at else None
    yield Step(at=at, what="ended", text=f"{text}{f': {in_words(one.reason)}' if one.reason else ''}.")


def _item_ref(noted: Mapping[str, Any]) -> str | None:
    return f"/why/due/{noted['item']}" if isinstance(noted.get("item"), int) else None
