"""S1: claim -> finish of items whose handlers do nothing, in one process, with a million pending and history kept.

One item of twenty is put back instead of finished. What is compared runs in turn: bare SQL, pgqueuer, batch kinds,
handlers an item.
"""

import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from bench import ours, raw
from bench.peers import ApScheduler, PgQueuer, procrastinate
from bench.report import Goal, Line, both, rate, ratio
from bench.scale import Scale
from bench.server import Server, settle
from soonish.db.migrate import migrate
from soonish.db.pool import Database
from soonish.due import Lane

TITLE = "S1  claim -> finish, items/s"
BATCH_GOALS = Goal(45, " % of raw"), Goal(4, "x pgqueuer")
EACH_GOALS = Goal(36, " % of raw"), Goal(3, "x pgqueuer")
NO_LOSS = Goal(0.9, " of that")


async def measure(server: Server, scale: Scale) -> list[Line]:
    """In turn, then what changes one thing: fewer pending, an old snapshot, the product's wall, its default slots."""
    url = await server.create("queue")
    async with ours.opened(url) as pool:
        filler = ours.filler(pool)
        await filler.put(scale.pending)
        lines, batch = await _in_turn(server, scale, url, pool, filler)
        lines += await _conditions(server, scale, url, pool, filler, batch)
    await server.drop(url)
    lines += await _behind_the_wall(server, scale)
    return lines + (await _slow_peers(server, scale) if scale.peers else [])


async def _in_turn(
    server: Server, scale: Scale, url: str, pool: asyncpg.Pool, filler: ours.Filler
) -> tuple[list[Line], list[float]]:
    bare, theirs = await server.create("raw"), PgQueuer(await server.create("pgqueuer"))
    con = await asyncpg.connect(bare)
    await raw.prepare(con, scale.pending)
    await theirs.install()
    await theirs.put(scale.pending)
    for database in (url, bare, theirs.url):
        await settle(database)
    limits, peers, batches, each = [], [], [], []
    for _ in range(scale.repetitions):
        limits.append(await raw.work(bare, scale.works))
        peers.append(await theirs.work(scale.peer_works))
        batches.append((await ours.work(pool, scale.works, batch=True))[0])
        each.append((await ours.work(pool, scale.works, batch=False))[0])
        await raw.put(con, scale.works)
        await theirs.put(scale.peer_works)
        await filler.top_up(scale.pending)
    await con.close()
    await server.drop(bare)
    await server.drop(theirs.url)
    lines = [rate("bare SQL, 1000 a statement", limits, "/s"), rate("pgqueuer", peers, "/s", _of(peers, limits))]
    lines.append(_ours("batch kinds", batches, limits, peers, BATCH_GOALS))
    lines.append(_ours("handlers an item", each, limits, peers, EACH_GOALS))
    return lines, batches


def _ours(what: str, values: list[float], limits: list[float], peers: list[float], goals: tuple[Goal, Goal]) -> Line:
    share, times = 100 * ratio(values, limits), ratio(values, peers)
    verdict = both(goals[0].verdict(share), goals[1].verdict(times))
    return rate(what, values, "/s", _of(values, limits), f"{times:.2f}x pgqueuer", verdict=verdict)


def _of(values: list[float], limits: list[float]) -> str:
    return f"{100 * ratio(values, limits):.0f} % of raw"


async def _conditions(
    server: Server, scale: Scale, url: str, pool: asyncpg.Pool, filler: ours.Filler, many: list[float]
) -> list[Line]:
    """The same with an old snapshot open, with the default slots, and with few pending; each beside a plain run."""
    held, plain, narrow = [], [], []
    for _ in range(scale.repetitions):
        plain.append((await ours.work(pool, scale.works, batch=True))[0])
        async with _old_snapshot(url):
            await filler.top_up(scale.pending)
            held.append((await ours.work(pool, scale.works, batch=True))[0])
        narrow.append((await ours.work(pool, scale.works // 2, batch=False, slots={Lane.BULK: 64}))[0])
        await filler.top_up(scale.pending)
    few = await _few(server, scale)
    loss = ratio(held, plain)
    size = statistics.median(many) / statistics.median(few)
    return [
        rate("batch, an old snapshot open", held, "/s", f"{loss:.2f} of without", verdict=NO_LOSS.verdict(loss)),
        rate(f"batch, {scale.few:,} pending", few, "/s", f"{size:.2f} = many/few", verdict=NO_LOSS.verdict(size)),
        rate("an item, 64 slots (the default)", narrow, "/s"),
    ]


@asynccontextmanager
async def _old_snapshot(url: str) -> AsyncIterator[None]:
    """A transaction that began before, as a dump or a long report holds it."""
    con = await asyncpg.connect(url)
    try:
        async with con.transaction(isolation="repeatable_read"):
            await con.fetchval("SELECT count(*) FROM (SELECT FROM due.due LIMIT 1) one")
            yield
    finally:
        await con.close()


async def _few(server: Server, scale: Scale) -> list[float]:
    """Bursts of few items into a queue that is else empty, timed from the first claim to the last write."""
    url = await server.create("few")
    rates = []
    async with ours.opened(url) as pool:
        filler = ours.filler(pool)
        for _ in range(2 * scale.repetitions):
            await filler.put(scale.few)
            rates.append((await ours.work(pool, scale.few, batch=True))[0])
    await server.drop(url)
    return rates[scale.repetitions :]


async def _behind_the_wall(server: Server, scale: Scale) -> list[Line]:
    """In the product's database: its role, row-level security, migrated tables."""
    url = await server.create("product")
    await migrate(url)
    db = await Database.open(url)
    filler = ours.Filler(lambda: db.transaction(1))
    await filler.put(scale.pending)
    await settle(url)
    batches, each = [], []
    for _ in range(max(1, scale.repetitions // 2 + 1)):
        batches.append((await ours.work(db.loops, scale.works, batch=True, connect=db.connect))[0])
        each.append((await ours.work(db.loops, scale.works, batch=False, connect=db.connect))[0])
        await filler.top_up(scale.pending)
    await db.close()
    await server.drop(url)
    return [rate("batch, behind the product's wall", batches, "/s"), rate("an item, behind the wall", each, "/s")]


async def _slow_peers(server: Server, scale: Scale) -> list[Line]:
    url, other = await server.create("procrastinate"), await server.create("apscheduler")
    speed = await procrastinate(url, scale.pending, scale.slow_works)
    fires = await ApScheduler(other, scale.pending).work(scale.slow_works)
    await server.drop(url)
    await server.drop(other)
    return [
        rate("procrastinate, 100 in flight", [speed], "/s"),
        rate("apscheduler, SQL store", [fires], "/s", "(pending ones far)"),
    ]
