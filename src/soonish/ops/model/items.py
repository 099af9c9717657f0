"""Due items in words: what will happen, how it stands, and what became of it.

Pure: rows come in. What an item is about is told by explainers, which are handed in by prefix of kind.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from soonish.due.model import KEY_LENGTH as KEY_LENGTH
from soonish.due.model import Lane

LaneName: TypeAlias = Literal["control", "people", "bulk"]
LiveState: TypeAlias = Literal["waiting", "leased", "retrying", "overdue", "paused"]
EndFate: TypeAlias = Literal["done", "dropped", "cancelled", "expired", "dead"]

LANES: Final[tuple[LaneName, ...]] = ("control", "people", "bulk")
ALL_KINDS: Final = "*"
SYSTEM_KINDS: Final = "system."


@dataclass(frozen=True, slots=True)
class Label:
    """What an item is about, in a few words, and the page that shows it."""

    text: str
    link: str | None = None


Explainer: TypeAlias = Callable[[Any, Sequence[Mapping[str, Any]]], Awaitable[Sequence[Label]]]
"""`(tx, rows of one prefix of kind) -> their labels`, in the same order."""


class DueItem(Struct, frozen=True, kw_only=True):
    """A live item: what will happen, and when it is looked at next."""

    id: int
    kind: str
    key: str
    label: str
    link: str | None
    lane: LaneName
    state: LiveState
    due_at: datetime
    wake_at: datetime
    wait_s: float  # until it is looked at, by the database's clock; below 0 it is overdue
    lease_until: datetime | None
    tries: int
    first_at: datetime | None
    expires_at: datetime | None
    last_error: str | None
    created_at: datetime


class DueDetail(DueItem, frozen=True, kw_only=True):
    """A live item with what its handler is given."""

    payload: dict[str, Any]


class PastItem(Struct, frozen=True, kw_only=True):
    """What became of an item."""

    id: int
    kind: str
    key: str
    label: str
    link: str | None
    lane: LaneName
    fate: EndFate
    reason: str | None
    due_at: datetime
    first_at: datetime | None
    finished_at: datetime
    late_ms: int | None  # from its moment to the first claim; null where nobody ever claimed it
    tries: int
    last_error: str | None
    revived_at: datetime | None


class Pause(Struct, frozen=True, kw_only=True):
    """A kind that stands still (`*` is every kind), here or in every workspace."""

    kind: str
    reason: str | None
    everywhere: bool


class Retried(Struct, frozen=True, kw_only=True):
    """How many dead items live again, and how many stay because the same kind and key lives already."""

    revived: int
    superseded: int


def lane_name(lane: int) -> LaneName:
    """Parked items keep their lane, ten higher."""
    return LANES[lane % 10]


def lane_of(name: LaneName | None) -> Lane | None:
    return None if name is None else Lane(LANES.index(name))


def state_of(row: Mapping[str, Any]) -> LiveState:
    """How a live item stands; the list of due items filters by the same rules, in SQL."""
    if row["leased"]:
        return "leased"
    if row["lane"] >= 10:
        return "paused"
    if row["wait"] <= 0:
        return "overdue"
    return "waiting" if row["last_error"] is None else "retrying"


def plain_label(kind: str, key: str) -> Label:
    """For kinds that nobody explains: the words of the kind, and the key."""
    words = kind.replace("_", " ").split(".")
    return Label(f"{words[0].capitalize()}: {' '.join(words[1:])} {key}")


def prefix_of(explainers: Mapping[str, Explainer], kind: str) -> str | None:
    """The longest one of whole words: `game.reminder` goes before `game`."""
    words = kind.split(".")
    prefixes = (".".join(words[:count]) for count in range(len(words), 0, -1))
    return next((prefix for prefix in prefixes if prefix in explainers), None)


def covering(paused: Collection[str], kind: str) -> str | None:
    """Which of the paused kinds makes this one stand still."""
    return next((one for one in (kind, ALL_KINDS) if one in paused), None)


def is_system(kind: str) -> bool:
    """Whether Soonish itself puts items of this kind, to keep in order."""
    return kind.startswith(SYSTEM_KINDS)


def pause_of(workspace_id: int, kind: str, reason: str | None) -> Pause:
    """The pauses of workspace 0 hold everywhere."""
    return Pause(kind=kind, reason=reason, everywhere=workspace_id == 0)


def due_item(row: Mapping[str, Any], label: Label) -> DueItem:
    return DueItem(**_live(row, label))


def due_detail(row: Mapping[str, Any], label: Label, payload: dict[str, Any]) -> DueDetail:
    return DueDetail(**_live(row, label), payload=payload)


def past_item(row: Mapping[str, Any], label: Label) -> PastItem:
    return PastItem(
        **_both(row, label),
        fate=row["fate"],
        reason=row["reason"],
        finished_at=row["finished_at"],
        late_ms=late_ms(row["due_at"], row["first_at"]),
        revived_at=row["revived_at"],
    )


def late_ms(due_at: datetime, first_at: datetime | None) -> int | None:
    return None if first_at is None else round((first_at - due_at) / timedelta(milliseconds=1))


def _live(row: Mapping[str, Any], label: Label) -> dict[str, Any]:
    return _both(row, label) | {
        "state": state_of(row),
        "wake_at": row["wake_at"],
        "wait_s": round(row["wait"], 3),
        "lease_until": row["lease_until"] if row["leased"] else None,
        "expires_at": row["expires_at"],
        "created_at": row["created_at"],
    }


def _both(row: Mapping[str, Any], label: Label) -> dict[str, Any]:
    return {
        "id": row["id"],
        "kind": row["kind"],
        "key": row["key"],
        "label": label.text,
        "link": label.link,
        "lane": lane_name(row["lane"]),
        "due_at": row["due_at"],
        "first_at": row["first_at"],
        "tries": row["attempts"] - row["spared"],
        "last_error": row["last_error"],
    }
