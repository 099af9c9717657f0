"""What the long runs share: worker processes that do not outlive their test, and a line of counts for each run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.worker import Worker

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever stands here is chaos, and has time."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("chaos")
            item.add_marker(pytest.mark.timeout(1_800))


@pytest.fixture
def start(bare_url: str) -> Iterator[Callable[..., Worker]]:
    """Start a worker on the test's database."""
    workers: list[Worker] = []

    def one(**options: Any) -> Worker:
        workers.append(Worker(bare_url, **options))
        return workers[-1]

    yield one
    for worker in workers:
        worker.end()


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Print the counts of a run, with the name of its test."""

    def line(**counts: Any) -> None:
        print(f"\n  {request.node.name}: " + " ".join(f"{name}={value}" for name, value in counts.items()))

    return line
