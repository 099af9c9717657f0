"""What the tests of access share: an installation with its first workspace, and another workspace beside it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from soonish.access.actions import workspaces
from soonish.access.actions.callers import Callers
from soonish.access.actions.start import first_start
from soonish.db.pool import Database
from soonish.web.auth import Caller
from tests.support.site import Site, site


@dataclass
class Tenant:
    """A workspace, its admin key, and the caller behind it."""

    key: str
    caller: Caller

    @property
    def id(self) -> int:
        return self.caller.workspace_id


async def tenant(db: Database, key: str) -> Tenant:
    caller = await Callers(db).find("key", key, "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f")
    assert caller is not None
    return Tenant(key, caller)


@pytest.fixture
async def main(db: Database) -> Tenant:
    """Workspace 1, whose admin is the operator."""
    key = await first_start(db)
    assert key is not None
    return await tenant(db, key)


@pytest.fixture
async def acme(db: Database, main: Tenant) -> Tenant:
    """A workspace that is not the operator's."""
    async with db.transaction(main.id) as tx:
        made = await workspaces.make_workspace(tx, main.caller, "acme", "Acme", "Europe/Berlin", "de")
    return await tenant(db, made.api_key)


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The application of the product."""
    async with site(database_url, tmp_path) as opened:
        yield opened
