"""The record of who changed what: one row in the transaction of each changing request.

Knows who asked and by which request, not what an entity is: that is a text such as `api_key/7`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from soonish.access.model import OPERATOR_WORKSPACE, AuditEntry, Line, key_ids, readable
from soonish.db.pool import Database, Tx
from soonish.db.sql import load
from soonish.web.auth import Caller, Role

SQL = load(str(Path(__file__).parent))


def system_caller(workspace_id: int = OPERATOR_WORKSPACE) -> Caller:
    """Who asks where nobody does: a first start, a handler, a command on the server itself."""
    return Caller(
        workspace_id=workspace_id, role=Role.OPERATOR, actor="system", person_id=None, request_id=str(uuid4())
    )


async def record(tx: Tx, caller: Caller, verb: str, entity: str, changes: Mapping[str, Any] | None = None) -> None:
    """Write down a change. `changes` holds no secret, and no name, email or birthday of a person."""
    await SQL.record.run(
        tx,
        workspace_id=caller.workspace_id,
        actor=caller.actor,
        request_id=caller.request_id,
        verb=verb,
        entity=entity,
        changes=msgspec.json.encode(changes or {}).decode(),
    )


async def list_audit(
    db: Database,
    caller: Caller,
    *,
    entity: str | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[AuditEntry]:
    """The record of the caller's workspace, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        rows = await SQL.audit.rows(tx, entity=entity, actor=actor, since=since, until=until, before=before, k=limit)
    return [AuditEntry(**{**row, "changes": msgspec.json.decode(row["changes"])}) for row in rows]


async def read_aloud(db: Database, caller: Caller, entries: Sequence[AuditEntry]) -> list[Line]:
    """The same entries as sentences, with keys by their names."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        names = dict(await SQL.key_names.rows(tx, ids=key_ids(entries)))
    return [readable(entry, names) for entry in entries]
