"""What a channel is: a way to hand over one thing to one target, once.

A channel never retries and never raises for a refusal: it answers an `Outcome`. It keeps nothing but connections, and
reaches every target that a user can name through the egress guard alone. Knows no ledger, no person, no database.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol, TypeAlias

Result: TypeAlias = Literal["sent", "partial", "failed", "unknown"]
Level: TypeAlias = Literal["info", "warning", "critical"]

ANSWER_LENGTH: Final = 500
_TELLING: Final = 4  # characters from which on a word of a secret tells something


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one try. `failed` = surely not done, `unknown` = it may have been done."""

    result: Result
    code: str = "ok"  # `http_503`, or a word such as `timeout`
    permanent: bool = False  # of a failure: another try makes no sense
    status: int | None = None
    answer: str = ""  # what the other side said, cut
    retry_after: float | None = None  # seconds, where the other side asked for a pause


SENT: Final = Outcome("sent")


def failed(code: str, answer: str = "", *, status: int | None = None, retry_after: float | None = None) -> Outcome:
    """Not done, and worth another try."""
    return Outcome("failed", code, status=status, answer=answer[:ANSWER_LENGTH], retry_after=retry_after)


def refused(code: str, answer: str = "", *, status: int | None = None) -> Outcome:
    """Not done, and it never will be."""
    return Outcome("failed", code, permanent=True, status=status, answer=answer[:ANSWER_LENGTH])


def unknown(code: str, answer: str = "", *, status: int | None = None) -> Outcome:
    """Nobody can know whether it was done."""
    return Outcome("unknown", code, status=status, answer=answer[:ANSWER_LENGTH])


def hushed(answer: str, words: Iterable[str]) -> str:
    """What the other side said, without the words that were told it in confidence; to be cut after this."""
    for word in sorted({word for word in words if len(word) >= _TELLING}, key=len, reverse=True):
        answer = re.sub(re.escape(word), "***", answer, flags=re.IGNORECASE)
    return answer


@dataclass(frozen=True, slots=True)
class Letter:
    """What a person is told; its placeholders are filled."""

    wire_id: str  # `dlv_` and 32 hexadecimal digits: the same in every try
    title: str
    body: str
    level: Level = "info"
    link: str | None = None
    calendar: str | None = None  # the text of an .ics file
    unsubscribe_url: str | None = None
    manage_url: str | None = None  # where its reader changes what they hear


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a machine gets: an envelope, byte for byte the same in every try."""

    wire_id: str
    n: int  # the number of this try
    type: str
    subject: str
    body: bytes
    sent_at: datetime  # of this try, by the database's clock
    workspace: str  # its slug


@dataclass(frozen=True, slots=True)
class Target:
    """Where it goes, with its secrets open. `id` and `version` name a connection that may be kept."""

    id: int  # of the address or endpoint; 0 for a mailbox
    version: int
    workspace_id: int
    address: str  # an Apprise URL, a mail address, a webhook's URL, a broker's URL, a queue's URL
    config: Mapping[str, Any]  # what else its kind needs, secrets included
    secrets: tuple[bytes, ...] = ()  # those that sign, the newest first


class Channel(Protocol):
    """One kind of transport."""

    async def send(self, target: Target, what: Any) -> Outcome:
        """Try once. `what` is a Letter for people, a Parcel for machines."""

    async def close(self) -> None:
        """End the connections that are kept."""
