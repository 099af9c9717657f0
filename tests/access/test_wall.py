"""The second wall: the database itself shows no row of another workspace, whatever the program asks."""

import asyncpg
import pytest

from soonish.access.actions.idempotency import Idempotency
from soonish.access.actions.keys import make_key
from soonish.access.actions.sign_ins import make_login_link, sign_in
from soonish.db.pool import Database
from soonish.due import Put, put
from soonish.vault import Vault
from soonish.vault import make_key as make_secret
from soonish.web.plan import Stored
from tests.access.conftest import Tenant

TABLES = ("workspace", "api_key", "login_link", "sign_in", "idempotency", "audit")
REQUEST = "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f"


@pytest.fixture
async def full(db: Database, main: Tenant, acme: Tenant) -> Database:
    """Both workspaces have rows in every table."""
    answers = Idempotency(Vault.from_setting(make_secret()))
    for owner in (main, acme):
        async with db.transaction(owner.id) as tx:
            await make_key(tx, owner.caller, "Robot", "read")
            link = await make_login_link(tx, owner.caller, "http://here", "read")
            await make_login_link(tx, owner.caller, "http://here", "read")
            await answers.store(tx, owner.caller, "k", b"f", Stored(200, {}, b""))
        await sign_in(db, link.url.rpartition("/")[2], REQUEST)
    return db


@pytest.mark.parametrize("table", TABLES)
async def test_a_workspace_sees_its_own_rows_alone(full: Database, acme: Tenant, table: str) -> None:
    column = "id" if table == "workspace" else "workspace_id"
    async with full.transaction(acme.id, readonly=True) as tx:
        assert await tx.fetchval(f"SELECT array_agg(DISTINCT {column}) FROM {table}") == [acme.id]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("setting", ["", "*", "0", None])
async def test_without_a_workspace_no_row_is_seen(full: Database, table: str, setting: str | None) -> None:
    con = await full.connect()
    await con.execute("SET ROLE soonish_app")
    if setting is not None:
        await con.execute(f"SET soonish.workspace = '{setting}'")
    assert await con.fetchval(f"SELECT count(*) FROM {table}") == 0
    await con.close()


@pytest.mark.parametrize("table", ["api_key", "login_link", "sign_in", "idempotency"])
async def test_a_row_cannot_be_moved_or_written_into_another_workspace(
    full: Database, main: Tenant, acme: Tenant, table: str
) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with full.transaction(acme.id) as tx:
            await tx.execute(f"UPDATE {table} SET workspace_id = {main.id}")
    async with full.transaction(acme.id) as tx:
        assert await tx.execute(f"DELETE FROM {table} WHERE workspace_id = {main.id}") == "DELETE 0"


async def test_the_record_cannot_be_changed(full: Database, acme: Tenant) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with full.transaction(acme.id) as tx:
            await tx.execute("UPDATE audit SET actor = 'nobody'")


async def test_the_walls_stand_for_the_owner_of_the_tables_too(full: Database) -> None:
    con = await full.connect()
    rows = await con.fetch(
        "SELECT relname FROM pg_class WHERE relname = ANY($1) AND NOT (relrowsecurity AND relforcerowsecurity)", TABLES
    )
    await con.close()
    assert rows == []


async def walled(db: Database) -> list[str]:
    """Every table and view that says of its rows to which workspace they belong, by the catalog."""
    con = await db.connect()
    rows = await con.fetch(
        """SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
           WHERE a.attname = 'workspace_id' AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm')
             AND NOT c.relispartition ORDER BY 1"""
    )
    await con.close()
    return [row["name"] for row in rows]


async def test_no_table_shows_a_row_without_a_workspace_or_one_of_another(
    full: Database, main: Tenant, acme: Tenant
) -> None:
    """Walked by the catalog: a table that is added later is in it, and must have rows here to prove anything."""
    await fill_due(full, main, acme)
    await fill_ledger(full, main, acme)
    await fill_events(full, main, acme)
    names = await walled(full)
    assert set(TABLES) - {"workspace"} < set(names)
    for name in names:
        assert await seen(full, name, None) == [], name
        assert await seen(full, name, "") == [], name
        assert await seen(full, name, str(acme.id)) == [acme.id], name
        assert await seen(full, name, str(main.id)) == [main.id], name


