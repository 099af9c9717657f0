"""Run an action again where PostgreSQL made it the victim of others: nothing of it was written, nothing is doubled."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

import asyncpg

from soonish.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")

VICTIMS = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    # A migration changed a table under a prepared statement; asyncpg has dropped it and plans anew the next time.
    asyncpg.InvalidCachedStatementError,
    asyncpg.OutdatedSchemaCacheError,
)


async def run_again(action: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an action; where it met a deadlock or a race, again, three times."""
    try:
        return await action(*args, **kwargs)
    except VICTIMS:
        return await after_race(action, *args, **kwargs)


async def after_race(action: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an action that was a victim once, up to three times."""
    for wait in (0.01, 0.04, 0.16):
        await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311 - two victims must not meet again
        try:
            return await action(*args, **kwargs)
        except VICTIMS as error:
            last = error
    raise Unavailable("Too many changes at once in the same place; ask again in a moment") from last
