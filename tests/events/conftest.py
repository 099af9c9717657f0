"""What the tests of events share: one Temporal server a process of tests, and the product at work on it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.lives import Lives, lives
from tests.support.parties import Parties
from tests.support.site import site
from tests.support.temporal import Server


@pytest.fixture(scope="session")
def temporal() -> Iterator[Server]:
    """A server that a test may stop, if it starts it again."""
    with TemporaryDirectory(prefix="soonish-test-") as folder:
        server = Server(Path(folder) / "data")
        yield server
        server.stop()


@pytest.fixture
async def life(database_url: str, tmp_path: Path, temporal: Server) -> AsyncIterator[Lives]:
    """The product at work."""
    async with lives(database_url, tmp_path, temporal) as found:
        yield found


@pytest.fixture
async def parties(database_url: str, tmp_path: Path) -> AsyncIterator[Parties]:
    """The product over HTTP; its due items are worked when the test says so, and no workflow engine is near."""
    async with site(database_url, tmp_path, egress_allow="127.0.0.0/8", rate_address="0", rate_host="0") as opened:
        yield Parties(opened, opened.main)