async def fill_ledger(db: Database, *tenants: Tenant) -> None:
    """A row in every table of people and deliveries."""
    own = "(SELECT current_workspace())"
    for tenant in tenants:
        async with db.transaction(tenant.id) as tx:
            person = await tx.fetchval(
                f"""INSERT INTO person (workspace_id, name, timezone, locale)
                    VALUES ({own}, 'a', 'UTC', 'en') RETURNING id"""
            )
            address = await tx.fetchval(
                f"""INSERT INTO address (workspace_id, person_id, kind, label, scheme, target_hint, target_print)
                    VALUES ({own}, $1, 'console', 'inbox', 'console', '', '') RETURNING id""",
                person,
            )
            await tx.execute(
                f"""INSERT INTO address_token (workspace_id, address_id, target_print, expires_at)
                    VALUES ({own}, $1, '', now())""",
                address,
            )
            endpoint = await tx.fetchval(
                f"""INSERT INTO endpoint (workspace_id, name, kind, config, fact_types)
                    VALUES ({own}, 'a', 'webhook', '{{}}', '{{*}}') RETURNING id"""
            )
            await tx.execute(
                f"INSERT INTO endpoint_secret (workspace_id, endpoint_id, secret) VALUES ({own}, $1, '')", endpoint
            )
            message = await tx.fetchval(
                f"INSERT INTO message (workspace_id, cause, title, body) VALUES ({own}, 'a', 'a', '') RETURNING id"
            )
            await tx.execute(
                f"INSERT INTO fact (workspace_id, cause, type, subject, data) VALUES ({own}, 'a', 'a.b', '', '{{}}')"
            )
            delivery = await tx.fetchval(
                f"""INSERT INTO delivery (workspace_id, cause, message_id, channel, due_at)
                    VALUES ({own}, 'a', $1, 'none', now()) RETURNING id""",
                message,
            )
            await tx.execute(
                f"""INSERT INTO attempt (workspace_id, delivery_id, n, started_at, ended_at, outcome, code, latency_ms)
                    VALUES ({own}, $1, 1, now(), now(), 'sent', 'ok', 0)""",
                delivery,
            )


EVENTS = """
WITH w AS (SELECT current_workspace() AS id), e AS (
  INSERT INTO event (workspace_id, name, timezone, start_date, effective_end_date, state, reminder_engine)
  SELECT w.id, 'a', 'UTC', now(), now() + interval '1 h', 'draft', 'due' FROM w RETURNING workspace_id, id
), s AS (
  INSERT INTO subscription (workspace_id, event_id, person_id, source)
  SELECT e.workspace_id, e.id, p.id, 'api' FROM e, person p RETURNING workspace_id, id, event_id, person_id
), a AS (INSERT INTO event_offset (workspace_id, event_id, offset_seconds) SELECT e.workspace_id, e.id, 60 FROM e
), b AS (INSERT INTO event_change (workspace_id, event_id, version, actor, changes, told)
  SELECT e.workspace_id, e.id, 1, 'a', '{}', false FROM e
), c AS (INSERT INTO event_signal (workspace_id, event_id, name, payload)
  SELECT e.workspace_id, e.id, 'start', '{}' FROM e
), d AS (INSERT INTO broadcast (workspace_id, event_id, kind, notification_level, title, body, created_by, state)
  SELECT e.workspace_id, e.id, 'announcement', 'info', 'a', 'b', 'a', 'queued' FROM e
), f AS (INSERT INTO subscription_request (workspace_id, event_id, email_print, expires_at)
  SELECT e.workspace_id, e.id, '', now() FROM e
), g AS (INSERT INTO snooze (workspace_id, subscription_id, at) SELECT s.workspace_id, s.id, now() FROM s
), h AS (INSERT INTO event_feed (workspace_id, person_id, generation) SELECT s.workspace_id, s.person_id, 1 FROM s
), i AS (INSERT INTO reminder_schedule (workspace_id, event_id, subscription_id, offset_seconds, moment)
  SELECT s.workspace_id, s.event_id, s.id, 60, now() FROM s
) INSERT INTO event_defaults (workspace_id) SELECT w.id FROM w"""


