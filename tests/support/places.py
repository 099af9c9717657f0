"""Where tests make their folders, and which ports they take: in memory where there is room, and each its own."""

import os
import random
import shutil
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

MEMORY = Path("/dev/shm")  # of Linux; elsewhere, and in a container that has little of it, a disk does as well
ROOM = 2 * 2**30
# Below those that systems give to outgoing connections, and beside those that the product takes by itself.
PORTS = range(10_000, 20_000)
_taken: list[socket.socket] = []


def prefer_memory() -> None:
    """Folders of this process and of those it starts: some gigabytes are written that nobody will read again."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def free_port() -> int:
    """A port where nobody listens, and which no other test on this machine is given as long as this process lives."""
    return next(port for port in random.sample(PORTS, len(PORTS)) if _take(port) and _is_free(port))


def _take(port: int) -> bool:
    """Note it in a place that all processes see and that empties by itself: between two starts of a server its port
    is free, and must not become somebody else's."""
    if sys.platform != "linux":
        return True
    note = socket.socket(socket.AF_UNIX)
    with suppress(OSError):
        note.bind(f"\0soonish-test-port-{port}")
        _taken.append(note)
        return True
    note.close()
    return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
