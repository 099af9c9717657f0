"""What is made once in the life of an installation, however many processes start at the same moment."""

import secrets
from collections.abc import Callable

from soonish.access.actions.audit import SQL, record, system_caller
from soonish.access.actions.keys import make_key
from soonish.access.actions.sign_ins import make_login_link
from soonish.access.model import OPERATOR_WORKSPACE
from soonish.db.pool import Database
from soonish.vault import Vault

_HMAC_PLACE = (0, "installation", "hmac_key", 1)


async def first_start(db: Database, keep: Callable[[str], None] = lambda _key: None) -> str | None:
    """Make workspace 1 and its admin key, and answer the key: the one time that it is known. Later starts get None.

    `keep(key)` is called before it counts, so that a crash leaves no key that nobody knows.
    """
    caller = system_caller()
    async with db.transaction(OPERATOR_WORKSPACE) as tx:
        await SQL.lock_first_start.value(tx)
        if (await SQL.installation.row(tx))["made_first_key"]:
            return None
        await SQL.make_first_workspace.run(tx)
        await record(tx, caller, "make", f"workspace/{OPERATOR_WORKSPACE}")
        made = await make_key(tx, caller, "First key", "admin")
        await SQL.note_first_key.run(tx)
        keep(made.key)
    return made.key


async def first_link(db: Database, public_url: str) -> str:
    """A fresh link that signs in as the operator: for whoever may run commands on this server."""
    async with db.transaction(OPERATOR_WORKSPACE) as tx:
        return (await make_login_link(tx, system_caller(), public_url, "admin")).url


async def hmac_key(db: Database, vault: Vault) -> bytes:
    """The installation's own key for links that are signed, not stored: made once, so that they outlive other keys."""
    async with db.transaction(0) as tx:
        await SQL.lock_first_start.value(tx)
        sealed = (await SQL.installation.row(tx))["hmac_key"]
        if sealed is not None:
            return vault.unseal(sealed, _HMAC_PLACE)
        key = secrets.token_bytes(32)
        await SQL.keep_hmac_key.run(tx, sealed=vault.seal(key, _HMAC_PLACE))
    return key
