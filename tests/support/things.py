"""A small slice for tests: things, with one operation for each rule of HTTP that no operation of the product shows.

A thing is a row with a version; the list of things is also a stream. Real rows, real transactions, one table.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import date, time
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Struct, field

from soonish.access.actions.callers import Callers
from soonish.access.actions.idempotency import Idempotency
from soonish.db.listen import Listener
from soonish.db.pool import Database
from soonish.errors import BadRequest, Conflict, FieldError, NotFound
from soonish.vault import Vault, make_key
from soonish.web.answers import Accepted, Created, Listing, Ok
from soonish.web.auth import Role
from soonish.web.fields import LOCALE, UNSET, ZONE, Body, Form, Instant, Paged, Query, Unset, changes, line, lines, raw
from soonish.web.fields import items as many
from soonish.web.fields import number as span
from soonish.web.hub import Heads
from soonish.web.operation import Caller, IfMatch, Reply, Request, Tx, delete, get, patch, post, put
from soonish.web.operation import Database as Db
from soonish.web.pages import page, see_other
from soonish.web.server import Parts, create
from soonish.web.sse import Batch, Event, Stream, ring
from tests.support.http import listening
from tests.support.site import Site, houses, settings_of

TABLE = """
CREATE TABLE thing (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workspace_id bigint NOT NULL,
  name text NOT NULL, note text, version int NOT NULL DEFAULT 1, xid xid8 NOT NULL DEFAULT pg_current_xact_id());
ALTER TABLE thing ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY workspace ON thing USING (workspace_id = (SELECT current_workspace()));
GRANT SELECT, INSERT, UPDATE, DELETE ON thing TO soonish_app;
"""
RETAINED = 3  # a cursor of an older transaction than this one is of rows that are no longer kept
Name = Annotated[str, line(20)]


class Thing(Struct, frozen=True, kw_only=True):
    """A thing."""

    id: int
    name: str
    note: str | None
    version: int


class Size(Body):
    """How big."""

    width: Annotated[int, span(1, 10)]
    height: Annotated[float, span(0, 10)] = 1.0


class NewThing(Body):
    """A thing to be made: a field of each kind."""

    name: Name
    note: Annotated[str, lines(100)] | None = None
    slug: Annotated[str, line(20, pattern="^[a-z]+$")] | None = None
    level: Literal["low", "high"] = "low"
    at: Instant | None = None
    until: Instant | None = None
    timezone: ZONE = "UTC"
    locale: LOCALE = "en"
    day: date | None = None
    hour: time | None = None
    ref: UUID | None = None
    active: bool = True
    size: Size | None = None
    tags: Annotated[list[Annotated[str, line(5)]], many(3)] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)

    def rules(self) -> Iterator[FieldError]:
        if self.at and self.until and self.until <= self.at:
            yield FieldError("until", "range", "It ends before it begins")


class Change(Body):
    """What to change of a thing; a note that is null goes."""

    name: Name | Unset = UNSET
    note: Annotated[str, lines(100)] | Unset | None = UNSET


class Several(Body):
    """Things to be made together."""

    things: Annotated[list[NewThing], many(3, 1)]


class Found(Paged):
    """Which things."""

    name: Name | None = None
    ids: list[int] = field(default_factory=list)
    since: Instant | None = None


class After(Query):
    """Where a stream begins."""

    after: Annotated[str, line(40)] | None = None


class ThingForm(Form):
    """A thing, as a page sends it."""

    name: Name
    note: Annotated[str, lines(100)] | None = None
    secret: Annotated[str, raw(20)] | None = None
    active: bool = False
    tags: list[Name] = field(default_factory=list)


async def insert(tx: Tx, workspace_id: int, name: str, note: str | None = None) -> Thing:
    """Make a thing, and tell the followers when it commits."""
    row = await tx.fetchrow(
        "INSERT INTO thing (workspace_id, name, note) VALUES ($1, $2, $3) RETURNING id, name, note, version",
        workspace_id,
        name,
        note,
    )
    await ring(tx, workspace_id, "things")
    return Thing(**row)


async def _get(tx: Tx, thing_id: int, lock: str = "") -> Thing:
    row = await tx.fetchrow(f"SELECT id, name, note, version FROM thing WHERE id = $1 {lock}", thing_id)
    if row is None:
        raise NotFound(f"There is no thing {thing_id}")
    return Thing(**row)


@post("/v1/things", role=Role.WRITE, codes=["name_taken"])
async def make(tx: Tx, caller: Caller, body: NewThing) -> Created[Thing]:
    """Make a thing; the name `taken` is taken, and `slow` waits until somebody opens the gate."""
    if body.name == "taken":
        raise Conflict("That name is taken; take another", code="name_taken")
    if body.name == "broken":
        raise ZeroDivisionError("secret of the inside")
    made = await insert(tx, caller.workspace_id, body.name, body.note)
    if body.name == "slow":
        await tx.execute("SELECT pg_advisory_xact_lock(4711)")
    return Created(made, f"/v1/things/{made.id}")


@post("/v1/things/batch", role=Role.WRITE)
async def make_several(tx: Tx, caller: Caller, body: Several) -> Listing[Thing]:
    """Make some things."""
    return Listing([await insert(tx, caller.workspace_id, one.name) for one in body.things], None)


@get("/v1/things", role=Role.READ)
async def list_things(db: Db, caller: Caller, query: Found) -> Listing[Thing]:
    """List things, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        rows = await tx.fetch(
            """SELECT id, name, note, version FROM thing WHERE id < coalesce($1, 9223372036854775807)
               AND ($2::text IS NULL OR name = $2) ORDER BY id DESC LIMIT $3""",
            query.position(int),
            query.name,
            query.limit + 1,
        )
    return query.listing([Thing(**row) for row in rows], lambda thing: (thing.id,))


