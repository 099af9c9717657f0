"""Words for tests of the ledger: people with addresses, endpoints, things told by the outbox, and ends as of a try."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from soonish.access.actions.audit import SQL, system_caller
from soonish.delivery.model.letters import Message, Recipient
from soonish.delivery.outbox import Fact, Outbox
from soonish.web.sse import ring
from tests.support.site import House, Site


async def person(house: House, name: str = "Ben", **more: Any) -> int:
    """Somebody without an address."""
    values = {"timezone": "Europe/Berlin", "locale": "en", "name": name} | more
    return await _insert(house, "person", **values)


async def address(house: House, person_id: int, label: str = "phone", kind: str = "console", **more: Any) -> int:
    values = {"scheme": kind, "target_hint": kind, "target_print": uuid4().bytes, "kind": kind, "label": label}
    return await _insert(house, "address", person_id=person_id, **values | more)


async def endpoint(house: House, name: str = "crm", *types: str, **more: Any) -> int:
    values = {"name": name, "kind": "webhook", "config": "{}", "fact_types": list(types) or ["*"]}
    return await _insert(house, "endpoint", **values | more)


async def tell(product: Site, house: House, cause: str, *people: int | Recipient, **more: Any) -> list[int]:
    """Tell people; answers the ids of the deliveries, in the order of the people."""
    message = Message(**{"title": "Doors open", "body": "Hello {{name}}"} | more)
    recipients = [one if isinstance(one, Recipient) else Recipient(one) for one in people]
    async with house.db.transaction(house.id) as tx:
        await outbox(product).tell(tx, cause, message, recipients)
    return await deliveries(house, cause)


async def state(product: Site, house: House, cause: str, kind: str = "custom.thing", **more: Any) -> list[int]:
    """State a fact; answers the ids of the deliveries."""
    async with house.db.transaction(house.id) as tx:
        await outbox(product).state(tx, Fact(cause=cause, type=kind, subject="thing/1", data={}, **more))
    return await deliveries(house, cause)


async def deliveries(house: House, cause: str) -> list[int]:
    rows = await house.rows("SELECT id FROM delivery WHERE cause = $1 ORDER BY person_id, id", cause)
    return [row["id"] for row in rows]


async def end(house: House, delivery_id: int, state: str, reason: str | None = None, *, late_ms: int = 4) -> None:
    """As the recorder would write it: the state, the target's try, no item any more, a ring for whoever waits."""
    outcome = {"sent": "sent", "unknown": "unknown"}.get(state, "failed")
    async with house.db.transaction(house.id) as tx:
        row = await tx.fetchrow(
            """UPDATE delivery SET state = $2, reason = $3, tries = tries + 1, ended_at = clock_timestamp(),
                 next_at = NULL, first_at = coalesce(first_at, due_at + $4::interval)
               WHERE id = $1 RETURNING tries""",
            delivery_id,
            state,
            reason,
            timedelta(milliseconds=late_ms),
        )
        await tx.execute(
            """INSERT INTO attempt (workspace_id, delivery_id, n, started_at, ended_at, outcome, code, status, answer,
                                    latency_ms)
               VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp(), $4, $5, $6, $7, 81)""",
            house.id,
            delivery_id,
            row["tries"],
            outcome,
            reason or "ok",
            503 if reason == "http_503" else None,
            "busy" if reason == "http_503" else "",
        )
        await tx.execute("DELETE FROM due.due WHERE kind = 'delivery.send' AND key = $1", str(delivery_id))
        await ring(tx, house.id, f"delivery/{delivery_id}")


async def on_record(house: House, verb: str, entity: str) -> None:
    """A line of the record, as an action writes it."""
    caller = system_caller(house.id)
    values = {"actor": "key:1", "request_id": caller.request_id, "verb": verb, "entity": entity, "changes": "{}"}
    async with house.db.transaction(house.id) as tx:
        await SQL.record.run(tx, workspace_id=house.id, **values)


def outbox(product: Site) -> Outbox:
    assert product.process
    return Outbox(product.process.vault)


async def _insert(house: House, table: str, **values: Any) -> int:
    names, places = ", ".join(values), ", ".join(f"${n}" for n in range(2, len(values) + 2))
    rows = await house.rows(
        f"INSERT INTO {table} (workspace_id, {names}) VALUES ($1, {places}) RETURNING id", house.id, *values.values()
    )
    return int(rows[0]["id"])
