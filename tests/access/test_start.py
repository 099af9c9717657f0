"""The first start makes what is made once, and nothing else ever does."""

import asyncio
from itertools import repeat

import pytest

from soonish.access.actions.audit import SQL
from soonish.access.actions.callers import Callers
from soonish.access.actions.sign_ins import sign_in
from soonish.access.actions.start import first_link, first_start, hmac_key
from soonish.access.model import is_key
from soonish.db.pool import Database
from soonish.vault import Vault, make_key
from soonish.web.auth import Role
from tests.access.conftest import Tenant

REQUEST = "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f"


async def test_of_many_processes_that_start_at_once_one_makes_the_key(db: Database) -> None:
    keys = await asyncio.gather(*[first_start(db) for _ in repeat(None, 8)])
    assert [key is None for key in keys].count(False) == 1
    async with db.transaction(1, readonly=True) as tx:
        assert await tx.fetchval("SELECT count(*) FROM api_key") == 1
        assert await tx.fetchval("SELECT slug FROM workspace") == "main"


async def test_the_first_key_is_the_operators(main: Tenant) -> None:
    assert is_key(main.key)
    assert (main.caller.workspace_id, main.caller.role, main.caller.slug) == (1, Role.OPERATOR, "main")


async def test_a_first_start_that_did_not_commit_can_be_done_again(db: Database) -> None:
    try:
        async with db.transaction(1) as tx:
            await SQL.make_first_workspace.run(tx)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert await first_start(db) is not None


async def test_a_key_that_could_not_be_kept_was_never_made(db: Database) -> None:
    def full(_key: str) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        await first_start(db, full)
    kept: list[str] = []
    assert [await first_start(db, kept.append)] == kept


async def test_a_later_start_makes_no_key_even_if_the_first_was_revoked(db: Database, main: Tenant) -> None:
    async with db.transaction(1) as tx:
        await tx.execute("UPDATE api_key SET revoked_at = now()")
    assert await first_start(db) is None


async def test_the_link_of_a_start_signs_in_as_operator(db: Database, main: Tenant) -> None:
    url = await first_link(db, "https://soonish.example/")
    base, _, token = url.rpartition("/")
    assert base == "https://soonish.example/login"
    cookie = await sign_in(db, token, REQUEST)
    caller = await Callers(db).find("sign_in", cookie, REQUEST)
    assert caller is not None
    assert caller.role is Role.OPERATOR


async def test_the_key_for_signed_links_is_made_once_and_kept_sealed(db: Database) -> None:
    vault = Vault.from_setting(make_key())
    keys = await asyncio.gather(*[hmac_key(db, vault) for _ in repeat(None, 4)])
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32
    async with db.transaction(0, readonly=True) as tx:
        assert keys[0] not in await tx.fetchval("SELECT hmac_key FROM installation")
