"""One server as a child of this process: started, watched, started again when it dies, stopped in order.

A server says how it is started, how one sees that it answers, and how it is asked to stop; the rest is here. Which
server it is, is not known here.
"""

import asyncio
import logging
import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, Self

from soonish.embedded.processes import LOOK, Command, watch
from soonish.errors import Unavailable

FIRST_WAIT: Final = 0.5  # before a dead child is started again; doubles
LONGEST_WAIT: Final = 30.0
STEADY: Final = 30.0  # whoever lived so long begins with the first wait again
FIRST_START: Final = 120.0  # a database that was killed while it was busy reads its log first
FIRST_TRIES: Final = 3
LONGEST_LOOK: Final = 0.2  # it may be busy for minutes, and logs each of these looks
LOG_SIZE: Final = 10_000_000
LOG_LOOK: Final = 60.0
TAIL: Final = 1500

_log = logging.getLogger(__name__)


class NotStarted(Unavailable):
    """A server that is ours does not start."""

    code = "not_started"


class Child(ABC):
    """An async context manager: the server answers when it is entered, and is gone when it is left.

    In between it is started again for ever: 0.5 s after its death, doubling to 30 s, and `on_restart(name)` is called.
    """

    name: ClassVar[str]
    # Signals that ask for its end, and the seconds that each is given; SIGKILL last.
    ladder: ClassVar[tuple[tuple[int, float], ...]]

    def __init__(self, log: Path, on_restart: Callable[[str], None] | None = None) -> None:
        self.restarts = 0
        self.on_restart = on_restart
        self._log_file = log
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: asyncio.Future[int] | None = None
        self._up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def _prepare(self) -> Command:
        """What to run. Called before every start; raises Unavailable or OSError where it cannot be run now."""

    @abstractmethod
    async def _answers(self) -> bool:
        """Whether it answers; asked again and again until it does."""

    @property
    def up(self) -> bool:
        """Whether it has answered since its last start."""
        return self._up.is_set()

    @property
    def pid(self) -> int | None:
        """None while it is dead."""
        return self._process.pid if self._process and self._ended and not self._ended.done() else None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep(), name=f"child-{self.name}")
        try:
            await self._first_start(self._task)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _first_start(self, keeping: asyncio.Task[None]) -> None:
        up = asyncio.create_task(self._up.wait())
        await asyncio.wait({up, keeping}, timeout=FIRST_START, return_when=asyncio.FIRST_COMPLETED)
        up.cancel()
        if keeping.done():
            keeping.result()
        if not self.up:
            raise NotStarted(f"The {self.name} server does not answer after {FIRST_START:.0f} s; {self._last_words()}")

    async def _keep(self) -> None:
        """Live, die, wait, and live again."""
        clock = asyncio.get_running_loop().time
        wait, lived = FIRST_WAIT, False
        while True:
            began = clock()
            why = await self._live()
            lived = lived or self.up
            self._up.clear()
            if not lived and self.restarts + 1 >= FIRST_TRIES:
                raise NotStarted(f"The {self.name} server does not start: {why}; {self._last_words()}")
            if clock() - began > STEADY:
                wait = FIRST_WAIT
            self._say_death(why, wait)
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _live(self) -> str:
        """Start it and stay until it is dead; answers why."""
        try:
            command = await self._prepare()
            self._start(command)
        except (OSError, Unavailable) as error:
            return str(error)
        assert self._ended
        answering = asyncio.create_task(self._until_answers())
        try:
            while not self._ended.done():
                await asyncio.wait({self._ended}, timeout=LOG_LOOK)
                _trim(self._log_file)
            return _cause(self._ended.result())
        finally:
            answering.cancel()

    def _start(self, command: Command) -> None:
        _trim(self._log_file)
        log = os.open(self._log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._process = command.start(log)
        finally:
            os.close(log)
        self._ended = watch(self._process)

    async def _until_answers(self) -> None:
        wait = LOOK
        while not await self._answers():
            await asyncio.sleep(wait)
            wait = min(wait * 1.3, LONGEST_LOOK)
        self._up.set()
        _log.info("child.up child=%s pid=%s", self.name, self.pid)

    def _say_death(self, why: str, wait: float) -> None:
        self.restarts += 1
        _log.warning("child.died child=%s why=%r restart_in_s=%.1f restarts=%d", self.name, why, wait, self.restarts)
        if self.on_restart:
            self.on_restart(self.name)

    async def _stop(self) -> None:
        """End it, politely first, and wait until it is gone; it is not started again."""
        keeping, self._task = self._task, None
        if keeping:
            keeping.cancel()
            with suppress(asyncio.CancelledError, NotStarted):
                await keeping
        self._up.clear()
        for how, seconds in self.ladder:
            if await self._ends_by(how, seconds):
                return

    async def _ends_by(self, how: int, seconds: float) -> bool:
        if self._process is None or self._ended is None or self._ended.done():
            return True
        self._process.send_signal(how)
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.done()

    def _last_words(self) -> str:
        """The end of its log, for whom it does not start."""
        try:
            tail = self._log_file.read_bytes()[-TAIL:].decode(errors="replace").strip()
        except OSError:
            tail = ""
        return f"its log ({self._log_file}) ends:\n{tail}" if tail else f"its log would be {self._log_file}"


def _cause(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"ended with code {code}"


def _trim(file: Path) -> None:
    """Keep the log below a size: what was written goes to `.1`, and the server writes on from the start of its file."""
    with suppress(OSError):
        if file.stat().st_size > LOG_SIZE:
            shutil.copyfile(file, file.with_name(f"{file.name}.1"))
            os.truncate(file, 0)
