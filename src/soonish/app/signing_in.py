"""Browsers that sign in as a person: what access asks of people, what people show of it. Neither knows the other."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from soonish.access.actions import sign_ins
from soonish.access.actions.handed import Access
from soonish.access.model import LINK_MINUTES
from soonish.db.pool import Database, Tx
from soonish.people.actions.hooks import Section
from soonish.people.actions.people import lock_person, names_in
from soonish.people.model.person import Person
from soonish.web.auth import Caller, Role

ACCESS: Final = Access(hold_person=lock_person, name_people=names_in)


async def sections(db: Database, caller: Caller, person: Person) -> Sequence[Section]:
    """For the page of a person: who is signed in as them, for admins, who may make a link."""
    if caller.role < Role.ADMIN:
        return []
    found = await sign_ins.list_sign_ins(db, caller, person_id=person.id)
    values = {"sign_ins": found, "person": person, "minutes": LINK_MINUTES}
    return [Section("person-sign-ins", "Sign-ins", "person_sign_ins.html", values)]


async def erased(tx: Tx, _caller: Caller, persons: Sequence[Person]) -> None:
    """Who is gone is signed in nowhere."""
    await sign_ins.end_all_of(tx, [one.id for one in persons])


async def export(tx: Tx, person_id: int) -> Mapping[str, Any]:
    """The browsers that are signed in as the person."""
    return {"sign_ins": await sign_ins.sign_ins_in(tx, person_id=person_id)}
