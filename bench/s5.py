"""S5: a storm of webhooks that are due at one instant, beside what the HTTP client does alone to the same receiver.

All of it counts: claim, ledger, attempts, signatures, the guard, the end of the due item. Meanwhile items of another
lane come due, and their lateness is measured.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from time import perf_counter, time
from typing import Any

import aiohttp

from bench.report import Goal, Line, lateness, rate, ratio
from bench.scale import Scale
from bench.server import Server, settle
from soonish import due
from soonish.access.actions.start import first_start
from soonish.db.migrate import migrate
from soonish.db.pool import Database
from soonish.delivery.channels.webhook import Webhook
from soonish.delivery.egress import Guard
from soonish.delivery.model.facts import FactTypes
from soonish.delivery.model.health import Limits
from soonish.delivery.model.tries import Ladders
from soonish.delivery.outbox import SEND, Fact, Outbox
from soonish.delivery.send.load import Loader
from soonish.delivery.send.record import Recorder
from soonish.delivery.send.sender import Pace, Sender
from soonish.due import Item, Kind, Lane, Late, Put
from soonish.vault import Vault, make_key

TITLE = "S5  a storm of webhooks"
GOAL = Goal(0.6, " of aiohttp alone")
ON_TIME = ((0.99, Goal(50, " ms p99", at_most=True)),)
IN_FLIGHT = 100
SLOTS = {Lane.CONTROL: 32, Lane.PEOPLE: 256, Lane.BULK: 64}
PATIENCE = 300.0
LADDER = (0.0, 5.0, 300.0)


async def measure(server: Server, scale: Scale) -> list[Line]:
    alone: list[float] = []
    storms: list[float] = []
    late: list[list[float]] = []
    with _sink() as url:
        for _ in range(max(1, scale.repetitions // 2)):
            alone.append(await _alone(url, scale.storm))
            speed, lates = await _storm(server, url, scale.storm)
            storms.append(speed)
            late.append(lates)
    share = ratio(storms, alone)
    beside = f"{share:.0%} of aiohttp alone"
    return [
        rate(f"ours, {scale.storm:,} due at one instant", storms, "deliveries/s", beside, verdict=GOAL.verdict(share)),
        rate(f"aiohttp alone, {IN_FLIGHT} in flight", alone, "requests/s"),
        lateness("an item of another lane meanwhile", late, goals=ON_TIME),
    ]


class _sink:  # noqa: N801 - used as a function
    """The receiver, in a process of its own."""

    def __enter__(self) -> str:
        self._process = subprocess.Popen([sys.executable, "-m", "bench.sink"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        return f"http://127.0.0.1:{self._process.stdout.readline().strip()}/in"

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


async def _alone(url: str, count: int) -> float:
    body = b'{"specversion":"1.0","type":"game.reminder_due","data":{"game_id":17}}' + b" " * 300
    left = iter(range(count))
    headers = {"content-type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:

        async def post() -> None:
            for _ in left:
                async with session.post(url, data=body, headers=headers) as answer:
                    await answer.read()

        began = perf_counter()
        await asyncio.gather(*(post() for _ in range(IN_FLIGHT)))
        return count / (perf_counter() - began)


async def _storm(server: Server, url: str, count: int) -> tuple[float, list[float]]:
    database = await server.create("storm")
    await migrate(database)
    db = await Database.open(database)
    await first_start(db)
    vault = Vault.from_setting(make_key())
    outbox = Outbox(vault)
    await _endpoint(db, vault, url)
    at = datetime.now(UTC) + timedelta(seconds=5 + count / 10_000)
    await _state(db, outbox, count, at)
    await settle(database)
    sender = _sender(db, vault, outbox)
    late: list[float] = []
    async with _working(db, sender, late):
        await asyncio.sleep(max(0.0, at.timestamp() - time()))
        began = perf_counter()
        ticking = asyncio.create_task(_tick(db))
        async with asyncio.timeout(PATIENCE):
            while await _left(db):  # noqa: ASYNC110 - it is the database that is asked
                await asyncio.sleep(0.05)
        seconds = perf_counter() - began
        ticking.cancel()
    await sender.close()
    await db.close()
    await server.drop(database)
    return count / seconds, late


async def _endpoint(db: Database, vault: Vault, url: str) -> None:
    async with db.transaction(1) as tx:
        endpoint_id = await tx.fetchval(
            """INSERT INTO endpoint (workspace_id, name, kind, config, fact_types)
               VALUES (1, 'sink', 'webhook', jsonb_build_object('url', $1::text), '{*}') RETURNING id""",
            url,
        )
        row_id = await tx.fetchval("SELECT nextval('endpoint_secret_id_seq')")
        sealed = vault.seal(b"s" * 32, (1, "endpoint_secret", "secret", row_id))
        await tx.execute(
            """INSERT INTO endpoint_secret (id, workspace_id, endpoint_id, secret) OVERRIDING SYSTEM VALUE
               VALUES ($1, 1, $2, $3)""",
            row_id, endpoint_id, sealed,
        )  # fmt: skip


async def _state(db: Database, outbox: Outbox, count: int, at: datetime) -> None:
    for start in range(0, count, 1_000):
        facts = [
            Fact(cause=f"game/{n}", type="game.reminder_due", subject=f"game/{n}", data={"game_id": n}, due_at=at)
            for n in range(start, min(start + 1_000, count))
        ]
        async with db.transaction(1) as tx:
            await outbox.state_all(tx, facts)


def _sender(db: Database, vault: Vault, outbox: Outbox) -> Sender:
    guard = Guard((ip_network("127.0.0.0/8"),))
    limits = Limits(5, timedelta(seconds=30), timedelta(minutes=15), timedelta(days=5))
    return Sender(
        db,
        Loader(db, vault),
        Recorder(db, outbox, limits),
        {"webhook": Webhook(guard, "bench", 15.0)},
        types=FactTypes(),
        ladders=Ladders(LADDER, LADDER, LADDER, LADDER, 120),
        pace=Pace(0, 0, 0, 1_000),
        links={},
    )


@asynccontextmanager
async def _working(db: Database, sender: Sender, late: list[float]) -> AsyncIterator[None]:
    async def tick(item: Item) -> due.Fate:
        late.append(time() - item.due_at.timestamp())
        return due.DONE

    sends = Kind(SEND, sender, Lane.PEOPLE, Late.send(), tries=None, stream=True)
    async with due.Loop(db.loops, [sends, Kind("bench.tick", tick, Lane.CONTROL)], lanes=SLOTS):
        yield


async def _tick(db: Database) -> None:
    """Items that come due one by one while the storm lasts."""
    n = 0
    while True:
        at = datetime.now(UTC) + timedelta(milliseconds=200)
        async with db.transaction(1) as tx:
            await due.put(tx, [Put("bench.tick", str(n := n + 1), at)])
        await asyncio.sleep(0.02)


async def _left(db: Database) -> Any:
    async with db.loops.acquire() as con:
        return await con.fetchval("SELECT EXISTS (SELECT FROM due.due WHERE kind = $1)", SEND)
