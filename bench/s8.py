"""S8: events made over HTTP by a hundred connections, each with its commit, beside a bare ASGI program with one INSERT.

Both answer by the same server program, with the same database; who asks is the same program.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

import aiohttp

from bench.product import product
from bench.report import Goal, Line, percentile, rate, ratio
from bench.scale import Scale
from bench.server import Server

TITLE = "S8  POST /v1/events, 100 connections"
SHARE, SLOWEST = Goal(0.4, " of raw"), Goal(60, " ms p99", at_most=True)
CONNECTIONS = 100


async def measure(server: Server, scale: Scale) -> list[Line]:
    ours, theirs, late, late_theirs = [], [], [], []
    start = (datetime.now(UTC) + timedelta(days=30)).isoformat()
    async with product(server) as running:
        with _bare(await server.create("bare")) as bare:
            for _ in range(scale.repetitions):
                speed, waits = await _ask(bare, {}, {"n": 1}, scale.posts)
                theirs.append(speed)
                late_theirs.append(1e3 * percentile(waits, 0.99))
                body = {"name": "Garden party", "start_date": start}
                speed, waits = await _ask(f"{running.url}/v1/events", running.headers, body, scale.posts)
                ours.append(speed)
                late.append(1e3 * percentile(waits, 0.99))
    share, slowest = ratio(ours, theirs), sorted(late)[len(late) // 2]
    return [
        rate("ours", ours, "/s", f"{share:.2f} of raw", verdict=SHARE.verdict(share)),
        rate("ours, the slowest of a hundred", late, "ms", verdict=SLOWEST.verdict(slowest)),
        rate("bare ASGI and one INSERT", theirs, "/s"),
        rate("the slowest of a hundred there", late_theirs, "ms"),
    ]


@contextmanager
def _bare(database: str) -> Iterator[str]:
    """The bare program, in a process of its own."""
    command = [sys.executable, "-m", "bench.asgi", database]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
        finally:
            process.terminate()


async def _ask(url: str, headers: dict[str, str], body: Any, count: int) -> tuple[float, list[float]]:
    """How many a second, and how long each took."""
    waits: list[float] = []
    left = iter(range(count))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONNECTIONS)) as session:

        async def post() -> None:
            for _ in left:
                began = perf_counter()
                async with session.post(url, json=body, headers=headers) as answer:
                    await answer.read()
                    if answer.status not in (200, 201):
                        raise AssertionError(f"{answer.status} {await answer.text()}")
                waits.append(perf_counter() - began)

        began = perf_counter()
        await asyncio.gather(*(post() for _ in range(CONNECTIONS)))
        return count / (perf_counter() - began), waits
