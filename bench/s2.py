"""S2: put many items in one call, in one transaction, beside pgqueuer's enqueue and a bare `unnest`."""

from datetime import UTC, datetime, timedelta
from time import perf_counter

import asyncpg

from bench import ours, raw
from bench.peers import PgQueuer
from bench.report import Goal, Line, rate, ratio
from bench.scale import Scale
from bench.server import Server
from soonish import due
from soonish.due import Lane, Put

TITLE = "S2  put, items/s"
GOAL = Goal(1.7, "x pgqueuer")


async def measure(server: Server, scale: Scale) -> list[Line]:
    url, bare = await server.create("queue"), await server.create("raw")
    theirs = PgQueuer(await server.create("pgqueuer"))
    await theirs.install()
    con = await asyncpg.connect(bare)
    await raw.prepare(con, 0)
    limits, peers, whole, alike, different = [], [], [], [], []
    async with ours.opened(url) as pool:
        for turn in range(scale.repetitions):
            limits.append(await raw.put(con, scale.puts))
            peers.append(await theirs.put(scale.puts, call=1_000))
            whole.append(await theirs.put(scale.puts, call=scale.puts))
            alike.append(await _put(pool, _alike(turn, scale.puts)))
            different.append(await _put(pool, _different(turn, scale.puts)))
    await con.close()
    for database in (url, bare, theirs.url):
        await server.drop(database)
    best = max(peers, whole, key=sorted)
    times = ratio(different, best)
    return [
        rate("bare unnest, 1000 a commit", limits, "/s"),
        rate("pgqueuer, 1000 a call", peers, "/s"),
        rate("pgqueuer, all in one call", whole, "/s"),
        rate("moments and payloads differ", different, "/s", _times(times), verdict=GOAL.verdict(times)),
        rate("only keys differ (a storm)", alike, "/s", _times(ratio(alike, best))),
    ]


def _times(value: float) -> str:
    return f"{value:.2f}x pgqueuer's best"


def _alike(turn: int, count: int) -> list[Put]:
    at = datetime.now(UTC) + timedelta(days=1)
    return [Put(ours.KIND, f"alike/{turn}/{n}", at, {"event": turn}, Lane.BULK) for n in range(count)]


def _different(turn: int, count: int) -> list[Put]:
    at = datetime.now(UTC) + timedelta(days=1)
    return [
        Put(ours.KIND, f"{turn}/{n}", at + timedelta(seconds=n), {"n": n, "event": turn}, Lane.BULK)
        for n in range(count)
    ]


async def _put(pool: asyncpg.Pool, items: list[Put]) -> float:
    async with pool.acquire() as tx:
        began = perf_counter()
        async with tx.transaction():
            await due.put(tx, items)
        return len(items) / (perf_counter() - began)
