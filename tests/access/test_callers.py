"""Who is behind a key: found once in 5 seconds, and nobody within 5 seconds of its end."""

from collections.abc import Sequence
from datetime import datetime

import pytest

from soonish.access.actions.callers import Callers
from soonish.access.actions.workspaces import close_workspace
from soonish.db.pool import Database
from tests.access.conftest import Tenant

REQUEST = "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def alter(db: Database, owner: Tenant, change: str, *values: object) -> None:
    async with db.transaction(owner.id) as tx:
        await tx.execute(change, *values)


async def last_used(db: Database, owner: Tenant) -> datetime | None:
    async with db.transaction(owner.id, readonly=True) as tx:
        return await tx.fetchval("SELECT last_used_at FROM api_key")  # type: ignore[no-any-return]


ENDINGS: Sequence[str] = (
    "UPDATE api_key SET revoked_at = now()",
    "UPDATE api_key SET expires_at = now()",
)


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_key_that_ended_works_for_five_seconds_at_most(db: Database, acme: Tenant, ending: str) -> None:
    clock = Clock()
    callers = Callers(db, clock=clock)
    assert await callers.find("key", acme.key, REQUEST) is not None
    await alter(db, acme, ending)
    clock.now += 4.9
    assert await callers.find("key", acme.key, REQUEST) is not None
    clock.now += 0.1
    assert await callers.find("key", acme.key, REQUEST) is None


async def test_a_key_about_to_expire_is_remembered_no_longer_than_it_lives(db: Database, acme: Tenant) -> None:
    await alter(db, acme, "UPDATE api_key SET expires_at = now() + interval '2 seconds'")
    clock = Clock()
    callers = Callers(db, clock=clock)
    assert await callers.find("key", acme.key, REQUEST) is not None
    await alter(db, acme, "UPDATE api_key SET expires_at = now()")
    clock.now += 2.0
    assert await callers.find("key", acme.key, REQUEST) is None


async def test_the_key_of_a_closed_workspace_is_nobodys(db: Database, main: Tenant, acme: Tenant) -> None:
    async with db.transaction(main.id) as tx:
        await close_workspace(tx, main.caller, acme.id)
    assert await Callers(db).find("key", acme.key, REQUEST) is None


@pytest.mark.parametrize("secret", ["", "sk_", "sk_" + "a" * 43, "'; DROP TABLE api_key; --", "\0", "🗝" * 46])
async def test_what_is_no_key_is_nobodys(db: Database, main: Tenant, secret: str) -> None:
    callers = Callers(db)
    assert await callers.find("key", secret, REQUEST) is None
    assert await callers.find("sign_in", secret, REQUEST) is None


async def test_a_key_is_not_taken_for_a_cookie(db: Database, acme: Tenant) -> None:
    assert await Callers(db).find("sign_in", acme.key.removeprefix("sk_"), REQUEST) is None


async def test_the_last_use_is_written_once_a_minute(db: Database, acme: Tenant) -> None:
    first = await last_used(db, acme)
    assert first is not None
    await Callers(db).find("key", acme.key, REQUEST)
    assert await last_used(db, acme) == first
    await alter(db, acme, "UPDATE api_key SET last_used_at = now() - interval '61 seconds'")
    await Callers(db).find("key", acme.key, REQUEST)
    later = await last_used(db, acme)
    assert later is not None
    assert later > first


async def test_a_key_works_where_nothing_can_be_written(db: Database, acme: Tenant, database_url: str) -> None:
    await alter(db, acme, "UPDATE api_key SET last_used_at = NULL")
    owner = await db.connect()
    name = await owner.fetchval("SELECT current_database()")
    await owner.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')  # as a standby would be
    await owner.close()
    standby = await Database.open(database_url)
    assert await Callers(standby).find("key", acme.key, REQUEST) is not None
    await standby.close()
