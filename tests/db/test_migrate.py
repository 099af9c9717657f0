"""Migrations: fresh, again, at once, by logins of all kinds, and by hand where they may not."""

import asyncio
import importlib.util
from pathlib import Path

import asyncpg
import pytest

from soonish.db import migrate as migrating
from soonish.db.migrate import HEAD, MIGRATIONS, VERSIONS, check, make_roles, migrate
from soonish.db.pool import Database, WrongDatabase
from soonish.due import queue
from soonish.due.model import Put
from soonish.errors import Unavailable
from tests.support.postgres import PostgresServer


async def run(url: str, *statements: str) -> None:
    con = await asyncpg.connect(url)
    try:
        for statement in statements:
            await con.execute(statement)
    finally:
        await con.close()


async def owned_by(postgres: PostgresServer, login: str, database: str) -> str:
    """A fresh database that belongs to a login role, and its URL for that role."""
    await postgres.create(database)
    await run(postgres.url(), f"ALTER DATABASE {database} OWNER TO {login}")
    return postgres.url(database).replace("postgres@", f"{login}@")


async def test_a_fresh_database_gets_every_version_in_order(bare_url: str) -> None:
    assert await check(bare_url) == "empty"
    assert await migrate(bare_url) == list(VERSIONS)
    assert await check(bare_url) == "current"


async def test_migrating_again_changes_nothing(database_url: str) -> None:
    assert await migrate(database_url) == []
    assert await check(database_url) == "current"


async def test_processes_that_migrate_at_once_take_turns(bare_url: str) -> None:
    applied = await asyncio.gather(*(migrate(bare_url) for _ in range(4)))
    assert sorted(applied) == [[], [], [], list(VERSIONS)]


async def test_a_database_that_is_behind_gets_what_it_lacks(bare_url: str) -> None:
    assert await migrate(bare_url, VERSIONS[0]) == [VERSIONS[0]]
    assert await check(bare_url) == ("behind" if VERSIONS[1:] else "current")
    assert await migrate(bare_url) == list(VERSIONS[1:])


async def test_a_database_of_a_newer_program_is_left_alone(database_url: str) -> None:
    await run(database_url, "UPDATE alembic_version SET version_num = '9999_future'")
    assert await check(database_url) == "ahead"
    with pytest.raises(WrongDatabase, match="9999_future") as refused:
        await migrate(database_url)
    assert refused.value.code == "schema"


async def test_a_table_that_is_held_ends_the_wait_and_changes_nothing(
    bare_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrating, "LOCK_TIMEOUT", "50ms")
    holder = await asyncpg.connect(bare_url)
    try:
        await holder.execute("BEGIN; CREATE SCHEMA due")
        with pytest.raises(Unavailable, match="run `soonish migrate` again"):
            await migrate(bare_url)
        assert await check(bare_url) == "empty"
        await holder.execute("ROLLBACK")
        assert await migrate(bare_url) == list(VERSIONS)
    finally:
        await holder.close()


async def test_the_owner_of_a_database_need_not_be_a_superuser(
    migrated_template: str, postgres: PostgresServer
) -> None:
    await run(postgres.url(), "CREATE ROLE plain LOGIN", "GRANT soonish_app, soonish_lookup TO plain")
    url = await owned_by(postgres, "plain", "of_plain")
    assert await migrate(url) == list(VERSIONS)
    database = await Database.open(url)
    async with database.transaction(1) as tx:
        await queue.put(tx, [Put("a.b", "1")])
        assert await tx.fetchval("SELECT current_user") == "soonish_app"
        assert await tx.fetchval("SELECT count(*) FROM due.due") == 1
    await database.close()


async def test_databases_of_one_new_server_make_the_roles_once(own_postgres: PostgresServer) -> None:
    await run(own_postgres.url(), "CREATE ROLE maker LOGIN CREATEROLE")
    urls = [await owned_by(own_postgres, "maker", f"d{n}") for n in range(4)]
    assert await asyncio.gather(*map(migrate, urls)) == [list(VERSIONS)] * 4
    await (await Database.open(urls[3])).close()


async def test_a_login_that_may_not_make_the_roles_is_told_what_to_run(own_postgres: PostgresServer) -> None:
    await run(own_postgres.url(), "CREATE ROLE guest LOGIN")
    url = await owned_by(own_postgres, "guest", "of_guest")
    with pytest.raises(WrongDatabase) as refused:
        await migrate(url)
    told = refused.value.message.partition("superuser: ")[2].partition(" (")[0]
    await run(own_postgres.url(), *told.split("; "))
    assert await migrate(url) == list(VERSIONS)


async def test_a_role_that_could_look_over_the_wall_is_refused(own_postgres: PostgresServer) -> None:
    await run(own_postgres.url(), "CREATE ROLE soonish_app NOLOGIN BYPASSRLS")
    with pytest.raises(WrongDatabase, match="BYPASSRLS"):
        await migrate(own_postgres.url())
    assert await check(own_postgres.url()) == "empty"


async def test_a_login_that_does_not_own_the_database_is_told_so(
    migrated_template: str, postgres: PostgresServer
) -> None:
    await run(postgres.url(), "CREATE ROLE stranger LOGIN", "GRANT soonish_app, soonish_lookup TO stranger")
    url = (await postgres.create("not_mine")).replace("postgres@", "stranger@")
    with pytest.raises(WrongDatabase, match="owner of the database"):
        await migrate(url)


async def test_the_roles_can_be_made_before_a_dump_is_restored(own_postgres: PostgresServer) -> None:
    for _ in range(2):
        await make_roles(own_postgres.url())
    assert await check(own_postgres.url()) == "empty"
    await run(own_postgres.url(), "SET ROLE soonish_app", "SET ROLE soonish_lookup")


async def test_a_database_that_is_away_is_unavailable(tmp_path: Path) -> None:
    url = f"postgresql://postgres@/soonish?host={tmp_path}"
    with pytest.raises(Unavailable):
        await migrate(url)
    with pytest.raises(Unavailable):
        await check(url)


@pytest.mark.parametrize("name", VERSIONS)
def test_a_version_is_named_as_its_file_and_follows_the_one_before(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, MIGRATIONS / "versions" / f"{name}.py")
    assert spec and spec.loader
    version = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(version)
    before = (None, *VERSIONS)[VERSIONS.index(name)]
    assert (version.revision, version.down_revision) == (name, before)
    assert VERSIONS[-1] == HEAD
