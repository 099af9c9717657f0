"""Where addresses lead: sealed for their row, known again by their print, opened for whoever delivers.

Nothing that is opened here is shown or logged.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from soonish.db.pool import Tx
from soonish.errors import FieldError, Invalid
from soonish.people.actions.hooks import People
from soonish.people.actions.rows import SQL
from soonish.people.model.address import AddressKind, printable
from soonish.vault import Hmac, Vault, hash_token


def seal_target(vault: Vault, workspace_id: int, address_id: int, target: str) -> bytes | None:
    """The target as its row keeps it; the console has none."""
    return vault.seal(target.encode(), _place(workspace_id, address_id)) if target else None


def open_target(vault: Vault, workspace_id: int, address_id: int, sealed: bytes | None) -> str:
    """Where the address leads; Unavailable where its key is away. Empty for the console."""
    return vault.unseal(sealed, _place(workspace_id, address_id)).decode() if sealed is not None else ""


async def find_targets(tx: Tx, vault: Vault, workspace_id: int, address_ids: Sequence[int]) -> dict[int, str]:
    """Where these addresses of the transaction's workspace lead; those that are gone are missing."""
    rows = await SQL.targets.rows(tx, ids=list(address_ids))
    return {row["id"]: open_target(vault, workspace_id, row["id"], row["target"]) for row in rows}


async def print_of(people: People, workspace_id: int, kind: AddressKind, target: str) -> bytes:
    """An HMAC by which one target is known again in its workspace, and that tells nobody what it is."""
    hmac: Hmac = await people.hmac()
    return hash_token(hmac.token("target_print", workspace_id, printable(kind, target)))


async def check_selectors(
    tx: Tx, person_id: int, selectors: Sequence[Mapping[str, Any]] | None, field: str = "selectors"
) -> None:
    """Raise Invalid `foreign_selector` for each address that is not this person's."""
    named = {n: one["address_id"] for n, one in enumerate(selectors or ()) if "address_id" in one}
    if not named:
        return
    rows = await SQL.own_addresses.rows(tx, person_id=person_id, ids=list(named.values()))
    own = {row["id"] for row in rows}
    foreign = [f"{field}.{n}.address_id" for n, address_id in named.items() if address_id not in own]
    if foreign:
        message = "This is no address of that person; name one of theirs, or a tag"
        raise Invalid("", *(FieldError(name, "foreign_selector", message) for name in foreign))


def _place(workspace_id: int, address_id: int) -> tuple[int, str, str, int]:
    """What a target is bound to: copied into another row, it does not open."""
    return workspace_id, "address", "target", address_id
