"""Erasing goes on until nothing is left, some rows at a time, and begins again where it was cut short."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from soonish.db.pool import Database, Tx
from soonish.due import Lane, Loop, Put
from soonish.people import on_due
from soonish.people.actions.hooks import Eraser
from tests.support.due import Watcher
from tests.support.site import House, Site

NOTES = """
CREATE TABLE note (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workspace_id bigint NOT NULL,
  person_id bigint NOT NULL, text text NOT NULL);
ALTER TABLE note ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY workspace ON note USING (workspace_id = (SELECT current_workspace()));
GRANT SELECT, INSERT, UPDATE ON note TO soonish_app;
"""


async def blank_notes(tx: Tx, person_id: int, limit: int) -> int:
    """An eraser as a slice has it."""
    done: str = await tx.execute(
        """UPDATE note SET text = '' WHERE id IN (
             SELECT id FROM note WHERE person_id = $1 AND text <> '' LIMIT $2)""",
        person_id,
        limit,
    )
    return int(done.rpartition(" ")[2])


@pytest.fixture
async def noted(product: Site) -> Site:
    """Both workspaces have notes about their person 7, and workspace 1 about others."""
    con = await product.db.connect()
    await con.execute(NOTES)
    await con.close()
    for house, person_id, count in ((product.main, 7, 25), (product.main, 8, 3), (product.acme, 7, 3)):
        await house.run(
            "INSERT INTO note (workspace_id, person_id, text) SELECT $1, $2, 'Ben' FROM generate_series(1, $3)",
            house.id,
            person_id,
            count,
        )
    return product


@asynccontextmanager
async def working(db: Database, *erasers: Eraser) -> AsyncIterator[Watcher]:
    watcher = Watcher()
    kinds = on_due.kinds(db, erasers)
    async with Loop(db.loops, kinds, lanes={Lane.BULK: 4}, observer=watcher, connect=db.connect):
        yield watcher


async def left(house: House, person_id: int = 7) -> int:
    return len(await house.rows("SELECT FROM note WHERE person_id = $1 AND text <> ''", person_id))


async def erase(site: Site, *erasers: Eraser) -> None:
    async with working(site.db, *erasers) as watcher:
        await site.main.put(Put("people.erase", "7"))
        await watcher.wait_until(lambda: ("7", "done") in watcher.fates)


async def test_what_is_kept_about_one_person_is_blanked_and_nothing_else(
    noted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_due, "ROWS", 4)
    monkeypatch.setattr(on_due, "PASSES", 2)
    await erase(noted, blank_notes)
    assert await left(noted.main) == 0
    assert (await left(noted.main, 8), await left(noted.acme)) == (3, 3)


async def test_an_eraser_that_fails_is_tried_again_and_keeps_what_was_done(
    noted: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_due, "ROWS", 10)
    failures = iter([False, True, False, False, False, False])
    seen: list[int] = []

    async def blank_or_fail(tx: Tx, person_id: int, limit: int) -> int:
        done = await blank_notes(tx, person_id, limit)
        if next(failures):
            raise RuntimeError("cut short")
        seen.append(done)
        return done

    await erase(noted, blank_or_fail)
    assert seen == [10, 10, 5, 0]
    assert await left(noted.main) == 0


async def test_where_nobody_keeps_anything_it_is_done_at_once(product: Site) -> None:
    await erase(product)
