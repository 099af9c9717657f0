"""The ledger as one looks at it: a delivery, its tries, which of them are asked for, and their ends in words.

Pure: rows come in. How a delivery is sent, and what a reason leads to, is not known here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from msgspec import Struct

from soonish.web.moments import precisely

State: TypeAlias = Literal["pending", "sent", "failed", "unknown", "skipped"]
Ended: TypeAlias = Literal["failed", "unknown", "skipped"]
ChannelName: TypeAlias = Literal["apprise", "email", "console", "webhook", "amqp", "sqs", "none"]

TONES: Final = {"pending": "info", "sent": "ok", "failed": "bad", "unknown": "warn", "skipped": "quiet"}
OUTCOMES: Final = {"sent": "ok", "partial": "warn", "failed": "bad", "unknown": "warn"}
RETRIED: Final[tuple[Ended, ...]] = ("failed", "unknown")
"""What is retried where nobody names a state: what was skipped was skipped on purpose."""
RETRIABLE: Final[tuple[Ended, ...]] = ("failed", "unknown", "skipped")

HELD: Final = {
    "quiet_hours": "Quiet hours hold it.",
    "circuit_open": "Its target kept failing and is left alone for a while.",
    "rate_limited": "There is more for its target at once than may be sent.",
}

_WORDS: Final = {
    "address_disabled": "the address is disabled, for it kept refusing",
    "address_gone": "the address was removed",
    "address_inactive": "the address is switched off",
    "address_unverified": "the address is not verified",
    "cancelled": "it was cancelled before",
    "egress_refused": "it leads to where no connection may go",
    "endpoint_disabled": "the endpoint is disabled, for it kept failing",
    "endpoint_gone": "the endpoint was removed",
    "endpoint_inactive": "the endpoint is switched off",
    "exhausted": "every try failed, and there was none left",
    "expired": "it was of no use any more when it could be sent",
    "interrupted": "the process that tried it vanished",
    "muted": "no address was chosen to hear of it",
    "no_address": "there is no address",
    "no_match": "no address fits what was chosen",
    "paused": "messages are paused",
    "person_gone": "the person was removed",
    "quiet_hours": "quiet hours would end after it is of use",
    "retracted": "what it was about was taken back",
    "timeout": "there was no answer in time",
}


class Attempt(Struct, frozen=True, kw_only=True):
    """One try of a delivery, and what the other side said."""

    n: int
    outcome: Literal["sent", "partial", "failed", "unknown"]
    permanent: bool
    repeat: bool
    code: str
    status: int | None
    answer: str
    latency_ms: int
    started_at: datetime
    ended_at: datetime


class Delivery(Struct, frozen=True, kw_only=True):
    """One message or fact on its way to one address or endpoint."""

    id: int
    wire_id: str
    cause: str
    channel: ChannelName
    message_id: int | None
    fact_id: int | None
    person_id: int | None
    address_id: int | None
    endpoint_id: int | None
    state: State
    reason: str | None
    partial: bool
    due_at: datetime
    expires_at: datetime | None
    first_at: datetime | None
    late_ms: int | None  # from the promise to the first try
    next_at: datetime | None
    ended_at: datetime | None
    tries: int
    created_at: datetime


class DeliveryDetail(Delivery, frozen=True, kw_only=True):
    """A delivery with its tries."""

    attempts: Sequence[Attempt]


class Reopened(Struct, frozen=True, kw_only=True):
    """How many deliveries are on their way again."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which deliveries; `since` and `until` are about when they were written."""

    state: State | None = None
    reason: str | None = None
    channel: ChannelName | None = None
    person_id: int | None = None
    address_id: int | None = None
    endpoint_id: int | None = None
    message_id: int | None = None
    fact_id: int | None = None
    fact_type: str | None = None
    cause_prefix: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    late_over_ms: int | None = None

    def chosen(self) -> dict[str, Any]:
        """The filters that are set."""
        pairs = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in pairs if value is not None}


@dataclass(frozen=True, slots=True)
class Entry:
    """A delivery and the names that people know it by; all but the delivery may have gone."""

    delivery: Delivery
    title: str  # of the message, or the type of the fact
    level: str | None
    person: str | None
    address: str | None
    endpoint: str | None
    mailbox: bool

    @property
    def who(self) -> str:
        """Whom it is for."""
        one = self.delivery
        if one.endpoint_id is not None:
            return self.endpoint or f"Endpoint {one.endpoint_id}"
        if one.person_id is not None:
            return self.person or f"Person {one.person_id}"
        return "A mailbox that is no address yet" if self.mailbox else "Nobody"

    @property
    def quoted(self) -> str:
        """What it says, within a sentence."""
        return f"“{self.title}”" if self.delivery.message_id is not None else f"of {self.title}"

    @property
    def where(self) -> str:
        """Which way it goes: the label of an address, or else its channel."""
        if self.delivery.channel == "none":
            return "no address"
        return self.address or self.delivery.channel


