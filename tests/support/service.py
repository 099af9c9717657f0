"""`soonish` as a process of its own, in a data directory of its own, on a free port: for tests from outside."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import asyncpg

from soonish import due
from soonish.client import Soonish
from soonish.embedded.postgres import running_url
from tests.support.places import free_port

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "soonish"]
LABELS = ("database", "temporal", "api", "overdue", "sign in", "admin key", "ready")
PATIENCE = 120.0


def environ(**more: str) -> dict[str, str]:
    """The environment of a test's process: nothing of the machine's own settings, and the kinds of the tests."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("SOONISH_", "TEMPORAL_"))}
    testing = {"SOONISH_TESTING": "1", "SOONISH_TEST_KINDS": "tests.support.kinds:kinds"}
    return mine | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | testing | more


def run(
    *arguments: str, timeout: float = PATIENCE, text: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """A command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environ(**more),
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class Service:
    """One data directory and, while it runs, its `soonish up`; it may start and end as often as wanted.

    Another `command` (`serve`, `work`) runs that instead.
    """

    def __init__(self, folder: Path | None = None, *, command: str = "up", **settings: str) -> None:
        self.command = command
        self.folder = folder or Path(tempfile.mkdtemp(prefix="soonish-up-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = {"SOONISH_DATA_DIR": str(self.folder), "SOONISH_BIND": f"127.0.0.1:{self.port}"} | settings
        self.lines: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> Self:
        """Run it until it says that it is ready."""
        self.begin(*arguments)
        self._until_ready()
        return self

    def begin(self, *arguments: str) -> None:
        """Run it, and do not wait."""
        with (self.folder.parent / f"{self.folder.name}.log").open("a") as log:
            self._process = subprocess.Popen(
                [*COMMAND, self.command, *arguments],
                env=self.environ(),
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.lines = []

    @property
    def printed(self) -> dict[str, str]:
        """What it said of itself at its last start, by label."""
        said = ((label, line) for line in self.lines for label in LABELS if line.startswith(label))
        return {label: line[len(label) :].strip() for label, line in said}

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def log(self) -> str:
        """What it wrote to stderr, from the first start on."""
        return (self.folder.parent / f"{self.folder.name}.log").read_text()

    @property
    def key(self) -> str:
        return (self.folder / "keys" / "admin-key").read_text().strip()

    def environ(self) -> dict[str, str]:
        return environ(**self.settings)

    def client(self) -> Soonish:
        return Soonish(self.url, self.key)

    def run(
        self, *arguments: str, timeout: float = PATIENCE, text: str | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """A command with the same settings."""
        return run(*arguments, timeout=timeout, text=text, **self.settings | more)

    def tell(self, how: int) -> None:
        """Send it a signal and do not wait."""
        assert self._process
        self._process.send_signal(how)

    def stop(self, how: int = signal.SIGTERM) -> tuple[int, float]:
        """Tell it to end; answers its exit code and how many seconds it took."""
        assert self._process
        began = time.monotonic()
        self.tell(how)
        return self.end(), time.monotonic() - began

    def end(self, within: float = PATIENCE) -> int:
        """Wait until it has ended; answers its exit code."""
        assert self._process
        assert self._process.stdout
        code = self._process.wait(within)
        with self._process.stdout as rest:
            self.lines += rest.read().splitlines()
        return code

    def remove(self) -> None:
        """End what runs, without mercy, and forget the folder."""
        if self._process and self._process.poll() is None:
            self._process.kill()
            self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder.parent / f"{self.folder.name}.log").unlink(missing_ok=True)

    async def database(self) -> asyncpg.Connection:
        """A connection as the owner, past all walls: to put what no request can put yet."""
        return await asyncpg.connect(embedded_url(self.folder))

    async def put(self, items: Iterable[due.Put]) -> None:
        """Put items as an action would: what this returned from is promised."""
        connection = await self.database()
        try:
            async with connection.transaction():
                await due.put(connection, items, workspace_id=1)
        finally:
            await connection.close()

    def _until_ready(self) -> None:
        assert self._process
        assert self._process.stdout
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if self.lines[-1] == "ready":
                return
        code = self._process.wait(PATIENCE)
        raise AssertionError(f"it ended with {code} before it was ready, after {self.lines}:\n{self.log[-3000:]}")


def embedded_url(folder: Path) -> str:
    """The database in the data directory of a service that runs."""
    url = running_url(folder)
    assert url, f"no database runs in {folder}"
    return url


async def lines_of(file: Path, wanted: int, within: float = 60.0) -> list[str]:
    """The lines of a file of effects, as soon as there are so many."""
    deadline = time.monotonic() + within
    while True:
        found = _lines(file)
        if len(found) >= wanted or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.05)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def notes(file: Path, keys: Iterable[str], **payload: float) -> list[due.Put]:
    """Items due now, each of which writes its key into the file."""
    return [due.Put("test.note", key, lane=due.Lane.PEOPLE, payload={"file": str(file), **payload}) for key in keys]
