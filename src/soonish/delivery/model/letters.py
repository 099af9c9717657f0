"""What people are told, and which of their addresses shall hear it: messages, recipients, selectors, placeholders.

Pure: knows no database, no channel, no clock. What a message means is known to the slice that tells it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Level: TypeAlias = Literal["info", "warning", "critical"]
Hold: TypeAlias = Literal["quiet", "never"]
Selector: TypeAlias = Mapping[str, int | str]
"""`{"address_id": 7}` or `{"tag": "phone"}`."""

NO_MERGE: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Title, body, link, level; with placeholders that are filled for each person at each try."""

    title: str
    body: str
    level: Level = "info"
    link: str | None = None
    hold: Hold = "quiet"  # "never": quiet hours do not hold it
    calendar: str | None = None
    send_at: datetime | None = None  # the promise; none = now
    expires_at: datetime | None = None
    because: Mapping[str, Any] = field(default_factory=dict)  # what explains it later, when all else has changed


class Recipient(NamedTuple):
    """A person to be told. `selectors`: None = all addresses, () = muted. With a `reason` it is only on record."""

    person_id: int
    selectors: Sequence[Selector] | None = None
    merge: Mapping[str, Any] = NO_MERGE
    reason: str | None = None
