"""The system's own items: the daily housekeeping, the carrying out of pauses."""

from datetime import timedelta

import pytest

from soonish.access.actions.workspaces import close_workspace
from soonish.db.pool import Database, Tx
from soonish.due import Kind, Put
from soonish.due.loop.loop import drain
from soonish.ops.actions import pauses
from soonish.ops.actions.system import begin
from soonish.ops.model.upkeep import next_housekeeping
from soonish.ops.on_due import Sweep, kinds
from soonish.vault import Vault
from tests.ops.conftest import KIND, Tenant
from tests.support.due import Handler


async def planned(db: Database) -> list[tuple[str, object]]:
    async with db.transaction(0) as tx:
        return [(row["key"], row["wake_at"]) for row in await tx.fetch("SELECT key, wake_at FROM due.due ORDER BY id")]


async def test_a_fresh_database_is_tidied_at_once_and_then_every_night(
    db: Database, main: Tenant, system_kinds: list[Kind]
) -> None:
    await begin(db)
    assert await drain(db.loops, system_kinds) == 1
    [(key, wake_at)] = await planned(db)
    now = await db.loops.fetchval("SELECT now()")
    assert (key, wake_at) == ("daily", next_housekeeping(now))


async def test_a_second_start_leaves_the_plan_alone(db: Database, main: Tenant, system_kinds: list[Kind]) -> None:
    await begin(db)
    await drain(db.loops, system_kinds)
    before = await planned(db)
    await begin(db)
    assert await planned(db) == before


async def test_housekeeping_makes_the_coming_days_and_drops_the_old(db: Database, vault: Vault, main: Tenant) -> None:
    async with db.loops.acquire() as con:
        await con.execute(
            """INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload,
                 created_at, finished_at, fate)
               SELECT n, 1, 'a.b', n::text, 0, at, 1, 0, '{}', at, at, 'dead'
               FROM (VALUES (1, now() - interval '91 days'), (2, now() - interval '89 days')) AS old (n, at)"""
        )
    await begin(db)
    await drain(db.loops, kinds(db, keep=timedelta(days=90), vault=vault))
    days = """SELECT count(*) FROM pg_class WHERE oid IN (
                SELECT inhrelid FROM pg_inherits WHERE inhparent = 'due.due_past'::regclass)
              AND relname >= 'due_past_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')"""
    assert await db.loops.fetchval(days) == 9  # today, seven ahead, and the one for all others
    assert [row["id"] for row in await main.rows("SELECT id FROM due.due_undone")] == [2]


async def test_sweeps_run_in_every_workspace_chunk_by_chunk(
    db: Database, vault: Vault, main: Tenant, acme: Tenant
) -> None:
    left = {main.id: 12_000, acme.id: 10}
    seen: list[tuple[int, int]] = []

    async def remove(tx: Tx, limit: int) -> int:
        workspace_id = int(await tx.fetchval("SELECT current_setting('soonish.workspace')"))
        count = min(limit, left.get(workspace_id, 0))
        left[workspace_id] = left.get(workspace_id, 0) - count
        seen.append((workspace_id, count))
        return count

    async with db.transaction(main.id) as tx:
        await close_workspace(tx, main.caller, acme.id)  # its rows grow old all the same
    await begin(db)
    await drain(db.loops, kinds(db, keep=timedelta(days=90), vault=vault, sweeps=[Sweep("things", remove)]))
    assert seen == [(0, 0), (main.id, 5_000), (main.id, 5_000), (main.id, 2_000), (acme.id, 10)]


async def test_a_sweep_that_fails_keeps_no_other_from_its_work_and_is_tried_again(
    db: Database, vault: Vault, main: Tenant
) -> None:
    swept: list[str] = []

    async def broken(tx: Tx, limit: int) -> int:
        raise RuntimeError("no such column")

    async def good(tx: Tx, limit: int) -> int:
        swept.append("good")
        return 0

    await begin(db)
    sweeps = [Sweep("broken", broken), Sweep("good", good)]
    await drain(db.loops, kinds(db, keep=timedelta(days=90), vault=vault, sweeps=sweeps))
    assert swept == ["good", "good"]
    async with db.transaction(0) as tx:
        error = await tx.fetchval("SELECT last_error FROM due.due")
    assert "no such column" in error


async def test_processes_that_nobody_misses_are_forgotten(db: Database, main: Tenant, system_kinds: list[Kind]) -> None:
    await db.loops.execute(
        """INSERT INTO process (name, role, version, seen_at)
           VALUES ('old:1:1', 'work', '1', now() - interval '2 days'), ('new:1:1', 'work', '1', now())"""
    )
    await begin(db)
    await drain(db.loops, system_kinds)
    assert [row["name"] for row in await db.loops.fetch("SELECT name FROM process")] == ["new:1:1"]


async def test_a_pause_parks_the_items_of_its_workspace_alone_and_a_resume_brings_them_back(
    db: Database, main: Tenant, acme: Tenant, system_kinds: list[Kind]
) -> None:
    await main.put(Put(KIND, "mine"))
    await acme.put(Put(KIND, "theirs"))
    async with db.transaction(acme.id) as tx:
        await pauses.pause(tx, acme.caller, KIND, "moving house")
    handler = Handler()
    await drain(db.loops, [*system_kinds, Kind(KIND, handler)])
    assert handler.keys == ["mine"]
    assert [row["lane"] for row in await acme.rows("SELECT lane FROM due.due")] == [10]
    async with db.transaction(acme.id) as tx:
        await pauses.resume(tx, acme.caller, KIND)
    await drain(db.loops, [*system_kinds, Kind(KIND, handler)])
    assert handler.keys == ["mine", "theirs"]
    assert await db.loops.fetchval("SELECT count(*) FROM due.due_pause") == 0


async def test_a_pause_everywhere_stops_all_but_its_own_end(
    db: Database, main: Tenant, acme: Tenant, system_kinds: list[Kind]
) -> None:
    await acme.put(Put(KIND, "theirs"))
    async with db.transaction(main.id) as tx:
        await pauses.pause(tx, main.caller, "*", everywhere=True)
    handler = Handler()
    await drain(db.loops, [*system_kinds, Kind(KIND, handler)])
    assert handler.keys == []
    async with db.transaction(main.id) as tx:
        await pauses.resume(tx, main.caller, "*", everywhere=True)
    await drain(db.loops, [*system_kinds, Kind(KIND, handler)])
    assert handler.keys == ["theirs"]


async def test_nothing_is_parked_under_a_pause_that_has_ended(db: Database, main: Tenant) -> None:
    await main.put(Put(KIND, "mine"))
    async with db.transaction(main.id) as tx:
        await pauses.pause(tx, main.caller, KIND)
        await pauses.resume(tx, main.caller, KIND)
    assert await pauses.park(db, main.id, KIND) == 0
    assert [row["lane"] for row in await main.rows("SELECT lane FROM due.due WHERE kind = $1", KIND)] == [0]


@pytest.mark.parametrize("count", [25_000])
async def test_many_items_are_parked_and_brought_back_in_chunks(db: Database, main: Tenant, count: int) -> None:
    await main.put(*(Put(KIND, str(number)) for number in range(count)))
    async with db.transaction(main.id) as tx:
        await pauses.pause(tx, main.caller, KIND)
    assert await pauses.park(db, main.id, KIND) == count
    async with db.transaction(main.id) as tx:
        await pauses.resume(tx, main.caller, KIND)
    assert await pauses.park(db, main.id, KIND) == count
