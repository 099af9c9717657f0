"""A process of its own that runs embedded servers on a data directory, as `up` does: for tests that stop or kill it."""

import subprocess
import sys
from pathlib import Path

from tests.support.service import ROOT, environ

PROGRAM = """
import asyncio, signal, sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from soonish.embedded.lock import Lock
from soonish.embedded.postgres import Postgres
from soonish.embedded.temporal_server import Temporal

async def main(root, servers):
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)
    with Lock(root, "http://127.0.0.1:1"), suppress(asyncio.CancelledError):
        async with AsyncExitStack() as stack:
            started = [await stack.enter_async_context(kind(root)) for kind in servers]
            print(*(server.pid for server in started), flush=True)
            await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), [{"postgres": Postgres, "temporal": Temporal}[name] for name in sys.argv[2:]]))
"""


class Parent:
    """Runs these servers (`postgres`, `temporal`) from its making on; `children` are their processes."""

    def __init__(self, folder: Path, *servers: str) -> None:
        command = [sys.executable, "-c", PROGRAM, str(folder), *servers]
        self._process = subprocess.Popen(command, env=environ(), cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.children = [int(pid) for pid in self._process.stdout.readline().split()]

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """End it and its servers in order."""
        self._process.terminate()
        self._process.communicate(timeout=30)

    def kill(self) -> None:
        """End it without mercy; the system ends its servers."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate(timeout=30)
