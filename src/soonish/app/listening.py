"""The address of a process: taken before anything starts behind it, opened when all is ready. Knows no routes."""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, cast

import uvicorn
from litestar import Litestar

from soonish.errors import Conflict
from soonish.spelling import Bind

PATIENCE: Final = 2  # seconds for requests that are under way when the process ends
GLANCE: Final = 0.005  # seconds between two looks whether they have ended


class AddressInUse(Conflict):
    """Somebody listens there already, or nobody can."""

    code = "address_in_use"


@contextmanager
def door(bind: Bind) -> Iterator[socket.socket]:
    """Take an address; nobody is let in yet."""
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    with socket.socket(family) as entrance:
        entrance.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            entrance.bind((bind.host, bind.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUse(f"Somebody listens at {bind} already; end that, or choose another --bind") from error
            raise AddressInUse(f"Nobody can listen at {bind}: {error.strerror}; choose another --bind") from error
        yield entrance


@asynccontextmanager
async def served(application: Litestar, entrance: socket.socket) -> AsyncIterator[None]:
    """Answer requests while the block runs; then streams end, and requests under way get a little time."""
    logging.getLogger("uvicorn.access").disabled = True  # paths hold tokens: no handler may ever see them
    server = _Server(
        uvicorn.Config(
            cast(Any, application),
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[entrance]), name="http")
    await server.open.wait()
    try:
        yield
    finally:
        server.end()
        application.state.hub.end()
        await serving


class _Server(uvicorn.Server):
    """Says when it is open, ends as soon as it is told, and leaves signals to whoever runs the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.open = asyncio.Event()
        self._told = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._told.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.open.set()

    async def main_loop(self) -> None:
        """Wake once a second, for the header `date`; the library would wake ten times, and hear of the end as late."""
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._told.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody in, see off who is idle, and wait for the others as long as patience lasts."""
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - nobody tells it
                    await asyncio.sleep(GLANCE)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
