"""Try an address: a message to it alone; and ask its mailbox anew whether it may be written to."""

from typing import Any

from soonish.access.actions.audit import record
from soonish.db.pool import Tx
from soonish.delivery.actions.handed import Delivering
from soonish.delivery.actions.ledger import SQL
from soonish.delivery.actions.people import CONFIRMATION
from soonish.delivery.model.endpoints import Tested
from soonish.delivery.model.letters import Message, Recipient
from soonish.errors import Conflict, NotFound
from soonish.people.actions.confirmation import begin_confirmation
from soonish.people.actions.targets import find_targets
from soonish.web.auth import Caller

TEST = Message(title="Test from Soonish", body="Hello {{name}}, this address works.", hold="never")


async def test_address(tx: Tx, hand: Delivering, caller: Caller, address_id: int) -> Tested:
    """Send a test there, by the same way and guards as all else."""
    row = await _address(tx, address_id)
    if row["health"] == "unverified":
        raise Conflict("Nobody has agreed to mail there yet; verify it first", code="not_verified")
    if not row["active"] or row["health"] == "disabled":
        raise Conflict("This address is off; switch it on, or enable it, and test then")
    cause = f"test/address/{address_id}/{caller.request_id}"
    told = await hand.outbox.tell(tx, cause, TEST, [Recipient(row["person_id"], [{"address_id": address_id}])])
    await record(tx, caller, "test", f"address/{address_id}")
    return Tested(delivery_id=await SQL.delivery_of_message.value(tx, message_id=told.message_id))


async def verify_address(tx: Tx, hand: Delivering, caller: Caller, address_id: int) -> Tested:
    """Send the confirmation mail once more."""
    row = await _address(tx, address_id)
    if row["kind"] != "email" or row["health"] != "unverified":
        raise Conflict("There is nothing to confirm: this address may be used", code="already_verified")
    token_id = await begin_confirmation(tx, address_id)
    mailbox = (await find_targets(tx, hand.vault, caller.workspace_id, [address_id]))[address_id]
    cause = f"confirm/{token_id}"
    told = await hand.outbox.post(tx, cause, mailbox, CONFIRMATION, person_id=row["person_id"])
    await record(tx, caller, "verify", f"address/{address_id}")
    return Tested(delivery_id=await SQL.delivery_of_message.value(tx, message_id=told.message_id))


async def _address(tx: Tx, address_id: int) -> Any:
    row = await SQL.address_to_try.row(tx, id=address_id)
    if row is None:
        raise NotFound(f"There is no address {address_id}")
    return row
