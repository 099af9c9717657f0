"""Encrypted columns: under which keys their values are, and how they come under the newest one.

Generic over the columns that their owners registered. Opens one workspace after the other; decrypts only to encrypt.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final

from soonish.access.actions.workspaces import all_workspaces
from soonish.db.pool import Database
from soonish.db.sql import Statement, load
from soonish.errors import Unavailable
from soonish.ops.model.upkeep import SYSTEM, Secret
from soonish.vault import Vault

SQL: Final = load(str(Path(__file__).parent))
ROWS: Final = 500  # a transaction: each is decrypted and encrypted here

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a change of keys is: the column, workspace and row it stands at, and what it has done."""

    table: str = ""
    workspace_id: int = 0
    after: int = 0
    done: int = 0
    unreadable: int = 0

    @classmethod
    def of(cls, payload: dict[str, Any]) -> "Progress":
        return cls(**payload)


async def count_by_key(db: Database, secrets: Sequence[Secret]) -> Counter[str]:
    """How many values are stored under each key."""
    found: Counter[str] = Counter()
    for secret, workspace_id in _places(secrets, await workspaces(db)):
        async with db.transaction(workspace_id, readonly=True) as tx:
            rows = await _of(SQL.secret_keys, secret).rows(tx)
        found.update({row["key_id"]: row["count"] for row in rows})
    return found


async def reseal(
    db: Database, vault: Vault, secrets: Sequence[Secret], at: Progress, *, seconds: float = 5.0
) -> tuple[Progress, bool]:
    """Encrypt anew for some seconds, from where `at` stands; answers where it stands now, and whether that is the end.

    What cannot be read, its key being gone, stays as it is and is counted.
    """
    deadline = monotonic() + seconds
    for secret, workspace_id in _rest(_places(secrets, await workspaces(db)), at):
        if (secret.name, workspace_id) != (at.table, at.workspace_id):
            at = replace(at, table=secret.name, workspace_id=workspace_id, after=0)
        while (step := await _reseal_some(db, vault, secret, at)) != at:
            at = step
            if monotonic() > deadline:
                return at, False
    return at, True


async def workspaces(db: Database) -> list[int]:
    """All of them, closed ones too, the system's own first."""
    async with db.transaction(SYSTEM, readonly=True) as tx:
        return [SYSTEM, *await all_workspaces(tx)]


async def _reseal_some(db: Database, vault: Vault, secret: Secret, at: Progress) -> Progress:
    """One transaction of it; answers `at` itself where nothing is left."""
    async with db.transaction(at.workspace_id) as tx:
        rows = await _of(SQL.stale_secrets, secret).rows(tx, after=at.after, key_id=vault.writing_key_id, k=ROWS)
        if not rows:
            return at
        fresh = {row["id"]: _resealed(vault, secret, at.workspace_id, row) for row in rows}
        good = [row for row in rows if fresh[row["id"]]]
        await _of(SQL.reseal, secret).run(
            tx,
            ids=[row["id"] for row in good],
            olds=[row["sealed"] for row in good],
            news=[fresh[row["id"]] for row in good],
        )
    unreadable = at.unreadable + len(rows) - len(good)
    return replace(at, after=rows[-1]["id"], done=at.done + len(good), unreadable=unreadable)


def _resealed(vault: Vault, secret: Secret, workspace_id: int, row: Any) -> bytes | None:
    context = secret.context(workspace_id, row["id"])
    try:
        return vault.seal(vault.unseal(row["sealed"], context), context)
    except (Unavailable, ValueError):
        _log.warning("rekey.unreadable column=%s workspace=%d row=%d", secret.name, workspace_id, row["id"])
        return None


def _places(secrets: Sequence[Secret], workspace_ids: Sequence[int]) -> Iterator[tuple[Secret, int]]:
    for secret in sorted(secrets, key=lambda secret: secret.name):
        for workspace_id in [SYSTEM] if secret.shared else workspace_ids:
            yield secret, workspace_id


def _rest(places: Iterator[tuple[Secret, int]], at: Progress) -> Iterator[tuple[Secret, int]]:
    return (place for place in places if (place[0].name, place[1]) >= (at.table, at.workspace_id))


def _of(written: Statement, secret: Secret) -> Statement:
    """The statement for this column, whose names the registration has checked."""
    text = written.text.replace("installation t", f"{secret.table} t").replace("hmac_key", secret.column)
    return replace(written, text=text)
