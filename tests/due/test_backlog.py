"""What an outage left overdue stands aside, so that what is on time is not behind it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from soonish import due
from soonish.due import Item, Lane, Loop, Put
from soonish.due.loop import loop as loop_module
from tests.support.due import KIND, Handler, Watcher, kind, pass_time, put

HOUR = timedelta(hours=1)


async def test_a_late_backlog_stands_aside_so_that_an_item_on_time_is_not_behind_it(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "BACKLOG", 100)  # several statements
    opened = asyncio.Event()

    async def handle(item: Item) -> due.Fate:
        if item.key != "on time":
            await opened.wait()
        return due.DONE

    watcher = Watcher()
    await put(pool, *(Put(KIND, f"old/{n}", lane=Lane.PEOPLE) for n in range(300)))
    await pass_time(pool, HOUR)
    await put(pool, Put(KIND, "on time", lane=Lane.PEOPLE))
    async with Loop(pool, [kind(handle)], lanes={Lane.PEOPLE: 1, Lane.BULK: 1}, observer=watcher):
        await watcher.wait_until(lambda: watcher.fates)
        assert watcher.fates == [("on time", "done")]
        assert await pool.fetchval("SELECT count(*) FROM due.due WHERE lane = 2") == 300
        opened.set()
        await watcher.wait_until(lambda: len(watcher.fates) == 301)


async def test_a_late_backlog_is_worked_where_it_stands_by_a_loop_that_does_not_work_bulk(pool: Any) -> None:
    watcher = Watcher()
    await put(pool, *(Put(KIND, str(n), lane=Lane.PEOPLE) for n in range(20)))
    await pass_time(pool, HOUR)
    async with Loop(pool, [kind(Handler())], lanes={Lane.PEOPLE: 5}, observer=watcher):
        await watcher.wait_until(lambda: len(watcher.fates) == 20)


async def test_a_loop_of_bulk_alone_takes_the_late_backlog_of_people(pool: Any) -> None:
    watcher = Watcher()
    await put(pool, Put(KIND, "old", lane=Lane.PEOPLE))
    await pass_time(pool, HOUR)
    await put(pool, Put(KIND, "on time", lane=Lane.PEOPLE))
    async with Loop(pool, [kind(Handler())], lanes={Lane.BULK: 5}, observer=watcher):
        await watcher.wait_until(lambda: watcher.fates)
    assert watcher.fates == [("old", "done")]
