"""One instance a data directory: a lock that ends with its process, and says who holds it.

The system lets go of it when the process ends, however that happens, so no lock is ever stale. Starts nothing.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from soonish.embedded.folder import Folder
from soonish.errors import Conflict, Unavailable


@dataclass(frozen=True, slots=True)
class Holder:
    """Who runs on a data directory; parts are missing in the moment in which they are written."""

    pid: int | None
    url: str


class AlreadyRunning(Conflict):
    """Another process runs on this data directory."""

    code = "already_running"

    def __init__(self, root: Path, holder: Holder) -> None:
        where = f", at {holder.url}" if holder.url else ""
        super().__init__(
            f"Soonish runs on {root} already: process {holder.pid or 'unknown'}{where}; "
            "stop it, or name another --data-dir"
        )
        self.pid = holder.pid
        self.url = holder.url


class Lock:
    """Held while the block runs; raises AlreadyRunning where somebody else holds it."""

    def __init__(self, data_dir: Path, url: str = "") -> None:
        self._root = data_dir
        self._url = url
        self._fd = -1

    def __enter__(self) -> Self:
        fd = _open(Folder.prepare(self._root).run / "lock")
        if not _take(fd):
            holder = _read(fd)
            os.close(fd)
            raise AlreadyRunning(self._root, holder)
        self._fd = fd
        self.say(self._url)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def say(self, url: str) -> None:
        """Write where this process can be reached."""
        text = f"{os.getpid()}\n{url}\n".encode()
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))


def holder(data_dir: Path) -> Holder | None:
    """Who runs on this data directory now; None if nobody does. Makes nothing."""
    try:
        fd = os.open(data_dir / "run" / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _take(fd, fcntl.LOCK_SH) else _read(fd)
    finally:
        os.close(fd)


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"{file} cannot be opened: {error.strerror}; run as the user who made it") from error


def _take(fd: int, how: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(fd: int) -> Holder:
    pid, _, url = os.pread(fd, 2000, 0).decode(errors="replace").partition("\n")
    return Holder(int(pid) if pid.isdecimal() else None, url.strip())
