"""Dead items are told of: a fact for each, also for those that died while nobody could state it."""

from soonish.db.pool import Database
from soonish.delivery.actions.ledger import SQL
from soonish.delivery.outbox import Fact, Outbox


async def state_deaths(db: Database, outbox: Outbox, workspace_id: int) -> int:
    """State what died in a workspace lately, once a death; answers how many there were."""
    async with db.transaction(workspace_id) as tx:
        rows = await SQL.deaths.rows(tx)
        facts = [
            Fact(
                cause=f"due/{row['id']}/dead/{row['attempts']}",
                type="due.dead",
                subject=f"due/{row['id']}",
                data={"due_id": row["id"], "kind": row["kind"], "key": row["key"], "reason": row["reason"] or ""},
            )
            for row in rows
        ]
        await outbox.state_all(tx, facts)
    return len(facts)
