"""The real application in this process, on a database of its own, with keys of two workspaces."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litestar import Litestar

from soonish.access.actions.audit import system_caller
from soonish.access.actions.keys import new_key
from soonish.access.actions.sign_ins import make_login_link, sign_in
from soonish.access.actions.start import first_start
from soonish.access.actions.workspaces import make_workspace
from soonish.access.model import RoleName
from soonish.app.parts import Process, application, opened
from soonish.db.listen import Listener
from soonish.db.pool import Database
from soonish.due import Put, put
from soonish.settings import Settings
from soonish.vault import Vault, make_key
from soonish.web.auth import COOKIE
from tests.support.http import Client, listening

REQUEST = "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f"


@dataclass
class House:
    """One workspace, with a client for each role."""

    db: Database
    id: int
    anyone: Client
    admin: Client
    write: Client
    read: Client

    async def browser(self, role: RoleName = "admin", **headers: str) -> Client:
        """A client that has signed in by a link: it has a cookie, and no key."""
        caller = system_caller(self.id)
        async with self.db.transaction(self.id) as tx:
            link = await make_login_link(tx, caller, "http://here", role)
        cookie = await sign_in(self.db, link.url.rpartition("/")[2], REQUEST)
        return self.anyone.by(None, cookie=f"{COOKIE}={cookie}", **headers)

    async def put(self, *wishes: Put) -> None:
        async with self.db.transaction(self.id) as tx:
            await put(tx, wishes)

    async def rows(self, statement: str, *values: Any) -> list[Any]:
        """What this workspace sees."""
        async with self.db.transaction(self.id) as tx:
            return list(await tx.fetch(statement, *values))

    async def run(self, statement: str, *values: Any) -> None:
        async with self.db.transaction(self.id) as tx:
            await tx.execute(statement, *values)


@dataclass
class Site:
    """The application, and the workspaces in it: the operator's and another."""

    app: Litestar
    db: Database
    anyone: Client
    main: House
    acme: House
    process: Process | None = None


async def houses(db: Database, anyone: Client) -> tuple[House, House]:
    """Workspace 1, and `acme`."""
    first = await first_start(db)
    assert first
    async with db.transaction(1) as tx:
        made = await make_workspace(tx, system_caller(), "acme", "Acme", "Europe/Berlin", "de")
    return await _house(db, anyone, 1, first), await _house(db, anyone, made.id, made.api_key)


async def _house(db: Database, anyone: Client, workspace_id: int, admin: str) -> House:
    async with db.transaction(workspace_id) as tx:
        write = await new_key(tx, workspace_id, "Writer", "write")
        read = await new_key(tx, workspace_id, "Reader", "read")
    return House(db, workspace_id, anyone, anyone.by(admin), anyone.by(write.key), anyone.by(read.key))


def settings_of(database_url: str, folder: Path, **more: str) -> Settings:
    """Settings as an environment would have them."""
    named = {f"SOONISH_{name.upper()}": value for name, value in more.items()}
    base = {"SOONISH_DATABASE_URL": database_url, "SOONISH_DATA_DIR": str(folder), "SOONISH_BIND": "127.0.0.1:0"}
    return Settings.read(base | named)


@asynccontextmanager
async def site(database_url: str, folder: Path, role: str = "serve", **settings: str) -> AsyncIterator[Site]:
    """The application as a process of that role composes it."""
    read = settings_of(database_url, folder, **settings)
    vault = Vault.from_setting(read.secrets_keys or make_key())
    async with opened(read, vault, role) as process, _listening(process) as (app, anyone):
        main, acme = await houses(process.db, anyone)
        yield Site(app, process.db, anyone, main, acme, process)


@asynccontextmanager
async def another(first: Site) -> AsyncIterator[Client]:
    """A second process beside the first."""
    assert first.process
    async with (
        opened(first.process.settings, first.process.vault, "serve") as process,
        _listening(process) as (_, anyone),
    ):
        yield anyone


@asynccontextmanager
async def _listening(process: Process) -> AsyncIterator[tuple[Litestar, Client]]:
    listener = Listener(process.db.connect)
    app = application(process, listener)
    async with listener, listening(app) as anyone:
        yield app, anyone
