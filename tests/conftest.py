"""What all tests share: one PostgreSQL a process of tests, and a database of its own for each test that asks."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator

import asyncpg
import pytest
import uvloop

from soonish.db.pool import Database
from soonish.due.upkeep import install
from tests.support.postgres import PostgresServer

_numbers = itertools.count(1)


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
