"""What is still to be written of a lane: results wait here until a turn has written them.

A row that another transaction holds, because it moves or cancels that item just now, would keep the whole lane waiting
for that transaction; its result is set aside instead, and looked at again now and then. Knows nothing of claims.
"""

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any

from soonish.db.sql import Statements
from soonish.due.loop.work import Result
from soonish.due.model import Item

LOCK_TIMEOUT = 250  # milliseconds that a turn waits for such a row
ANSWER = 15.0  # seconds after which a connection that says nothing is half-open
LOOK_AGAIN = 0.25  # seconds until those set aside are looked at again
_UNDONE = {"dropped", "expired", "dead", "parked"}


class Results:
    """The open results of one lane."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._open: list[Result] = []
        self._aside: list[Result] = []
        self._look_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._open or self._aside)

    @property
    def waits(self) -> bool:
        """Whether some are set aside."""
        return bool(self._aside)

    def add(self, results: Iterable[Result | None]) -> None:
        self._open += filter(None, results)

    async def take(self, con: Any) -> list[Result]:
        """Those to be written now."""
        if self._aside and monotonic() >= self._look_at:
            results, self._aside = self._aside, []
            await self.set_aside(con, results)
        taken, self._open = self._open, []
        return taken

    def give_back(self, results: Sequence[Result]) -> None:
        """They may have been written or not: the fence makes a second time harmless."""
        self._open = [*results, *self._open]

    async def set_aside(self, con: Any, results: Sequence[Result]) -> None:
        """Keep those whose rows are held by another transaction out of the next turns; the others stay open."""
        self._look_at = monotonic() + LOOK_AGAIN
        try:
            async with asyncio.timeout(ANSWER):
                held = {row["id"] for row in await self._sql.held.rows(con, ids=[r.item.id for r in results])}
        except BaseException:
            self.give_back(results)
            raise
        self._aside += [r for r in results if r.item.id in held]
        self.give_back([r for r in results if r.item.id not in held])


def columns(results: Sequence[Result]) -> dict[str, Any]:
    """Results as the arrays of the turn statement: those that are done apart, for they are the many."""
    done = [r.item for r in results if r.fate == "done"]
    rest = [r for r in results if r.fate != "done"] if len(done) < len(results) else []
    return {
        "done_ids": [item[0] for item in done],
        "done_fences": [item[4] for item in done],
        "rest_ids": [r.item.id for r in rest],
        "rest_fences": [r.item.attempts for r in rest],
        "rest_ats": [r.at for r in rest],
        "rest_waits": [None if r.fate in _UNDONE else r.wait for r in rest],
        "rest_errors": [r.error for r in rest],
        "rest_spared": [r.spared for r in rest],
        "rest_fates": [r.fate if r.fate in _UNDONE else None for r in rest],
        "rest_reasons": [r.reason for r in rest],
    }


def written(results: Sequence[Result], head: dict[str, Any]) -> tuple[list[Result], list[Item]]:
    """What a turn made of them, by its head: those that were written, and the items that had gone to somebody else."""
    over, gone = set(head["expired"] or ()), set(head["lost"] or ())
    mine = [r._replace(fate="expired") if r.item.id in over else r for r in results if _name(r.item) not in gone]
    return mine, [r.item for r in results if _name(r.item) in gone] if gone else []


def _name(item: Item) -> str:
    """An item as one holder knows it."""
    return f"{item.id}:{item.attempts}"
