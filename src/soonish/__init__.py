"""Told at the right moment: `from soonish import Soonish` speaks to a server, `soonish.due` is the queue alone.

Nothing is loaded before it is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from soonish.client import Soonish as Soonish

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Soonish":
        from soonish.client import Soonish

        return Soonish
    raise AttributeError(name)
