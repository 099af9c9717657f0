"""What is kept for a time goes after it, some rows a call, and nothing before."""

from datetime import timedelta

import pytest

from soonish.access.actions.idempotency import Idempotency
from soonish.access.actions.keys import make_key, revoke_key
from soonish.access.actions.retention import sweeps
from soonish.access.actions.sign_ins import make_login_link, sign_in, sign_out
from soonish.db.pool import Database
from soonish.vault import Vault
from soonish.vault import make_key as make_secret
from soonish.web.plan import Stored
from tests.access.conftest import Tenant

REQUEST = "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f"
KEEP = timedelta(days=400)
SWEEPS = dict(sweeps(KEEP))
AGE = {
    "idempotency": "created_at = now() - interval '1 day'",
    "audit": "at = now() - interval '400 days'",
    "login_link": "expires_at = now() - interval '400 days'",
    "sign_in": "ended_at = now() - interval '400 days'",
    "api_key": "revoked_at = now() - interval '400 days'",
}


@pytest.fixture
async def used(db: Database, acme: Tenant) -> Tenant:
    """A workspace with three ended rows of each kind."""
    answers = Idempotency(Vault.from_setting(make_secret()))
    for n in range(3):
        async with db.transaction(acme.id) as tx:
            key = await make_key(tx, acme.caller, "Robot", "read")
            await revoke_key(tx, acme.caller, key.id)
            link = await make_login_link(tx, acme.caller, "http://here", "read")
            await answers.store(tx, acme.caller, str(n), b"f", Stored(200, {}, b""))
        await sign_out(db, await sign_in(db, link.url.rpartition("/")[2], REQUEST), REQUEST)
    return acme


async def swept(db: Database, owner: Tenant, name: str, limit: int = 5_000) -> int:
    async with db.transaction(owner.id) as tx:
        return await SWEEPS[name](tx, limit)


@pytest.mark.parametrize("name", SWEEPS)
async def test_nothing_goes_before_its_time(db: Database, used: Tenant, name: str) -> None:
    assert await swept(db, used, name) == 0


@pytest.mark.parametrize("name", SWEEPS)
async def test_what_is_old_goes_some_rows_a_call(db: Database, used: Tenant, name: str) -> None:
    owner = await db.connect()  # past the wall, also for the record, which the program cannot change
    await owner.execute(f"UPDATE {name} SET {AGE[name]} WHERE workspace_id = {used.id}")
    total = await owner.fetchval(f"SELECT count(*) FROM {name} WHERE workspace_id = {used.id}")
    await owner.close()
    assert await swept(db, used, name, limit=2) == 2
    assert await swept(db, used, name) == total - 2
    assert await swept(db, used, name) == 0
