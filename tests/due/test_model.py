"""The queue against a model of itself: whatever is done in whatever order, both say the same."""

from tests.support.due_model import check_against_model
from tests.support.postgres import PostgresServer

RUNS, LEAST = 200, 8


def test_the_queue_and_its_model_never_differ(postgres: PostgresServer) -> None:
    taken = check_against_model(postgres, RUNS, LEAST)
    assert min(taken[step] for step in ("put", "cancel", "replan", "claim", "finish", "pause", "resume", "retry")) > 0
