"""S10: how soon `soonish up` is ready in a new data directory and in a used one, how soon help is printed, and how much
memory the Python process holds. From outside, as a person at a terminal sees it.

The first start of all also compiles the program, as after an installation; what it compiled is kept for the others.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.report import Goal, Line, rate
from bench.scale import Scale
from bench.server import Server

TITLE = "S10 start and memory"
COMMAND = [sys.executable, "-m", "soonish"]
PATIENCE = 120.0


async def measure(server: Server, scale: Scale) -> list[Line]:
    """The server of the other goals stays idle meanwhile."""
    return await asyncio.to_thread(_measure, scale.starts)


def _measure(starts: int) -> list[Line]:
    with TemporaryDirectory(prefix="soonish-bench-compiled-") as compiled:
        with _folder() as folder:
            first, _ = _up(folder, compiled)
        colds, warms, memory = [], [], []
        for _ in range(starts):
            with _folder() as folder:
                colds.append(_up(folder, compiled)[0])
                seconds, held = _up(folder, compiled)
            warms.append(seconds)
            memory.append(held)
        helps = [_help(compiled) for _ in range(5)]
    return [
        rate("first start of all, compiling", [first], "s"),
        _line("cold `soonish up`", colds, "s", Goal(8, " s", at_most=True)),
        _line("warm `soonish up`", warms, "s", Goal(4, " s", at_most=True)),
        _line("`soonish --help`", helps, "s", Goal(0.3, " s", at_most=True)),
        _line("resident, the Python process", memory, "MB", Goal(200, " MB", at_most=True)),
    ]


@contextmanager
def _folder() -> Iterator[Path]:
    """A new data directory."""
    folder = Path(tempfile.mkdtemp(prefix="soonish-bench-up-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _line(what: str, values: list[float], unit: str, goal: Goal) -> Line:
    return rate(what, values, unit, verdict=goal.verdict(sorted(values)[len(values) // 2]))


def _up(folder: Path, compiled: str) -> tuple[float, float]:
    """Seconds until it says ready, and the megabytes that it holds then."""
    began = perf_counter()
    with subprocess.Popen(
        [*COMMAND, "up"], env=_environ(folder, compiled), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        try:
            if not any(line.startswith("ready") for line in process.stdout):
                raise AssertionError(f"`soonish up` ended with {process.wait(PATIENCE)} before it was ready")
            seconds = perf_counter() - began
            return seconds, _resident(process.pid)
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def _help(compiled: str) -> float:
    began = perf_counter()
    subprocess.run(
        [*COMMAND, "--help"], env=_environ(Path(), compiled), stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE
    )
    return perf_counter() - began


def _environ(folder: Path, compiled: str) -> dict[str, str]:
    """The environment without settings of this machine."""
    strange = ("SOONISH_", "TEMPORAL_", "PYTHONDONTWRITEBYTECODE")
    mine = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bind = f"127.0.0.1:{probe.getsockname()[1]}"
    ours = {"SOONISH_DATA_DIR": str(folder), "SOONISH_BIND": bind}
    return mine | ours | {"PYTHONUNBUFFERED": "1", "PYTHONPYCACHEPREFIX": compiled}


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes) / 1024
