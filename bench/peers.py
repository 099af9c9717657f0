"""Other queues on PostgreSQL, each by its own API and with the best settings found for it, on the same server.

The handlers do nothing, as ours. Where a backlog of a million would take minutes to put, rows are copied in the table.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from time import perf_counter, time
from typing import Any

import asyncpg
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from pgqueuer import AsyncpgPoolDriver, Queries, QueueManager
from procrastinate import App, PsycopgConnector

from bench.server import for_psycopg

NAME = "nothing"
CALL = 10_000
FAR = timedelta(days=1)
PATIENCE = 120.0


class PgQueuer:
    """pgqueuer with a pool, so that it takes and finishes at once, in batches of 1000: the fastest that was tried."""

    def __init__(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def queries(self) -> AsyncIterator[Queries]:
        con = await asyncpg.connect(self.url)
        try:
            yield Queries.from_asyncpg_connection(con)
        finally:
            await con.close()

    async def install(self) -> None:
        async with self.queries() as queries:
            await queries.install()

    async def put(self, count: int, after: timedelta | None = None, call: int = CALL) -> float:
        """Items a second, with payloads that differ."""
        async with self.queries() as queries:
            began = perf_counter()
            for start in range(0, count, call):
                payloads: list[bytes | None] = [b'{"n":%d}' % n for n in range(start, min(start + call, count))]
                size = len(payloads)
                await queries.enqueue([NAME] * size, payloads, [0] * size, [after] * size)
            return count / (perf_counter() - began)

    async def put_spread(self, count: int, span: float, delay: float) -> list[float]:
        """Items due over a span; answers their moments."""
        spans = [timedelta(seconds=delay + span * n / count) for n in range(count)]
        async with self.queries() as queries:
            payloads: list[bytes | None] = [str(n).encode() for n in range(count)]
            ids = await queries.enqueue([NAME] * count, payloads, [0] * count, list(spans))
            rows = await queries.driver.fetch(
                "SELECT extract(epoch FROM execute_after)::float8 AS at FROM pgqueuer WHERE id = ANY($1) ORDER BY id",
                ids,
            )
        return [float(str(row["at"])) for row in rows]

    async def work(self, count: int) -> float:
        """Items a second, from the first to the last that is in its log as finished."""
        done = 0
        began = 0.0
        pool = await asyncpg.create_pool(self.url, min_size=2, max_size=4)
        manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))

        @manager.entrypoint(NAME)
        async def nothing(_job: Any) -> None:
            nonlocal done, began
            began = began or perf_counter()
            done += 1
            if done == count:
                manager.shutdown.set()

        try:
            await manager.run(batch_size=1_000)
            return done / (perf_counter() - began)
        finally:
            await pool.close()

    @asynccontextmanager
    async def working(self, handler: Callable[[Any], Awaitable[None]]) -> AsyncIterator[None]:
        """A worker that waits for what comes due."""
        pool = await asyncpg.create_pool(self.url, min_size=2, max_size=4)
        manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))
        manager.entrypoint(NAME)(handler)
        worker = asyncio.create_task(manager.run(batch_size=1_000))
        try:
            yield
        finally:
            manager.shutdown.set()
            await worker
            await pool.close()


async def procrastinate(url: str, pending: int, count: int) -> float:
    """Items a second, worked with 100 in flight."""
    app = App(connector=PsycopgConnector(conninfo=for_psycopg(url)))
    done = 0
    reached = asyncio.Event()

    @app.task(name=NAME)
    async def nothing(n: int) -> None:
        nonlocal done
        done += 1
        if done >= count:
            reached.set()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await _copy_procrastinate(url, pending)
        worker = asyncio.create_task(
            app.run_worker_async(concurrency=100, install_signal_handlers=False, listen_notify=False)
        )
        began = perf_counter()
        await reached.wait()
        speed = done / (perf_counter() - began)
        worker.cancel()
        with suppress(asyncio.CancelledError):
            await worker
    return speed


async def _copy_procrastinate(url: str, pending: int) -> None:
    con = await asyncpg.connect(url)
    try:
        await con.execute("ALTER TABLE procrastinate_jobs DISABLE TRIGGER USER")
        await con.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args) "
            f"SELECT 'default', '{NAME}', jsonb_build_object('n', n) FROM generate_series(1, {pending}) n"
        )
        await con.execute("ALTER TABLE procrastinate_jobs ENABLE TRIGGER USER")
        await con.execute("VACUUM (ANALYZE) procrastinate_jobs")
    finally:
        await con.close()


class ApScheduler:
    """APScheduler 3 with its SQL store. It cannot have a backlog, for it loads all that is due: the pending are far."""

    def __init__(self, url: str, pending: int) -> None:
        self.url = url
        self._pending = pending

    @asynccontextmanager
    async def running(self) -> AsyncIterator[AsyncIOScheduler]:
        """A scheduler whose table holds the pending items; paused, so that all starts at one moment."""
        store = SQLAlchemyJobStore(for_psycopg(self.url, "postgresql+psycopg"))
        defaults = {"misfire_grace_time": None, "max_instances": 1_000_000}
        scheduler = AsyncIOScheduler(
            jobstores={"default": store}, executors={"default": AsyncIOExecutor()}, job_defaults=defaults, timezone=UTC
        )
        scheduler.start(paused=True)
        try:
            await self._fill()
            yield scheduler
        finally:
            scheduler.shutdown()
            store.engine.dispose()

    async def _fill(self) -> None:
        con = await asyncpg.connect(self.url)
        try:
            await con.execute(
                "INSERT INTO apscheduler_jobs SELECT 'far' || n, $1 + n, '' FROM generate_series(1, $2::int) n "
                "ON CONFLICT DO NOTHING",
                (datetime.now(UTC) + FAR).timestamp(),
                self._pending,
            )
            await con.execute("VACUUM (ANALYZE) apscheduler_jobs")
        finally:
            await con.close()

    async def work(self, count: int) -> float:
        async with self.running() as scheduler:
            now = datetime.now(UTC)
            for n in range(count):
                scheduler.add_job(_noted, "date", run_date=now, args=[n])
            all_started = _starts.await_all(count)
            began = perf_counter()
            scheduler.resume()
            await asyncio.wait_for(all_started, PATIENCE)
            return count / (perf_counter() - began)

    async def lateness(self, count: int, span: float) -> list[float]:
        """Start minus due, in seconds, of items that are spread over a span."""
        async with self.running() as scheduler:
            first = datetime.now(UTC) + timedelta(seconds=1 + count / 500)
            moments = [first + timedelta(seconds=span * n / count) for n in range(count)]
            for n, moment in enumerate(moments):
                scheduler.add_job(_noted, "date", run_date=moment, args=[n])
            all_started = _starts.await_all(count)
            scheduler.resume()
            await asyncio.wait_for(all_started, PATIENCE)
            return [_starts[n] - moment.timestamp() for n, moment in enumerate(moments)]


class _Starts(dict[int, float]):
    """When each item was started, and a signal for the last of them."""

    def await_all(self, count: int) -> asyncio.Future[None]:
        self.clear()
        self._count = count
        self._all: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return self._all

    def note(self, n: int) -> None:
        self[n] = time()
        if len(self) == self._count:
            self._all.set_result(None)


# APScheduler names a function by its module, so what it calls stands here.
_starts = _Starts()


async def _noted(n: int) -> None:
    _starts.note(n)
