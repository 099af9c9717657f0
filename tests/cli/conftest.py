"""What the tests of the commands share: one service that runs, and commands that speak to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.service import Service


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """Leave it running, and what belongs to others as it was."""
    fresh = Service()
    yield fresh.start()
    fresh.remove()


@pytest.fixture
def nowhere(tmp_path: Path) -> dict[str, str]:
    """Settings under which nothing runs."""
    return {"SOONISH_DATA_DIR": str(tmp_path / "none"), "SOONISH_URL": "http://127.0.0.1:1"}
