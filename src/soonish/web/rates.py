"""How often somebody may ask: a bucket of tokens each, which fills by itself.

Kept in this process alone; what a name stands for (a key, an address) is decided by the one who asks.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

MOST_NAMES = 50_000  # beyond these, who was not seen for longest is forgotten, and has a full bucket again


class Rate:
    """`burst` at once, and then `per_second`."""

    def __init__(self, per_second: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = max(burst, 1.0)
        self._now = now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> int:
        """Take one; answers 0, or the whole seconds after which there is one again."""
        left, at = self._state(name)
        if left < 1:
            return math.ceil((1 - left) / self._per_second)
        self._left[name] = (left - 1, at)
        return 0

    def wait(self, name: str) -> int:
        """The seconds after which there is one, taking none."""
        left, _ = self._state(name)
        return 0 if left >= 1 else math.ceil((1 - left) / self._per_second)

    def _state(self, name: str) -> tuple[float, float]:
        at = self._now()
        left, seen = self._left.pop(name, (self._burst, at))
        state = (min(self._burst, left + (at - seen) * self._per_second), at)
        self._left[name] = state
        if len(self._left) > MOST_NAMES:
            self._left.popitem(last=False)
        return state
