"""Many people at once: good rows are kept, each bad one says what is wrong with it.

A row whose external id is known changes that person, so an import can be repeated. A row stands for itself: what is
wrong with one does nothing to the others.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from soonish.access.actions.audit import record
from soonish.db.pool import Tx
from soonish.errors import FieldError, Invalid
from soonish.people.actions.hooks import People
from soonish.people.actions.people import conflict, in_the_way, insert, owners, tell_changed, tell_created, update
from soonish.people.actions.rows import SQL, person_of, place_of
from soonish.people.model.person import Person, Place, changed, plan_person
from soonish.web.auth import Caller

Status: TypeAlias = Literal["created", "changed", "same", "refused"]
Row: TypeAlias = Mapping[str, Any] | Sequence[FieldError]
"""What is wished for a person, or what is wrong with it."""


class Result(Struct, frozen=True, kw_only=True):
    """What became of one row."""

    index: int
    id: int | None
    status: Status
    errors: Sequence[FieldError] = ()


@dataclass(slots=True)
class _Work:
    """What is to be done about the good rows, and the results so far, by row."""

    new: dict[int, dict[str, Any]] = field(default_factory=dict)
    changes: dict[int, tuple[Person, dict[str, Any]]] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)

    def refuse(self, index: int, *errors: FieldError) -> None:
        self.results[index] = Result(index=index, id=None, status="refused", errors=errors)

    def refuse_taken(self, index: int, code: str) -> None:
        self.refuse(index, FieldError(code.removesuffix("_taken"), code, conflict(code).message))

    def keep(self, index: int, person: Person, status: Status) -> None:
        self.results[index] = Result(index=index, id=person.id, status=status)


async def batch(tx: Tx, people: People, caller: Caller, rows: Sequence[Row]) -> list[Result]:
    """Make or change many people; answers a result for each row, in their order."""
    work = _Work()
    await _plan(tx, caller, rows, work)
    await _refuse_taken(tx, work)
    made = await _make(tx, caller, work)
    pairs = await _change(tx, work)
    if made or pairs:
        await record(tx, caller, "import", "people", {"created": len(made), "changed": len(pairs)})
    if made:
        await tell_created(tx, people, caller, made)
    if pairs:
        await tell_changed(tx, people, caller, pairs)
    return [work.results[index] for index in range(len(rows))]


async def _plan(tx: Tx, caller: Caller, rows: Sequence[Row], work: _Work) -> None:
    """Judge each row by itself: against the person of its external id, or as a new one."""
    place = await place_of(tx, caller.workspace_id)
    named = [row["external_id"] for row in rows if isinstance(row, Mapping) and row.get("external_id")]
    found = [person_of(row) for row in await SQL.by_external_id.rows(tx, external_ids=named)]
    known = {person.external_id: person for person in found}
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            work.refuse(index, *row)
        else:
            _plan_row(index, row, known.get(row.get("external_id")), place, work)


def _plan_row(index: int, row: Mapping[str, Any], before: Person | None, place: Place, work: _Work) -> None:
    try:
        values = plan_person(row, before, place)
    except Invalid as error:
        work.refuse(index, *error.errors)
        return
    if before is None:
        work.new[index] = values
    elif changed(before, values):
        work.changes[index] = before, values
    else:
        work.keep(index, before, "same")


async def _refuse_taken(tx: Tx, work: _Work) -> None:
    """Refuse what somebody else has, also another row of the same batch: the first one counts."""
    wanted = {**work.new, **{index: values for index, (_, values) in work.changes.items()}}
    having = await owners(tx, list(wanted.values()))
    for index in sorted(wanted):
        own = work.changes[index][0].id if index in work.changes else -1 - index
        if code := in_the_way(wanted[index], having, own):
            work.refuse_taken(index, code)
            work.new.pop(index, None)
            work.changes.pop(index, None)
            continue
        values, this_row = wanted[index], -1 - index
        having[("external_id", values["external_id"])] = having[("email", (values["email"] or "").lower())] = this_row


async def _make(tx: Tx, caller: Caller, work: _Work) -> list[Person]:
    made = await insert(tx, caller, list(work.new.values()))
    rest = deque(made)
    for index, values in work.new.items():
        if rest and _is(rest[0], values):
            work.keep(index, rest.popleft(), "created")
        else:  # somebody else was faster at this very moment
            code = in_the_way(values, await owners(tx, [values]))
            work.refuse_taken(index, code or "external_id_taken")
    return made


def _is(person: Person, values: Mapping[str, Any]) -> bool:
    """Whether it was made of this row: they come in the order of the rows, and only a row with a key can be missing."""
    return all(getattr(person, name) == values[name] for name in ("external_id", "email", "name"))


async def _change(tx: Tx, work: _Work) -> list[tuple[Person, Person]]:
    after = {one.id: one for one in await update(tx, {before.id: values for before, values in work.changes.values()})}
    for index, (before, _) in work.changes.items():
        work.keep(index, before, "changed")
    return [(before, after[before.id]) for before, _ in work.changes.values()]