@get("/v1/things/{thing_id:int}", role=Role.READ)
async def show(db: Db, caller: Caller, thing_id: int) -> Thing:
    """Show a thing."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return await _get(tx, thing_id)


@patch("/v1/things/{thing_id:int}", role=Role.WRITE)
async def change(tx: Tx, caller: Caller, thing_id: int, body: Change, if_match: IfMatch) -> Thing:
    """Change a thing."""
    del caller
    before = await _get(tx, thing_id, "FOR UPDATE")
    if_match.check(before.version)
    if body.name == "taken":
        raise Conflict("That name is taken; take another", code="name_taken")
    wanted = {name: value for name, value in changes(body).items() if getattr(before, name) != value}
    if not wanted:
        return before
    row = await tx.fetchrow(
        """UPDATE thing SET name = $2, note = $3, version = version + 1 WHERE id = $1
           RETURNING id, name, note, version""",
        thing_id,
        wanted.get("name", before.name),
        wanted.get("note", before.note),
    )
    return Thing(**row)


@delete("/v1/things/{thing_id:int}", role=Role.WRITE)
async def remove(tx: Tx, caller: Caller, thing_id: int, if_match: IfMatch) -> None:
    """Remove a thing."""
    del caller
    if_match.check((await _get(tx, thing_id, "FOR UPDATE")).version)
    await tx.execute("DELETE FROM thing WHERE id = $1", thing_id)


@put("/v1/things/named/{name:str}", role=Role.WRITE, statuses=(200, 201))
async def upsert(tx: Tx, caller: Caller, name: str) -> Ok[Thing]:
    """Make the thing of a name, or answer the one there is."""
    if row := await tx.fetchrow("SELECT id, name, note, version FROM thing WHERE name = $1", name):
        return Ok(Thing(**row))
    made = await insert(tx, caller.workspace_id, name)
    return Ok(made, 201, {"Location": f"/v1/things/{made.id}"})


@post("/v1/things/{thing_id:int}/poke", role=Role.WRITE)
async def poke(tx: Tx, caller: Caller, thing_id: int) -> Accepted[Thing]:
    """Poke a thing: it happens now."""
    del caller
    return Accepted(await _get(tx, thing_id))


@get("/v1/things/stream", role=Role.READ)
async def stream(db: Db, caller: Caller, query: After) -> Stream:
    """Follow things: those that are there after the cursor, then those to come."""

    async def fetch(after: str | None, limit: int) -> Batch:
        return await fetch_things(db, caller.workspace_id, after, limit)

    return Stream("things", fetch, query.after)


async def fetch_things(db: Database, workspace_id: int, after: str | None, limit: int) -> Batch:
    """Rows in the order of their transactions; none of one that an older one may still precede."""
    xid, row_id = _position(after)
    async with db.transaction(workspace_id, readonly=True) as tx:
        oldest = await tx.fetchval("SELECT min(xid)::text FROM thing")
        rows = await tx.fetch(
            """SELECT id, xid::text AS xid, name, note, xid < pg_snapshot_xmin(pg_current_snapshot()) AS settled
               FROM thing t WHERE (t.xid, t.id) > ($1::text::xid8, $2) ORDER BY t.xid, t.id LIMIT $3""",
            xid,
            row_id,
            limit,
        )
    settled = [row for row in rows if row["settled"]]
    reset = bool(after and oldest and int(xid) < RETAINED < int(oldest))
    events = [Event(f"{row['xid']}-{row['id']}", "thing", {"id": row["id"], "name": row["name"]}) for row in settled]
    return Batch(events, held=len(settled) < len(rows), reset=reset)


def _position(cursor: str | None) -> tuple[str, int]:
    xid, _, row_id = (cursor or "0-0").partition("-")
    if not (xid.isdecimal() and row_id.isdecimal() and len(xid) < 19 and len(row_id) < 19):
        raise BadRequest("This cursor was not made by this stream", code="bad_cursor")
    return xid, int(row_id)


@get("/things", role=Role.READ, page=True)
async def things_page(request: Request, caller: Caller) -> Reply:
    """The form."""
    del caller
    filled = request.scope["state"].get("filled")
    told = {"typed": filled.typed("name"), "wrong": filled.wrong("name")} if filled else {}
    return page(request, "things.html", title="Things", told=told)


@post("/things", role=Role.WRITE, page=True, again=things_page)
async def make_by_form(request: Request, tx: Tx, caller: Caller, form: ThingForm) -> Reply:
    """Make a thing."""
    if form.name == "taken":
        raise Conflict("That name is taken; take another", code="name_taken")
    made = await insert(tx, caller.workspace_id, form.name, form.note)
    return see_other(request, f"/things?made={made.id}", "Made.")


@get("/p/thing/{token:str}", role=None, page=True)
async def public_page(request: Request, token: str) -> Reply:
    """A page that anybody may open who has the link."""
    _check(token)
    return page(request, "things.html", title="Thing", told={})


@post("/p/thing/{token:str}", role=None, page=True)
async def act(request: Request, token: str) -> Reply:
    """What the button of that page does."""
    _check(token)
    return see_other(request, "/")


def _check(token: str) -> None:
    if token != "good":
        raise NotFound("This link is not valid")


routes: Sequence[Any] = [
    make, make_several, list_things, show, change, remove, upsert, poke, stream, things_page, make_by_form,
    public_page, act,
]  # fmt: skip


@asynccontextmanager
async def things(
    database_url: str,
    folder: Path,
    *,
    heads: Heads | None = None,
    clock: Callable[[], float] = monotonic,
    **settings: str,
) -> AsyncIterator[Site]:
    """An application of these operations, with the callers, answers and rings of the product."""
    (templates := folder / "templates").mkdir(exist_ok=True)
    (templates / "things.html").write_text('{% extends "base.html" %}{% block main %}{{ told }}{% endblock %}')
    async with AsyncExitStack() as stack:
        db = await Database.open(database_url)
        stack.push_async_callback(db.close, 0.5)
        await _make_table(db)
        listener, callers = Listener(db.connect), Callers(db, clock=clock)
        app = create(
            Parts(
                settings=settings_of(database_url, folder, **settings),
                db=db,
                idempotency=Idempotency(Vault.from_setting(make_key())),
                routes=routes,
                templates=[templates],
                listener=listener,
                find_caller=callers.find,
                find_ended=callers.ended,
                heads=heads,
            )
        )
        await stack.enter_async_context(listener)
        anyone = await stack.enter_async_context(listening(app))
        main, acme = await houses(db, anyone)
        yield Site(app, db, anyone, main, acme)


async def _make_table(db: Database) -> None:
    con = await db.connect()
    try:
        if not await con.fetchval("SELECT to_regclass('thing')"):
            await con.execute(TABLE)
    finally:
        await con.close()


async def until(condition: Any, within: float = 30.0) -> None:
    """Look until it holds."""
    async with asyncio.timeout(within):
        while True:
            found = condition()
            if await found if hasattr(found, "__await__") else found:
                return
            await asyncio.sleep(0.01)
