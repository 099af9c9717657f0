"""The two engines of `up`: those that have an address are used, the others are started as children. Knows no slice."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from soonish import telemetry
from soonish.db.migrate import migrate
from soonish.db.pool import place
from soonish.embedded.folder import Folder
from soonish.embedded.postgres import Postgres
from soonish.embedded.temporal_server import Temporal
from soonish.settings import Settings


@dataclass(frozen=True, slots=True)
class Engines:
    """The settings with the addresses of both engines, and where they are in words."""

    settings: Settings
    database: str
    temporal: str


async def engines(stack: AsyncExitStack, settings: Settings, folder: Folder) -> Engines:
    """Both at once, because the start of one takes as long as that of the other; the database is migrated."""
    starts = _database(stack, settings, folder), _temporal(stack, settings, folder)
    database, temporal = await asyncio.gather(*starts, return_exceptions=True)
    if isinstance(database, BaseException):
        raise database
    if isinstance(temporal, BaseException):
        raise temporal
    (url, direct, where), (address, said) = database, temporal
    addressed = replace(settings, database_url=url, database_listen_url=direct, temporal_address=address)
    return Engines(addressed, where, said)


async def _database(stack: AsyncExitStack, settings: Settings, folder: Folder) -> tuple[str, str, str]:
    if settings.database_url is None:
        postgres = await stack.enter_async_context(Postgres(folder.root, on_restart=_restarted))
        url = direct = postgres.url
        where = f"PostgreSQL {postgres.version} in {folder.pg}"
    else:
        url, direct = settings.database_url, settings.database_listen_url or settings.database_url
        where = f"PostgreSQL at {place(url)}"
    await migrate(direct)
    return url, direct, where


async def _temporal(stack: AsyncExitStack, settings: Settings, folder: Folder) -> tuple[str, str]:
    if settings.temporal_address is not None:
        return settings.temporal_address, settings.temporal_address
    server = await stack.enter_async_context(
        Temporal(folder.root, namespace=settings.temporal_namespace, ui=settings.temporal_ui, on_restart=_restarted)
    )
    return server.address, f"{server.address}, pages at {server.ui_url}" if server.ui_url else server.address


def _restarted(child: str) -> None:
    telemetry.child_restarts_total.labels(child).inc()
