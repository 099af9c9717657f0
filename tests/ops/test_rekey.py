"""The change of keys: every value comes under the newest one, the work ends, and says what it did."""

from datetime import timedelta

import pytest

from soonish.access.actions import start
from soonish.access.actions.idempotency import Idempotency
from soonish.access.actions.workspaces import close_workspace
from soonish.db.pool import Database
from soonish.due import drain
from soonish.ops.actions import secrets
from soonish.ops.actions.system import Rekeying, find_rekeying, rekey
from soonish.ops.on_due import kinds
from soonish.vault import Vault, make_key
from soonish.web.plan import Stored
from tests.ops.conftest import SECRETS, Tenant

OLD, NEW = make_key(), make_key()


async def reseal_all(db: Database, vault: Vault) -> Rekeying | None:
    """Ask for it, and do all that comes due by that."""
    await rekey(db, vault, SECRETS)
    await drain(db.loops, kinds(db, keep=timedelta(days=90), vault=vault, secrets=SECRETS))
    return await find_rekeying(db)


async def test_every_value_comes_under_the_newest_key_and_the_work_ends(db: Database) -> None:
    key = await start.hmac_key(db, Vault.from_setting(OLD))
    both = Vault.from_setting(f"{NEW},{OLD}")
    ended = await reseal_all(db, both)
    assert ended is not None
    assert (ended.running, ended.done, ended.unreadable) == (False, 1, 0)
    assert await start.hmac_key(db, Vault.from_setting(NEW)) == key


async def test_a_closed_workspace_changes_its_keys_too(db: Database, main: Tenant, acme: Tenant) -> None:
    old = Vault.from_setting(OLD)
    for tenant in (main, acme):
        async with db.transaction(tenant.id) as tx:
            stored = Stored(status=200, headers={}, body=b"kept")
            await Idempotency(old).store(tx, tenant.caller, "a", b"f", stored)
    async with db.transaction(main.id) as tx:
        await close_workspace(tx, main.caller, acme.id)
    both = Vault.from_setting(f"{NEW},{OLD}")
    assert (await secrets.count_by_key(db, SECRETS))[both.writing_key_id] == 0
    await reseal_all(db, both)
    assert await secrets.count_by_key(db, SECRETS) == {both.writing_key_id: 2}


async def test_a_second_time_finds_nothing_to_do_and_ends_too(db: Database) -> None:
    await start.hmac_key(db, Vault.from_setting(OLD))
    both = Vault.from_setting(f"{NEW},{OLD}")
    await reseal_all(db, both)
    again = await reseal_all(db, both)
    assert again is not None
    assert (again.running, again.done) == (False, 0)


async def test_a_value_whose_key_is_gone_is_counted_and_keeps_nobody(db: Database) -> None:
    await start.hmac_key(db, Vault.from_setting(OLD))
    ended = await reseal_all(db, Vault.from_setting(NEW))
    assert ended is not None
    assert (ended.running, ended.done, ended.unreadable) == (False, 0, 1)


async def test_work_that_is_cut_into_parts_adds_up(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await start.hmac_key(db, Vault.from_setting(OLD))
    monkeypatch.setattr(secrets, "monotonic", iter(range(0, 10_000, 100)).__next__)  # each step takes too long
    ended = await reseal_all(db, Vault.from_setting(f"{NEW},{OLD}"))
    assert ended is not None
    assert (ended.running, ended.done) == (False, 1)
