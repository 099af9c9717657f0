"""The JSON face of endpoints: make, look, change, remove, rotate, enable, test, replay."""

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import field

from soonish.delivery.actions import endpoints, replays
from soonish.delivery.actions.handed import delivery_of
from soonish.delivery.model.endpoints import (
    MOST_OVERLAP,
    MOST_REPLAYED,
    OVERLAP,
    REPLAYABLE,
    Endpoint,
    EndpointMade,
    Kind,
    Replay,
    Replayable,
    Rotated,
    Tested,
)
from soonish.errors import FieldError
from soonish.web.answers import Accepted, Created, Listing
from soonish.web.auth import Role
from soonish.web.fields import UNSET, Body, Instant, Paged, Unset, changes, items, line, number, raw
from soonish.web.operation import Caller, Database, IfMatch, Request, Tx, delete, get, patch, post

Name = Annotated[str, line(60)]
FactTypes = Annotated[list[Annotated[str, line(64)]], items(50, 1)]
Rate = Annotated[int, number(1, 10_000)]
InFlight = Annotated[int, number(1, 1_000)]
Secret = Annotated[str, raw(200)]


class NewEndpoint(Body):
    """An endpoint to be made."""

    name: Name
    kind: Kind
    fact_types: FactTypes
    config: dict[str, Any]
    active: bool = True
    rate_per_second: Rate | None = None
    max_in_flight: InFlight = 100
    secret: Secret | None = None


class EndpointChange(Body):
    """What to change of an endpoint; `***` in a configuration keeps what is stored."""

    name: Name | Unset = UNSET
    fact_types: FactTypes | Unset = UNSET
    config: dict[str, Any] | Unset = UNSET
    active: bool | Unset = UNSET
    rate_per_second: Rate | Unset | None = UNSET
    max_in_flight: InFlight | Unset = UNSET


class Rotation(Body):
    """How to change the secret that signs."""

    overlap_seconds: Annotated[int, number(0, MOST_OVERLAP)] = OVERLAP
    secret: Secret | None = None


class NewReplay(Body):
    """Which deliveries go again: those written in this time that ended in these states."""

    since: Instant
    until: Instant | None = None
    states: Annotated[list[Replayable], items(3, 1)] = field(default_factory=lambda: list(REPLAYABLE))
    limit: Annotated[int, number(1, MOST_REPLAYED)] = MOST_REPLAYED

    def rules(self) -> Iterator[FieldError]:
        if self.until and self.until <= self.since:
            yield FieldError("until", "range", "It ends before it begins")

    def which(self) -> replays.Which:
        return replays.Which(since=self.since, until=self.until, states=self.states, limit=self.limit)


@post("/v1/endpoints", role=Role.ADMIN)
async def make_endpoint(request: Request, tx: Tx, caller: Caller, body: NewEndpoint) -> Created[EndpointMade]:
    """Make an endpoint; the secret that signs for a webhook is shown this once."""
    made = await endpoints.make_endpoint(tx, delivery_of(request), caller, body)
    return Created(made, f"/v1/endpoints/{made.id}")


@get("/v1/endpoints", role=Role.READ)
async def list_endpoints(db: Database, caller: Caller, query: Paged) -> Listing[Endpoint]:
    """List endpoints, newest first."""
    rows = await endpoints.list_endpoints(db, caller, before=query.position(int), limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.id,))


@get("/v1/endpoints/{endpoint_id:int}", role=Role.READ)
async def show_endpoint(db: Database, caller: Caller, endpoint_id: int) -> Endpoint:
    """Show an endpoint."""
    return await endpoints.get_endpoint(db, caller, endpoint_id)


@patch("/v1/endpoints/{endpoint_id:int}", role=Role.ADMIN)
async def change_endpoint(
    request: Request, tx: Tx, caller: Caller, endpoint_id: int, body: EndpointChange, if_match: IfMatch
) -> Endpoint:
    """Change an endpoint; switched off, it hears nothing, and what is pending for it is skipped."""
    return await endpoints.change_endpoint(tx, delivery_of(request), caller, endpoint_id, changes(body), if_match)


@delete("/v1/endpoints/{endpoint_id:int}", role=Role.ADMIN)
async def remove_endpoint(request: Request, tx: Tx, caller: Caller, endpoint_id: int, if_match: IfMatch) -> None:
    """Remove an endpoint; what is pending for it is skipped, what it got stays on record."""
    await endpoints.remove_endpoint(tx, delivery_of(request), caller, endpoint_id, if_match)


@post("/v1/endpoints/{endpoint_id:int}/rotate", role=Role.ADMIN, codes=["too_many_secrets"])
async def rotate_secret(
    request: Request,
    tx: Tx,
    caller: Caller,
    endpoint_id: int,
    body: Rotation = Rotation(),  # noqa: B008
) -> Rotated:
    """Sign with a new secret, shown this once; the one before it signs too until the overlap is over."""
    hand = delivery_of(request)
    return await endpoints.rotate_secret(tx, hand, caller, endpoint_id, body.overlap_seconds, body.secret)


@post("/v1/endpoints/{endpoint_id:int}/enable", role=Role.ADMIN)
async def enable_endpoint(request: Request, tx: Tx, caller: Caller, endpoint_id: int) -> Endpoint:
    """Try an endpoint again as if it had never failed."""
    return await endpoints.enable_endpoint(tx, delivery_of(request), caller, endpoint_id)


@post("/v1/endpoints/{endpoint_id:int}/test", role=Role.WRITE)
async def test_endpoint(request: Request, tx: Tx, caller: Caller, endpoint_id: int) -> Accepted[Tested]:
    """Send the fact `soonish.test` to one endpoint; look at its delivery."""
    return Accepted(await endpoints.test_endpoint(tx, delivery_of(request), caller, endpoint_id))


@post("/v1/endpoints/{endpoint_id:int}/replay", role=Role.WRITE)
async def replay(tx: Tx, caller: Caller, endpoint_id: int, body: NewReplay) -> Accepted[Replay]:
    """Let what an endpoint did not get go again, under the same ids; look at the due item `delivery.replay`."""
    return Accepted(await replays.ask_for_replay(tx, caller, endpoint_id, body.which()))


routes = [
    make_endpoint,
    list_endpoints,
    show_endpoint,
    change_endpoint,
    remove_endpoint,
    rotate_secret,
    enable_endpoint,
    test_endpoint,
    replay,
]
