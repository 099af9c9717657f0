"""WHEN: a durable queue of things that are due, in PostgreSQL. Needs asyncpg alone; usable in any program.

The names below are loaded when first asked for, so that importing a part does not import the whole.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soonish.due.loop.loop import Loop as Loop
    from soonish.due.loop.loop import drain as drain
    from soonish.due.loop.observer import Observer as Observer
    from soonish.due.model import DONE as DONE
    from soonish.due.model import Again as Again
    from soonish.due.model import Drop as Drop
    from soonish.due.model import Fate as Fate
    from soonish.due.model import Item as Item
    from soonish.due.model import Kind as Kind
    from soonish.due.model import Lane as Lane
    from soonish.due.model import Late as Late
    from soonish.due.model import Put as Put
    from soonish.due.model import Slots as Slots
    from soonish.due.queue import again_in as again_in
    from soonish.due.queue import cancel as cancel
    from soonish.due.queue import dead as dead
    from soonish.due.queue import done_in as done_in
    from soonish.due.queue import past as past
    from soonish.due.queue import pause as pause
    from soonish.due.queue import peek as peek
    from soonish.due.queue import put as put
    from soonish.due.queue import replan as replan
    from soonish.due.queue import resume as resume
    from soonish.due.queue import retry as retry
    from soonish.due.upkeep import install as install

_HOMES = {
    "loop.loop": ["Loop", "drain"],
    "loop.observer": ["Observer"],
    "model": ["DONE", "Again", "Drop", "Fate", "Item", "Kind", "Lane", "Late", "Put", "Slots"],
    "queue": [
        "again_in", "cancel", "dead", "done_in", "past", "pause", "peek", "put", "replan", "resume", "retry",
    ],
    "upkeep": ["install"],
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"soonish.due.{home}"), name)
            return value
    raise AttributeError(name)
