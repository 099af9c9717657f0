"""What the tests of the queue share beyond the rest."""

import pytest

from soonish.due.model import LANES


@pytest.fixture(autouse=True)
def nothing_declared() -> None:
    """A kind remembers its lane for the process; each test begins without any."""
    LANES.clear()
