"""Messages as users ask for them: to whom, when, and what became of them, counted in people. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from soonish.delivery.model.letters import Hold, Level, Recipient

MESSAGE: Final = "delivery.message"
"""The due item that tells a message: its key is the message's id, its moment the promise."""
AHEAD_YEARS: Final = 5
LIFE: Final = timedelta(hours=24)
"""For how long after its moment a message is worth telling, unless it says so itself."""
TITLE_LENGTH: Final = 200
BODY_LENGTH: Final = 10_000
MOST_NAMED: Final = 1_000  # people; more of them have a tag


class Summary(Struct, frozen=True, kw_only=True):
    """Of so many people, how many were reached; one with several addresses counts once, by the best of them."""

    total: int
    delivered: int
    failed: int
    unknown: int
    skipped: int
    pending: int


class Message(Struct, frozen=True, kw_only=True):
    """Something that people are told. `to` is null where a slice chose the people itself."""

    id: int
    cause: str
    title: str
    body: str
    level: Level
    link: str | None
    hold: Hold
    to: dict[str, Any] | None
    selectors: list[dict[str, Any]] | None
    send_at: datetime | None
    expires_at: datetime | None
    told_at: datetime | None
    cancelled_at: datetime | None
    created_at: datetime


class MessageDetail(Message, frozen=True, kw_only=True):
    """A message, and how many people it reached."""

    summary: Summary


class MessagePut(Struct, frozen=True, kw_only=True):
    """A message that will be told."""

    id: int


def message(row: Mapping[str, Any]) -> Message:
    """A row as the API shows it."""
    return Message(**_shown(row))


def detail(row: Mapping[str, Any], summary: Summary) -> MessageDetail:
    return MessageDetail(**_shown(row), summary=summary)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in Message.__struct_fields__ if name not in ("to", "selectors")]
    asked = msgspec.json.decode(row["to_people"]) if row["to_people"] else {}
    to = {name: value for name, value in asked.items() if name != "selectors"} or None
    return {name: row[name] for name in names} | {"to": to, "selectors": asked.get("selectors")}


def asked_for(to: Mapping[str, Any], selectors: Sequence[Mapping[str, Any]] | None) -> str:
    """To whom, as the row keeps it."""
    return msgspec.json.encode({**to, "selectors": selectors}).decode()


def recipients(person_ids: Sequence[int], to_people: Mapping[str, Any]) -> list[Recipient]:
    """These people, with the selectors of the message."""
    return [Recipient(person_id, to_people.get("selectors")) for person_id in person_ids]
