"""Who is behind a key or the cookie of a sign-in.

A key that was found is remembered for 5 s, so that is how long a revoked one may go on; sign-ins are looked up each
time. Unknown, revoked and expired ones, and those of a closed workspace, all look the same: nobody.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from soonish.access.actions.audit import SQL
from soonish.access.model import OPERATOR_WORKSPACE, csrf_token, is_key, is_token
from soonish.db.pool import Database
from soonish.db.sql import Statement
from soonish.errors import SoonishError
from soonish.vault import hash_token
from soonish.web.auth import Caller, Role, Secret

KEY_LIFE: Final = 5.0  # seconds
MOST: Final = 10_000  # keys remembered

_log = logging.getLogger(__name__)


class Callers:
    """One a process; `find` is what the HTTP kit asks with each request."""

    def __init__(self, db: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._clock = clock
        self._known: dict[bytes, tuple[float, Caller]] = {}

    async def find(self, kind: str, secret: str, request_id: str) -> Caller | None:
        """The caller behind a `key` or a `sign_in`, or None."""
        if kind == "key":
            return await self._by_key(secret, request_id) if is_key(secret) else None
        return await self._by_sign_in(secret, request_id) if is_token(secret) else None

    async def ended(self, secrets: Sequence[Secret]) -> set[Secret]:
        """Those that open nothing any more, found by one statement however many there are; that is no use of them."""
        hashes = [hash_token(secret) for _, secret in secrets]
        async with self._db.transaction(0, readonly=True) as tx:
            rows = await SQL.ended.rows(tx, purposes=[purpose for purpose, _ in secrets], hashes=hashes)
        gone = {(row["purpose"], row["hash"]) for row in rows}
        return {one for one, hashed in zip(secrets, hashes, strict=True) if (one[0], hashed) in gone}

    async def _by_key(self, key: str, request_id: str) -> Caller | None:
        hashed, now = hash_token(key), self._clock()
        until, caller = self._known.get(hashed, (now, None))
        if caller is not None and now < until:
            return caller
        self._known.pop(hashed, None)
        found = await self._look(hashed, "key", SQL.key_caller, SQL.touch_key)
        if found is None:
            return None
        workspace_id, key_id, row = found
        caller = _caller(workspace_id, f"key:{key_id}", row, request_id)
        self._remember(hashed, now + min(KEY_LIFE, KEY_LIFE if row["left"] is None else row["left"]), caller)
        return caller

    async def _by_sign_in(self, cookie: str, request_id: str) -> Caller | None:
        found = await self._look(hash_token(cookie), "sign_in", SQL.sign_in_caller, SQL.touch_sign_in)
        if found is None:
            return None
        workspace_id, sign_in_id, row = found
        csrf = csrf_token(cookie, row["csrf"])
        return _caller(workspace_id, f"sign_in:{sign_in_id}", row, request_id, row["person_id"], csrf)

    async def _look(
        self, hashed: bytes, purpose: str, details: Statement, touch: Statement
    ) -> tuple[int, int, Any] | None:
        """Find the token outside the wall, then read its row inside its workspace."""
        async with self._db.transaction(0, readonly=True) as tx:
            found = await SQL.find_token.row(tx, purpose=purpose, hash=hashed)
        if found is None:
            return None
        async with self._db.transaction(found["workspace_id"], readonly=True) as tx:
            row = await details.row(tx, id=found["id"])
        if row is None:
            return None
        if row["stale"]:
            await self._touch(found["workspace_id"], touch, found["id"])
        return found["workspace_id"], found["id"], row

    async def _touch(self, workspace_id: int, touch: Statement, row_id: int) -> None:
        """Note the use. Where nothing can be written (no space, a standby) reading goes on."""
        try:
            async with self._db.transaction(workspace_id) as tx:
                await touch.run(tx, id=row_id)
        except SoonishError as error:
            _log.warning("access.touch_failed: %s", error.code)

    def _remember(self, hashed: bytes, until: float, caller: Caller) -> None:
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[hashed] = until, caller


def _caller(
    workspace_id: int,
    actor: str,
    row: Any,
    request_id: str,
    person_id: int | None = None,
    csrf: str | None = None,
) -> Caller:
    role = Role[row["role"].upper()]
    return Caller(
        workspace_id=workspace_id,
        role=Role.OPERATOR if role is Role.ADMIN and workspace_id == OPERATOR_WORKSPACE else role,
        actor=actor,
        person_id=person_id,
        request_id=request_id,
        csrf=csrf,
        slug=row["slug"],
        timezone=row["timezone"],
        locale=row["locale"],
    )
