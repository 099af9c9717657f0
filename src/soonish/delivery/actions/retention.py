"""What deliveries need not keep for ever: each sweep removes some old rows of the workspace the transaction is in.

What is still to come stays, however long ago it was asked for; a message or a fact stays as long as its deliveries.
"""

from datetime import timedelta

from soonish.access.actions.retention import Sweep
from soonish.db.pool import Tx
from soonish.db.sql import Statement
from soonish.delivery.actions.facts import SQL

REACH = 10  # times as many rows are looked at as may go: some at the front may have to stay


def sweeps(keep: timedelta) -> list[tuple[str, Sweep]]:
    """Deliveries with their tries, then messages and facts that have none left, after `keep`; slots of rates sooner."""
    return [
        ("delivery", _sweep(SQL.sweep_deliveries, keep)),
        ("message", _sweep(SQL.sweep_messages, keep)),
        ("fact", _sweep(SQL.sweep_facts, keep)),
        ("rate_slot", _sweep_slots),
    ]


async def _sweep_slots(tx: Tx, limit: int) -> int:
    """They belong to no workspace; the first that is swept finds them all."""
    return await SQL.sweep_slots.run(tx, k=limit)


def _sweep(statement: Statement, keep: timedelta) -> Sweep:
    async def sweep(tx: Tx, limit: int) -> int:
        count: int = await statement.value(tx, keep=keep, k=limit, reach=limit * REACH)
        return count

    return sweep
