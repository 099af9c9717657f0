"""Workspaces: look at and change one's own; as the operator list, make and close them.

The operator's calls run in workspace 1 and reach the others through functions of the database that serve that one
workspace alone.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from soonish.access.actions.audit import SQL, record
from soonish.access.actions.keys import new_key
from soonish.access.model import CLOSED, OPERATOR_WORKSPACE, Workspace, WorkspaceMade, changed, told
from soonish.db.pool import Database, Tx
from soonish.errors import Conflict, NotFound
from soonish.web.auth import Caller

STRETCH = 10_000  # items a statement, so that none runs long


class Match(Protocol):
    """What the caller knows of the version (`If-Match`)."""

    def check(self, version: int) -> None: ...


async def get_workspace(db: Database, caller: Caller) -> Workspace:
    """The caller's own."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return Workspace(**await SQL.workspace.row(tx, id=caller.workspace_id))


async def change_workspace(tx: Tx, caller: Caller, wanted: Mapping[str, Any], if_match: Match) -> Workspace:
    """Change the caller's own; where nothing differs, nothing is written."""
    before = Workspace(**await SQL.workspace_for_update.row(tx, id=caller.workspace_id))
    if_match.check(before.version)
    change = changed(before, wanted)
    if not change:
        return before
    names = ("id", "name", "timezone", "locale", "email_trust", "unknown_people")
    row = await SQL.change_workspace.row(tx, **{name: getattr(before, name) for name in names} | change)
    await record(tx, caller, "change", f"workspace/{before.id}", told(before, change))
    return Workspace(**row)


async def list_workspaces(
    db: Database, caller: Caller, *, before: int | None = None, limit: int = 50
) -> list[Workspace]:
    """All of them, closed ones too, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return [Workspace(**row) for row in await SQL.workspaces.rows(tx, before=before, k=limit)]


async def get_any_workspace(db: Database, caller: Caller, workspace_id: int) -> Workspace:
    """Any of them, for the operator."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await _of_id(tx, workspace_id)


async def make_workspace(
    tx: Tx, caller: Caller, slug: str, name: str, timezone: str = "UTC", locale: str = "en"
) -> WorkspaceMade:
    """Make a workspace and its first admin key."""
    row = await SQL.make_workspace.row(tx, slug=slug, name=name, timezone=timezone, locale=locale)
    if row is None:
        raise Conflict(f"There is a workspace {slug!r} already; take another slug", code="slug_taken")
    await record(tx, caller, "make", f"workspace/{row['id']}", {"slug": slug})
    async with _inside(tx, caller, row["id"]):
        key = await new_key(tx, row["id"], "First key", "admin")
    return WorkspaceMade(**row, api_key=key.key)


async def close_workspace(tx: Tx, caller: Caller, workspace_id: int) -> Workspace:
    """End a workspace: its keys and sign-ins stop, what was due there is dropped. Again: nothing changes."""
    if workspace_id == OPERATOR_WORKSPACE:
        raise Conflict("The first workspace is the operator's own and stays", code="first_workspace")
    row = await SQL.close_workspace.row(tx, id=workspace_id)
    if row is None:
        return await _of_id(tx, workspace_id)  # closed before, or never made
    await record(tx, caller, "close", f"workspace/{workspace_id}")
    async with _inside(tx, caller, workspace_id):
        await _drop_items(tx)
    return Workspace(**row)


async def each_workspace(tx: Tx) -> list[int]:
    """The ids of the open ones, whichever workspace the transaction is in."""
    return [row["id"] for row in await SQL.each_workspace.rows(tx)]


async def all_workspaces(tx: Tx) -> list[int]:
    """The closed ones too: their rows grow old, and their secrets change keys, like anybody's."""
    rows = [*await SQL.each_workspace.rows(tx), *await SQL.closed_workspaces.rows(tx)]
    return sorted(row["id"] for row in rows)


async def _of_id(tx: Tx, workspace_id: int) -> Workspace:
    row = await SQL.find_workspace.row(tx, id=workspace_id)
    if row is None:
        raise NotFound(f"There is no workspace {workspace_id}")
    return Workspace(**row)


async def _drop_items(tx: Tx) -> None:
    """Drop the live items of the transaction's workspace; what is put later is refused by the loops."""
    after: int | None = 0
    while after is not None:
        after = await SQL.drop_items.value(tx, after=after, k=STRETCH, reason=CLOSED)


@asynccontextmanager
async def _inside(tx: Tx, caller: Caller, workspace_id: int) -> AsyncIterator[None]:
    """Go on in another workspace, and come back: the stored answer belongs to the caller's."""
    await SQL.enter_workspace.run(tx, id=str(workspace_id))
    yield
    await SQL.enter_workspace.run(tx, id=str(caller.workspace_id))
