"""Workspaces: changed by their admins, made and closed by the operator alone, and closed for good."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from soonish import due
from soonish.access.actions.closed import ClosedWorkspaces
from soonish.access.actions.workspaces import (
    change_workspace,
    close_workspace,
    each_workspace,
    get_workspace,
    list_workspaces,
    make_workspace,
)
from soonish.access.model import Workspace
from soonish.db.pool import Database
from soonish.due import Item
from soonish.errors import Conflict, NotFound, Stale
from soonish.web.reading import IfMatch
from tests.access.conftest import Tenant

ANY = IfMatch(None)


async def change(db: Database, owner: Tenant, *, seen: IfMatch = ANY, **wanted: str) -> Workspace:
    async with db.transaction(owner.id) as tx:
        return await change_workspace(tx, owner.caller, wanted, seen)


async def close(db: Database, operator: Tenant, workspace_id: int) -> Workspace:
    async with db.transaction(operator.id) as tx:
        return await close_workspace(tx, operator.caller, workspace_id)


async def put(db: Database, owner: Tenant, *keys: str) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    async with db.transaction(owner.id) as tx:
        await due.put(tx, [due.Put("test.thing", key, later) for key in keys])


async def verbs(db: Database, owner: Tenant) -> list[tuple[str, str]]:
    async with db.transaction(owner.id, readonly=True) as tx:
        return [tuple(row) for row in await tx.fetch("SELECT verb, entity FROM audit ORDER BY id")]


async def test_a_change_is_a_new_version_and_on_record(db: Database, acme: Tenant) -> None:
    after = await change(db, acme, timezone="Asia/Tokyo", email_trust="trusted")
    assert (after.version, after.timezone, after.email_trust, after.locale) == (2, "Asia/Tokyo", "trusted", "de")
    assert await verbs(db, acme) == [("change", f"workspace/{acme.id}")]


async def test_a_change_of_nothing_keeps_the_version_and_is_not_on_record(db: Database, acme: Tenant) -> None:
    before = await get_workspace(db, acme.caller)
    assert await change(db, acme, timezone="Europe/Berlin", name="Acme") == before
    assert await change(db, acme) == before
    assert await verbs(db, acme) == []


async def test_who_saw_an_old_version_changes_nothing(db: Database, acme: Tenant) -> None:
    await change(db, acme, name="One")
    with pytest.raises(Stale) as refused:
        await change(db, acme, name="Two", seen=IfMatch('"1"'))
    assert refused.value.version == 2
    assert (await get_workspace(db, acme.caller)).name == "One"


async def test_of_two_changes_of_one_version_one_is_stale(db: Database, acme: Tenant) -> None:
    seen = IfMatch('"1"')
    names = ("One", "Two")
    results = await asyncio.gather(*[change(db, acme, name=name, seen=seen) for name in names], return_exceptions=True)
    assert {type(result) for result in results} == {Workspace, Stale}


async def test_a_slug_is_taken_once(db: Database, main: Tenant, acme: Tenant) -> None:
    with pytest.raises(Conflict) as refused:
        async with db.transaction(main.id) as tx:
            await make_workspace(tx, main.caller, "acme", "Another")
    assert refused.value.code == "slug_taken"


async def test_making_a_workspace_is_on_the_operators_record(db: Database, main: Tenant, acme: Tenant) -> None:
    assert (await verbs(db, main))[-1] == ("make", f"workspace/{acme.id}")
    assert await verbs(db, acme) == []


async def test_the_operators_calls_answer_nothing_elsewhere(db: Database, main: Tenant, acme: Tenant) -> None:
    assert await list_workspaces(db, acme.caller) == []
    with pytest.raises(NotFound):
        await close(db, acme, acme.id)
    with pytest.raises(NotFound):
        async with db.transaction(acme.id) as tx:
            await close_workspace(tx, acme.caller, acme.id)
    with pytest.raises(Exception, match="row-level security"):
        async with db.transaction(acme.id) as tx:
            await make_workspace(tx, acme.caller, "mine", "Mine")


async def test_the_first_workspace_stays(db: Database, main: Tenant) -> None:
    with pytest.raises(Conflict) as refused:
        await close(db, main, main.id)
    assert refused.value.code == "first_workspace"


async def test_a_closed_workspace_stays_closed_and_is_listed(db: Database, main: Tenant, acme: Tenant) -> None:
    closed = await close(db, main, acme.id)
    assert closed.closed_at is not None
    assert await close(db, main, acme.id) == closed
    assert [row.id for row in await list_workspaces(db, main.caller)] == [acme.id, main.id]
    async with db.transaction(0, readonly=True) as tx:
        assert await each_workspace(tx) == [main.id]


async def test_there_is_no_workspace_to_close_of_an_unknown_id(db: Database, main: Tenant) -> None:
    with pytest.raises(NotFound):
        await close(db, main, 10_000)


async def test_closing_drops_what_was_due_there_and_nowhere_else(
    db: Database, main: Tenant, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soonish.access.actions.workspaces.STRETCH", 2)
    await put(db, acme, "a", "b", "c", "d", "e")
    await put(db, main, "mine")
    await close(db, main, acme.id)
    async with db.loops.acquire() as con:
        assert await con.fetchval("SELECT array_agg(key) FROM due.due") == ["mine"]
        rows = await con.fetch("SELECT key, fate, reason FROM due.due_undone ORDER BY key")
    assert [tuple(row) for row in rows] == [(key, "dropped", "workspace_closed") for key in "abcde"]


async def test_closing_goes_on_record_in_the_operators_workspace(db: Database, main: Tenant, acme: Tenant) -> None:
    await put(db, acme, "a")
    await close(db, main, acme.id)
    assert (await verbs(db, main))[-1] == ("close", f"workspace/{acme.id}")


async def test_what_is_put_after_the_closing_is_refused_by_the_loops(db: Database, main: Tenant, acme: Tenant) -> None:
    await close(db, main, acme.id)
    for owner in (main, acme):
        await put(db, owner, f"of {owner.id}")
    async with ClosedWorkspaces(db) as closed, db.loops.acquire() as con:
        items = await con.fetch("SELECT id, workspace_id FROM due.due ORDER BY workspace_id", record_class=Item)
        assert [closed.refuse(item) for item in items] == [None, "workspace_closed"]
