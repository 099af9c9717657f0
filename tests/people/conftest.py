"""What the tests of people share: the application of the product, with and without mail."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.site import Site, site


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The application of the product; it sends no mail."""
    async with site(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def mailing(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The same where mail can be sent."""
    async with site(database_url, tmp_path, smtp_host="127.0.0.1", smtp_from="soonish@example.org") as opened:
        yield opened
