"""Call a handler, and turn whatever comes of it into a result for the table.

Knows kinds, items and fates; nothing of lanes, connections or when an item is claimed.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import asyncpg

from soonish.db.again import VICTIMS, after_race, run_again
from soonish.due.model import Again, Done, Drop, Ends, Fate, Item, Kind, hold_wait, storable
from soonish.due.queue import seconds
from soonish.errors import LeaseLost, Unavailable

# Ours, and what a handler with a pool of its own gets from its database without our translation.
_AWAY = (
    Unavailable,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
LONGEST_WAIT = 36_525 * 86_400.0
MOST_HELD = 100_000  # items whose holds are counted

Redact = Callable[[str], str]


class Result(NamedTuple):
    """What the next turn writes. `fate` is done, again, dropped, expired, dead, parked or, after a hold, held."""

    item: Item
    fate: str
    at: datetime | None = None
    wait: float = 0.0
    error: str | None = None
    spared: int = 0
    reason: str | None = None


class Job:
    """Items that one task works on: one, or a batch of one kind and workspace."""

    __slots__ = ("began", "items", "kind", "open", "task")

    def __init__(self, kind: Kind, items: Collection[Item], began: float) -> None:
        self.kind = kind
        self.items = items
        self.began = began
        self.open = True  # until its results are taken; what ends later is not heard any more
        self.task: asyncio.Task[None] | None = None

    def close(self) -> bool:
        """Take it off; answers whether somebody else had already."""
        was, self.open = self.open, False
        return was


class Stream(Job):
    """Items that end one by one; `items` are those that have not ended yet."""

    __slots__ = ("_left",)

    def __init__(self, kind: Kind, items: Sequence[Item], began: float) -> None:
        self._left = {item.id: item for item in items}
        super().__init__(kind, self._left.values(), began)

    def drop(self, ends: Ends) -> Ends:
        """Take off those that ended; answers the ones that had not before."""
        return [end for end in ends if self._left.pop(end[0].id, None) is not None] if self.open else ()


class Work:
    """How results are made: with the memory of holds in a row, and a way to make errors fit to be kept."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._holds: dict[int, int] = {}  # in a row, by item

    async def one(self, kind: Kind, item: Item) -> Result | None:
        """The result of one item; None where nothing is to be written."""
        # No layer more than needed: this is once an item.
        handler: Any = kind.handler
        try:
            try:
                fate = await handler(item)
            except VICTIMS:
                fate = await after_race(handler, item)
            return self.result(kind, item, fate)
        except asyncio.CancelledError as error:
            return self.failed(kind, item, _own(error))
        except Exception as error:
            return self.failed(kind, item, error)

    async def batch(self, kind: Kind, items: Sequence[Item]) -> list[Result | None] | None:
        """The results of a batch; None for one of several items that raised or answered nonsense: run them alone."""
        try:
            fates = await _call(kind, items)
            if len(fates) != len(items):
                raise ValueError(f"{len(fates)} fates for {len(items)} items")
        except Exception as error:
            return [self.failed(kind, items[0], error)] if len(items) == 1 else None
        return [self._answered(kind, item, fate) for item, fate in zip(items, fates, strict=True)]

    async def stream(self, kind: Kind, items: Sequence[Item], tell: Callable[[Ends], None]) -> Exception:
        """Run a handler to its end; answers what became of the items that it told nothing of."""
        handler: Any = kind.handler
        try:
            await handler(items, tell)
        except asyncio.CancelledError as error:
            return _own(error)
        except Exception as error:
            return error
        return RuntimeError("the handler did not say how it ended")

    def ended(self, kind: Kind, ends: Ends) -> list[Result | None]:
        """The results of items that ended."""
        return [
            self.failed(kind, item, end) if isinstance(end, Exception) else self._answered(kind, item, end)
            for item, end in ends
        ]

    def _answered(self, kind: Kind, item: Item, fate: Fate) -> Result | None:
        try:
            return self.result(kind, item, fate)
        except Exception as error:
            return self.failed(kind, item, error)

    def result(self, kind: Kind, item: Item, fate: Fate) -> Result | None:
        """What a handler's answer means for the table; raises where it means nothing."""
        if self._holds:
            self._holds.pop(item.id, None)
        if isinstance(fate, Done):
            return None if fate.settled else Result(item, "done")
        if isinstance(fate, Drop):
            return Result(item, "dropped", reason=self._text(fate.reason))
        if not isinstance(fate, Again):
            raise TypeError(f"the handler answered {fate!r}, which is no fate")
        at, wait = _moment(fate)
        if fate.error is None:
            return Result(item, "held", at, wait or 0.0, spared=1)
        return self.tried(kind, item, fate.error, at, wait)

    def failed(self, kind: Kind, item: Item, error: BaseException) -> Result | None:
        """What an exception means: a lost lease nothing, an engine that is away a hold, any other a try."""
        if isinstance(error, LeaseLost):
            return None
        if isinstance(error, _AWAY):
            if len(self._holds) >= MOST_HELD:  # some of them went on elsewhere
                self._holds.clear()
            self._holds[item.id] = holds = self._holds.get(item.id, 0) + 1
            return Result(item, "held", wait=hold_wait(holds), error=self._text(_say(error)), spared=1)
        return self.tried(kind, item, _say(error))

    def tried(
        self, kind: Kind, item: Item, error: str, at: datetime | None = None, wait: float | None = None
    ) -> Result:
        """A try failed: again at its own wish or after a wait, or dead when the budget is spent."""
        self._holds.pop(item.id, None)
        text = self._text(error)
        if kind.spent(item.tries):
            return Result(item, "dead", error=text, reason="budget")
        if at is None and wait is None:
            wait = kind.wait(item.tries)
        return Result(item, "again", at, wait or 0.0, text)

    def _text(self, text: str) -> str:
        """What may be stored: no secret, nothing that no text may hold, not too long."""
        try:
            return storable(self._redact(str(text)))
        except Exception as error:
            return f"a text that could not be told ({type(error).__name__})"


def _moment(fate: Again) -> tuple[datetime | None, float | None]:
    """When to look again, in words that the table understands."""
    if fate.at is not None:
        if fate.at.utcoffset() is None:
            raise ValueError(f"{fate!r}: an instant needs its offset")
        return fate.at.astimezone(UTC), None
    if fate.after is None:
        return None, None
    wait = seconds(fate.after)
    if not abs(wait) <= LONGEST_WAIT:
        raise ValueError(f"{fate!r}: the longest wait is a hundred years")
    return None, wait


def _say(error: BaseException) -> str:
    """The error in words, even where it cannot say them itself."""
    try:
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    except Exception:
        return type(error).__name__


async def _call(kind: Kind, work: Any) -> Any:
    """Run the handler; again where the database made it the victim of a deadlock or a race."""
    try:
        handler: Any = kind.handler
        return await run_again(handler, work)
    except asyncio.CancelledError as error:
        raise _own(error) from error


def _own(error: asyncio.CancelledError) -> RuntimeError:
    """What it means that a handler was cancelled by nobody but itself; raises where somebody did."""
    if (task := asyncio.current_task()) and task.cancelling():
        raise error
    return RuntimeError("the handler cancelled itself")
