"""Which workspaces are closed, for the due loops, which ask before each item and cannot wait for an answer."""

import asyncio
import logging
from contextlib import suppress
from typing import Any, Self

from soonish.access.actions.audit import SQL
from soonish.access.model import CLOSED
from soonish.db.pool import Database

EVERY = 5.0  # seconds between two looks

_log = logging.getLogger(__name__)


class ClosedWorkspaces:
    """Looks at once and then every 5 s, as an async context manager; `refuse` is for the loop.

    Closing a workspace drops its items; this is for what a handler that ran meanwhile puts afterwards.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._ids: frozenset[int] = frozenset()
        self._task: asyncio.Task[None] | None = None

    def refuse(self, item: Any) -> str | None:
        """Why an item must not be handled, or None."""
        return CLOSED if item.workspace_id in self._ids else None

    async def look(self) -> None:
        async with self._db.transaction(0, readonly=True) as tx:
            self._ids = frozenset(row["id"] for row in await SQL.closed_workspaces.rows(tx))

    async def __aenter__(self) -> Self:
        await self.look()
        self._task = asyncio.create_task(self._watch(), name="closed-workspaces")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.look()
            except Exception as error:  # what was known last goes on to hold
                _log.warning("access.look_failed: %s", type(error).__name__)
