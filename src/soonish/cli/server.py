"""The server that the HTTP commands speak to: from the settings, or the one that runs on this data directory."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from soonish.client import Soonish
from soonish.embedded.lock import holder
from soonish.errors import Unauthorized
from soonish.settings import Settings


@asynccontextmanager
async def server() -> AsyncIterator[Soonish]:
    """`SOONISH_URL` with `SOONISH_API_KEY`; without them what runs here, and the key that its first start left."""
    settings = Settings.read(os.environ)
    async with Soonish(settings.url or own_url(settings), settings.api_key or _own_key(settings)) as soonish:
        yield soonish


def own_url(settings: Settings) -> str:
    """Where the process on the data directory said that it listens; it may have been told so on its command line."""
    running = holder(settings.data_dir)
    return running.url if running and running.url else settings.bind.url


def _own_key(settings: Settings) -> str:
    path = settings.data_dir / "keys" / "admin-key"
    try:
        return path.read_text().strip()
    except OSError as error:
        raise Unauthorized(f"No key: set SOONISH_API_KEY (there is none in {path})") from error
