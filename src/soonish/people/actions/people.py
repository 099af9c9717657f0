"""Make, change, find and erase people. Each change is a line of the record, and heard by the listeners of the program.

What is wrong with a wish is said by the model; who else has an external id or a mail address, by the database.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import asyncpg
from msgspec.structs import asdict

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.due import Put, put
from soonish.errors import Conflict, NotFound
from soonish.people.actions.hooks import People
from soonish.people.actions.rows import SQL, columns, person_of, place_of
from soonish.people.model.person import ERASE, ERASED, Person, changed, plan_person, told
from soonish.web.auth import Caller
from soonish.web.sse import ring

LIVE: Final = "people"
"""The topic of live pages that show people."""

_TAKEN: Final = {
    "external_id_taken": "Somebody has this external id already; change that person, or choose another id",
    "email_taken": "Somebody has this mail address already; change that person, or leave it out here",
}
_CONSTRAINTS: Final = {
    "person_workspace_id_external_id_key": "external_id_taken",
    "person_workspace_id_email_key_key": "email_taken",
}


class Match(Protocol):
    """What the caller knows of the version (`If-Match`)."""

    def check(self, version: int) -> None: ...


async def create(tx: Tx, people: People, caller: Caller, wish: Mapping[str, Any]) -> Person:
    """Make a person."""
    values = plan_person(wish, None, await place_of(tx, caller.workspace_id))
    made = await insert(tx, caller, [values])
    if not made:
        raise await _clash(tx, values)
    await record(tx, caller, "make", f"person/{made[0].id}")
    await tell_created(tx, people, caller, made)
    return made[0]


async def change(
    tx: Tx, people: People, caller: Caller, person_id: int, wish: Mapping[str, Any], if_match: Match
) -> Person:
    """Change what the wish names; where nothing differs, nothing is written and nobody hears of it."""
    before = await lock_person(tx, person_id)
    return await _change(tx, people, caller, before, wish, if_match)


async def upsert(
    tx: Tx, people: People, caller: Caller, external_id: str, wish: Mapping[str, Any], if_match: Match
) -> tuple[Person, bool]:
    """Make the person of this external id, or change what the wish names; answers also whether it is new."""
    for last in (False, True):
        if rows := await SQL.by_external_id.rows(tx, external_ids=[external_id]):
            return await _change(tx, people, caller, person_of(rows[0]), wish, if_match), False
        if_match.check(0)
        try:
            return await create(tx, people, caller, {**wish, "external_id": external_id}), True
        except Conflict as error:  # somebody made it between the two looks
            if last or error.code != "external_id_taken":
                raise
    raise AssertionError


async def delete(tx: Tx, people: People, caller: Caller, person_id: int, if_match: Match) -> None:
    """Let the person be gone from every answer; what others keep about them is blanked by an item that is due now."""
    person = await lock_person(tx, person_id)
    if_match.check(person.version)
    await SQL.remove_addresses.run(tx, person_id=person_id)
    await SQL.erase_person.run(tx, id=person_id, name=ERASED)
    await put(tx, [Put(ERASE, str(person_id))])
    await record(tx, caller, "remove", f"person/{person_id}")
    for listen in people.hooks.on_erased:
        await listen(tx, caller, [person])
    await ring(tx, caller.workspace_id, LIVE)


async def get_person(db: Database, caller: Caller, person_id: int) -> Person:
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await person_in(tx, person_id)


async def person_in(tx: Tx, person_id: int) -> Person:
    """The same in a transaction that is open."""
    return _found(await SQL.person.row(tx, id=person_id), person_id)


async def lock_person(tx: Tx, person_id: int) -> Person:
    """The same, and nobody else changes or erases the person until the transaction ends."""
    return _found(await SQL.person_for_update.row(tx, id=person_id), person_id)


async def names_in(tx: Tx, person_ids: Sequence[int]) -> dict[int, str]:
    """The names of people, by id; who is gone is missing."""
    return {row["id"]: row["name"] for row in await SQL.names.rows(tx, ids=list(person_ids))}


async def show_person(db: Database, people: People, caller: Caller, person_id: int) -> dict[str, Any]:
    """A person with what the slices know about them."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await described(tx, people, await person_in(tx, person_id))


