"""A POST with an `Idempotency-Key` has its effect once, and every repeat gets the first answer.

The answer commits with the effect, so a crash leaves both or neither. That the first is still running is said by an
advisory lock of its transaction, never by a row: a process that dies leaves nothing behind.
"""

from typing import Any

import msgspec

from soonish.access.actions.audit import SQL
from soonish.access.model import ANSWER_LIFE
from soonish.db.pool import Tx
from soonish.errors import Conflict, Invalid
from soonish.vault import Vault
from soonish.web.auth import Caller
from soonish.web.plan import Stored


class Idempotency:
    """The memory of answers. Both calls run in the one writing transaction of a request."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def begin(self, tx: Tx, caller: Caller, key: str, fingerprint: bytes) -> Stored | None:
        """The first answer, or None where this is the first; raises where that one is still running, or was another."""
        # Two statements: the second must see what the former holder of the lock committed.
        if not await SQL.try_answer_lock.value(tx, name=f"{caller.workspace_id}/{caller.actor}/{key}"):
            raise Conflict(
                "The first request with this Idempotency-Key is still running; ask again in a second",
                code="idempotency_in_flight",
            )
        row = await SQL.answer.row(tx, actor=caller.actor, key=key, life=ANSWER_LIFE)
        if row is None:
            return None
        if row["fingerprint"] != fingerprint:
            raise Invalid(
                "This Idempotency-Key came with another request before; take a new key for a new request",
                code="idempotency_mismatch",
            )
        body = self._vault.unseal(row["body"], _place(caller, row["id"]))
        return Stored(status=row["status"], headers=msgspec.json.decode(row["headers"]), body=body)

    async def store(self, tx: Tx, caller: Caller, key: str, fingerprint: bytes, stored: Stored) -> None:
        """Keep the answer, encrypted, for 24 hours. The lock of `begin` is still held."""
        answer_id = await SQL.place_for_answer.value(tx, actor=caller.actor, key=key)
        await SQL.keep_answer.run(
            tx,
            id=answer_id,
            workspace_id=caller.workspace_id,
            actor=caller.actor,
            key=key,
            fingerprint=fingerprint,
            status=stored.status,
            headers=msgspec.json.encode(stored.headers).decode(),
            body=self._vault.seal(stored.body, _place(caller, answer_id)),
        )


def _place(caller: Caller, answer_id: int) -> tuple[Any, ...]:
    """What a body is bound to: copied into another row, it does not open."""
    return caller.workspace_id, "idempotency", "body", answer_id
