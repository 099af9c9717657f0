"""The owner of a mailbox agrees to be written to: a mail with a link, and a button behind it.

The link is signed and stored nowhere; its row says how long it works, and to which mailbox it went.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from soonish.access.actions.audit import record, system_caller
from soonish.db.pool import Database, Tx
from soonish.errors import NotFound, TooMany
from soonish.people.actions.hooks import People
from soonish.people.actions.people import LIVE
from soonish.people.actions.rows import SQL
from soonish.people.model.address import CONFIRM_DAYS, MAILS_A_DAY
from soonish.vault import Hmac
from soonish.web.sse import ring

PURPOSE: Final = "confirm"
_GONE: Final = "This link is not valid or has expired; ask whoever invited you for another mail"


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody is asked to agree to: which mailbox, for whom; and whether they did so before."""

    hint: str
    workspace: str
    agreed_at: datetime | None


async def begin_confirmation(tx: Tx, address_id: int) -> int:
    """Allow one confirmation mail to an address; answers the id that its link stands for. Three a day and mailbox."""
    address = await SQL.address.row(tx, id=address_id)
    if address is None:
        raise NotFound(f"There is no address {address_id}")
    sent = await SQL.mails_of_today.row(tx, target_print=address["target_print"], most=MAILS_A_DAY)
    if sent["count"] >= MAILS_A_DAY:
        raise TooMany(
            f"{MAILS_A_DAY} mails went to this mailbox in 24 hours; more would be a nuisance", max(1, sent["wait"])
        )
    made: int = await SQL.make_token.value(
        tx,
        workspace_id=address["workspace_id"],
        address_id=address_id,
        target_print=address["target_print"],
        days=CONFIRM_DAYS,
    )
    return made


def confirmation_url(hmac: Hmac, public_url: str, workspace_id: int, token_id: int) -> str:
    """The link of a confirmation mail: the same whenever it is made."""
    return f"{public_url.rstrip('/')}/p/confirm/{hmac.token(PURPOSE, workspace_id, token_id)}"


async def look_at_confirmation(db: Database, people: People, token: str, now: datetime) -> Asked:
    """What a link asks for; looking confirms nothing."""
    workspace_id, token_id = await _read(people, token, now)
    async with db.transaction(workspace_id, readonly=True) as tx:
        return _asked(await _token(tx, token_id))


async def confirm(db: Database, people: People, token: str, now: datetime, request_id: str) -> Asked:
    """Let the address be used; a second time changes nothing."""
    workspace_id, token_id = await _read(people, token, now)
    async with db.transaction(workspace_id) as tx:
        row = await _token(tx, token_id)
        await SQL.use_token.run(tx, id=token_id)
        if await SQL.verify_address.run(tx, id=row["address_id"]):
            caller = replace(system_caller(workspace_id), actor="mail", request_id=request_id)
            await record(tx, caller, "confirm", f"address/{row['address_id']}", {"person_id": row["person_id"]})
            await ring(tx, workspace_id, LIVE)
    return _asked(row)


async def _read(people: People, token: str, now: datetime) -> tuple[int, int]:
    claim = (await people.hmac()).check(PURPOSE, token, now)
    if claim is None:
        raise NotFound(_GONE)
    return claim.workspace_id, int(claim.ids[0])


async def _token(tx: Tx, token_id: int) -> Any:
    row = await SQL.token.row(tx, id=token_id)
    if row is None:
        raise NotFound(_GONE)
    return row


def _asked(row: Any) -> Asked:
    return Asked(row["target_hint"], row["workspace"], row["verified_at"])
