"""What comes due about people: that which others keep about somebody who was erased is blanked.

Whose rows these are is known to the erasers that the program hands in.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from soonish.db.pool import Database, Tx
from soonish.due.model import DONE, Again, Fate, Item, Kind, Lane
from soonish.errors import Conflict
from soonish.people.actions.hooks import Eraser
from soonish.people.model.person import ERASE

ROWS: Final = 1_000  # a transaction
PASSES: Final = 50  # a run, so that none runs long


def kinds(db: Database, erasers: Sequence[Eraser] = ()) -> list[Kind]:
    return [Kind(ERASE, partial(erase, db, erasers), Lane.BULK, tries=None, on_cancel=must_end)]


async def erase(db: Database, erasers: Sequence[Eraser], item: Item) -> Fate:
    """Blank what is kept about a person who was erased, some rows a transaction, until nothing is left.

    A second run finds what the first one left.
    """
    for _ in range(PASSES):
        if not await _erase_some(db, erasers, item.workspace_id, int(item.key)):
            return DONE
    return Again(after=0)


async def must_end(_tx: Tx, _rows: Sequence[Any]) -> None:
    """Somebody was told already that the person is gone."""
    raise Conflict("What is kept about a person who was erased must go; pause the kind instead", code="system_item")


async def _erase_some(db: Database, erasers: Sequence[Eraser], workspace_id: int, person_id: int) -> bool:
    """One transaction of each eraser; answers whether any of them may have more."""
    full = False
    for eraser in erasers:
        async with db.transaction(workspace_id) as tx:
            full = await eraser(tx, person_id, ROWS) > 0 or full
    return full
