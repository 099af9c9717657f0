"""PostgreSQL in the data directory: no network, one socket that only its owner reaches, killed without loss.

Makes the database `soonish`; knows no table in it.
"""

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, Self
from urllib.parse import quote

import asyncpg

from soonish.embedded import binaries, cluster
from soonish.embedded.child import Child, NotStarted
from soonish.embedded.folder import Folder
from soonish.embedded.processes import LINUX, Account, Command, alive, command_of, end, working_in

DATABASE: Final = "soonish"
MARK: Final = "cluster_name=soonish"  # by which a server that we started is known
SOCKET: Final = ".s.PGSQL.5432"
LONGEST_SOCKET: Final = 100  # bytes; systems take a little more
# One whose parent was killed is told SIGQUIT by the system at once, and needs some seconds at most.
_ORPHANS: Final = ((0, 2.0), (signal.SIGQUIT, 8.0), (signal.SIGKILL, 5.0))
_NOT_YET: Final = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


class Postgres(Child):
    """`url` is good as long as the block runs; between a death and the restart nobody answers there."""

    name = "postgres"
    # Fast, then without a last checkpoint, which the next start makes up for.
    ladder: ClassVar = ((signal.SIGINT, 4.0), (signal.SIGQUIT, 2.0), (signal.SIGKILL, 2.0))

    def __init__(self, data_dir: Path, on_restart: Callable[[str], None] | None = None) -> None:
        self._folder = Folder.prepare(data_dir)
        super().__init__(self._folder.logs / "postgres.log", on_restart)
        self.first = False
        self.version = ""
        self._account: Account | None = None
        self._installation = Path()
        self._socket_folder = self._folder.run / "pg"
        self._socket_fd = -1

    @property
    def url(self) -> str:
        return _url(self._socket_folder, DATABASE)

    async def __aenter__(self) -> Self:
        folder = self._folder
        made = cluster.is_made(folder.pg)
        self._account = binaries.account_for(folder.root, folder.pg if made else folder.root)
        self._installation = binaries.installation(self._account)
        self.version = binaries.server_version(binaries.wheel())
        if not made:
            await cluster.make(folder.pg, self._installation, self._account)
        self.first = not made
        self._open_socket_folder()
        try:
            await super().__aenter__()
        except BaseException:
            self._close_socket_folder()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        self._close_socket_folder()

    async def _prepare(self) -> Command:
        await _take_over(self._folder.pg)
        cluster.configure(self._folder.pg, self._account)
        by_descriptor = self._account and LINUX  # it may not be able to walk to the folder of its socket either
        where = f"/proc/self/fd/{self._socket_fd}" if by_descriptor else str(self._socket_folder)
        words = (
            *(self._installation / "bin" / "postgres", "-D", cluster.data_argument(self._folder.pg, self._account)),
            *("-k", where, "-c", "listen_addresses=", "-c", MARK),
        )
        return Command(words, self._folder.pg, self._account, fds=(self._socket_fd,), orphaned=signal.SIGQUIT)

    async def _answers(self) -> bool:
        try:
            await _ask(self.url, "SELECT 1")
        except asyncpg.InvalidCatalogNameError:
            await self._make_database()
            return False
        except _NOT_YET:
            return False
        return True

    async def _make_database(self) -> None:
        try:
            await _ask(_url(self._socket_folder, "postgres"), f"CREATE DATABASE {DATABASE} TEMPLATE template0")
        except _NOT_YET:
            return

    def _open_socket_folder(self) -> None:
        _forget_socket_folder(self._folder)
        wanted = self._folder.run / "pg"
        if len(os.fsencode(wanted / SOCKET)) > LONGEST_SOCKET:
            wanted = Path(tempfile.mkdtemp(prefix="soonish-"))
        _record(self._folder).write_text(f"{wanted}\n")
        wanted.mkdir(mode=0o700, exist_ok=True)
        cluster.own(wanted, self._account)
        self._socket_folder = wanted
        self._socket_fd = os.open(wanted, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _close_socket_folder(self) -> None:
        os.close(self._socket_fd)
        _forget_socket_folder(self._folder)


def running_url(data_dir: Path) -> str | None:
    """The URL of the server that runs on this data directory now; None if none does."""
    folder = _recorded(Folder(data_dir.absolute()))
    return _url(folder, DATABASE) if folder and _listens(folder / SOCKET) else None


async def _ask(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url, timeout=5, command_timeout=60)
    try:
        await connection.execute(statement)
    finally:
        connection.terminate()


async def _take_over(pg: Path) -> None:
    """Wait until no process of an earlier server works on these files, and end those that stay.

    It is safe to end them: the lock of the data directory is ours, so whoever started them is dead.
    """
    owner = _recorded_postmaster(pg)

    def left() -> set[int]:
        return working_in(pg, "postgres") | ({owner} if owner and _is_ours(owner, pg) else set())

    if owner and owner in left() and MARK not in command_of(owner):
        raise NotStarted(f"Somebody else's PostgreSQL, process {owner}, runs on {pg}; stop it first")
    if not await end(left, _ORPHANS):
        raise NotStarted(f"An earlier PostgreSQL does not end: processes {sorted(left())}")
    if owner and alive(owner):  # a number that another process has by now; PostgreSQL would take it for a server
        (pg / "postmaster.pid").unlink(missing_ok=True)


def _recorded_postmaster(pg: Path) -> int | None:
    try:
        first = (pg / "postmaster.pid").read_text().partition("\n")[0].strip()
    except OSError:
        return None
    return int(first) if first.isdecimal() else None


def _is_ours(pid: int, pg: Path) -> bool:
    """Where a process cannot be found by its folder: by its words."""
    words = command_of(pid)
    return not LINUX and MARK in words and str(pg) in words


def _url(socket_folder: Path, database: str) -> str:
    return f"postgresql://{cluster.SUPERUSER}@/{database}?host={quote(str(socket_folder))}"


def _record(folder: Folder) -> Path:
    return folder.run / "pg-socket"


def _recorded(folder: Folder) -> Path | None:
    try:
        return Path(_record(folder).read_text().strip())
    except OSError:
        return None


def _forget_socket_folder(folder: Folder) -> None:
    """Remove what an earlier start used, and made for itself alone."""
    old = _recorded(folder)
    if old and old.name.startswith("soonish-") and old.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(old, ignore_errors=True)
    _record(folder).unlink(missing_ok=True)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
