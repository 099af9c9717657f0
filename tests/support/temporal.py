"""A Temporal server that tests may stop, freeze and start again, and engines that speak to it. Knows no workflow."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from soonish.embedded.temporal_server import running_address
from soonish.settings import Settings
from soonish.temporal.engine import Crew, Engine
from tests.support.parent import Parent


class Server:
    """A Temporal server that a test may stop, freeze and start again, always at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.start()
        self.address = running_address(folder) or ""

    def start(self) -> None:
        self._parent = Parent(self._folder, "temporal")

    def stop(self) -> None:
        self._parent.stop()

    def kill(self) -> None:
        """End it without mercy."""
        self._parent.kill()

    def tell(self, how: int) -> None:
        os.kill(self._parent.children[0], how)


@asynccontextmanager
async def engine_of(address: str, *crews: Crew, **settings: str) -> AsyncIterator[Engine]:
    chosen = {f"SOONISH_TEMPORAL_{name.upper()}": value for name, value in settings.items()}
    async with Engine(Settings.read(chosen), crews, address=address) as engine:
        yield engine
