"""The JSON face of facts: their types, those that were stated, the stream of them, and one's own."""

from typing import Annotated, Any

from soonish.delivery.actions import facts
from soonish.delivery.actions.handed import delivery_of
from soonish.delivery.model.facts import CUSTOM_TYPE, TYPE, TYPE_LENGTH, Fact, FactDetail, FactType, StatedFact
from soonish.web.answers import Accepted, Listing
from soonish.web.auth import Role
from soonish.web.fields import Body, Instant, Paged, Query, items, line
from soonish.web.operation import Caller, Database, Request, Tx, get, post
from soonish.web.sse import Batch, Stream

Subject = Annotated[str, line(200, least=0)]


class FactsQuery(Paged):
    """Which facts."""

    type: Annotated[str, line(TYPE_LENGTH, pattern=rf"^({TYPE}|[a-z][a-z0-9]*\.\*)$")] | None = None
    subject: Annotated[str, line(200)] | None = None
    since: Instant | None = None
    until: Instant | None = None

    def wanted(self) -> facts.Wanted:
        return facts.Wanted(type=self.type, subject=self.subject, since=self.since, until=self.until)


class After(Query):
    """Where the stream begins."""

    after: Annotated[str, line(41)] | None = None


class NewFact(Body):
    """A fact of one's own."""

    type: Annotated[str, line(TYPE_LENGTH, pattern=CUSTOM_TYPE)]
    data: dict[str, Any]
    subject: Subject = ""
    endpoint_ids: Annotated[list[int], items(100, 1)] | None = None


@get("/v1/fact-types", role=Role.READ)
async def list_fact_types(request: Request) -> Listing[FactType]:
    """List the types of facts, each with its schema and an example."""
    return Listing(list(delivery_of(request).types), None)


@get("/v1/facts", role=Role.READ)
async def list_facts(db: Database, caller: Caller, query: FactsQuery) -> Listing[Fact]:
    """List facts, newest first."""
    rows = await facts.list_facts(db, caller, query.wanted(), before=query.position(int), limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.id,))


@get("/v1/facts/stream", role=Role.READ)
async def stream_facts(db: Database, caller: Caller, query: After) -> Stream:
    """Follow facts: those after the cursor, then those to come.

    Each event is one fact: its type, and its envelope as data. Go on with the id of the last event you saw.
    """

    async def fetch(after: str | None, limit: int) -> Batch:
        return await facts.follow(db, caller, after, limit)

    return Stream(facts.TOPIC, fetch, query.after)


@get("/v1/facts/{fact_id:int}", role=Role.READ)
async def show_fact(db: Database, caller: Caller, fact_id: int) -> FactDetail:
    """Show a fact, the envelope that carries it, and what became of its deliveries."""
    return await facts.get_fact(db, caller, fact_id)


@post("/v1/facts", role=Role.WRITE)
async def state_fact(request: Request, tx: Tx, caller: Caller, body: NewFact) -> Accepted[StatedFact]:
    """State a fact of your own; it goes to the endpoints that hear its type, or to those you name."""
    hand = delivery_of(request)
    stated = await facts.state_custom(tx, hand, caller, body.type, body.subject, body.data, body.endpoint_ids)
    return Accepted(stated)


routes = [list_fact_types, list_facts, stream_facts, show_fact, state_fact]
