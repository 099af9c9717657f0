"""Keys: shown once, kept as a hash, and never all gone for an admin."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from soonish.access.actions.keys import list_keys, make_key, revoke_key
from soonish.access.model import ApiKeyMade, RoleName
from soonish.db.pool import Database
from soonish.errors import Conflict, Invalid, NotFound, SoonishError
from soonish.vault import hash_token
from tests.access.conftest import Tenant


async def made(db: Database, owner: Tenant, role: RoleName = "admin", **more: datetime) -> ApiKeyMade:
    async with db.transaction(owner.id) as tx:
        return await make_key(tx, owner.caller, "Robot", role, **more)


async def revoke(db: Database, owner: Tenant, key_id: int) -> None:
    async with db.transaction(owner.id) as tx:
        await revoke_key(tx, owner.caller, key_id)


async def test_of_a_key_only_its_hash_and_hint_are_kept(db: Database, acme: Tenant) -> None:
    key = await made(db, acme)
    async with db.transaction(acme.id, readonly=True) as tx:
        row = await tx.fetchrow("SELECT * FROM api_key WHERE id = $1", key.id)
    assert row["hash"] == hash_token(key.key)
    assert key.key not in str(dict(row))
    assert row["hint"] == key.key[:7]


async def test_a_key_that_would_be_over_already_is_refused_and_not_written(db: Database, acme: Tenant) -> None:
    with pytest.raises(Invalid) as refused:
        await made(db, acme, expires_at=datetime.now(UTC) - timedelta(seconds=5))
    assert [(error.field, error.code) for error in refused.value.errors] == [("expires_at", "range")]
    assert len(await list_keys(db, acme.caller)) == 1


async def test_a_revoked_key_is_gone_from_the_list_and_cannot_be_revoked_again(db: Database, acme: Tenant) -> None:
    key = await made(db, acme, "read")
    await revoke(db, acme, key.id)
    assert key.id not in [one.id for one in await list_keys(db, acme.caller)]
    with pytest.raises(NotFound):
        await revoke(db, acme, key.id)


async def test_the_last_admin_key_stays(db: Database, acme: Tenant) -> None:
    await made(db, acme, "write")
    only = (await list_keys(db, acme.caller))[-1]
    with pytest.raises(Conflict) as refused:
        await revoke(db, acme, only.id)
    assert refused.value.code == "last_admin_key"


async def test_an_admin_key_that_has_expired_does_not_count_as_another(db: Database, acme: Tenant) -> None:
    first = (await list_keys(db, acme.caller))[0]
    spent = await made(db, acme)
    async with db.transaction(acme.id) as tx:
        await tx.execute("UPDATE api_key SET expires_at = now() - interval '1 second' WHERE id = $1", spent.id)
    with pytest.raises(Conflict):
        await revoke(db, acme, first.id)
    await revoke(db, acme, spent.id)


async def test_two_admins_who_revoke_each_others_key_at_once_leave_one(db: Database, acme: Tenant) -> None:
    first, second = (await list_keys(db, acme.caller))[0], await made(db, acme)
    results = await asyncio.gather(
        *[revoke(db, acme, key_id) for key_id in (first.id, second.id)], return_exceptions=True
    )
    assert [type(result) for result in results if result] == [Conflict]
    assert len(await list_keys(db, acme.caller)) == 1


async def test_a_key_of_another_workspace_cannot_be_seen_or_revoked(db: Database, main: Tenant, acme: Tenant) -> None:
    theirs = (await list_keys(db, main.caller))[0]
    assert theirs.id not in [key.id for key in await list_keys(db, acme.caller)]
    with pytest.raises(NotFound):
        await revoke(db, acme, theirs.id)


async def test_pages_of_keys_have_each_key_once(db: Database, acme: Tenant) -> None:
    for _ in range(4):
        await made(db, acme, "read")
    seen: list[int] = []
    while page := await list_keys(db, acme.caller, before=seen[-1] if seen else None, limit=2):
        seen += [key.id for key in page]
    assert len(seen) == len(set(seen)) == 5
    assert seen == sorted(seen, reverse=True)


async def test_what_failed_is_not_in_the_record(db: Database, acme: Tenant) -> None:
    with pytest.raises(SoonishError):
        await revoke(db, acme, 10_000)
    async with db.transaction(acme.id, readonly=True) as tx:
        assert await tx.fetchval("SELECT count(*) FROM audit") == 0
