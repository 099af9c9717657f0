"""The system's own items: the daily housekeeping, the change of keys, and the carrying out of pauses.

What grows old and what is encrypted is registered by its owners; nothing here knows what it is.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from soonish.db.pool import Database
from soonish.db.sql import load
from soonish.due import queue
from soonish.due.model import DONE, Again, Fate, Item, Kind, Lane
from soonish.due.upkeep import keep_days
from soonish.errors import Unavailable
from soonish.ops.actions.pauses import park
from soonish.ops.actions.secrets import Progress, reseal, workspaces
from soonish.ops.model.upkeep import CHUNK, HOUSEKEEPING, PARK, REKEY, SYSTEM, next_housekeeping
from soonish.ops.model.upkeep import Secret as Secret
from soonish.ops.model.upkeep import Sweep as Sweep
from soonish.vault import Vault

SQL: Final = load(str(Path(__file__).parent / "actions"))
LONG: Final = timedelta(hours=2)

Step: TypeAlias = Callable[[], Awaitable[int]]

_log = logging.getLogger(__name__)


def kinds(
    db: Database,
    *,
    keep: timedelta,
    vault: Vault,
    sweeps: Sequence[Sweep] = (),
    secrets: Sequence[Secret] = (),
) -> list[Kind]:
    """`keep`: how long the history of due items stays."""
    return [
        Kind(HOUSEKEEPING, partial(housekeeping, db, keep, sweeps), Lane.BULK, tries=None, run_limit=LONG),
        Kind(REKEY, partial(rekey, db, vault, secrets), Lane.BULK, tries=None),
        Kind(PARK, partial(carry_out_pause, db), Lane.CONTROL, tries=None, run_limit=LONG),
    ]


async def housekeeping(db: Database, keep: timedelta, sweeps: Sequence[Sweep], item: Item) -> Fate:
    """Make the coming days of the history, drop the old ones, remove what the sweeps name; again the next night.

    Each step takes what it finds, so a second run finds less. One that fails does not keep the others from their work.
    """
    del item
    steps: dict[str, Step] = {"days": partial(_keep_days, db, keep), "processes": partial(_forget, db)}
    steps |= {sweep.name: partial(_sweep, db, sweep) for sweep in sweeps}
    errors = [error for name, step in steps.items() if (error := await _tried(name, step))]
    if errors:
        raise errors[0]
    async with db.loops.acquire() as con:
        return Again(at=next_housekeeping(await SQL.clock.value(con)))


async def rekey(db: Database, vault: Vault, secrets: Sequence[Secret], item: Item) -> Fate:
    """Some seconds of encrypting under the newest key; where it stands is kept in the payload.

    A second run of a part finds its values done. One that was changed meanwhile is left alone.
    """
    before = Progress.of(item.payload)
    at, ended = await reseal(db, vault, secrets, before)
    if ended and at == before:  # its last run found nothing left, so the payload already says what was done in all
        return DONE
    async with db.transaction(SYSTEM) as tx:
        return await queue.again_in(tx, item, Again(after=0), payload=asdict(at))


async def carry_out_pause(db: Database, item: Item) -> Fate:
    """Park what is paused, or bring back what no longer is; a second run finds nothing to move."""
    await park(db, item.payload["workspace_id"], item.payload["kind"])
    return DONE


async def _tried(name: str, step: Step) -> Exception | None:
    try:
        removed = await step()
    except Unavailable:
        raise
    except Exception as error:
        _log.warning("housekeeping.failed step=%s error=%s", name, type(error).__name__)
        return error
    _log.info("housekeeping.done step=%s removed=%d", name, removed)
    return None


async def _keep_days(db: Database, keep: timedelta) -> int:
    await keep_days(db.loops, keep=keep)
    return 0


async def _forget(db: Database) -> int:
    async with db.transaction(SYSTEM) as tx:
        return await SQL.forget.run(tx, k=CHUNK)


async def _sweep(db: Database, sweep: Sweep) -> int:
    """Chunk by chunk, each in a transaction of its own, so that no lock is held for long."""
    removed = 0
    for workspace_id in await workspaces(db):
        while True:
            async with db.transaction(workspace_id) as tx:
                count = await sweep.remove(tx, CHUNK)
            removed += count
            if count < CHUNK:
                break
    return removed
