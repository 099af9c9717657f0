"""What the tests of the embedded servers share: data directories of their own, and parents that can be killed."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.parent import Parent


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data directory that is not made yet."""
    yield from _folder()


@pytest.fixture(scope="module")
def shared_folder() -> Iterator[Path]:
    """One for all tests of a module."""
    yield from _folder()


def _folder() -> Iterator[Path]:
    parent = Path(tempfile.mkdtemp(prefix="soonish-test-"))
    yield parent / "data"
    shutil.rmtree(parent)


@pytest.fixture
def parent_of(folder: Path) -> Iterator[Callable[..., Parent]]:
    started: list[Parent] = []

    def start(*servers: str) -> Parent:
        started.append(Parent(folder, *servers))
        return started[-1]

    yield start
    for parent in started:
        parent.kill()


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return as soon as it holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def killed(pid: int | None) -> None:
    """End a process as a crash would."""
    assert pid
    os.kill(pid, signal.SIGKILL)
