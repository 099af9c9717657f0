"""The pages of operations: Now, what is due, what died, what happened, what is paused, and one item."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, get_args

from soonish.errors import NotFound
from soonish.ops.actions import items, pauses, state
from soonish.ops.actions.handed import Ops, ops_of
from soonish.ops.model.health import MOST_COUNTED, Trouble
from soonish.ops.model.items import LANES, EndFate, LiveState, is_system
from soonish.ops.model.pages import FATE_TONES, STATE_TONES, ahead, behind, in_words, url
from soonish.ops.routes.api import DueQuery, Id, Kind, KindOrAll, PastQuery, due_listing, past_listing
from soonish.web.auth import Role
from soonish.web.fields import OWN_PAGE, Form, Paged, Query, line
from soonish.web.operation import Caller, Database, Reply, Request, Tx, get, post
from soonish.web.pages import Health, page, see_other

NEXT: Final = 12
HAPPENED: Final = 15
FRESH: Final = 2.0  # seconds for which the dot of pages that do not look for themselves is kept
MOST_DOTS: Final = 1_000


class DeadQuery(Paged):
    """The filters of the page of dead items."""

    kind: Kind | None = None
    system: bool | None = None


class PausesQuery(Query):
    """The kind that one came to pause."""

    kind: KindOrAll | None = None


class Step(Form):
    """An act on one item, and the page to go back to."""

    back: OWN_PAGE = "/due"
    force: bool = False


class RetryForm(Form):
    """One dead item, or all of a kind."""

    due_id: Id | None = None
    kind: Kind | None = None
    system: bool | None = None
    back: OWN_PAGE = "/due/dead"


class PauseForm(Form):
    """A kind that shall stand still."""

    kind: KindOrAll
    reason: Annotated[str, line(200)] | None = None
    everywhere: bool = False


class ResumeForm(Form):
    """A kind that shall go on."""

    kind: KindOrAll
    everywhere: bool = False


@get("/", role=Role.READ, page=True)
async def now_page(request: Request, db: Database, caller: Caller) -> Reply:
    """What comes next, and what just happened."""
    ops, where = ops_of(request), items.places(caller)
    own = await items.list_due(db, ops, (caller.workspace_id,), items.Live(), limit=1)
    return await _page(
        request,
        db,
        caller,
        "now.html",
        title="Now",
        coming=await items.list_due(db, ops, where, items.Live(), limit=NEXT),
        happened=await items.list_past(db, ops, where, items.Ended(), limit=HAPPENED),
        steps=() if own else ops.first_steps(caller),
    )


@get("/due", role=Role.READ, page=True)
async def due_page(request: Request, db: Database, caller: Caller, query: DueQuery) -> Reply:
    """What will happen, soonest first."""
    listing = await due_listing(ops_of(request), db, caller, query)
    more = _filters(query) | {"states": _options(get_args(LiveState)), "lanes": _options(LANES)}
    return await _page(request, db, caller, "due.html", title="Due", tab="due", listing=listing, **more)


@get("/due/dead", role=Role.READ, page=True)
async def dead_page(request: Request, db: Database, caller: Caller, query: DeadQuery) -> Reply:
    """What died, and why."""
    where, after = items.places(caller, query.system), query.position(datetime, int)
    rows = await items.list_dead(db, ops_of(request), where, query.kind, after=after, limit=query.limit + 1)
    listing = query.listing(rows, lambda item: (item.finished_at, item.id))
    kinds = await items.dead_kinds(db, where)
    more = _filters(query) | {"dead_kinds": kinds, "many": sum(count for _, count in kinds) > MOST_COUNTED}
    return await _page(request, db, caller, "due_dead.html", title="Due", tab="dead", listing=listing, **more)


@get("/due/past", role=Role.READ, page=True)
async def past_page(request: Request, db: Database, caller: Caller, query: PastQuery) -> Reply:
    """What happened, newest first."""
    listing = await past_listing(ops_of(request), db, caller, query)
    more = _filters(query) | {"fates": _options(get_args(EndFate))}
    return await _page(request, db, caller, "due_past.html", title="Due", tab="past", listing=listing, **more)


@get("/due/pauses", role=Role.READ, page=True)
async def pauses_page(request: Request, db: Database, caller: Caller, query: PausesQuery) -> Reply:
    """What is paused."""
    return await _page(request, db, caller, "due_pauses.html", title="Due", tab="pauses", wanted=query.kind)


@get("/due/{due_id:int}", role=Role.READ, page=True)
async def item_page(request: Request, db: Database, caller: Caller, due_id: int) -> Reply:
    """One item: how it stands, and what can be done about it."""
    item = await items.find_item(db, ops_of(request), caller, due_id)
    if item is None:
        raise NotFound(f"There is no item {due_id} here; what ended well is under Due, in the past")
    more: dict[str, Any] = {"item": item, "ahead": ahead(item), "behind": behind(item)}
    return await _page(request, db, caller, "due_item.html", title=item.label, **more)


@get("/settings/health", role=Role.ADMIN, page=True)
async def health_page(request: Request, db: Database, caller: Caller) -> Reply:
    """How all is going: for people what programs find at /v1/ops/health."""
    seen = await state.get_state(db, ops_of(request), caller)
    told = await state.tell(db, ops_of(request), caller, seen)
    return await _page(request, db, caller, "health.html", seen, title="Health", told=told, lanes=LANES)


@post("/due/{due_id:int}/now", role=Role.WRITE, page=True, again=item_page)
async def now(request: Request, tx: Tx, caller: Caller, due_id: int, form: Step) -> Reply:
    """Look at it now."""
    item = await items.pull_forward(tx, ops_of(request), caller, due_id)
    return see_other(request, form.back, f"{item.label}: it happens now.")


@post("/due/{due_id:int}/cancel", role=Role.WRITE, page=True, again=item_page)
async def cancel(request: Request, tx: Tx, caller: Caller, due_id: int, form: Step) -> Reply:
    """Let it not happen."""
    item = await items.cancel(tx, ops_of(request), caller, due_id, force=form.force)
    return see_other(request, form.back, f"{item.label}: cancelled, it will not happen.")


@post("/due/dead/retry", role=Role.WRITE, page=True, again=dead_page)
async def retry(request: Request, tx: Tx, caller: Caller, form: RetryForm) -> Reply:
    """Let dead items live again."""
    ids = None if form.due_id is None else [form.due_id]
    done = await items.retry(
        tx, ops_of(request), caller, ids=ids, kind=None if ids else form.kind or "", system=form.system
    )
    return see_other(request, form.back, retried(done.revived, done.superseded))


@post("/due/pauses", role=Role.ADMIN, page=True, again=pauses_page)
async def pause(request: Request, tx: Tx, caller: Caller, form: PauseForm) -> Reply:
    """Let a kind stand still."""
    await pauses.pause(tx, caller, form.kind, form.reason, everywhere=form.everywhere)
    what = "Everything" if form.kind == "*" else form.kind
    return see_other(request, "/due/pauses", f"{what} is paused: what runs ends, nothing new begins until you resume.")


@post("/due/pauses/resume", role=Role.ADMIN, page=True, again=pauses_page)
async def resume(request: Request, tx: Tx, caller: Caller, form: ResumeForm) -> Reply:
    """Let a kind go on."""
    await pauses.resume(tx, caller, form.kind, everywhere=form.everywhere)
    what = "Everything" if form.kind == "*" else form.kind
    return see_other(request, "/due/pauses", f"{what} goes on: what became due meanwhile happens now.")


def retried(revived: int, superseded: int) -> str:
    """What a retry did, and what will happen next."""
    if not revived and not superseded:
        return "Nothing was dead there any more."
    words = [f"{revived:,} {'item lives' if revived == 1 else 'items live'} again, due now."]
    words += [f"{superseded:,} stay, for the same lives already."] if superseded else []
    more = "There may be more: press again, for no more are taken at once."
    return " ".join([*words, more] if revived + superseded >= MOST_COUNTED else words)


class Dots:
    """How the whole is, in a few words, for each page; one that does not look for itself shows what was seen lately."""

    def __init__(self, db: Database, ops: Ops) -> None:
        self._db = db
        self._ops = ops
        self._seen: dict[tuple[int, bool], tuple[float, Health]] = {}

    async def look(self, caller: Caller) -> Health:
        key = (caller.workspace_id, caller.role >= Role.OPERATOR)
        until, dot = self._seen.get(key, (0.0, None))
        if dot is None or time.monotonic() > until:
            dot = _dot((await state.get_state(self._db, self._ops, caller)).troubles)
            if len(self._seen) >= MOST_DOTS:
                self._seen.clear()
            self._seen[key] = (time.monotonic() + FRESH, dot)
        return dot


async def _page(
    request: Request, db: Database, caller: Caller, template: str, seen: state.State | None = None, **context: Any
) -> Reply:
    """A page with the troubles of the moment, and the dot that sums them up."""
    ops = ops_of(request)
    found = seen or await state.get_state(db, ops, caller)
    words: dict[str, Any] = {
        "kinds": sorted(ops.kinds),
        "state_tones": STATE_TONES,
        "fate_tones": FATE_TONES,
        "in_words": in_words,
        "is_system": is_system,
    }
    return page(request, template, state=found, health=_dot(found.troubles), **words, **context)


def _dot(found: Sequence[Trouble]) -> Health:
    """The worst trouble in a few words: with the reason where something waits, with the remedy where it is bad."""
    if not found:
        return Health("ok", "All well")
    worst = found[0]
    words = worst.text if worst.tone == "warn" else f"{worst.text} {worst.remedy}"
    return Health(worst.tone, words, worst.link or "/")


def _filters(query: DueQuery | DeadQuery | PastQuery) -> dict[str, Any]:
    """What is chosen, and ways to make the address of the page: with another choice, and as it is."""
    names = [name for name in query.__struct_fields__ if name not in ("after", "limit")]
    chosen: dict[str, Any] = {name: getattr(query, name) for name in names}
    paths = {DueQuery: "/due", DeadQuery: "/due/dead", PastQuery: "/due/past"}
    return {
        "chosen": chosen,
        "filtered": any(value is not None for value in chosen.values()),
        "url": lambda path, **more: url(path, chosen | more),
        "back": url(paths[type(query)], chosen | {"after": query.after}),
    }


def _options(values: Sequence[str]) -> list[tuple[str, str]]:
    return [(value, value) for value in values]


routes: Sequence[Any] = [
    now_page, due_page, dead_page, past_page, pauses_page, item_page, health_page, now, cancel, retry, pause, resume,
]  # fmt: skip
