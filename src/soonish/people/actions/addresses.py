"""The addresses of a person: add, change, enable, remove, list.

A target is taken and never given back. What speaks there, and whether it may be reached, is checked by what the program
handed in.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import asyncpg

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.errors import Conflict, NotFound
from soonish.people.actions.hooks import People
from soonish.people.actions.people import LIVE, Match, lock_person, person_in
from soonish.people.actions.rows import SQL, address_of, place_of
from soonish.people.actions.targets import print_of, seal_target
from soonish.people.model.address import (
    Address,
    AddressKind,
    CheckedTarget,
    KindOfAddress,
    first_health,
    read_target,
    taken,
    unique,
)
from soonish.web.auth import Caller
from soonish.web.sse import ring


@dataclass(frozen=True, slots=True)
class _Target:
    """A target that was found good: the text itself, what is known of it, and its print."""

    text: str
    checked: CheckedTarget
    print: bytes


async def add_address(
    tx: Tx,
    people: People,
    caller: Caller,
    person_id: int,
    *,
    kind: AddressKind,
    label: str,
    target: str | None = None,
    tags: Sequence[str] = (),
    active: bool = True,
) -> Address:
    """Add a way to reach a person; to one by mail, its owner agrees first."""
    person = await lock_person(tx, person_id)
    good = await _check(people, caller, kind, target)
    place = await place_of(tx, caller.workspace_id)
    address_id = await SQL.next_address_id.value(tx)
    row = await SQL.add_address.row(
        tx,
        workspace_id=caller.workspace_id,
        person_id=person_id,
        kind=kind,
        label=label,
        tags=unique(tags),
        active=active,
        **_columns(people, caller, address_id, kind, good, trusted=place.trusted),
    )
    if row is None:
        raise await _clash(tx, person_id, 0, label, good.print)
    address = address_of(row)
    await record(tx, caller, "add", f"address/{address.id}", {"person_id": person_id, "kind": kind})
    if people.hooks.on_address:
        await people.hooks.on_address(tx, caller, person, address)
    await ring(tx, caller.workspace_id, LIVE)
    return address


async def find_owner(tx: Tx, people: People, workspace_id: int, mailbox: str) -> int | None:
    """Whose mailbox it is: who is known by this mail address, or else who has agreed to be written to there."""
    found: int | None = await SQL.owner_of_mailbox.value(
        tx, email=mailbox.lower(), target_print=await print_of(people, workspace_id, "email", mailbox)
    )
    return found


async def agreed_address(tx: Tx, people: People, caller: Caller, person_id: int, mailbox: str) -> int:
    """The address of a person whose owner has just shown that the mailbox is theirs; made where there is none."""
    await lock_person(tx, person_id)
    good = await _check(people, caller, "email", mailbox)
    owned = await SQL.addresses.rows(tx, person_ids=[person_id])
    if own := next((row for row in owned if row["target_print"] == good.print), None):
        await SQL.verify_address.run(tx, id=own["id"])
        address_id: int = own["id"]
        return address_id
    address_id = await SQL.next_address_id.value(tx)
    await SQL.add_address.row(
        tx,
        workspace_id=caller.workspace_id,
        person_id=person_id,
        kind="email",
        label=_free_label({row["label"] for row in owned}),
        tags=[],
        active=True,
        **_columns(people, caller, address_id, "email", good, trusted=True),
    )
    await record(tx, caller, "add", f"address/{address_id}", {"person_id": person_id, "kind": "email"})
    await ring(tx, caller.workspace_id, LIVE)
    return address_id


async def change_address(
    tx: Tx, people: People, caller: Caller, address_id: int, wish: Mapping[str, Any], if_match: Match
) -> Address:
    """Change label, tags, whether it is active, or where it leads: then it begins anew, as one that was just added."""
    row = await _for_update(tx, address_id)
    before = address_of(row)
    if_match.check(before.version)
    fresh = await _fresh_target(people, caller, row, wish)
    plain = _changed(before, wish)
    if not plain and not fresh:
        return before
    after = await _write(tx, people, caller, before, plain, fresh)
    names = [*plain, *(["target"] if fresh else [])]
    await record(tx, caller, "change", f"address/{address_id}", {name: {} for name in names})
    if fresh and people.hooks.on_address:
        await people.hooks.on_address(tx, caller, await person_in(tx, after.person_id), after)
    await ring(tx, caller.workspace_id, LIVE)
    return after


async def enable_address(tx: Tx, caller: Caller, address_id: int) -> Address:
    """Use it again; where nothing stood in its way, nothing changes."""
    before = address_of(await _for_update(tx, address_id))
    if before.health not in ("failing", "disabled") and before.circuit_until is None:
        return before
    after = address_of(await SQL.enable_address.row(tx, id=address_id))
    await record(tx, caller, "enable", f"address/{address_id}")
    await ring(tx, caller.workspace_id, LIVE)
    return after


async def remove_address(tx: Tx, caller: Caller, address_id: int, if_match: Match) -> bool:
    """Remove it; answers whether its person now has no active one."""
    address = address_of(await _for_update(tx, address_id))
    if_match.check(address.version)
    await SQL.remove_address.run(tx, id=address_id)
    await record(tx, caller, "remove", f"address/{address_id}", {"person_id": address.person_id})
    await ring(tx, caller.workspace_id, LIVE)
    return address.active and bool(await SQL.silent.value(tx, person_id=address.person_id))


async def get_address(db: Database, caller: Caller, address_id: int) -> Address:
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return address_of(_found(await SQL.address.row(tx, id=address_id), address_id))


async def list_addresses(db: Database, caller: Caller, person_id: int) -> list[Address]:
    """All of a person, in the order in which they were added."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        await person_in(tx, person_id)
        return [address_of(row) for row in await SQL.addresses.rows(tx, person_ids=[person_id])]


