"""What the loops of this process tell: counted for metrics, and rung for live pages, at most once a second a workspace.

Claims and finishes ring no bell of their own, so that they cost nothing more; this is how a page learns of them.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from soonish import telemetry
from soonish.db.pool import Database
from soonish.db.sql import load
from soonish.due.loop.observer import VERY_LATE, Observer
from soonish.due.loop.work import Result
from soonish.due.model import Item

SQL: Final = load(str(Path(__file__).parent))


class Pulse(Observer):
    """The observer of a loop; `beat` tells the pages what it has seen since the last time."""

    def __init__(self, db: Database) -> None:
        self.on_dead: Callable[[int], Awaitable[object]] | None = None  # told of each workspace where something died
        self._db = db
        self._touched: set[int] = set()
        self._dead: set[int] = set()

    async def beat(self) -> None:
        """Ring for the workspaces in which something was worked."""
        if self._touched:
            touched, self._touched = self._touched, set()
            async with self._db.loops.acquire() as con:
                await SQL.ring.rows(con, workspaces=sorted(touched))
        if self.on_dead:
            await self._tell_deaths(self.on_dead)

    def suspect(self, workspace_ids: Iterable[int]) -> None:
        """Something may have died there of which nobody was told."""
        self._dead.update(one for one in workspace_ids if one)

    async def _tell_deaths(self, tell: Callable[[int], Awaitable[object]]) -> None:
        for workspace_id in tuple(self._dead):
            self._dead.discard(workspace_id)
            try:
                await tell(workspace_id)
            except BaseException:
                self._dead.add(workspace_id)  # the next beat tries again
                raise

    def woke(self, reason: str) -> None:
        super().woke(reason)
        telemetry.due_wakes_total.labels(reason).inc()
        if reason == "connection":
            telemetry.bell_reconnects_total.inc()

    def claimed(self, lane: str, items: Sequence[Item]) -> None:
        for part in _apart(items):
            super().claimed(lane, part)
        late = telemetry.due_lateness_seconds.labels(lane)
        for item in items:
            if item.first:
                late.observe(item.late)
            if item.interrupted:
                telemetry.due_lease_expired_total.labels(item.kind).inc()
        self._touched.update(item.workspace_id for item in items)

    def finished(self, lane: str, results: Sequence[Result]) -> None:
        super().finished(lane, results)
        for (kind, fate), count in Counter((result.item.kind, result.fate) for result in results).items():
            telemetry.due_finished_total.labels(kind, fate).inc(count)
        self._touched.update(result.item.workspace_id for result in results)
        self.suspect(result.item.workspace_id for result in results if result.fate == "dead")

    def lost(self, items: Sequence[Item]) -> None:
        super().lost(items)
        for kind, count in Counter(item.kind for item in items).items():
            telemetry.due_lost_results_total.labels(kind).inc(count)

    def unknown(self, kinds: Mapping[str, int]) -> None:
        super().unknown(kinds)
        telemetry.due_unknown_kind_items.set(sum(kinds.values()))


def _apart(items: Sequence[Item]) -> list[list[Item]]:
    """First claims that are very late, those that are not, and repeats, which say nothing of how moments are kept.

    Each has a line of the log of its own, so that `late=true` counts the late ones alone.
    """
    late = [item for item in items if item.first and item.late > VERY_LATE]
    kept = [item for item in items if item.first and item.late <= VERY_LATE]
    return [part for part in (late, kept, [item for item in items if not item.first]) if part]
