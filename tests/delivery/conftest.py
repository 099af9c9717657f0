"""What the tests of delivery share: the application of the product, with loopback opened."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.site import Site, site

LOOPBACK = "127.0.0.0/8"


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The application of the product."""
    async with site(database_url, tmp_path, egress_allow=LOOPBACK) as opened:
        yield opened
