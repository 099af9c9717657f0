"""`soonish up`, `serve`, `work`: run a process until it is told to end, and end it in time.

Knows signals and what is printed; what a process consists of is known to `soonish.app`.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, TypeAlias

import typer
import uvloop

from soonish import failpoints, telemetry
from soonish.app import processes
from soonish.cli import exits, show
from soonish.due import Lane
from soonish.errors import SoonishError
from soonish.settings import Settings

Running: TypeAlias = AbstractAsyncContextManager[Sequence[processes.Fact]]
PATIENCE: Final = 9.5  # seconds after which a process that was told to end is gone, whatever still hangs


def up(environ: Mapping[str, str]) -> None:
    _run(environ, processes.up)


def serve(environ: Mapping[str, str]) -> None:
    _run(environ, processes.serve)


def work(environ: Mapping[str, str], lanes: str | None) -> None:
    chosen = _lanes(lanes)
    _run(environ, lambda settings: processes.work(settings, chosen))


def _run(environ: Mapping[str, str], running: Callable[[Settings], Running]) -> None:
    try:
        settings = Settings.read(environ)
        telemetry.configure(settings.log)
        if settings.failpoints:
            failpoints.arm(settings.failpoints)
        uvloop.run(_until_told(running(settings)))
    except SoonishError as error:
        exits.fail(error, exits.DATABASE)


async def _until_told(running: Running) -> None:
    """Print what the process says when it is ready, then wait for a signal; one that comes earlier ends the start."""
    told = _on_signals()
    with suppress(asyncio.CancelledError):
        async with running as facts:
            for fact in facts:
                show.line(fact.label, fact.text)
            show.line("ready")
            await asyncio.Event().wait()
    if not told():
        raise asyncio.CancelledError


def _on_signals() -> Callable[[], bool]:
    """The first signal cancels the task that calls this, the second ends the process at once; answers if one came."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    came: list[int] = []

    def end(number: int) -> None:
        if came:
            os._exit(exits.INTERRUPTED)  # the children end with their parent
        came.append(number)
        loop.call_later(PATIENCE, os._exit, exits.GOOD)
        assert task
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    return lambda: bool(came)


def _lanes(text: str | None) -> frozenset[Lane]:
    known = {lane.name.lower(): lane for lane in Lane}
    names = [name.strip() for name in text.split(",")] if text is not None else list(known)
    if strange := [name for name in names if name not in known]:
        raise typer.BadParameter(f"{strange[0]!r} is no lane; the lanes are {', '.join(known)}")
    return frozenset(known[name] for name in names)
