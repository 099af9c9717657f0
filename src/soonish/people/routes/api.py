"""The JSON face of people and their addresses."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from soonish.errors import FieldError, Invalid
from soonish.people.actions import addresses, export, people
from soonish.people.actions.batch import Result
from soonish.people.actions.batch import batch as write_batch
from soonish.people.actions.hooks import people_of
from soonish.people.model.address import Address, KindOfAddress
from soonish.people.model.person import Person
from soonish.people.routes.bodies import (
    AddressChange,
    ExternalId,
    ManyPeople,
    NewAddress,
    NewPerson,
    PeopleQuery,
    PersonChange,
    PersonOfExternalId,
    rows_of,
    wish_of,
)
from soonish.web.answers import Created, Listing, Ok
from soonish.web.auth import Role
from soonish.web.fields import changes
from soonish.web.operation import Caller, Database, IfMatch, Request, Tx, delete, get, patch, post, put
from soonish.web.shapes import json_shape

_EXTERNAL_ID: Final = json_shape(ExternalId)


class Results(Struct, frozen=True, kw_only=True):
    """What became of each row."""

    items: Sequence[Result]


class Removed(Struct, frozen=True, kw_only=True):
    """Whether the person has no active address any more."""

    silent: bool


@post("/v1/people", role=Role.WRITE, codes=["external_id_taken", "email_taken"])
async def make_person(request: Request, tx: Tx, caller: Caller, body: NewPerson) -> Created[Person]:
    """Make a person."""
    handed = people_of(request)
    made = await people.create(tx, handed, caller, wish_of(body))
    shown: Any = await people.described(tx, handed, made)
    return Created(shown, f"/v1/people/{made.id}")


@get("/v1/people", role=Role.READ)
async def list_people(db: Database, caller: Caller, query: PeopleQuery) -> Listing[Person]:
    """List people, newest first."""
    rows = await people.list_people(
        db,
        caller,
        q=query.q,
        external_id=query.external_id,
        email=query.email,
        tag=query.tag,
        before=query.position(int),
        limit=query.limit + 1,
    )
    return query.listing(rows, lambda row: (row.id,))


@get("/v1/people/{person_id:int}", role=Role.READ)
async def show_person(request: Request, db: Database, caller: Caller, person_id: int) -> Person:
    """Show a person, with what the slices know about them."""
    shown: Any = await people.show_person(db, people_of(request), caller, person_id)
    return shown  # type: ignore[no-any-return]


@patch("/v1/people/{person_id:int}", role=Role.WRITE, codes=["external_id_taken", "email_taken"])
async def change_person(
    request: Request, tx: Tx, caller: Caller, person_id: int, body: PersonChange, if_match: IfMatch
) -> Person:
    """Change a person."""
    handed = people_of(request)
    after = await people.change(tx, handed, caller, person_id, wish_of(body), if_match)
    shown: Any = await people.described(tx, handed, after)
    return shown  # type: ignore[no-any-return]


@delete("/v1/people/{person_id:int}", role=Role.WRITE)
async def delete_person(request: Request, tx: Tx, caller: Caller, person_id: int, if_match: IfMatch) -> None:
    """Erase a person: gone at once, with all their addresses; what is kept elsewhere loses their name."""
    await people.delete(tx, people_of(request), caller, person_id, if_match)


@get("/v1/people/{person_id:int}/export", role=Role.ADMIN)
async def export_person(request: Request, db: Database, caller: Caller, person_id: int) -> dict[str, Any]:
    """Give everything that is held about a person."""
    return await export.export_person(db, people_of(request), caller, person_id)


@put(
    "/v1/people/external/{external_id:text}",
    role=Role.WRITE,
    codes=["external_id_taken", "email_taken"],
    statuses=(200, 201),
)
async def put_person(
    request: Request, tx: Tx, caller: Caller, external_id: str, body: PersonOfExternalId, if_match: IfMatch
) -> Ok[Person]:
    """Make the person of an external id, or change them. A slash in it is written %2F."""
    handed = people_of(request)
    found, new = await people.upsert(tx, handed, caller, _checked(external_id), wish_of(body), if_match)
    shown: Any = await people.described(tx, handed, found)
    return Ok(shown, 201, {"location": f"/v1/people/{found.id}"}) if new else Ok(shown)


@post("/v1/people/batch", role=Role.WRITE)
async def batch(request: Request, tx: Tx, caller: Caller, body: ManyPeople) -> Results:
    """Make or change up to 1000 people; good rows are kept."""
    return Results(items=await write_batch(tx, people_of(request), caller, rows_of(body.people)))


@post(
    "/v1/people/{person_id:int}/addresses", role=Role.WRITE, codes=["duplicate_address", "label_taken", "smtp_missing"]
)
async def add_address(request: Request, tx: Tx, caller: Caller, person_id: int, body: NewAddress) -> Created[Address]:
    """Add a way to reach a person."""
    made = await addresses.add_address(tx, people_of(request), caller, person_id, **changes(body))
    return Created(made, f"/v1/addresses/{made.id}")


@get("/v1/people/{person_id:int}/addresses", role=Role.READ)
async def list_addresses(db: Database, caller: Caller, person_id: int) -> Listing[Address]:
    """List the addresses of a person."""
    return Listing(await addresses.list_addresses(db, caller, person_id), None)


@get("/v1/addresses/{address_id:int}", role=Role.READ)
async def show_address(db: Database, caller: Caller, address_id: int) -> Address:
    """Show an address."""
    return await addresses.get_address(db, caller, address_id)


@patch("/v1/addresses/{address_id:int}", role=Role.WRITE, codes=["duplicate_address", "label_taken", "smtp_missing"])
async def change_address(
    request: Request, tx: Tx, caller: Caller, address_id: int, body: AddressChange, if_match: IfMatch
) -> Address:
    """Change an address."""
    return await addresses.change_address(tx, people_of(request), caller, address_id, changes(body), if_match)


@delete("/v1/addresses/{address_id:int}", role=Role.WRITE)
async def delete_address(tx: Tx, caller: Caller, address_id: int, if_match: IfMatch) -> Removed:
    """Remove an address, and say whether its person can now hear nothing."""
    return Removed(silent=await addresses.remove_address(tx, caller, address_id, if_match))


@post("/v1/addresses/{address_id:int}/enable", role=Role.WRITE)
async def enable_address(tx: Tx, caller: Caller, address_id: int) -> Address:
    """Use an address again that was disabled."""
    return await addresses.enable_address(tx, caller, address_id)


@get("/v1/address-kinds", role=Role.READ)
async def list_kinds(request: Request) -> Listing[KindOfAddress]:
    """List what an address can be, with samples."""
    return Listing(addresses.kinds(people_of(request)), None)


def _checked(external_id: str) -> str:
    """An external id in a path, as a field would have it."""
    errors: list[FieldError] = []
    found: str = _EXTERNAL_ID(external_id, "external_id", errors)
    if errors:
        raise Invalid("", *errors)
    return found


routes: Sequence[Any] = [
    make_person, list_people, show_person, change_person, delete_person, export_person, put_person, batch, add_address,
    list_addresses, show_address, change_address, delete_address, enable_address, list_kinds,
]  # fmt: skip
