"""How a process tidies its memory."""

import gc
from typing import Any

from soonish.app import memory


def test_what_was_loaded_at_the_start_is_never_looked_through_again() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
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
        if frozen:  # as the tests keep it
            gc.freeze()
        gc.set_threshold(*before)
