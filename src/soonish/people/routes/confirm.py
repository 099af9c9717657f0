"""The public page behind the link of a confirmation mail."""

from collections.abc import Sequence
from typing import Any

from soonish.clock import utc_now
from soonish.people.actions import confirmation
from soonish.people.actions.hooks import people_of
from soonish.web.operation import Database, Reply, Request, get, post
from soonish.web.pages import page


@get("/p/confirm/{token:str}", role=None, page=True)
async def confirm_page(request: Request, db: Database, token: str) -> Reply:
    """Ask whether to agree; looking agrees to nothing."""
    asked = await confirmation.look_at_confirmation(db, people_of(request), token, utc_now())
    return page(request, "confirm.html", title="Your mail address", asked=asked, agreed=asked.agreed_at is not None)


@post("/p/confirm/{token:str}", role=None, page=True)
async def confirm(request: Request, db: Database, token: str) -> Reply:
    """Let the mailbox be written to."""
    request_id = request.scope["state"]["request_id"]
    asked = await confirmation.confirm(db, people_of(request), token, utc_now(), request_id)
    return page(request, "confirm.html", title="Your mail address", asked=asked, agreed=True)


routes: Sequence[Any] = [confirm_page, confirm]
