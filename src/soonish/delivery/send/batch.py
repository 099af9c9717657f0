"""The deliveries of one claim, each of which ends for itself.

Knows their items, the tasks of their tries and who is told of their ends; not how a try is made.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from soonish.delivery.send.record import Tell
from soonish.due.model import Ends, Item


class Batch:
    """Open until all of its items have ended."""

    def __init__(self, items: Sequence[Item], tell: Tell) -> None:
        self.items = items
        self.workspace_id = items[0].workspace_id
        self._tell = tell
        self._left = {item.id for item in items}
        self._over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def end(self, ends: Ends) -> None:
        """Some of them ended."""
        self._left.difference_update([item.id for item, _ in ends])
        self._tell(ends)
        if not self._left:
            self._over.set()

    def left(self) -> list[Item]:
        """Those that have not ended."""
        return [item for item in self.items if item.id in self._left]

    def spawn(self, item: Item, way: Coroutine[Any, Any, None]) -> None:
        """Let one of them go its way; where that raises, it ended so."""
        task = asyncio.create_task(way)
        self._tasks.add(task)
        task.add_done_callback(partial(self._gone, item))

    async def over(self) -> None:
        """Wait for the last one."""
        await self._over.wait()

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _gone(self, item: Item, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.end([(item, error)])
