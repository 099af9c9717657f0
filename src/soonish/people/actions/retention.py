"""What people need not keep for ever: each sweep removes some old rows of the workspace that the transaction is in."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from soonish.db.pool import Tx
from soonish.people.actions.rows import SQL

Sweep: TypeAlias = Callable[[Tx, int], Awaitable[int]]
"""`(tx, limit)`: removes at most so many rows and answers how many; below the limit, there are no more."""


def sweeps() -> list[tuple[str, Sweep]]:
    """Links of confirmation mails that no longer work."""
    return [("address_token", _sweep_tokens)]


async def _sweep_tokens(tx: Tx, limit: int) -> int:
    return await SQL.sweep_tokens.run(tx, k=limit)
