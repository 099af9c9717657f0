"""The deliveries of one claim, each of which ends for itself.

Knows their items, the tasks of their tries and who is told of their ends; not how a try is made.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

from soonish.delivery.send.record import Tell
from soonish.due.model import Ends, Item
from soonish.errors import LeaseLost

CUT: Final = 1.5  # seconds to write down what was cut short; the loop gives its handlers two before it lets go of items


class Batch:
    """Open until all of its items have ended."""

    def __init__(self, items: Sequence[Item], tell: Tell) -> None:
        self.items = items
        self.workspace_id = items[0].workspace_id
        self._tell = tell
        self._left = {item.id for item in items}
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()

    def end(self, ends: Ends) -> None:
        """Some of them ended."""
        self._left.difference_update([item.id for item, _ in ends])
        self._tell(ends)
        if not self._left and not self._over.done():
            self._over.set_result(None)

    def fail(self, items: Sequence[Item], error: Exception) -> None:
        """They could not be judged. Where a holder vanished, the lease stays and runs out: it is the mark of a try."""
        self.end([(item, LeaseLost() if item.interrupted else error) for item in items])

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
        await asyncio.wait([self._over])

    async def cut(self) -> None:
        """End what is under way. A try that was cut short may have been made, and is written down if that is soon."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait([self._over], timeout=CUT)

    def _gone(self, item: Item, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            self.fail([item], RuntimeError("it was cut short"))
        elif isinstance(error := task.exception(), Exception):
            self.fail([item], error)
