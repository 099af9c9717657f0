"""Everything that is held about a person, as one document. Where addresses lead is told to nobody, not even here."""

from typing import Any

from soonish.access.actions.audit import list_audit
from soonish.db.pool import Database
from soonish.people.actions.hooks import People
from soonish.people.actions.people import described, person_in
from soonish.people.actions.rows import SQL, address_of
from soonish.web.auth import Caller

MOST_LINES = 10_000  # of the record


async def export_person(db: Database, people: People, caller: Caller, person_id: int) -> dict[str, Any]:
    """The person, their addresses, what the slices and deliveries keep, and who changed what."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        person = await person_in(tx, person_id)
        found: dict[str, Any] = {"person": await described(tx, people, person)}
        found["addresses"] = [address_of(row) for row in await SQL.addresses.rows(tx, person_ids=[person_id])]
        for export in people.hooks.export:
            found |= await export(tx, person_id)
    lines = [
        line
        for entity in (f"person/{person_id}", *(f"address/{one.id}" for one in found["addresses"]))
        for line in await list_audit(db, caller, entity=entity, limit=MOST_LINES)
    ]
    return found | {"record": lines}
