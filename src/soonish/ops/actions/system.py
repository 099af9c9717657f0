"""The system's own due items: begin the daily one, and start the change of keys. Knows nothing of what they do."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from soonish.db.pool import Database
from soonish.due import queue
from soonish.due.model import Lane, Put
from soonish.ops.actions.secrets import Progress, count_by_key
from soonish.ops.model.upkeep import DAILY, HOUSEKEEPING, REKEY, REKEY_KEY, SYSTEM, Secret
from soonish.vault import Vault


@dataclass(frozen=True, slots=True)
class Rekeying:
    """How a change of keys goes: values done and left aside by now, and whether it still runs."""

    done: int
    unreadable: int
    running: bool


async def begin(db: Database) -> None:
    """See that the daily housekeeping is planned; on a fresh database it runs at once."""
    async with db.transaction(SYSTEM) as tx:
        await queue.put(tx, [Put(HOUSEKEEPING, DAILY, lane=Lane.BULK)], only_new=True)


async def rekey(db: Database, vault: Vault, secrets: Sequence[Secret]) -> int:
    """Let a worker encrypt all under the newest key; answers how many values are under another one now."""
    counts = await count_by_key(db, secrets)
    async with db.transaction(SYSTEM) as tx:
        await queue.put(tx, [Put(REKEY, REKEY_KEY, lane=Lane.BULK)])
    return counts.total() - counts[vault.writing_key_id]


async def find_rekeying(db: Database) -> Rekeying | None:
    """The change of keys that runs, or else the last one that ended; None if there never was one."""
    async with db.transaction(SYSTEM, readonly=True) as tx:
        if live := await queue.peek(tx, kind=REKEY, prefix=REKEY_KEY, limit=1):
            return _rekeying(live[0]["payload"], running=True)
        past = await queue.past(tx, kind=REKEY, prefix=REKEY_KEY, limit=1)
        return _rekeying(past[0]["payload"], running=False) if past else None


def _rekeying(payload: str, *, running: bool) -> Rekeying:
    at = Progress.of(json.loads(payload))
    return Rekeying(at.done, at.unreadable, running)
