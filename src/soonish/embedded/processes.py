"""Processes of the system: start one that ends with its parent, find those that a dead parent left, and end them.

Linux tells all that is asked here; elsewhere children are told to end only by a stop, and `ps` answers for one process.
Knows no server.
"""

import asyncio
import ctypes
import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

LINUX: Final = sys.platform == "linux"
PROC: Final = Path("/proc")
LOOK: Final = 0.02  # seconds between two looks at something that ends or begins within a second
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None)  # found before any fork: a child of a process with threads must not load libraries


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of(cls, user: int | str) -> Self:
        """By number or name; KeyError where the machine knows no such user."""
        entry = pwd.getpwuid(user) if isinstance(user, int) else pwd.getpwnam(user)
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid)


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, and as whom (None: as ourselves)."""

    words: tuple[str | Path, ...]
    cwd: Path
    account: Account | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    fds: Collection[int] = ()
    orphaned: int = signal.SIGKILL  # what the system sends it when its parent ends

    def start(self, output: Any, *, errors: Any = subprocess.STDOUT) -> subprocess.Popen[bytes]:
        """Start it, in a session of its own: Ctrl-C at the terminal is for its parent, who stops it in order.

        It ends with the thread that calls this, so call it on the main thread, or wait for its end.
        """
        who = self.account
        return subprocess.Popen(
            self.words,
            cwd=self.cwd,
            env=environment() | dict(self.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            pass_fds=tuple(self.fds),
            start_new_session=True,
            umask=0o077,
            user=who.uid if who else None,
            group=who.gid if who else None,
            extra_groups=[] if who else None,
            preexec_fn=_ending_with(os.getpid(), self.orphaned) if LINUX else None,
        )

    def run(self) -> tuple[int, str]:
        """Run it to its end and answer its code and what it wrote; for commands of seconds."""
        process = self.start(subprocess.PIPE)
        output, _ = process.communicate()
        return process.returncode, output.decode(errors="replace").strip()


def environment() -> dict[str, str]:
    """What a child gets of our environment: no setting of ours, no secret."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"LC_ALL": "C"}


def _ending_with(parent: int, how: int) -> Callable[[], None]:
    def ask() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, how)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(1)

    return ask


def watch(process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
    """A future of its exit code. A thread waits: event loops differ in which children they can watch."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[int] = loop.create_future()

    def wait() -> None:
        code = process.wait()
        try:
            loop.call_soon_threadsafe(_settle, future, code)
        except RuntimeError:  # the loop ended before the process did, so nobody asks any more
            return

    threading.Thread(target=wait, name=f"wait-{process.pid}", daemon=True).start()
    return future


def _settle(future: asyncio.Future[int], code: int) -> None:
    if not future.done():
        future.set_result(code)


def command_of(pid: int) -> str:
    """Its command line; empty where there is no such process (any more)."""
    try:
        if LINUX:
            return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True).stdout
    except OSError:
        return ""


def working_in(folder: Path, name: str) -> set[int]:
    """The processes of that name that work in that folder, as all of one PostgreSQL do (on Linux)."""
    pids = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()) if LINUX else ()
    return {pid for pid in pids if _works_in(PROC / str(pid), folder, name)}


def _works_in(process: Path, folder: Path, name: str) -> bool:
    try:
        return (process / "comm").read_text().strip() == name and (process / "cwd").samefile(folder)
    except OSError:  # it ended, or is somebody else's
        return False


def alive(pid: int) -> bool:
    """Whether there is such a process; one that has ended and that nobody waited for counts as gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not LINUX or not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def end(find: Callable[[], Iterable[int]], ladder: Iterable[tuple[int, float]]) -> bool:
    """Signal all that `find` finds, and wait until it finds none; the next signal after so many seconds."""
    for how, seconds in ladder:
        for pid in find():
            _signal(pid, how)
        for _ in range(int(seconds / LOOK)):
            if not any(alive(pid) for pid in find()):
                return True
            await asyncio.sleep(LOOK)
    return False


def _signal(pid: int, how: int) -> None:
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return
