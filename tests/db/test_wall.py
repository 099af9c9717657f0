"""The wall between workspaces, seen from every side: the second one, should a statement forget its WHERE."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from soonish.db.pool import Database
from soonish.db.sql import load
from soonish.due import queue
from soonish.due.model import Put
from soonish.due.upkeep import keep_days

DUE_TABLES = {"due", "due_past", "due_undone", "due_pause"}

WALLED = """
SELECT c.relname AS name, c.relrowsecurity AND c.relforcerowsecurity AS walled,
  (SELECT coalesce(string_agg(p.qual, ' '), '') FROM pg_policies p
   WHERE p.schemaname = n.nspname AND p.tablename = c.relname) AS policies
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id' AND NOT a.attisdropped
WHERE n.nspname IN ('public', 'due') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A superuser, who sees through walls."""
    con = await asyncpg.connect(database_url)
    yield con
    await con.close()


async def counts(tx: Any) -> dict[str, int]:
    return {name: await tx.fetchval(f"SELECT count(*) FROM due.{name}") for name in sorted(DUE_TABLES)}


@pytest.fixture
async def filled(db: Database, owner: asyncpg.Connection) -> Database:
    """Workspaces 1 and 2 have one row in each of the due tables."""
    for workspace_id in (1, 2):
        async with db.transaction(workspace_id) as tx:
            await queue.put(tx, [Put("a.b", f"{workspace_id}/{n}") for n in range(3)])
            await queue.cancel(tx, "a.b", [f"{workspace_id}/0"])
            await tx.execute("INSERT INTO due.due_pause (workspace_id, kind) VALUES ($1, 'x.y')", workspace_id)
    await owner.execute("""
        WITH gone AS (DELETE FROM due.due WHERE key LIKE '%/1' RETURNING *)
        INSERT INTO due.due_past
        SELECT id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at, first_at, last_error,
          created_at, notes, now() FROM gone""")
    return db


async def test_every_table_with_a_workspace_is_walled_for_its_owner_too(owner: asyncpg.Connection) -> None:
    tables = await owner.fetch(WALLED)
    assert DUE_TABLES | {"api_key", "audit"} <= {row["name"] for row in tables}
    assert [row["name"] for row in tables if not row["walled"] or "current_workspace()" not in row["policies"]] == []


async def test_the_wildcard_opens_the_due_tables_and_no_other(owner: asyncpg.Connection) -> None:
    assert {row["name"] for row in await owner.fetch(WALLED) if "every_workspace()" in row["policies"]} == DUE_TABLES


async def test_the_roles_of_the_program_are_not_above_the_wall(owner: asyncpg.Connection) -> None:
    roles = await owner.fetch("SELECT * FROM pg_roles WHERE rolname IN ('soonish_app', 'soonish_lookup')")
    assert len(roles) == 2
    assert not any(role["rolsuper"] or role["rolbypassrls"] or role["rolcanlogin"] for role in roles)
    owned = "SELECT count(*) FROM pg_class WHERE relowner::regrole::text IN ('soonish_app', 'soonish_lookup')"
    assert await owner.fetchval(owned) == 0


async def test_each_workspace_sees_its_own_rows(filled: Database, owner: asyncpg.Connection) -> None:
    assert await counts(owner) == {"due": 2, "due_past": 2, "due_pause": 2, "due_undone": 2}
    for workspace_id in (1, 2):
        async with filled.transaction(workspace_id, readonly=True) as tx:
            assert await counts(tx) == dict.fromkeys(DUE_TABLES, 1)
            assert await tx.fetchval("SELECT array_agg(DISTINCT workspace_id) FROM due.due_history") == [workspace_id]


async def test_a_statement_without_a_workspace_sees_no_row(filled: Database, owner: asyncpg.Connection) -> None:
    await owner.execute("SET ROLE soonish_app")
    assert await counts(owner) == dict.fromkeys(DUE_TABLES, 0)
    await owner.execute("SET soonish.workspace = ''")
    assert await counts(owner) == dict.fromkeys(DUE_TABLES, 0)


async def test_the_loops_see_the_due_rows_of_all_workspaces_and_nothing_else(
    filled: Database, owner: asyncpg.Connection
) -> None:
    await owner.execute("INSERT INTO workspace (slug, name) VALUES ('acme', 'Acme')")
    await owner.execute("INSERT INTO audit (workspace_id, actor, request_id, verb, entity)"
                        " VALUES (2, 'system', gen_random_uuid(), 'made', 'workspace/2')")  # fmt: skip
    async with filled.loops.acquire() as con:
        assert await counts(con) == dict.fromkeys(DUE_TABLES, 2)
        assert [await con.fetchval(f"SELECT count(*) FROM {name}") for name in ("workspace", "audit")] == [0, 0]


async def test_the_owner_of_the_tables_meets_the_wall_too(filled: Database, owner: asyncpg.Connection) -> None:
    await owner.execute(
        "CREATE ROLE landlord; ALTER TABLE due.due OWNER TO landlord; GRANT USAGE ON SCHEMA due TO landlord"
    )
    await owner.execute("SET ROLE landlord")
    assert await owner.fetchval("SELECT count(*) FROM due.due") == 0
    await owner.execute("RESET ROLE; ALTER TABLE due.due OWNER TO postgres; DROP OWNED BY landlord; DROP ROLE landlord")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO due.due (workspace_id, kind, key, lane, due_at, wake_at) VALUES (2, 'a.b', '', 0, now(), now())",
        "UPDATE due.due SET workspace_id = 2",
        "INSERT INTO due.due_pause (workspace_id, kind) VALUES (0, 'a.b')",
        "DROP TABLE due.due",
        "DELETE FROM due.due_past",
        "SELECT * FROM due.due_past_other",
        "TRUNCATE due.due",
        "CREATE TABLE mine ()",
    ],
)
async def test_what_would_climb_the_wall_is_refused(filled: Database, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with filled.transaction(1) as tx:
            await tx.execute(statement)


async def test_other_rows_cannot_be_changed_or_removed(filled: Database) -> None:
    async with filled.transaction(1) as tx:
        assert await tx.execute("UPDATE due.due SET lane = 2 WHERE workspace_id = 2") == "UPDATE 0"
        assert await tx.execute("DELETE FROM due.due WHERE workspace_id = 2") == "DELETE 0"


async def test_a_partition_is_reached_through_its_parent_alone(owner: asyncpg.Connection) -> None:
    open_ones = """
        SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'due.due_past'::regclass
        AND has_table_privilege('soonish_app', inhrelid, 'SELECT, INSERT, UPDATE, DELETE')"""
    await owner.execute("SELECT due.due_days(9)")
    assert await owner.fetchval("SELECT count(*) FROM pg_inherits WHERE inhparent = 'due.due_past'::regclass") == 11
    assert await owner.fetch(open_ones) == []


async def test_a_pause_for_everyone_is_seen_by_everyone_and_changed_by_nobody_else(
    filled: Database, owner: asyncpg.Connection
) -> None:
    await owner.execute("INSERT INTO due.due_pause (workspace_id, kind) VALUES (0, 'a.b')")
    async with filled.transaction(1) as tx:
        await queue.put(tx, [Put("a.b", "paused")])
        assert await tx.fetchval("SELECT lane FROM due.due WHERE key = 'paused'") == 10
        assert await tx.execute("DELETE FROM due.due_pause WHERE workspace_id = 0") == "DELETE 0"
        assert len(await queue.pauses(tx)) == 2
    for change in ("reason = 'mine'", "workspace_id = 1"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with filled.transaction(1) as tx:
                await tx.execute(f"UPDATE due.due_pause SET {change} WHERE workspace_id = 0")


async def test_the_loops_keep_the_days_of_the_past_though_they_own_no_table(
    filled: Database, owner: asyncpg.Connection
) -> None:
    await owner.execute("UPDATE due.due_undone SET finished_at = now() - interval '1 year'")
    await keep_days(filled.loops, keep=timedelta(days=90))
    assert (await counts(owner))["due_undone"] == 0


@pytest.mark.parametrize("function", ["days(int)", "index()", "drop(interval)", "sweep(interval, int)"])
async def test_strangers_cannot_change_the_days_of_the_past(owner: asyncpg.Connection, function: str) -> None:
    may = "SELECT has_function_privilege($1, $2, 'EXECUTE')"
    assert not await owner.fetchval(may, "soonish_lookup", f"due.due_{function}")
    assert await owner.fetchval(may, "soonish_app", f"due.due_{function}")


@pytest.mark.parametrize("workspace", ["7", "*"])
async def test_the_wall_costs_a_look_at_a_lane_no_index(
    db: Database, owner: asyncpg.Connection, workspace: str
) -> None:
    await owner.execute("""
        INSERT INTO due.due (workspace_id, kind, key, lane, due_at, wake_at)
        SELECT 7, 'a.b', n::text, 0, now() + n * interval '1 minute', now() + n * interval '1 minute'
        FROM generate_series(-10, 20000) n;
        ANALYZE due.due""")
    statement = load(queue.__file__).turn
    values: dict[str, Any] = {name: [] for name in statement.params}
    values |= {"lane": 0, "kinds": ["a.b"], "k": 10, "lease": timedelta(seconds=60), "until": None, "watermark": None}
    async with db.loops.acquire() as con, con.transaction():
        await con.execute(f"SET LOCAL soonish.workspace = '{workspace}'")
        [row] = await con.fetch(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}", *(values[name] for name in statement.params)
        )
    scans = [node for node in nodes(json.loads(row[0])[0]["Plan"]) if node.get("Relation Name") == "due"]
    assert {"due_lane_wake"} <= {node.get("Index Name") for node in scans}
    assert [node["Node Type"] for node in scans if node["Node Type"] == "Seq Scan"] == []
    assert max(node.get("Rows Removed by Filter", 0) for node in scans) < 20


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for inner in plan.get("Plans", ()) for node in nodes(inner))]
