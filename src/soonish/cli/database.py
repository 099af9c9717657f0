"""The database that a command works on: that of the settings, or the one in the data directory, running or not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from soonish.embedded.folder import Folder
from soonish.embedded.lock import Lock
from soonish.embedded.postgres import Postgres, running_url
from soonish.errors import NotFound
from soonish.settings import Settings


@asynccontextmanager
async def database(settings: Settings, *, make: bool = False) -> AsyncIterator[str]:
    """A direct URL. An embedded server that does not run is started for the command; `make` allows a new one."""
    if url := settings.database_listen_url or settings.database_url or running_url(settings.data_dir):
        yield url
        return
    if not make and not (Folder(settings.data_dir).pg / "PG_VERSION").exists():
        raise NotFound(f"There is no database in {settings.data_dir}; `soonish up` makes one", code="no_database")
    with Lock(settings.data_dir):
        async with Postgres(settings.data_dir) as server:
            yield server.url
