"""A database in a file, and out of it again."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from soonish.db.migrate import HEAD, check
from soonish.db.pool import Database
from soonish.due import Put, put
from soonish.embedded.archive import ArchiveFailed, _target, dump, restore
from soonish.errors import Unavailable


async def ask(url: str, statement: str, *values: Any) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement, *values)
    finally:
        await connection.close()


@pytest.fixture
async def archive(db: Database, database_url: str, tmp_path: Path) -> Path:
    """A migrated database with one item, in a file."""
    async with db.transaction(1) as tx:
        await put(tx, [Put("test.thing", "kept", payload={"n": 7})], workspace_id=1)
    await dump(database_url, tmp_path / "dump")
    return tmp_path / "dump"


async def test_what_was_dumped_is_there_after_the_restore_and_works(archive: Path, bare_url: str) -> None:
    said: list[str] = []
    await restore(bare_url, archive, said.append)
    assert await check(bare_url) == "current"
    restored = await Database.open(bare_url)
    async with restored.transaction(1) as tx:
        assert await tx.fetchval("SELECT payload ->> 'n' FROM due.due WHERE key = 'kept'") == "7"
    async with restored.transaction(2) as tx:
        assert await tx.fetchval("SELECT count(*) FROM due.due") == 0
    await restored.close()
    assert any("due" in line for line in said)


async def test_functions_that_look_over_the_wall_stay_those_of_the_role_that_may(
    archive: Path, database_url: str, bare_url: str
) -> None:
    await restore(bare_url, archive)
    lookups = """SELECT array_agg(proname::text ORDER BY proname) FROM pg_proc
        WHERE prosecdef AND proowner = 'soonish_lookup'::regrole"""
    found = await ask(bare_url, lookups)
    assert "find_token" in found
    assert found == await ask(database_url, lookups)


def test_only_its_owner_reads_the_file(archive: Path) -> None:
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600


async def test_a_restore_into_a_database_that_is_used_changes_nothing(
    archive: Path, db: Database, database_url: str
) -> None:
    with pytest.raises(ArchiveFailed, match="already exists"):
        await restore(database_url, archive)
    assert await ask(database_url, "SELECT count(*) FROM due.due") == 1
    assert await ask(database_url, "SELECT version_num FROM alembic_version") == HEAD


async def test_a_file_cut_short_restores_nothing(archive: Path, bare_url: str) -> None:
    os.truncate(archive, os.stat(archive).st_size * 2 // 3)  # noqa: PTH116
    with pytest.raises(ArchiveFailed):
        await restore(bare_url, archive)
    assert await check(bare_url) == "empty"


async def test_a_dump_of_nothing_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="not reachable"):
        await dump("postgresql://nobody@127.0.0.1:1/x", tmp_path / "dump")
    assert not (tmp_path / "dump").exists()


async def test_a_dump_that_is_broken_off_ends_its_program_and_leaves_no_file(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    owner = await asyncpg.connect(database_url)
    async with owner.transaction():
        await owner.execute("LOCK TABLE due.due")  # it would wait for ever
        dumping = asyncio.create_task(dump(database_url, tmp_path / "dump"))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_dump' AND wait_event_type = 'Lock'"
        )
        async with asyncio.timeout(60):
            while not await ask(database_url, waiting):
                await asyncio.sleep(0.02)
        dumping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dumping
    await owner.close()
    assert not (tmp_path / "dump").exists()
    assert await ask(database_url, waiting) == 0


@pytest.mark.parametrize(
    ("url", "shown", "secret"),
    [
        ("postgresql://ana:p%40ss@h:5/d", "postgresql://ana@h:5/d", "p@ss"),
        ("postgresql://ana@h/d?password=pass&pooler=1&sslmode=require", "postgresql://ana@h/d?sslmode=require", "pass"),
        ("postgresql:///d?host=%2Frun", "postgresql:///d?host=%2Frun", None),
    ],
)
async def test_no_password_stands_in_the_arguments_of_a_program(url: str, shown: str, secret: str | None) -> None:
    words, environ = _target(url)
    assert words == ("--no-password", f"--dbname={shown}")
    assert environ.get("PGPASSWORD") == secret