async def fill_events(db: Database, *tenants: Tenant) -> None:
    """A row in every table of events."""
    for tenant in tenants:
        async with db.transaction(tenant.id) as tx:
            await tx.execute(EVENTS)


async def seen(db: Database, table: str, workspace: str | None) -> list[int]:
    """Whose rows a statement sees."""
    con = await db.connect()
    await con.execute("SET ROLE soonish_app")
    if workspace is not None:
        await con.execute(f"SET soonish.workspace = '{workspace}'")
    rows = await con.fetch(f"SELECT DISTINCT workspace_id FROM {table}")
    await con.close()
    return [row["workspace_id"] for row in rows]


async def fill_due(db: Database, *owners: Tenant) -> None:
    """A live item, one that is done, a dead one and a pause in each workspace."""
    ended = "id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, created_at, finished_at"
    for owner in owners:
        values = f"SELECT {owner.id}, {owner.id}, 'a.b', 'k{owner.id}', 0, now(), 1, 0, '{{}}', now(), now()"
        async with db.transaction(owner.id) as tx:
            await put(tx, [Put("a.b", f"live {owner.id}")])
            await tx.execute(f"INSERT INTO due.due_past ({ended}) {values}")
            await tx.execute(f"INSERT INTO due.due_undone ({ended}, fate) {values}, 'dead'")
            await tx.execute("INSERT INTO due.due_pause (workspace_id, kind) VALUES ($1, 'a.b')", owner.id)


async def test_what_stands_behind_a_table_is_reached_through_it_alone(full: Database) -> None:
    """Partitions have no policies of their own, so nobody may touch them directly."""
    con = await full.connect()
    rows = await con.fetch(
        """SELECT c.relname FROM pg_class c WHERE c.relispartition AND c.relkind = 'r'
             AND has_table_privilege('soonish_app', c.oid, 'SELECT, INSERT, UPDATE, DELETE')"""
    )
    await con.close()
    assert rows == []


async def test_every_table_is_walled_in_or_has_no_workspace(full: Database) -> None:
    con = await full.connect()
    rows = await con.fetch(
        """SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
           WHERE a.attname = 'workspace_id' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
             AND NOT (c.relrowsecurity AND c.relforcerowsecurity)"""
    )
    await con.close()
    assert rows == []


async def test_the_functions_that_look_over_the_wall_are_for_the_program_alone(full: Database) -> None:
    con = await full.connect()
    rows = await con.fetch(
        """SELECT pg_get_userbyid(p.proowner) AS owner, has_function_privilege('public', p.oid, 'EXECUTE') AS open,
                  array_to_string(p.proconfig, ' ') AS config
           FROM pg_proc p WHERE p.prosecdef AND p.pronamespace = 'public'::regnamespace"""
    )
    await con.close()
    assert len(rows) >= 6
    assert {(row["owner"], row["open"], row["config"]) for row in rows} == {
        ("soonish_lookup", False, "search_path=public, pg_temp")
    }


async def test_a_token_of_one_purpose_is_not_found_by_another(full: Database, acme: Tenant) -> None:
    async with full.transaction(acme.id, readonly=True) as tx:
        hashed = await tx.fetchval("SELECT hash FROM api_key LIMIT 1")
        found = {
            purpose: await tx.fetchval("SELECT id FROM find_token($1, $2)", purpose, hashed) is not None
            for purpose in ("key", "sign_in", "login_link", "", None)
        }
    assert found == {"key": True, "sign_in": False, "login_link": False, "": False, None: False}
