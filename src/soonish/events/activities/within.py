"""What all activities of events stand on: a transaction in the workspace of the event, and a sign of life meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar

from temporalio import activity

from soonish.db.again import run_again
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.errors import NotFound

P = ParamSpec("P")
T = TypeVar("T")

SQL: Final = load(str(Path(__file__).parent))
BEAT: Final = 5.0  # seconds


class Within:
    """The database, as activities use it: they know the id of an event, and nothing of workspaces."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def workspace(self, event_id: int) -> int | None:
        """Whose event that is."""
        async with self._db.transaction(0, readonly=True) as tx:
            found: int | None = await SQL.workspace_of.value(tx, id=event_id)
            return found

    async def run(
        self, event_id: int, action: Callable[Concatenate[Tx, P], Awaitable[T]], *args: P.args, **more: P.kwargs
    ) -> T:
        """Run an action in a transaction of its own, in the workspace of the event."""
        workspace = await self.workspace(event_id)
        if workspace is None:
            raise NotFound(f"There is no event {event_id}")

        async def once() -> T:
            async with self._db.transaction(workspace) as tx:
                return await action(tx, *args, **more)

        return await run_again(once)


@asynccontextmanager
async def alive() -> AsyncIterator[None]:
    """Tell the server every few seconds that this goes on."""
    beating = asyncio.create_task(_beat())
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(BEAT)