@dataclass(frozen=True, slots=True)
class Note:
    """What stands in the inbox of a person: a message to a console address, filled for them."""

    id: int
    at: datetime
    title: str
    body: str
    link: str | None
    level: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a list, newest first; `before` is where the next part begins, which may find nothing more."""

    entries: Sequence[Entry]
    before: int | None


_PATHS: Final = (
    ("message_id", "message"),
    ("fact_id", "fact"),
    ("person_id", "person"),
    ("endpoint_id", "endpoint"),
    ("cause_prefix", "cause"),
)


def path_of(wanted: Wanted, states: Collection[str] | None, *, crowded: bool = False) -> tuple[list[str], bool]:
    """Which indexes to walk, the narrowest first; and whether all that is found there fits.

    A `crowded` cause has so many deliveries that the newest are better walked.
    """
    rest = set(wanted.chosen()) | ({"state"} if states else set())
    for name, path in _PATHS:
        if name in rest and not (crowded and path == "cause"):
            return [path], rest == {name}
    if states and set(states) <= set(RETRIED):
        return sorted(states), rest == {"state"}
    return ["newest"], not rest


def late_ms(due_at: datetime, first_at: datetime | None) -> int | None:
    return None if first_at is None else round((first_at - due_at) / timedelta(milliseconds=1))


def wire(wire_id: UUID) -> str:
    """The id as receivers see it."""
    return f"dlv_{wire_id.hex}"


def delivery(row: Mapping[str, Any]) -> Delivery:
    return Delivery(**_values(row))


def detail(one: Delivery, attempts: Sequence[Mapping[str, Any]]) -> DeliveryDetail:
    values = {name: getattr(one, name) for name in Delivery.__struct_fields__}
    tries = [Attempt(**{name: row[name] for name in Attempt.__struct_fields__}) for row in attempts]
    return DeliveryDetail(**values, attempts=tries)


def entry(row: Mapping[str, Any]) -> Entry:
    return Entry(
        delivery=delivery(row),
        title=row["title"] or row["cause"],
        level=row["level"],
        person=row["person_name"],
        address=row["address_label"],
        endpoint=row["endpoint_name"],
        mailbox=row["is_mailbox"],
    )


def in_words(reason: str | None) -> str:
    """Why it ended so; the codes of answers and the words of slices are said as they are."""
    if reason is None:
        return ""
    if reason.startswith("http_"):
        return f"the other side answered {reason.removeprefix('http_')}"
    return _WORDS.get(reason, reason.replace("_", " "))


def line_sentence(entry: Entry) -> str:
    """The same in one short line, for a list of what a person was told."""
    one = entry.delivery
    what = f"“{entry.title}”" if one.message_id is not None else f"The fact {entry.title}"
    if one.state == "sent":
        part = " in part" if one.partial else ""
        return f"{what} was sent{part} by {entry.where}, {late_words(one.late_ms)}."
    if one.state == "pending":
        return f"{what} will be sent by {entry.where}.{hold_words(one.reason, one.tries)}"
    verb = {"failed": "was not sent", "unknown": "may have been sent", "skipped": "was not sent, on purpose"}[one.state]
    way = "" if one.channel == "none" else f" by {entry.where}"
    return f"{what} {verb}{way}: {in_words(one.reason)}."


def late_words(late_ms: int | None) -> str:
    """How well the promise was kept."""
    if late_ms is None:
        return "at a moment that is not known"
    if late_ms <= 0:
        return "at its moment"
    return f"{precisely(timedelta(milliseconds=late_ms))} after the moment"


def hold_words(reason: str | None, tries: int) -> str:
    """What keeps a pending delivery waiting, or made its last try fail."""
    if reason in HELD:
        return f" {HELD[reason]}"
    return f" Try {tries} failed: {in_words(reason)}." if tries and reason else ""


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    made = {"wire_id": wire(row["wire_id"]), "late_ms": late_ms(row["due_at"], row["first_at"])}
    return made | {name: row[name] for name in Delivery.__struct_fields__ if name not in made}
