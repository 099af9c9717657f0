"""What happens elsewhere when people change: filled by the program, for people know no slice and no delivery.

Each listener runs in the transaction of the change; one that raises undoes it. `describe`, `export` and `sections`
change nothing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from litestar import Request

from soonish.db.pool import Database, Tx
from soonish.people.model.address import Address, AddressKind, CheckedTarget, Scheme, check_target
from soonish.people.model.person import Person
from soonish.vault import Hmac, Vault
from soonish.web.auth import Caller

Listener: TypeAlias = Callable[[Tx, Caller, Sequence[Person]], Awaitable[None]]
ChangeListener: TypeAlias = Callable[[Tx, Caller, Sequence[tuple[Person, Person]]], Awaitable[None]]
Describer: TypeAlias = Callable[[Tx, Sequence[Person]], Awaitable[Sequence[Mapping[str, Any]]]]
Exporter: TypeAlias = Callable[[Tx, int], Awaitable[Mapping[str, Any]]]
Eraser: TypeAlias = Callable[[Tx, int, int], Awaitable[int]]
"""`(tx, person_id, limit)`: blanks at most so many rows of the person, and answers how many; 0 = nothing is left."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a person's page: a template of another slice, which finds its values in `section.values`."""

    id: str
    title: str
    template: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What the program hands to people; all of it is nothing unless it is named."""

    on_created: Sequence[Listener] = ()
    on_changed: Sequence[ChangeListener] = ()
    on_erased: Sequence[Listener] = ()
    describe: Sequence[Describer] = ()  # further fields of single answers, a mapping for each person
    export: Sequence[Exporter] = ()  # further parts of the export, by name
    erasers: Sequence[Eraser] = ()
    sections: Sequence[Callable[[Database, Caller, Person], Awaitable[Sequence[Section]]]] = ()
    check_target: Callable[[AddressKind, str], CheckedTarget] = check_target
    on_address: Callable[[Tx, Caller, Person, Address], Awaitable[None]] | None = None  # new, or with a new target
    smtp: bool = False  # whether mail can be sent
    schemes: Sequence[Scheme] = ()  # of Apprise URLs that are allowed here
    test_url: str | None = None  # where the buttons of an address send their forms; `{id}` stands for its id
    verify_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """What the actions on people need beside a transaction; routes find it at `app.state.people`."""

    vault: Vault
    hmac: Callable[[], Awaitable[Hmac]]  # of the installation
    hooks: Hooks = field(default_factory=Hooks)


def people_of(request: Request[Any, Any, Any]) -> People:
    return request.app.state.people  # type: ignore[no-any-return]
