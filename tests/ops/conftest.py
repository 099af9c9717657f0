"""What the tests of operations share: an installation with two workspaces, its kinds, and this process's health."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soonish.access.actions import workspaces
from soonish.access.actions.callers import Callers
from soonish.access.actions.start import first_start
from soonish.access.model import SECRET_COLUMNS
from soonish.db.pool import Database
from soonish.due import Kind, Put
from soonish.due import put as put_items
from soonish.due.loop.loop import drain
from soonish.ops.actions.handed import Ops
from soonish.ops.actions.health import Health
from soonish.ops.model.upkeep import explain
from soonish.ops.on_due import Secret, kinds
from soonish.vault import Vault
from soonish.web.auth import Caller
from tests.support.due import Handler
from tests.support.site import House, Site, site

KIND = "shop.reminder"
HOUR = timedelta(hours=1)
SECRETS = [Secret(*column) for column in SECRET_COLUMNS]


@dataclass
class Tenant:
    """A workspace, its admin key, and the caller behind it."""

    db: Database
    key: str
    caller: Caller

    @property
    def id(self) -> int:
        return self.caller.workspace_id

    async def put(self, *wishes: Put) -> None:
        async with self.db.transaction(self.id) as tx:
            await put_items(tx, wishes)

    async def rows(self, statement: str, *values: Any) -> list[Any]:
        """What this workspace sees."""
        async with self.db.transaction(self.id) as tx:
            return list(await tx.fetch(statement, *values))


async def _tenant(db: Database, key: str) -> Tenant:
    caller = await Callers(db).find("key", key, "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f")
    assert caller is not None
    return Tenant(db, key, caller)


@pytest.fixture
async def main(db: Database) -> Tenant:
    """Workspace 1, whose admin is the operator."""
    key = await first_start(db)
    assert key is not None
    return await _tenant(db, key)


@pytest.fixture
async def acme(db: Database, main: Tenant) -> Tenant:
    """A workspace that is not the operator's."""
    async with db.transaction(main.id) as tx:
        made = await workspaces.make_workspace(tx, main.caller, "acme", "Acme", "Europe/Berlin", "de")
    return await _tenant(db, made.api_key)


def new_vault(*names: str) -> Vault:
    """A vault with keys of these names, of which each is always the same within a run of the tests."""
    return Vault({name: _KEYS.setdefault(name, os.urandom(32)) for name in names})


_KEYS: dict[str, bytes] = {}


@pytest.fixture
def vault() -> Vault:
    return new_vault("k1")


@pytest.fixture
def system_kinds(db: Database, vault: Vault) -> list[Kind]:
    return kinds(db, keep=timedelta(days=90), vault=vault, secrets=SECRETS)


@pytest.fixture
async def health(db: Database, vault: Vault) -> AsyncIterator[Health]:
    """This process's, entered."""
    async with Health(db, data_dir=None, role="up", version="0.1", vault=vault, secrets=SECRETS) as health:
        yield health


@pytest.fixture
def ops(health: Health, system_kinds: list[Kind]) -> Ops:
    return Ops(health=health, kinds={kind.name: kind for kind in system_kinds}, explainers={"system": explain})


# --- over HTTP


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The application of the product."""
    async with site(database_url, tmp_path) as opened:
        yield opened


def at(hours: float) -> datetime:
    return datetime.now(UTC) + hours * HOUR


async def due(house: House, query: str = "") -> list[Any]:
    return await house.read.every(f"/v1/ops/due{query}")


async def keys(house: House, query: str = "") -> list[str]:
    return [item["key"] for item in await due(house, query)]


async def work(product: Site, *kinds: Kind) -> int:
    """Do all that is due, the carrying out of pauses included."""
    assert product.process
    return await drain(product.db.loops, [*product.process.kinds.values(), *kinds])


async def dead(product: Site, *names: str, kind: str = KIND) -> list[int]:
    """Items that died; answers their ids."""
    await product.acme.put(*(Put(kind, name) for name in names))
    await work(product, Kind(kind, Handler(RuntimeError("no luck")), tries=1))
    rows = await product.acme.rows("SELECT id FROM due.due_undone WHERE kind = $1 ORDER BY id", kind)
    return [row["id"] for row in rows]
