"""Named points in the code where a test may listen, or end the process, to see what survives.

Unarmed (always, outside tests) a point costs one look at an empty dictionary.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_armed: dict[str, Callable[[], None]] = {}


def reach(name: str) -> None:
    """Pass the point `name`: nothing happens unless a test armed it."""
    if _armed and name in _armed:
        _armed[name]()


def arm(spec: str) -> None:
    """Arm points from a setting such as `due.claimed=exit@3,due.before_finish=exit@1`: exit at the n-th pass."""
    for part in filter(None, spec.split(",")):
        name, _, action = part.partition("=")
        verb, _, nth = action.partition("@")
        if verb != "exit" or not nth.isdecimal() or int(nth) < 1:
            raise ValueError(f"{part!r}: write a failpoint as NAME=exit@N with N from 1")
        _armed[name] = _exit_at(int(nth))


@contextmanager
def listen(name: str, callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback` at each pass of `name` while the block runs."""
    _armed[name] = callback
    try:
        yield
    finally:
        _armed.pop(name, None)


def _exit_at(nth: int) -> Callable[[], None]:
    passes = 0

    def count() -> None:
        nonlocal passes
        passes += 1
        if passes == nth:
            os._exit(137)  # as kill -9 would: no cleanup, no flush

    return count
