"""What the ledger does when people change: facts about them, nothing more for those who went, and what is kept of them.

Given to people as listeners by the program; each runs in the transaction of the change.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from soonish.db.pool import Tx
from soonish.delivery.actions.ledger import SQL
from soonish.delivery.model.letters import Message
from soonish.delivery.outbox import Fact, Outbox
from soonish.people.actions.confirmation import begin_confirmation
from soonish.people.actions.targets import find_targets
from soonish.people.model.address import Address
from soonish.people.model.person import Person
from soonish.vault import Vault
from soonish.web.auth import Caller

GONE: Final = "person_gone"
CONFIRMATION: Final = Message(
    title="May we write to you?",
    body="Hello {{name}},\n\nsomebody wants to send you messages at this address. If that is fine, open this page and"
    " press the button:\n\n{{confirm_url}}\n\nIf not, do nothing: you will hear no more of it.",
    hold="never",
)
_ERASED: Final = (SQL.erase_deliveries, SQL.erase_answers, SQL.erase_messages)


class Listeners:
    """What is told of people, with the outbox of this process."""

    def __init__(self, outbox: Outbox, vault: Vault) -> None:
        self._outbox = outbox
        self._vault = vault

    async def created(self, tx: Tx, caller: Caller, persons: Sequence[Person]) -> None:
        del caller
        await self._outbox.state_all(tx, [_fact("created", one, f"person/{one.id}/created", []) for one in persons])

    async def changed(self, tx: Tx, caller: Caller, pairs: Sequence[tuple[Person, Person]]) -> None:
        del caller
        await self._outbox.state_all(tx, [_updated(old, new) for old, new in pairs])

    async def erased(self, tx: Tx, caller: Caller, persons: Sequence[Person]) -> None:
        """No try begins after this commits."""
        del caller
        for person in persons:
            await self._outbox.skip(tx, GONE, person_id=person.id)
        await self._outbox.state_all(tx, [_fact("removed", one, f"person/{one.id}/removed", []) for one in persons])

    async def addressed(self, tx: Tx, caller: Caller, person: Person, address: Address) -> None:
        """A mail asks whether a new mailbox may be written to; it is all that goes there until somebody agrees."""
        if address.kind != "email" or address.health != "unverified":
            return
        token_id = await begin_confirmation(tx, address.id)
        mailbox = (await find_targets(tx, self._vault, caller.workspace_id, [address.id]))[address.id]
        await self._outbox.post(tx, f"confirm/{token_id}", mailbox, CONFIRMATION, person_id=person.id)


async def erase(tx: Tx, person_id: int, limit: int) -> int:
    """Blank some rows of the ledger about a person; answers how many."""
    for statement in _ERASED:
        if count := await statement.run(tx, person_id=person_id, k=limit):
            return count
    return await SQL.erase_facts.run(tx, subject=f"person/{person_id}", k=limit)


async def export(tx: Tx, person_id: int) -> Mapping[str, Any]:
    """What the person was told, what became of it, and what waits for its moment."""
    rows = await SQL.deliveries_of_person.rows(tx, person_id=person_id)
    coming = await SQL.letters_ahead.rows(tx, person_id=person_id)
    return {
        "deliveries": [{**row, "merge": msgspec.json.decode(row["merge"])} for row in rows],
        "messages_to_come": [dict(row) for row in coming],
    }


def changed_fields(before: Person, after: Person) -> list[str]:
    """The names of what differs, without its values."""
    kept = {"version", "updated_at"}
    return [n for n in Person.__struct_fields__ if n not in kept and getattr(before, n) != getattr(after, n)]


def _updated(old: Person, new: Person) -> Fact:
    return _fact("updated", new, f"person/{new.id}/updated/{new.version}", changed_fields(old, new))


def _fact(verb: str, person: Person, cause: str, changed: Sequence[str]) -> Fact:
    data = {"person_id": person.id, "changed": list(changed)}
    return Fact(cause=cause, type=f"person.{verb}", subject=f"person/{person.id}", data=data)
