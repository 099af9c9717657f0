"""Many processes on engines that run elsewhere: each is ready by itself, and together they make one first key."""

import asyncio
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from soonish.client import Soonish
from soonish.vault import make_key
from tests.support.places import free_port
from tests.support.service import COMMAND, ROOT, environ


class Part:
    """One `serve` or `work`, until the end of the test."""

    def __init__(self, words: list[str], settings: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, *words], env=environ(**settings), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        self.lines: list[str] = []

    def until_ready(self) -> "Part":
        assert self._process.stdout
        for line in self._process.stdout:
            self.lines.append(line.strip())
            if line.strip() == "ready":
                return self
        raise AssertionError(f"it ended with {self._process.wait(10)} after {self.lines}")

    @property
    def keys(self) -> list[str]:
        return [line.split()[-1] for line in self.lines if line.startswith("admin key")]

    def end(self) -> int:
        self._process.terminate()
        return self._process.wait(60)


def run(command: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [*COMMAND, command]
    return subprocess.run(words, env=environ(**settings), cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.fixture
def settings(bare_url: str, tmp_path: Path) -> dict[str, str]:
    """One empty database, one set of keys, no data directory, and a Temporal that does not answer: nobody needs it."""
    shared = {"SOONISH_DATABASE_URL": bare_url, "SOONISH_SECRETS_KEYS": make_key()}
    return shared | {"SOONISH_TEMPORAL_ADDRESS": "127.0.0.1:1", "SOONISH_DATA_DIR": str(tmp_path / "none")}


@pytest.fixture
def started(settings: dict[str, str]) -> Iterator[dict[str, Part]]:
    """A migrated database, two `serve` that start at the same moment and one `work`, by their addresses."""
    assert run("migrate", settings).returncode == 0
    parts: dict[str, Part] = {}
    for command, setting in (("serve", "BIND"), ("serve", "BIND"), ("work", "WORK_BIND")):
        address = f"127.0.0.1:{free_port()}"
        parts[address] = Part([command], {**settings, f"SOONISH_{setting}": address})
    yield {address: part.until_ready() for address, part in parts.items()}
    assert [part.end() for part in parts.values()] == [0, 0, 0]


def ready(address: str) -> bytes:
    with urllib.request.urlopen(f"http://{address}/readyz", timeout=60) as answer:
        return bytes(answer.read())


async def test_many_first_starts_make_one_installation_and_every_part_is_ready(
    started: dict[str, Part], bare_url: str
) -> None:
    [key] = [key for part in started.values() for key in part.keys]
    for address in list(started)[:2]:
        async with Soonish(f"http://{address}", key) as soonish:
            assert (await soonish.get("/v1/me"))["role"] == "operator"

    answers = [await asyncio.to_thread(ready, address) for address in started]
    assert [b"none in this process" in answer for answer in answers] == [True, True, False]
    assert b"degraded" in answers[2]  # its Temporal is away, and it works on

    connection = await asyncpg.connect(bare_url)
    assert await connection.fetchval("SELECT hmac_key IS NOT NULL AND made_first_key FROM installation")
    await connection.close()


def test_no_part_starts_on_a_database_that_nobody_migrated(settings: dict[str, str]) -> None:
    for command in ("serve", "work"):
        refused = run(command, settings | {"SOONISH_BIND": f"127.0.0.1:{free_port()}"})
        assert (refused.returncode, "soonish migrate" in refused.stderr) == (5, True)
