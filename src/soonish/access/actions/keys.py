"""Make, list and revoke the keys that open the API.

A key is 256 random bits, shown where it is made and nowhere else; its SHA-256 is kept.
"""

from datetime import datetime

from soonish.access.actions.audit import SQL, record
from soonish.access.model import KEY_PREFIX, ApiKey, ApiKeyMade, RoleName, hint
from soonish.db.pool import Database, Tx
from soonish.errors import Conflict, FieldError, Invalid, NotFound
from soonish.vault import hash_token, new_token
from soonish.web.auth import Caller


async def make_key(tx: Tx, caller: Caller, name: str, role: RoleName, expires_at: datetime | None = None) -> ApiKeyMade:
    """Make a key in the caller's workspace; it works at once."""
    made = await new_key(tx, caller.workspace_id, name, role, expires_at)
    await record(tx, caller, "make", f"api_key/{made.id}", {"role": role, "expires_at": expires_at})
    return made


async def new_key(
    tx: Tx, workspace_id: int, name: str, role: RoleName, expires_at: datetime | None = None
) -> ApiKeyMade:
    """Write a key and nothing else: for a workspace that begins."""
    key = new_token(KEY_PREFIX)
    row = await SQL.make_key.row(
        tx,
        workspace_id=workspace_id,
        name=name,
        hash=hash_token(key),
        hint=hint(key),
        role=role,
        expires_at=expires_at,
    )
    values = dict(row)
    if values.pop("over"):
        raise Invalid("", FieldError("expires_at", "range", "This moment has passed; name one that is ahead"))
    return ApiKeyMade(**values, key=key)


async def list_keys(db: Database, caller: Caller, *, before: int | None = None, limit: int = 50) -> list[ApiKey]:
    """The keys that are not revoked, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return [ApiKey(**row) for row in await SQL.keys.rows(tx, before=before, k=limit)]


async def get_key(db: Database, caller: Caller, key_id: int) -> ApiKey:
    """One that is not revoked."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        row = await SQL.key.row(tx, id=key_id)
    if row is None:
        raise _gone(key_id)
    return ApiKey(**row)


async def revoke_key(tx: Tx, caller: Caller, key_id: int) -> None:
    """End a key for ever. One that can let an admin in always stays."""
    await SQL.workspace_for_update.row(tx, id=caller.workspace_id)
    key = await SQL.key_among_admins.row(tx, id=key_id)
    if key is None:
        raise _gone(key_id)
    if key["lets_in"] and not key["others"]:
        raise Conflict(
            "This is the last key that lets an admin in; make another admin key first", code="last_admin_key"
        )
    await SQL.revoke_key.run(tx, id=key_id)
    await record(tx, caller, "revoke", f"api_key/{key_id}")


def _gone(key_id: int) -> NotFound:
    return NotFound(f"There is no key {key_id}")