async def addresses_of(db: Database, caller: Caller, person_ids: Sequence[int]) -> dict[int, list[Address]]:
    """Those of many people, by person."""
    found: dict[int, list[Address]] = {person_id: [] for person_id in person_ids}
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        for row in await SQL.addresses.rows(tx, person_ids=list(person_ids)):
            found[row["person_id"]].append(address_of(row))
    return found


def kinds(people: People) -> list[KindOfAddress]:
    """What an address can be here, and how its target is written."""
    hooks = people.hooks
    return [
        KindOfAddress(kind="console", about="The person's own page here.", available=True, sample=None),
        KindOfAddress(
            kind="email",
            about="Mail, after its owner has agreed.",
            available=hooks.smtp,
            sample="ben@example.org",
        ),
        KindOfAddress(
            kind="apprise",
            about="Any service that Apprise speaks to.",
            available=True,
            sample="ntfys://ntfy.sh/your-topic",
            schemes=tuple(hooks.schemes),
        ),
    ]


def _free_label(taken: Collection[str]) -> str:
    """`mail`, or `mail 2` and so on where there is one."""
    names = ("mail" if n == 1 else f"mail {n}" for n in count(1))
    return next(name for name in names if name not in taken)


async def _check(people: People, caller: Caller, kind: AddressKind, target: str | None) -> _Target:
    text = read_target(kind, target)
    if kind == "email" and not people.hooks.smtp:
        raise Conflict(
            "No mail can be sent from here; set SOONISH_SMTP_HOST and SOONISH_SMTP_FROM first", code="smtp_missing"
        )
    checked = people.hooks.check_target(kind, text)
    return _Target(text, checked, await print_of(people, caller.workspace_id, kind, text))


async def _fresh_target(people: People, caller: Caller, row: Any, wish: Mapping[str, Any]) -> _Target | None:
    """The target of a wish, unless it is the one that the address has."""
    if "target" not in wish:
        return None
    good = await _check(people, caller, row["kind"], wish["target"])
    return None if good.print == row["target_print"] else good


def _changed(before: Address, wish: Mapping[str, Any]) -> dict[str, Any]:
    """The wishes beside the target that differ from what is."""
    values = {name: unique(value) if name == "tags" else value for name, value in wish.items() if name != "target"}
    return {name: value for name, value in values.items() if getattr(before, name) != value}


async def _write(
    tx: Tx, people: People, caller: Caller, before: Address, plain: Mapping[str, Any], fresh: _Target | None
) -> Address:
    values = {name: getattr(before, name) for name in ("label", "tags", "active")}
    try:
        if fresh:
            await _retarget(tx, people, caller, before, fresh)
        return address_of(await SQL.change_address.row(tx, id=before.id, **{**values, **plain}))
    except asyncpg.UniqueViolationError as error:
        raise taken(same_target="target_print" in str(error.constraint_name)) from error


async def _retarget(tx: Tx, people: People, caller: Caller, before: Address, good: _Target) -> None:
    place = await place_of(tx, caller.workspace_id)
    await SQL.retarget.run(tx, **_columns(people, caller, before.id, before.kind, good, trusted=place.trusted))


def _columns(
    people: People, caller: Caller, address_id: int, kind: AddressKind, good: _Target, *, trusted: bool
) -> dict[str, Any]:
    """What the row keeps of a target."""
    return {
        "id": address_id,
        "scheme": good.checked.scheme,
        "host": good.checked.host,
        "target": seal_target(people.vault, caller.workspace_id, address_id, good.text),
        "target_hint": good.checked.hint,
        "target_print": good.print,
        "health": first_health(kind, trusted=trusted),
        "trusted": trusted and kind == "email",
    }


async def _clash(tx: Tx, person_id: int, address_id: int, label: str, target_print: bytes) -> Conflict:
    row = await SQL.clash.row(tx, person_id=person_id, id=address_id, label=label, target_print=target_print)
    return (
        taken(same_target=row["same_target"])
        if row
        else Conflict("Somebody changed the same at this moment; send it again")
    )


async def _for_update(tx: Tx, address_id: int) -> Any:
    return _found(await SQL.address_for_update.row(tx, id=address_id), address_id)


def _found(row: Any, address_id: int) -> Any:
    if row is None:
        raise NotFound(f"There is no address {address_id}")
    return row
