"""One transaction in one workspace: all or nothing, Unavailable when the database is, and again after a lost race."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from soonish.db.again import run_again
from soonish.db.migrate import migrate
from soonish.db.pool import Database, Tx, WrongDatabase, connect_args
from soonish.due import queue
from soonish.due.model import Put
from soonish.errors import Conflict, SoonishError, Unavailable
from tests.support.postgres import PostgresServer


async def put(tx: Tx, *keys: str) -> None:
    await queue.put(tx, [Put("a.b", key) for key in keys])


async def keys(db: Database) -> list[str]:
    async with db.transaction(1, readonly=True) as tx:
        return [row["key"] for row in await tx.fetch("SELECT key FROM due.due ORDER BY key")]


async def fail_with(tx: Tx, sqlstate: str) -> None:
    """An error as the server itself would raise it."""
    await tx.execute(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{sqlstate}'; END $$")


async def test_what_is_written_is_kept(db: Database) -> None:
    async with db.transaction(1) as tx:
        await put(tx, "one")
    assert await keys(db) == ["one"]


async def test_an_error_takes_everything_back_and_passes_unchanged(db: Database) -> None:
    error = Conflict("taken")
    with pytest.raises(Conflict) as raised:
        async with db.transaction(1) as tx:
            await put(tx, "one")
            raise error
    assert raised.value is error
    assert await keys(db) == []


async def test_it_runs_as_the_program_in_its_workspace_and_leaves_nothing_behind(database_url: str) -> None:
    db = await Database.open(database_url, size=1)
    async with db.transaction(7) as tx:
        assert await tx.fetchrow("SELECT current_user, current_workspace()") == ("soonish_app", 7)
    async with db._connection() as con:
        seen = await con.fetchrow("SELECT current_user, coalesce(current_setting('soonish.workspace', true), '')")
    assert seen == ("postgres", "")
    await db.close()


async def test_a_reading_transaction_writes_nothing(db: Database) -> None:
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        async with db.transaction(1, readonly=True) as tx:
            await put(tx, "one")


async def test_an_error_that_was_swallowed_inside_is_not_taken_for_success(db: Database) -> None:
    with pytest.raises(RuntimeError, match="nothing was saved"):
        async with db.transaction(1) as tx:
            await put(tx, "one")
            with pytest.raises(asyncpg.UndefinedTableError):
                await tx.execute("SELECT * FROM nowhere")
    assert await keys(db) == []


async def test_after_a_cancellation_the_connection_serves_the_next(database_url: str) -> None:
    db = await Database.open(database_url, size=1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            async with db.transaction(1) as tx:
                await put(tx, "one")
                await tx.execute("SELECT pg_sleep(30)")
    assert await keys(db) == []
    await db.close()


async def test_a_cancellation_at_any_moment_leaves_no_transaction_open(db: Database) -> None:
    async def work() -> None:
        async with db.transaction(1) as tx:
            await put(tx, "one")
            await asyncio.sleep(1)

    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, told: complaints.append(told["message"]))
    for turns in range(25):
        task = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert complaints == []
    assert await keys(db) == []


async def test_a_transaction_inside_another_is_one_of_its_own(db: Database) -> None:
    with pytest.raises(Conflict):
        async with db.transaction(1) as outer:
            await put(outer, "outer")
            async with db.transaction(1) as inner:
                await put(inner, "inner")
            raise Conflict("the outer one alone is taken back")
    assert await keys(db) == ["inner"]


# --- steps before the commit


async def test_steps_run_in_their_order_just_before_the_commit_and_only_once(db: Database) -> None:
    ran: list[Any] = []

    def step(name: str) -> Callable[[Tx], Any]:
        async def run(tx: Tx) -> None:
            ran.append((name, await tx.fetchval("SELECT count(*) FROM due.due")))

        return run

    db.before_commit(step("first"))
    async with db.transaction(1) as tx:
        db.before_commit(step("second"))
        await put(tx, "one")
    async with db.transaction(1) as tx:
        await put(tx, "two")
    assert ran == [("first", 1), ("second", 1)]


async def test_a_step_that_fails_takes_everything_back(db: Database) -> None:
    async def fail(_tx: Tx) -> None:
        raise Conflict("no")

    with pytest.raises(Conflict):
        async with db.transaction(1) as tx:
            db.before_commit(fail)
            await put(tx, "one")
    assert await keys(db) == []


async def test_a_step_waits_for_the_transaction_that_writes(db: Database) -> None:
    ran = []

    async def step(_tx: Tx) -> None:
        ran.append("step")

    db.before_commit(step)
    async with db.transaction(1, readonly=True):
        pass
    assert ran == []
    async with db.transaction(1):
        pass
    assert ran == ["step"]


async def test_steps_of_one_task_are_not_those_of_another(db: Database) -> None:
    ran = []

    async def write(name: str) -> None:
        async def step(_tx: Tx) -> None:
            ran.append(name)

        db.before_commit(step)
        await asyncio.sleep(0)
        async with db.transaction(1):
            pass

    await asyncio.gather(write("one"), write("two"))
    assert sorted(ran) == ["one", "two"]


async def test_an_action_that_is_run_again_registers_its_steps_anew(db: Database) -> None:
    runs: list[str] = []
    steps: list[int] = []

    async def step(_tx: Tx) -> None:
        steps.append(len(runs))

    async def action() -> None:
        async with db.transaction(1) as tx:
            runs.append("run")
            db.before_commit(step)
            if len(runs) < 3:
                await fail_with(tx, "40001")

    await run_again(action)
    assert (len(runs), steps) == (3, [3])


# --- races


async def test_two_that_wait_for_each_other_both_come_through(db: Database) -> None:
    async with db.transaction(1) as tx:
        await put(tx, "a", "b")
    met = asyncio.Barrier(2)

    async def move(first: str, second: str, meet: list[bool]) -> None:
        async with db.transaction(1) as tx:
            await tx.execute("UPDATE due.due SET attempts = attempts + 1 WHERE key = $1", first)
            if meet.pop():
                await met.wait()
            await tx.execute("UPDATE due.due SET attempts = attempts + 1 WHERE key = $1", second)

    meetings = [False, True], [False, True]  # they meet in the first run
    await asyncio.gather(run_again(lambda: move("a", "b", meetings[0])), run_again(lambda: move("b", "a", meetings[1])))
    async with db.transaction(1, readonly=True) as tx:
        assert [row[0] for row in await tx.fetch("SELECT attempts FROM due.due")] == [2, 2]


async def test_a_race_lost_four_times_is_unavailable(db: Database) -> None:
    runs = []

    async def action() -> None:
        async with db.transaction(1) as tx:
            runs.append("run")
            await fail_with(tx, "40001")

    with pytest.raises(Unavailable, match="Too many changes"):
        await run_again(action)
    assert len(runs) == 4


async def test_an_error_of_the_action_itself_is_not_run_again() -> None:
    runs = []

    async def action() -> None:
        runs.append("run")
        raise Conflict("taken")

    with pytest.raises(Conflict):
        await run_again(action)
    assert len(runs) == 1


async def test_a_table_changed_under_a_prepared_statement_is_run_again(db: Database, database_url: str) -> None:
    owner = await asyncpg.connect(database_url)

    async def look() -> Any:
        async with db.transaction(1, readonly=True) as tx:
            return await tx.fetchrow("SELECT * FROM installation")

    before = await run_again(look)
    await owner.execute("ALTER TABLE installation ADD COLUMN extra int DEFAULT 5")
    assert (await run_again(look))["extra"] == 5
    assert "extra" not in before
    await owner.close()


# --- the database is away


@pytest.mark.parametrize(
    ("sqlstate", "code"),
    [("53100", "storage_full"), ("53300", "unavailable"), ("57P01", "unavailable"), ("08006", "unavailable")],
)
async def test_what_the_server_cannot_do_now_is_unavailable(db: Database, sqlstate: str, code: str) -> None:
    with pytest.raises(Unavailable) as raised:
        async with db.transaction(1) as tx:
            await fail_with(tx, sqlstate)
    assert raised.value.code == code


async def test_a_standby_that_takes_no_writes_yet_is_unavailable(db: Database) -> None:
    with pytest.raises(Unavailable):
        async with db.transaction(1) as tx:
            await tx.execute("SET TRANSACTION READ ONLY")
            await put(tx, "one")


async def test_a_connection_that_is_cut_is_unavailable_and_the_next_one_works(db: Database, database_url: str) -> None:
    owner = await asyncpg.connect(database_url)
    with pytest.raises(Unavailable):
        async with db.transaction(1) as tx:
            await put(tx, "one")
            await owner.execute("SELECT pg_terminate_backend($1)", tx.get_server_pid())
            await put(tx, "two")
    assert await keys(db) == []
    await owner.close()


async def test_while_the_database_is_stopped_it_is_unavailable_and_then_it_serves_again(
    own_postgres: PostgresServer,
) -> None:
    await migrate(own_postgres.url())
    db = await Database.open(own_postgres.url())
    with pytest.raises(Unavailable):
        async with db.transaction(1) as tx:
            await put(tx, "one")
            own_postgres.halt()
            await put(tx, "two")
    with pytest.raises(Unavailable):
        await keys(db)
    own_postgres.resume()
    async with db.transaction(1) as tx:
        await put(tx, "three")
    assert await keys(db) == ["three"]
    await db.close()


# --- opening


async def test_a_database_without_our_schema_says_to_migrate(own_postgres: PostgresServer) -> None:
    with pytest.raises(WrongDatabase, match="soonish migrate") as refused:
        await Database.open(own_postgres.url())
    assert refused.value.code == "schema"


async def test_a_login_that_may_not_act_as_the_program_is_told_what_to_grant(
    database_url: str, postgres: PostgresServer
) -> None:
    owner = await asyncpg.connect(database_url)
    await owner.execute("CREATE ROLE bare LOGIN")
    with pytest.raises(WrongDatabase) as refused:
        await Database.open(database_url.replace("postgres@", "bare@"))
    await owner.execute(refused.value.message.partition("superuser: ")[2])
    await (await Database.open(database_url.replace("postgres@", "bare@"))).close()
    await owner.execute("DROP ROLE bare")
    await owner.close()


@pytest.mark.parametrize(
    ("url", "error", "told"),
    [
        ("postgresql://postgres@/nowhere?host={folder}", Unavailable, "SOONISH_DATABASE_URL"),
        ("postgresql://nobody_here@/postgres?host={folder}", Unavailable, "SOONISH_DATABASE_URL"),
        ("postgresql://postgres@/postgres?host={folder}/missing", Unavailable, "away"),
        ("postgresql://postgres@[/x", WrongDatabase, "cannot be read"),
    ],
)
async def test_an_address_that_does_not_answer_is_told_without_its_password(
    postgres: PostgresServer, url: str, error: type[SoonishError], told: str
) -> None:
    with pytest.raises(error, match=told) as raised:
        await Database.open(url.format(folder=postgres.folder))
    assert "postgresql://postgres" not in raised.value.message


def test_a_pooler_in_between_gets_no_named_statements() -> None:
    direct, pooled = connect_args("postgresql://h/d?a=1"), connect_args("postgresql://h/d?a=1&pooler=1")
    assert (direct["dsn"], pooled["dsn"]) == ("postgresql://h/d?a=1",) * 2
    assert ("statement_cache_size" in direct, pooled["statement_cache_size"]) == (False, 0)
