"""How a process tidies its memory."""

import gc
from typing import Any

from soonish.app import memory


def test_what_was_loaded_at_the_start_is_never_looked_through_again() -> None:
    before = gc.get_threshold()
    try:
        memory.settle()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == memory.THRESHOLDS
        alive: list[Any] = [[]]  # what is made later is still tidied
        alive[0].append(alive)
        del alive
        assert gc.collect() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
