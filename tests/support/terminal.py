"""Commands on a terminal: what a person would see, colours and all, and the keys that they would press."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from typing import Self

from tests.support.service import COMMAND, ROOT

PATIENCE = 30.0
ENDED = b""


class Terminal:
    """One command with a terminal for its output, 200 columns wide."""

    def __init__(self, environ: Mapping[str, str], *arguments: str) -> None:
        self.seen = ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            env={**environ, "TERM": "xterm-256color"},
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)

    @property
    def pid(self) -> int:
        return self._process.pid

    def until(self, text: str) -> None:
        """Read until it shows this."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} does not appear in {self.seen!r}"
            assert self._read() != ENDED, f"it ended without {text!r}: {self.seen!r}"

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.kill(self._process.pid, signal.SIGINT)

    def code(self) -> int:
        """Read to the end; answers how it ended."""
        while self._read() != ENDED:
            pass
        return self._process.wait(PATIENCE)

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._master], [], [], PATIENCE)
        try:
            data = os.read(self._master, 65_536) if ready else ENDED
        except OSError:  # nobody holds the other end any more
            data = ENDED
        self.seen += data.decode(errors="replace")
        return data
