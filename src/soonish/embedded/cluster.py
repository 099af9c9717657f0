"""The files of one PostgreSQL: made once, whole or not at all; configured anew at every start.

Root writes here into a folder of somebody who is trusted less, so it never follows or fills what it finds there.
Starts no server.
"""

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from soonish.embedded.binaries import MAJOR
from soonish.embedded.child import NotStarted
from soonish.embedded.processes import LINUX, Account, Command, end, working_in
from soonish.errors import Unavailable

SUPERUSER: Final = "soonish"
MIB: Final = 1024 * 1024
_END: Final = ((signal.SIGKILL, 5.0),)

# A small server that must lose nothing. What an operator changes with ALTER SYSTEM wins over this file.
_SETTINGS: Final = """\
# Written by Soonish at every start. To change a setting, use ALTER SYSTEM: that wins, and stays.
max_connections = 100
shared_buffers = '{buffers}MB'
effective_cache_size = '{cache}MB'
work_mem = '8MB'
maintenance_work_mem = '128MB'
huge_pages = off
dynamic_shared_memory_type = posix
# Short queries on a few cores: neither compiling nor parallel plans pay.
jit = off
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
random_page_cost = 1.1
fsync = on
synchronous_commit = on
full_page_writes = on
# No standby can follow. Not more log than is read again in some seconds after a crash.
wal_level = minimal
max_wal_senders = 0
max_wal_size = '1GB'
min_wal_size = '80MB'
checkpoint_timeout = '10min'
# The queue's rows come and go all the time.
autovacuum_naptime = '10s'
autovacuum_vacuum_cost_delay = '1ms'
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
log_min_messages = warning
# Without the values that an error is about.
log_error_verbosity = terse
log_checkpoints = off
log_autovacuum_min_duration = -1
log_line_prefix = '%m [%p] %q%a '
unix_socket_permissions = 0700
"""


def is_made(pg: Path) -> bool:
    """Whether there is a cluster of the version that we run."""
    try:
        found = (pg / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        if pg.exists() and any(pg.iterdir()):
            raise NotStarted(f"{pg} is not empty, and is no database; move it away") from None
        return False
    except OSError as error:
        raise NotStarted(f"{pg} cannot be read: {error.strerror}; run as the user who made it") from error
    if found != str(MAJOR):
        raise NotStarted(f"{pg} was made by PostgreSQL {found}, this is {MAJOR}; restore a backup into a new directory")
    return True


async def make(pg: Path, installation: Path, account: Account | None) -> None:
    """initdb beside its place, then a rename: a start that was killed on the way leaves nothing that looks whole."""
    making = pg.with_name("pg.new")
    if making.exists():  # left by such a start, whose initdb may still be at work
        await end(lambda: working_in(making, "postgres") | working_in(making, "initdb"), _END)
        shutil.rmtree(making)
    making.mkdir(mode=0o700)
    own(making, account)
    code, said = await asyncio.to_thread(_initdb(making, installation, account).run)
    if code:
        raise Unavailable(f"The database could not be made: {said}")
    making.rename(pg)
    _sync(pg.parent)


def configure(pg: Path, account: Account | None) -> None:
    """Write how the server behaves, and who may connect: whoever runs the server, and ourselves, each by proof."""
    us = Account.of(os.geteuid()).name
    names = dict.fromkeys((us, account.name if account else us, "root"))  # root could become any of them anyway
    _write(pg / "postgresql.conf", _SETTINGS.format(**_memory()), account)
    _write(pg / "pg_hba.conf", "local all all peer map=soonish\n", account)
    _write(pg / "pg_ident.conf", "".join(f'soonish "{name}" {SUPERUSER}\n' for name in names), account)


def own(path: Path, account: Account | None) -> None:
    if account:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def data_argument(pg: Path, account: Account | None) -> Path:
    """How the server is told where its files are.

    A child of root stands in the folder already and may not be able to walk there: all above it is closed to it.
    """
    return Path("/proc/self/cwd") if account and LINUX else pg


def _initdb(pg: Path, installation: Path, account: Account | None) -> Command:
    words = (
        *(installation / "bin" / "initdb", "-D", data_argument(pg, account), "-U", SUPERUSER),
        *("-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
        *("--auth-local=peer", "--auth-host=reject", "--no-instructions"),
    )
    return Command(words, pg, account)


def _memory() -> dict[str, int]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # of a container, if there is a limit
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return {"buffers": min(max(total // 8 // MIB, 32), 2048), "cache": max(total // 2 // MIB, 64)}


def _write(file: Path, text: str, account: Account | None) -> None:
    """A fresh file in place of whatever has that name now."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
        if account:
            os.fchown(fd, account.uid, account.gid)
    finally:
        os.close(fd)
    new.replace(file)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