async def described(tx: Tx, people: People, person: Person) -> dict[str, Any]:
    """The fields of a person, and those that the slices add."""
    found = asdict(person)
    for describe in people.hooks.describe:
        [more] = await describe(tx, [person])
        found |= more
    return found


async def list_people(
    db: Database,
    caller: Caller,
    *,
    q: str | None = None,
    external_id: str | None = None,
    email: str | None = None,
    tag: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Person]:
    """Newest first. `q` is a part of the name or mail address, or the beginning of the external id."""
    wanted: dict[str, Any] = {"external_id": external_id, "email": email and email.lower(), "tag": tag}
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        rows = await SQL.people.rows(tx, **wanted, q=q, part=_pattern(q), before=before, k=limit)
    return [person_of(row) for row in rows]


async def insert(tx: Tx, caller: Caller, values: Sequence[Mapping[str, Any]]) -> list[Person]:
    """Write people that do not exist; those that somebody stands in the way of are missing in the answer."""
    rows = await SQL.make_people.rows(tx, workspace_id=caller.workspace_id, **columns(values))
    return [person_of(row) for row in rows]


async def update(tx: Tx, values: Mapping[int, Mapping[str, Any]]) -> list[Person]:
    """Write people anew, by id; raises Conflict where somebody else has an external id or a mail address."""
    try:
        rows = await SQL.change_people.rows(tx, id=list(values), **columns(list(values.values())))
    except asyncpg.UniqueViolationError as error:
        raise conflict(_CONSTRAINTS[str(error.constraint_name)]) from error
    return [person_of(row) for row in rows]


async def tell_created(tx: Tx, people: People, caller: Caller, made: Sequence[Person]) -> None:
    for listen in people.hooks.on_created:
        await listen(tx, caller, made)
    await ring(tx, caller.workspace_id, LIVE)


async def tell_changed(tx: Tx, people: People, caller: Caller, pairs: Sequence[tuple[Person, Person]]) -> None:
    for listen in people.hooks.on_changed:
        await listen(tx, caller, pairs)
    await ring(tx, caller.workspace_id, LIVE)


async def owners(tx: Tx, values: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """Who has the external ids and mail addresses that are wanted here."""
    external_ids = [one["external_id"] for one in values if one["external_id"]]
    emails = [one["email"].lower() for one in values if one["email"]]
    rows = await SQL.who_has.rows(tx, external_ids=external_ids, emails=emails)
    return {("external_id", row["external_id"]): row["id"] for row in rows} | {
        ("email", row["email_key"]): row["id"] for row in rows
    }


def in_the_way(values: Mapping[str, Any], having: Mapping[tuple[str, str], int], own: int | None = None) -> str | None:
    """The code for what somebody else has already."""
    for name, value in (("external_id", values["external_id"]), ("email", (values["email"] or "").lower())):
        if value and having.get((name, value), own) != own:
            return f"{name}_taken"
    return None


def conflict(code: str) -> Conflict:
    return Conflict(_TAKEN[code], code=code)


async def _change(
    tx: Tx, people: People, caller: Caller, before: Person, wish: Mapping[str, Any], if_match: Match
) -> Person:
    if_match.check(before.version)
    values = plan_person(wish, before, await place_of(tx, caller.workspace_id))
    if not changed(before, values):
        return before
    [after] = await update(tx, {before.id: values})
    await record(tx, caller, "change", f"person/{before.id}", told(before, after))
    await tell_changed(tx, people, caller, [(before, after)])
    return after


async def _clash(tx: Tx, values: Mapping[str, Any]) -> Conflict:
    """Why a person could not be written."""
    code = in_the_way(values, await owners(tx, [values]))
    return conflict(code) if code else Conflict("Somebody changed the same at this moment; send it again")


def _found(row: Any, person_id: int) -> Person:
    if row is None:
        raise NotFound(f"There is no person {person_id}")
    return person_of(row)


def _pattern(q: str | None) -> str | None:
    """For ILIKE, with its own marks taken as text."""
    if not q:
        return None
    return "%" + q.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
