"""What the tests of the HTTP kit share: the application of the product, and one of test operations."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.site import Site, site
from tests.support.things import things


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The application of the product."""
    async with site(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def shop(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The application of things."""
    async with things(database_url, tmp_path) as opened:
        yield opened
