"""Trying an address: a test message, and the mail that asks once more; as JSON, and for the buttons of a page."""

from typing import Any

from soonish.delivery.actions import trials
from soonish.delivery.actions.handed import delivery_of
from soonish.delivery.model.endpoints import Tested
from soonish.web.answers import Accepted
from soonish.web.auth import Role
from soonish.web.fields import OWN_PAGE, Form
from soonish.web.operation import Caller, Reply, Request, Tx, post
from soonish.web.pages import see_other


class BackForm(Form):
    """The page to go back to."""

    back: OWN_PAGE = "/people"


@post("/v1/addresses/{address_id:int}/test", role=Role.WRITE, codes=["not_verified"])
async def test_address(request: Request, tx: Tx, caller: Caller, address_id: int) -> Accepted[Tested]:
    """Send a test message to this address alone; its delivery tells what became of it."""
    return Accepted(await trials.test_address(tx, delivery_of(request), caller, address_id))


@post("/v1/addresses/{address_id:int}/verify", role=Role.WRITE, codes=["already_verified"], refuses=(429,))
async def verify_address(request: Request, tx: Tx, caller: Caller, address_id: int) -> Accepted[Tested]:
    """Send the confirmation mail once more, three times a day at most."""
    return Accepted(await trials.verify_address(tx, delivery_of(request), caller, address_id))


@post("/addresses/{address_id:int}/test", role=Role.WRITE, page=True)
async def try_address(request: Request, tx: Tx, caller: Caller, address_id: int, form: BackForm) -> Reply:
    """Send a test, and show what becomes of it."""
    del form
    made = await trials.test_address(tx, delivery_of(request), caller, address_id)
    return see_other(request, f"/deliveries/{made.delivery_id}", toast="The test is on its way.")


@post("/addresses/{address_id:int}/verify", role=Role.WRITE, page=True)
async def ask_again(request: Request, tx: Tx, caller: Caller, address_id: int, form: BackForm) -> Reply:
    """Send the mail that asks, once more."""
    await trials.verify_address(tx, delivery_of(request), caller, address_id)
    return see_other(request, form.back, toast="A mail asks once more; its link works for 7 days.")


routes: list[Any] = [test_address, verify_address, try_address, ask_again]
