"""The pages of why: the sentence, then the steps as a line of time."""

from collections.abc import Sequence
from typing import Any, Final

from soonish.ops.actions import items
from soonish.ops.actions.handed import ops_of
from soonish.ops.actions.why import why_delivery
from soonish.ops.actions.why_due import why_due
from soonish.ops.actions.why_person import why_person
from soonish.ops.model.why import TITLES, What, Why
from soonish.ops.routes.why_api import PersonQuery
from soonish.web.auth import Role
from soonish.web.operation import Caller, Database, Reply, Request, get
from soonish.web.pages import page

TONES: Final[dict[What, str]] = {"fired": "info", "held": "warn", "ended": "info"}
RECORD: Final = "/settings/record"


@get("/why/delivery/{delivery_id:int}", role=Role.READ, page=True)
async def delivery_page(request: Request, db: Database, caller: Caller, delivery_id: int) -> Reply:
    """Why a delivery went as it did."""
    why = await why_delivery(db, ops_of(request), caller, delivery_id)
    topic, of = f"delivery/{delivery_id}", (f"Delivery {delivery_id}", f"/deliveries/{delivery_id}")
    return _page(request, caller, why, topic, of)


@get("/why/due/{due_id:int}", role=Role.READ, page=True)
async def due_page(request: Request, db: Database, caller: Caller, due_id: int) -> Reply:
    """Why a due item is where it is."""
    why = await why_due(db, ops_of(request), caller, due_id)
    kept = await items.find_item(db, ops_of(request), caller, due_id)
    return _page(request, caller, why, "due", (f"Item {due_id}", f"/due/{due_id}" if kept else None))


@get("/why/person/{person_id:int}", role=Role.READ, page=True)
async def person_page(request: Request, db: Database, caller: Caller, person_id: int, query: PersonQuery) -> Reply:
    """What a person was told and what not."""
    why = await why_person(
        db,
        ops_of(request),
        caller,
        person_id,
        since=query.since,
        until=query.until,
        cause_prefix=query.cause_prefix,
    )
    of = (f"Person {person_id}", f"/people/{person_id}")
    return _page(request, caller, why, "deliveries", of, cause_prefix=query.cause_prefix, asks=True)


def _page(request: Request, caller: Caller, why: Why, topic: str, of: tuple[str, str | None], **more: Any) -> Reply:
    """`of` is what it is about, and the page of that."""
    words = {"cause_prefix": None, "asks": False} | more
    steps = [_shown(step, caller) for step in why.steps]
    return page(request, "why.html", title="Why", why=why, steps=steps, topic=topic, of=of, **words)


def _shown(step: Any, caller: Caller) -> dict[str, Any]:
    """A step as the line of time shows it; the record is for admins."""
    link = None if step.ref and step.ref.startswith(RECORD) and caller.role < Role.ADMIN else step.ref
    key = f"{step.what} {step.at} {step.text[:40]}"
    return {
        "at": step.at,
        "text": step.text,
        "note": TITLES[step.what],
        "tone": TONES.get(step.what, "quiet"),
        "href": link,
        "key": key,
    }


routes: Sequence[Any] = [delivery_page, due_page, person_page]
