"""The queue against a model of itself, for long."""

from collections.abc import Callable

from tests.support.due_model import check_against_model
from tests.support.postgres import PostgresServer

RUNS, LEAST = 2_000, 12


def test_the_queue_and_its_model_never_differ_for_long(postgres: PostgresServer, say: Callable[..., None]) -> None:
    taken = check_against_model(postgres, RUNS, LEAST, fresh=True)
    say(runs=RUNS, **taken)
    assert sum(taken.values()) >= RUNS * LEAST
