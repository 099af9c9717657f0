"""The words of the due queue: what is put, what is claimed, what a handler answers, and how a kind behaves.

Pure: no SQL, no clock, no I/O. What a kind *means* is opaque here.
"""

import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import asyncpg

BELL: Final = "soonish_due"
BELL_HORIZON: Final = 60.0  # seconds; the same in schema.sql and queries.sql
KIND: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*){1,3}")
KEY_LENGTH: Final = 200
PAYLOAD_BYTES: Final = 16_384
ERROR_LENGTH: Final = 2_000
NO_PAYLOAD: Final[Mapping[str, Any]] = {}


class Lane(IntEnum):
    """Each lane has its own loop, so that a backlog in one never delays another."""

    CONTROL = 0
    PEOPLE = 1
    BULK = 2


class Put(NamedTuple):
    """A wish: this kind of thing, under this key, at this instant (none = now)."""

    kind: str
    key: str
    at: datetime | None = None
    payload: Mapping[str, Any] = NO_PAYLOAD
    lane: Lane | None = None
    expires_at: datetime | None = None


class Written(NamedTuple):
    """What a put did: how many items are new, moved, or were the same already."""

    new: int
    moved: int
    same: int


class Replanned(NamedTuple):
    """What a replan did; `passed` are the wanted keys whose moment is over and that were not put."""

    written: Written
    cancelled: int
    passed: list[str]


class Item(asyncpg.Record):  # type: ignore[misc]
    """A claimed due item: the row as it came from the database, read without a copy."""

    __slots__ = ()

    @property
    def id(self) -> int:
        return self[0]  # type: ignore[no-any-return]

    @property
    def workspace_id(self) -> int:
        return self[1]  # type: ignore[no-any-return]

    @property
    def kind(self) -> str:
        return self[2]  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        return self[3]  # type: ignore[no-any-return]

    @property
    def attempts(self) -> int:
        """The fence: the number of this claim."""
        return self[4]  # type: ignore[no-any-return]

    @property
    def tries(self) -> int:
        """How many claims count against the budget, this one included."""
        return self[4] - self[5]  # type: ignore[no-any-return]

    @property
    def due_at(self) -> datetime:
        return self[6]  # type: ignore[no-any-return]

    @property
    def payload(self) -> dict[str, Any]:
        return json.loads(self[7])  # type: ignore[no-any-return]

    @property
    def expires_at(self) -> datetime | None:
        return self[8]  # type: ignore[no-any-return]

    @property
    def late(self) -> float:
        """Seconds between the promise and the first claim."""
        return self[9]  # type: ignore[no-any-return]

    @property
    def first(self) -> bool:
        """Whether nobody claimed it before."""
        return not self[10]

    @property
    def interrupted(self) -> bool:
        """Whether an older lease ran out: its holder vanished, and may have acted."""
        return self[11]  # type: ignore[no-any-return]

    @property
    def stop(self) -> str | None:
        """Why it must not be handled now: `expired` or `paused`."""
        return self[12]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Done:
    """The item is finished; `settled` when the handler's own transaction finished it already."""

    settled: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """Not yet. With an error it was a try, without one it is a hold and costs no budget."""

    after: float | timedelta | None = None
    at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """It makes no sense any more."""

    reason: str


Fate: TypeAlias = Done | Again | Drop
DONE: Final = Done()
SETTLED: Final = Done(settled=True)


class Settled(NamedTuple):
    """A fate that a transaction of the handler's own writes: done, again (a try or, without error, a hold), or dead."""

    item: Item
    fate: Literal["done", "again", "dead"] = "done"
    after: float = 0.0
    at: datetime | None = None
    error: str | None = None
    reason: str | None = None
    payload: Mapping[str, Any] | None = None  # of an again: in place of the old one


Handler: TypeAlias = Callable[[Item], Awaitable[Fate]]
BatchHandler: TypeAlias = Callable[[Sequence[Item]], Awaitable[Sequence[Fate]]]
Ends: TypeAlias = Sequence[tuple[Item, Fate | Exception]]
"""How some items of a stream ended."""
StreamHandler: TypeAlias = Callable[[Sequence[Item], Callable[[Ends], None]], Awaitable[None]]
Follow: TypeAlias = Callable[[Any, Sequence[Mapping[str, Any]]], Awaitable[None]]
"""`(tx, rows)`: what goes along with a change that somebody made to items by hand, in the same transaction."""


@dataclass(frozen=True, slots=True)
class Late:
    """What to do with an item that is claimed for the first time long after its moment."""

    within: timedelta | None = None
    reason: str = "too_late"
    by_grace: bool = False

    @classmethod
    def send(cls, within: timedelta | None = None) -> "Late":
        """Still worth doing within this time; for ever if none is given."""
        return cls(within)

    @classmethod
    def skip(cls) -> "Late":
        """Worth nothing once it is late by more than the loop's grace."""
        return cls(reason="late", by_grace=True)

    def verdict(self, late: float, grace: timedelta) -> str | None:
        """The reason to drop the item, or None."""
        limit = grace if self.by_grace else self.within
        return self.reason if limit is not None and late > limit.total_seconds() else None


@dataclass(frozen=True, slots=True)
class Slots:
    """A cap of its own, shared by the kinds that name it: they never take the slots of their lane."""

    name: str
    count: int


LANES: Final[dict[str, Lane]] = {}
"""The lanes of the kinds declared in this process, so that a put need not name them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of item behaves.

    With `batch` or `stream` the handler takes the items of one workspace of one claim. A batch ends as a whole, with a
    fate for each; of a stream each item ends for itself, when the handler says so.
    """

    name: str
    handler: Handler | BatchHandler | StreamHandler
    lane: Lane = Lane.CONTROL
    late: Late = Late()
    tries: int | None = 12
    first: timedelta = timedelta(seconds=1)
    cap: timedelta = timedelta(minutes=10)
    run_limit: timedelta = timedelta(minutes=5)
    batch: bool = False
    stream: bool = False
    slots: Slots | None = None
    on_revive: Follow | None = None
    on_cancel: Follow | None = None

    def __post_init__(self) -> None:
        check_kind(self.name)
        if self.batch and self.stream:
            raise ValueError(f"kind {self.name!r}: a batch ends as a whole, a stream item by item; choose one")
        LANES[self.name] = self.lane

    def spent(self, tries: int) -> bool:
        """Whether this was the last try of its budget."""
        return self.tries is not None and tries >= self.tries

    def wait(self, tries: int) -> float:
        """Exponential backoff with full jitter: uniform in (0, min(cap, first * 2^(tries-1))], at least 50 ms."""
        ceiling = min(self.cap.total_seconds(), self.first.total_seconds() * 2.0 ** min(tries - 1, 60))
        return max(0.05, random.uniform(0, ceiling))  # noqa: S311  jitter, not a secret


def hold_wait(holds: int) -> float:
    """An engine is away: 1 s doubling to 60 s."""
    return min(60.0, 2.0 ** min(holds - 1, 6))


def check_kind(kind: str) -> None:
    if len(kind) > 64 or not KIND.fullmatch(kind):
        raise ValueError(f"kind {kind!r}: write it like 'shop.reminder', at most 64 characters")


def storable(text: str) -> str:
    """The text as the table can keep it: no NUL, no half characters, not too long."""
    return text[: 2 * ERROR_LENGTH].replace("\x00", "").encode(errors="replace").decode()[:ERROR_LENGTH]


def prefix_end(prefix: str) -> str:
    """What no key that begins with the prefix reaches, and every later one does (in the C collation)."""
    return prefix + "\U0010ffff" * max(1, KEY_LENGTH + 1 - len(prefix))
