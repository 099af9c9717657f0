"""What access need not keep for ever: each sweep removes some old rows of the workspace that the transaction is in."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeAlias

from soonish.access.actions.audit import SQL
from soonish.access.model import ANSWER_LIFE
from soonish.db.pool import Tx
from soonish.db.sql import Statement

Sweep: TypeAlias = Callable[[Tx, int], Awaitable[int]]
"""`(tx, limit)`: removes at most so many rows and answers how many; below the limit, there are no more."""


def sweeps(keep: timedelta) -> list[tuple[str, Sweep]]:
    """Stored answers after their 24 hours; the record, and links, sign-ins and keys that ended, after `keep`."""
    return [
        ("idempotency", _sweep(SQL.sweep_answers, ANSWER_LIFE)),
        ("audit", _sweep(SQL.sweep_audit, keep)),
        ("login_link", _sweep(SQL.sweep_links, keep)),
        ("sign_in", _sweep(SQL.sweep_sign_ins, keep)),
        ("api_key", _sweep(SQL.sweep_keys, keep)),
    ]


def _sweep(statement: Statement, keep: timedelta) -> Sweep:
    async def sweep(tx: Tx, limit: int) -> int:
        return await statement.run(tx, keep=keep, k=limit)

    return sweep
