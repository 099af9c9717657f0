"""What all tests share: one PostgreSQL a process of tests, and a database of its own for each test that asks."""

import asyncio
import gc
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
import uvloop
from hypothesis import settings

from soonish.db.pool import Database
from soonish.due.upkeep import install
from tests.support.places import prefer_memory
from tests.support.postgres import PostgresServer

_numbers = itertools.count(1)

prefer_memory()
# The same examples at each run, for the same code gets the same answer, and no limit of time for one of them; the long
# runs draw new ones.
settings.register_profile("build", derandomize=True, deadline=None)
settings.load_profile("build")


# Who starts the tests in the background of a script starts them deaf to Ctrl-C, and every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


HERE = Path(__file__).parent
# What takes longest begins first, so that at the end nobody waits long for the last.
FIRST = ("stories/test_messages.py", "stories", "app", "cli", "delivery", "due", "test_temporal.py")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: somebody always waits, for a moment, a process or a server."""
    return min(4, (os.cpu_count() or 1) + 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _turn(item.path))


def _turn(path: Path) -> int:
    return next((n for n, name in enumerate(FIRST) if (HERE / name) in (path, path.parent)), len(FIRST))


def pytest_collection_finish() -> None:
    """What is imported stays for good: nobody need look through it again and again for what could go."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the event loop of the product."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server; a test that halts it takes a server of its own (`own_postgres`)."""
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server for one test, which may stop it."""
    server = PostgresServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def bare_url(postgres: PostgresServer) -> AsyncIterator[str]:
    """An empty database."""
    name = f"bare_{next(_numbers)}"
    yield await postgres.create(name)
    await postgres.drop(name)


@pytest.fixture(scope="session")
def migrated_template(postgres: PostgresServer) -> str:
    """The name of a migrated database, from which those of the tests are copied."""
    from soonish.db.migrate import migrate

    async def make() -> str:
        await migrate(await postgres.create("migrated"))
        return "migrated"

    return asyncio.run(make())


@pytest.fixture
async def database_url(postgres: PostgresServer, migrated_template: str) -> AsyncIterator[str]:
    """A migrated database without any rows."""
    name = f"soonish_{next(_numbers)}"
    yield await postgres.create(name, migrated_template)
    await postgres.drop(name)


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    """A migrated database, opened as the product opens it."""
    database = await Database.open(database_url)
    yield database
    await database.close(0.5)


@pytest.fixture
async def pool(bare_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A bare database with the due tables, as another program would have it."""
    async with asyncpg.create_pool(bare_url, min_size=0, max_size=10) as pool:
        await install(pool)
        yield pool
