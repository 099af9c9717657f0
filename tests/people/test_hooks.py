"""What the program hangs on people: it runs in the transaction of the change, and what raises undoes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from soonish.db.pool import Database, Tx
from soonish.errors import Conflict
from soonish.people.actions.hooks import Section
from soonish.people.model.person import Person
from soonish.web.auth import Caller
from tests.people.test_addresses import person
from tests.support.site import Site


class Slice:
    """A slice that listens, and refuses whom it does not like."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    async def created(self, tx: Tx, caller: Caller, persons: Sequence[Person]) -> None:
        assert tx.is_in_transaction()
        self.heard.append(("created", [one.name for one in persons]))
        if any(one.name == "Nobody" for one in persons):
            raise Conflict("This slice takes nobody of that name")

    async def changed(self, tx: Tx, caller: Caller, pairs: Sequence[tuple[Person, Person]]) -> None:
        self.heard.append(("changed", [(before.name, after.name) for before, after in pairs]))

    async def erased(self, tx: Tx, caller: Caller, persons: Sequence[Person]) -> None:
        self.heard.append(("erased", [one.name for one in persons]))

    async def describe(self, tx: Tx, persons: Sequence[Person]) -> Sequence[Mapping[str, Any]]:
        return [{"next_birthday": None, "letters": len(one.name)} for one in persons]

    async def export(self, tx: Tx, person_id: int) -> Mapping[str, Any]:
        return {"letters": [person_id]}

    async def sections(self, db: Database, caller: Caller, shown: Person) -> Sequence[Section]:
        return [Section("letters", "Letters of the name", "clock.html", {"count": len(shown.name)})]


def joined(site: Site) -> Slice:
    """The application with one more slice."""
    one, state = Slice(), site.app.state
    more = {"on_created": one.created, "on_changed": one.changed, "on_erased": one.erased, "describe": one.describe}
    more |= {"export": one.export, "sections": one.sections}
    hooks = state.people.hooks
    state.people = replace(
        state.people, hooks=replace(hooks, **{name: [*getattr(hooks, name), hook] for name, hook in more.items()})
    )
    return one


async def test_a_slice_hears_of_each_change_once_and_of_no_change_not_at_all(product: Site) -> None:
    one, write = joined(product), product.main.write
    made = (await write.post("/v1/people", {"name": "Ben"})).json
    path = f"/v1/people/{made['id']}"
    await write.patch(path, {"name": "Benno"})
    await write.patch(path, {"name": "Benno"})
    await write.delete(path)
    assert one.heard == [("created", ["Ben"]), ("changed", [("Ben", "Benno")]), ("erased", ["Benno"])]


async def test_an_import_is_heard_of_in_one_piece(product: Site) -> None:
    one, write = joined(product), product.main.write
    await write.post("/v1/people/batch", {"people": [{"name": "Ana", "external_id": "1"}, {"name": "Ben"}]})
    await write.post("/v1/people/batch", {"people": [{"name": "Anna", "external_id": "1"}, {"name": ""}]})
    assert one.heard == [("created", ["Ana", "Ben"]), ("changed", [("Ana", "Anna")])]


async def test_what_a_slice_refuses_did_not_happen(product: Site) -> None:
    joined(product)
    assert (await product.main.write.post("/v1/people", {"name": "Nobody"})).refused == (409, "conflict")
    assert await product.main.rows("SELECT FROM person") == []
    assert await product.main.admin.every("/v1/ops/audit?entity=person/1") == []


async def test_a_slice_adds_to_single_answers_to_the_export_and_to_the_page(product: Site) -> None:
    ben = await person(product.main)
    joined(product)
    path = f"/v1/people/{ben}"
    shown = [(await product.main.read.get(path)).json, (await product.main.write.patch(path, {"locale": "de"})).json]
    assert [(one["letters"], one["next_birthday"]) for one in shown] == [(3, None)] * 2
    assert "letters" not in (await product.main.read.every("/v1/people"))[0]
    export = (await product.main.admin.get(f"{path}/export")).json
    assert (export["letters"], export["person"]["letters"]) == ([ben], 3)
    browser = await product.main.browser("read", accept="text/html")
    page = await browser.get(f"/people/{ben}")
    assert (page.status, b"Letters of the name" in page.body) == (200, True)
