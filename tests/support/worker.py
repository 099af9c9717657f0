"""A process that works due items and records each handling in a table: for tests that need several, or that kill one.

`Worker` starts `python -m tests.support.worker URL` and speaks to it by signals; it says "ready" when its lanes listen,
and its counts in one line of JSON when it is asked to stop.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import uvloop

from soonish import due, failpoints
from soonish.due import DONE, Fate, Item, Kind, Lane, Loop

ROOT = Path(__file__).parents[2]
EACH = "worker.each"  # records and finishes in one transaction: its effect is there once, whatever dies
BATCH = "worker.batch"  # records, then answers: may be there again after a crash
HANDLED = """CREATE TABLE IF NOT EXISTS handled (kind text, key text, attempts int, interrupted bool, worker int,
             at timestamptz NOT NULL DEFAULT clock_timestamp())"""
_RECORD = """INSERT INTO handled (kind, key, attempts, interrupted, worker)
             SELECT $1, i.key, i.attempts, i.interrupted, pg_backend_pid()
             FROM unnest($2::text[], $3::int[], $4::bool[]) AS i (key, attempts, interrupted)"""


class Worker:
    """One such process."""

    def __init__(self, url: str, **options: Any) -> None:
        arguments = [f"--{name}={value}" for name, value in options.items()]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.worker", url, *arguments],
            cwd=ROOT,
            env={"PYTHONPATH": f"{ROOT}/src:{ROOT}", "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> "Worker":
        """When its lanes listen."""
        assert self._process.stdout
        assert self._process.stdout.readline().strip() == "ready"
        return self

    def send(self, signal_: int) -> None:
        self._process.send_signal(signal_)

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended by itself."""
        return self._process.wait(seconds)

    def stop(self) -> dict[str, int]:
        """Ask it to stop; answers what it counted."""
        self._process.send_signal(signal.SIGTERM)
        output, _ = self._process.communicate(timeout=30)
        counts: dict[str, int] = json.loads(output.splitlines()[-1])
        return counts

    def end(self) -> None:
        """End it whatever it does."""
        self._process.kill()
        self._process.communicate()


class Counts(due.Observer):
    """What the loop told, in numbers."""

    def __init__(self) -> None:
        self.numbers = {"claimed": 0, "finished": 0, "lost": 0}

    def claimed(self, lane: str, items: Sequence[Item]) -> None:
        self.numbers["claimed"] += len(items)

    def finished(self, lane: str, results: Sequence[Any]) -> None:
        self.numbers["finished"] += len(results)

    def lost(self, items: Sequence[Item]) -> None:
        self.numbers["lost"] += len(items)


def kinds(pool: Any, hold: float) -> list[Kind]:
    async def each(item: Item) -> Fate:
        await asyncio.sleep(hold)
        async with pool.acquire() as tx, tx.transaction():
            await _record(tx, EACH, [item])
            return await due.done_in(tx, item)

    async def batch(items: Sequence[Item]) -> list[Fate]:
        await _record(pool, BATCH, items)
        await asyncio.sleep(hold)
        return [DONE] * len(items)

    return [Kind(EACH, each), Kind(BATCH, batch, batch=True)]


async def _record(tx: Any, kind: str, items: Sequence[Item]) -> None:
    await tx.execute(_RECORD, kind, *zip(*((item.key, item.attempts, item.interrupted) for item in items), strict=True))


async def work(options: argparse.Namespace) -> None:
    failpoints.arm(options.failpoints)
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    counts = Counts()
    lanes = {Lane.CONTROL: options.slots}
    lease = timedelta(seconds=options.lease)
    async with asyncpg.create_pool(options.url, min_size=0, max_size=8) as pool:
        async with Loop(pool, kinds(pool, options.hold), lanes=lanes, lease=lease, observer=counts):
            print("ready", flush=True)
            await asked.wait()
        print(json.dumps(counts.numbers), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--slots", type=int, default=100)
    parser.add_argument("--lease", type=float, default=60)
    parser.add_argument("--hold", type=float, default=0)
    parser.add_argument("--failpoints", default="")
    uvloop.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
