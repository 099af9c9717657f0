"""What housekeeping and the change of keys work on, and when: registered by the owners of the rows through the program.

Pure.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final, TypeAlias

from soonish.ops.model.items import Label

HOUSEKEEPING: Final = "system.housekeeping"
REKEY: Final = "system.rekey"
PARK: Final = "system.park"
DAILY: Final = "daily"
REKEY_KEY: Final = "rekey"
SYSTEM: Final = 0  # the workspace of what belongs to the installation as a whole
CHUNK: Final = 5_000  # rows a statement
HOUSEKEEPING_AT: Final = time(3, 17, tzinfo=UTC)

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")

Remove: TypeAlias = Callable[[Any, int], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Rows that go when they are old: `remove(tx, limit)` takes at most so many of one workspace, and says how many."""

    name: str
    remove: Remove


@dataclass(frozen=True, slots=True)
class Secret:
    """A column of encrypted values, each sealed for (workspace, table, column, id)."""

    table: str
    column: str

    def __post_init__(self) -> None:
        if not (_NAME.fullmatch(self.table) and _NAME.fullmatch(self.column)):
            raise ValueError(f"{self.table!r}.{self.column!r}: name a table and a column in lower case")

    @property
    def name(self) -> str:
        return f"{self.table}.{self.column}"

    @property
    def shared(self) -> bool:
        """Whether its rows belong to no workspace."""
        return self.table == "installation"

    def context(self, workspace_id: int, row_id: int) -> tuple[int, str, str, int]:
        return workspace_id, self.table, self.column, row_id


async def explain(tx: Any, rows: Sequence[Mapping[str, Any]]) -> list[Label]:
    """What the system's own items are about."""
    del tx
    return [_label(row) for row in rows]


def _label(row: Mapping[str, Any]) -> Label:
    if row["kind"] == HOUSEKEEPING:
        return Label("Tidy up: make room for the coming days, remove what is too old to keep")
    if row["kind"] == REKEY:
        return Label("Encrypt every secret under the newest key")
    return Label(f"Carry out a pause or its end: {json.loads(row['payload']).get('kind', row['key'])}", "/due/pauses")


def next_housekeeping(now: datetime) -> datetime:
    """The next 03:17 UTC, strictly after `now`."""
    today = datetime.combine(now.astimezone(UTC).date(), HOUSEKEEPING_AT)
    return today if today > now else today + timedelta(days=1)
