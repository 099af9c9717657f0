"""A workspace with people, addresses and endpoints, written as plain rows, and what became of what they were told."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from soonish.access.actions.start import first_start
from soonish.db.pool import Database
from soonish.delivery.outbox import Outbox
from soonish.vault import Vault, make_key


@dataclass
class Ledger:
    """Workspace 1 of a database."""

    db: Database
    vault: Vault
    outbox: Outbox

    @classmethod
    async def of(cls, db: Database, **options: Any) -> "Ledger":
        assert await first_start(db)
        vault = Vault.from_setting(make_key())
        return cls(db, vault, Outbox(vault, **options))

    async def value(self, statement: str, *values: Any) -> Any:
        async with self.db.transaction(1) as tx:
            return await tx.fetchval(statement, *values)

    async def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        async with self.db.transaction(1) as tx:
            return [dict(row) for row in await tx.fetch(statement, *values)]

    async def run(self, statement: str, *values: Any) -> None:
        async with self.db.transaction(1) as tx:
            await tx.execute(statement, *values)

    async def person(self, name: str = "Ben", **columns: Any) -> int:
        return await self._insert("person", {"name": name, "timezone": "Europe/Berlin", "locale": "de"} | columns)

    async def address(self, person_id: int, label: str = "inbox", kind: str = "console", **columns: Any) -> int:
        target = columns.pop("target", None)
        row = {
            "person_id": person_id, "kind": kind, "label": label, "scheme": kind, "target_hint": "", "tags": [],
            "target_print": hashlib.sha256(label.encode()).digest(),
        } | columns  # fmt: skip
        address_id = await self._insert("address", row)
        if target:
            sealed = self.vault.seal(target.encode(), (1, "address", "target", address_id))
            await self.run("UPDATE address SET target = $2 WHERE id = $1", address_id, sealed)
        return address_id

    async def endpoint(self, url: str = "http://127.0.0.1:9/", **columns: Any) -> int:
        secret = columns.pop("secret", None)
        row = {"name": "crm", "kind": "webhook", "config": json.dumps({"url": url}), "fact_types": ["*"]} | columns
        endpoint_id = await self._insert("endpoint", row)
        if secret:
            row_id = await self.value("SELECT nextval('endpoint_secret_id_seq')")
            await self.run(
                """INSERT INTO endpoint_secret (id, workspace_id, endpoint_id, secret) OVERRIDING SYSTEM VALUE
                   VALUES ($1, 1, $2, $3)""",
                row_id, endpoint_id, self.vault.seal(secret, (1, "endpoint_secret", "secret", row_id)),
            )  # fmt: skip
        return endpoint_id

    async def deliveries(self) -> list[dict[str, Any]]:
        return await self.rows("SELECT * FROM delivery ORDER BY id")

    async def due(self) -> list[dict[str, Any]]:
        return await self.rows("SELECT * FROM due.due WHERE kind LIKE 'delivery.%' ORDER BY id")

    async def _insert(self, table: str, columns: dict[str, Any]) -> int:
        names = ", ".join(columns)
        places = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
        statement = f"INSERT INTO {table} (workspace_id, {names}) VALUES (1, {places}) RETURNING id"
        return int(await self.value(statement, *columns.values()))
