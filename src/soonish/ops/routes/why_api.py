"""The JSON face of why: of a delivery, of a due item, of a person."""

from typing import Annotated

from soonish.ops.actions.handed import ops_of
from soonish.ops.actions.why import why_delivery
from soonish.ops.actions.why_due import why_due
from soonish.ops.actions.why_person import why_person
from soonish.ops.model.why import Why
from soonish.web.auth import Role
from soonish.web.fields import Instant, Query, line
from soonish.web.operation import Caller, Database, Request, get


class PersonQuery(Query):
    """The window, and of what; `since` and `until` are about when deliveries were written."""

    since: Instant | None = None
    until: Instant | None = None
    cause_prefix: Annotated[str, line(200)] | None = None


@get("/v1/why/delivery/{delivery_id:int}", role=Role.READ)
async def why_of_delivery(request: Request, db: Database, caller: Caller, delivery_id: int) -> Why:
    """Tell why a delivery went as it did, step by step."""
    return await why_delivery(db, ops_of(request), caller, delivery_id)


@get("/v1/why/due/{due_id:int}", role=Role.READ)
async def why_of_due(request: Request, db: Database, caller: Caller, due_id: int) -> Why:
    """Tell why a due item is where it is, or how it ended; done ones are found by their id for a week."""
    return await why_due(db, ops_of(request), caller, due_id)


@get("/v1/why/person/{person_id:int}", role=Role.READ)
async def why_of_person(request: Request, db: Database, caller: Caller, person_id: int, query: PersonQuery) -> Why:
    """Tell what a person was told and what not, and why; the newest 200 deliveries of the window."""
    return await why_person(
        db,
        ops_of(request),
        caller,
        person_id,
        since=query.since,
        until=query.until,
        cause_prefix=query.cause_prefix,
    )


routes = [why_of_delivery, why_of_due, why_of_person]
