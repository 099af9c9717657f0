"""The days of the past: made ahead, indexed when they are over, dropped when they are old."""

import asyncio
from datetime import date, timedelta
from typing import Any

import pytest

from soonish import due
from soonish.due import Put, upkeep
from soonish.due.queue import past
from soonish.due.upkeep import keep_days
from tests.support.due import KIND, Handler, ended, kind, put, transaction

KEEP = timedelta(days=90)


async def partitions(pool: Any) -> dict[date, set[str]]:
    """The days that have a partition, with the methods and first columns of their indexes."""
    rows = await pool.fetch(
        """SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day, pg_get_indexdef(x.indexrelid) AS index
           FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_index x ON x.indrelid = c.oid
           WHERE i.inhparent = 'due.due_past'::regclass AND c.relname ~ '\\d{8}$'"""
    )
    days: dict[date, set[str]] = {}
    for row in rows:
        days.setdefault(row["day"], set()).add(row["index"].partition(" USING ")[2])
    return days


async def today(pool: Any) -> date:
    day: date = await pool.fetchval("SELECT (now() AT TIME ZONE 'UTC')::date")
    return day


async def make_day(pool: Any, day: date) -> None:
    await pool.execute(
        f"""CREATE TABLE due.due_past_{day:%Y%m%d} PARTITION OF due.due_past
            FOR VALUES FROM ('{day} 00:00+00') TO ('{day + timedelta(days=1)} 00:00+00')"""
    )


async def test_the_coming_seven_days_are_made_ahead_without_a_tree_index(pool: Any) -> None:
    first = await today(pool)
    days = await partitions(pool)
    assert sorted(days) == [first + timedelta(days=n) for n in range(8)]
    assert set.union(*days.values()) == {"brin (finished_at)"}


async def test_a_day_that_is_over_gets_its_indexes(pool: Any) -> None:
    yesterday = await today(pool) - timedelta(days=1)
    await make_day(pool, yesterday)
    for _ in range(2):
        await keep_days(pool, keep=KEEP)
    assert (await partitions(pool))[yesterday] == {"btree (kind, key)", "btree (workspace_id, finished_at)"}


async def test_old_days_and_old_undone_rows_go(pool: Any) -> None:
    day = await today(pool)
    old, young = day - timedelta(days=91), day - timedelta(days=89)
    await make_day(pool, old)
    await make_day(pool, young)
    await put(pool, Put(KIND, "old"), Put(KIND, "young"))
    async with transaction(pool) as tx:
        await due.cancel(tx, KIND, ["old", "young"])
    await pool.execute("UPDATE due.due_undone SET finished_at = now() - interval '91 days' WHERE key = 'old'")
    await keep_days(pool, keep=KEEP)
    days = await partitions(pool)
    assert old not in days
    assert young in days
    assert [key for key, _, _ in await ended(pool)] == ["young"]


async def test_a_missing_day_never_fails_a_finish_and_its_rows_move_when_it_is_made(pool: Any) -> None:
    day = await today(pool)
    await pool.execute(f"DROP TABLE due.due_past_{day:%Y%m%d}")
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler())])
    assert await pool.fetchval("SELECT count(*) FROM due.due_past_other") == 1
    await keep_days(pool, keep=KEEP)
    assert await pool.fetchval("SELECT count(*) FROM due.due_past_other") == 0
    assert await ended(pool) == [("1", "done", None)]


async def test_rows_of_a_day_that_never_had_a_table_go_when_they_are_old(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler())])
    await pool.execute("UPDATE due.due_past SET finished_at = now() - interval '91 days'")
    assert await pool.fetchval("SELECT count(*) FROM due.due_past_other") == 1
    await keep_days(pool, keep=KEEP)
    assert await ended(pool) == []


async def test_an_old_day_that_somebody_reads_stays_and_no_finish_waits_for_the_reader(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "DROP_WAIT", 0.01)
    old = await today(pool) - timedelta(days=91)
    await make_day(pool, old)
    async with transaction(pool) as reader:
        await reader.fetch("SELECT FROM due.due_past")
        keeping = asyncio.create_task(keep_days(pool, keep=KEEP))
        for n in range(5):
            await put(pool, Put(KIND, str(n)))
            await due.drain(pool, [kind(Handler())])
        await keeping
        assert old in await partitions(pool)
    await keep_days(pool, keep=KEEP)
    assert old not in await partitions(pool)
    assert len(await ended(pool)) == 5


async def test_the_past_is_listed_newest_first_in_pages(pool: Any) -> None:
    for key in ("a", "b", "c", "d"):
        await put(pool, Put(KIND, key))
        await due.drain(pool, [kind(Handler(due.DONE if key in "ac" else due.Drop("odd")))])
    async with transaction(pool) as tx:
        page = await past(tx, kind=KIND, limit=3)
        last = page[-1]
        rest = await past(tx, kind=KIND, after=(last["finished_at"], last["id"]))
        dropped = await past(tx, fate="dropped")
    assert [row["key"] for row in page + rest] == ["d", "c", "b", "a"]
    assert [row["key"] for row in dropped] == ["d", "b"]


async def test_live_items_are_listed_soonest_first_by_state(pool: Any) -> None:
    await put(pool, *(Put(KIND, key) for key in ("leased", "retrying", "overdue", "waiting", "paused")))
    for key, change in {
        "leased": "lease_until = now() + interval '1 min'",
        "retrying": "last_error = 'x', wake_at = now() + interval '2 min'",
        "waiting": "wake_at = now() + interval '1 min'",
        "paused": "lane = lane + 10",
    }.items():
        await pool.execute(f"UPDATE due.due SET {change} WHERE key = $1", key)
    async with transaction(pool) as tx:
        for state in ("leased", "retrying", "overdue", "waiting", "paused"):
            assert [row["key"] for row in await due.peek(tx, state=state)] == [state]
        everything = await due.peek(tx)
    assert [row["key"] for row in everything[-2:]] == ["waiting", "retrying"]
