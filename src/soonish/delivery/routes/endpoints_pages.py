"""The pages of endpoints: the list, a new one, one with its last answers, its secrets, and what it missed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, cast, get_args

from msgspec import field

from soonish.clock import utc_now
from soonish.delivery.actions import answers, endpoints, replays
from soonish.delivery.actions.handed import delivery_of
from soonish.delivery.model.endpoints import HIDDEN, OVERLAP, REPLAYABLE, TONES, Config, Kind, condition, place, trouble
from soonish.delivery.routes.endpoints_api import InFlight, Name, NewEndpoint, Rate
from soonish.errors import FieldError, Invalid, NotFound
from soonish.web.auth import Role
from soonish.web.fields import Form, Instant, Paged, Query, line, lines, number, raw
from soonish.web.operation import Caller, Database, IfMatch, Reply, Request, Tx, get, post
from soonish.web.pages import page, see_other

KINDS: Final[Mapping[str, str]] = {"webhook": "Webhook", "amqp": "RabbitMQ", "sqs": "Amazon SQS"}
HOURS: Final = {1: "the last hour", 24: "the last 24 hours", 168: "the last 7 days", 720: "the last 30 days"}
OVERLAPS: Final = {OVERLAP: "a day", 3600: "an hour", 604_800: "7 days", 0: "not at all"}
WORDS: Final[Mapping[str, Any]] = {
    "kinds": KINDS, "tones": TONES, "condition": condition, "place": place, "trouble": trouble,
}  # fmt: skip
_LISTS: Final = ("config.headers", "fact_types")  # fields of a form with a line for each item

Url = Annotated[str, line(2_000)]
Word = Annotated[str, line(200)]


class EndpointForm(Form, kw_only=True):
    """An endpoint as its form sends it: the fields of its kind are filled, lists have a line for each item."""

    name: Name
    fact_types: Annotated[str, lines(4_000)]
    url: Url | None = field(default=None, name="config.url")
    headers: Annotated[str, lines(8_000)] | None = field(default=None, name="config.headers")
    exchange: Word | None = field(default=None, name="config.exchange")
    unroutable: Literal["retry", "accept"] | None = field(default=None, name="config.unroutable")
    queue_url: Url | None = field(default=None, name="config.queue_url")
    region: Word | None = field(default=None, name="config.region")
    access_key_id: Word | None = field(default=None, name="config.access_key_id")
    secret_access_key: Annotated[str, raw(200)] | None = field(default=None, name="config.secret_access_key")
    endpoint_url: Url | None = field(default=None, name="config.endpoint_url")
    rate_per_second: Rate | None = None
    max_in_flight: InFlight = 100

    def heard(self) -> list[str]:
        return self.fact_types.split()

    def config(self, kind: Kind) -> Config:
        """What its kind asks for; what was left empty is left out."""
        names = {
            "webhook": ("url",),
            "amqp": ("url", "exchange", "unroutable"),
            "sqs": ("queue_url", "region", "access_key_id", "secret_access_key", "endpoint_url"),
        }
        found = {name: value for name in names[kind] if (value := getattr(self, name)) is not None}
        return found | ({"headers": _headers(self.headers or "")} if kind == "webhook" else {})


class ChangeForm(EndpointForm, kw_only=True):
    """The same for one that exists: whether it is on, and the version that was seen."""

    active: bool = False
    version: Annotated[int, number(1)]


class RotateForm(Form):
    """For how long the older secret signs on."""

    overlap_seconds: Annotated[int, number(0)] = OVERLAP


class ReplayQuery(Query):
    """What the form of a replay begins with."""

    hours: Annotated[int, number(1, 8760)] = 24


class ReplayForm(Form):
    """From when on what was missed goes again."""

    since: Instant
    until: Instant


def _headers(text: str) -> dict[str, str]:
    pairs = (one.partition(":") for one in text.splitlines() if one.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


@contextmanager
def _on_form() -> Iterator[None]:
    """What is wrong with one item of a list is said at the field that has the whole list."""
    try:
        yield
    except Invalid as error:
        raise Invalid("", *map(_at_field, error.errors)) from error


def _at_field(error: FieldError) -> FieldError:
    for name in _LISTS:
        if error.field.startswith(f"{name}."):
            item = error.field.removeprefix(f"{name}.")
            said = f"line {int(item) + 1}: {error.message}" if item.isdecimal() else f"{item}: {error.message}"
            return FieldError(name, error.code, said)
    return error


@get("/endpoints", role=Role.READ, page=True)
async def endpoints_page(request: Request, db: Database, caller: Caller, query: Paged) -> Reply:
    """Who hears facts."""
    rows = await endpoints.list_endpoints(db, caller, before=query.position(int), limit=query.limit + 1)
    listing = query.listing(rows, lambda row: (row.id,))
    return page(request, "endpoints.html", title="Endpoints", tab="endpoints", listing=listing, **WORDS)


@get("/endpoints/new/{kind:str}", role=Role.ADMIN, page=True)
async def new_page(request: Request, caller: Caller, kind: str) -> Reply:
    """A new one of this kind."""
    del caller
    types = list(delivery_of(request).types)
    return page(
        request, "endpoint_new.html", title="New endpoint", kind=_kind(kind), types=types, example=types[0], **WORDS
    )


@post("/endpoints/new/{kind:str}", role=Role.ADMIN, page=True, again=new_page)
async def make(request: Request, tx: Tx, caller: Caller, kind: str, form: EndpointForm) -> Reply:
    """Make it, and show the secret that signs, this once."""
    of = _kind(kind)
    new = NewEndpoint(
        name=form.name, kind=of, fact_types=form.heard(), config=form.config(of), rate_per_second=form.rate_per_second,
        max_in_flight=form.max_in_flight,
    )  # fmt: skip
    with _on_form():
        made = await endpoints.make_endpoint(tx, delivery_of(request), caller, new)
    url = f"/endpoints/{made.id}"
    if made.secret is None:
        return see_other(request, url, f"{made.name} hears facts from now on. Send it a test.")
    return _shown_once(request, f"The secret of “{made.name}”", made.secret, "All that it gets is signed with it.", url)


@get("/endpoints/{endpoint_id:int}", role=Role.READ, page=True)
async def endpoint_page(request: Request, db: Database, caller: Caller, endpoint_id: int) -> Reply:
    """One endpoint: what it hears, how it does, what it answered."""
    one = await endpoints.get_endpoint(db, caller, endpoint_id)
    return page(
        request,
        "endpoint.html",
        title=one.name,
        one=one,
        answers=await answers.last_answers(db, caller, endpoint_id),
        signing=await answers.signing(db, caller, endpoint_id),
        types=list(delivery_of(request).types),
        headers="\n".join(f"{name}: {HIDDEN}" for name in one.config.get("headers", {})),
        overlaps=list(OVERLAPS.items()),
        **WORDS,
    )


@post("/endpoints/{endpoint_id:int}", role=Role.ADMIN, page=True, again=endpoint_page)
async def save(request: Request, tx: Tx, caller: Caller, endpoint_id: int, form: ChangeForm) -> Reply:
    """Change it, unless somebody else did so since the form was shown."""
    kind = await endpoints.kind_of(tx, endpoint_id)
    wanted = {
        "name": form.name, "fact_types": form.heard(), "config": form.config(kind), "active": form.active,
        "rate_per_second": form.rate_per_second, "max_in_flight": form.max_in_flight,
    }  # fmt: skip
    seen = IfMatch(f'"{form.version}"')
    with _on_form():
        saved = await endpoints.change_endpoint(tx, delivery_of(request), caller, endpoint_id, wanted, seen)
    words = "Saved. It holds for all that is tried from now on." if saved.version > form.version else None
    return see_other(request, f"/endpoints/{endpoint_id}", words or "Nothing was different.")


@post("/endpoints/{endpoint_id:int}/rotate", role=Role.ADMIN, page=True, again=endpoint_page)
async def rotate(request: Request, tx: Tx, caller: Caller, endpoint_id: int, form: RotateForm) -> Reply:
    """Make a new secret and show it, this once."""
    made = await endpoints.rotate_secret(tx, delivery_of(request), caller, endpoint_id, form.overlap_seconds, None)
    note = "It signs from now on."
    until = made.older_until if form.overlap_seconds else None
    words = f"{note} The one before it signs beside it for {OVERLAPS.get(form.overlap_seconds, 'a while')}."
    return _shown_once(request, "The new secret", made.secret, words if until else note, f"/endpoints/{endpoint_id}")


@post("/endpoints/{endpoint_id:int}/enable", role=Role.ADMIN, page=True, again=endpoint_page)
async def enable(request: Request, tx: Tx, caller: Caller, endpoint_id: int) -> Reply:
    """Try it again."""
    one = await endpoints.enable_endpoint(tx, delivery_of(request), caller, endpoint_id)
    words = f"{one.name} is tried again. What it missed can be replayed from its page."
    return see_other(request, f"/endpoints/{endpoint_id}", words)


@post("/endpoints/{endpoint_id:int}/test", role=Role.WRITE, page=True, again=endpoint_page)
async def test(request: Request, tx: Tx, caller: Caller, endpoint_id: int) -> Reply:
    """Send it a test."""
    await endpoints.test_endpoint(tx, delivery_of(request), caller, endpoint_id)
    words = "A test is on its way. Its answer appears below, under the last answers."
    return see_other(request, f"/endpoints/{endpoint_id}", words)


@post("/endpoints/{endpoint_id:int}/remove", role=Role.ADMIN, page=True, again=endpoint_page)
async def remove(request: Request, tx: Tx, caller: Caller, endpoint_id: int) -> Reply:
    """Remove it."""
    await endpoints.remove_endpoint(tx, delivery_of(request), caller, endpoint_id, IfMatch(None))
    return see_other(request, "/endpoints", "The endpoint is gone. What was pending for it is skipped, on record.")


@get("/endpoints/{endpoint_id:int}/replay", role=Role.WRITE, page=True)
async def replay_page(request: Request, db: Database, caller: Caller, endpoint_id: int, query: ReplayQuery) -> Reply:
    """How much it missed, before it goes again."""
    one, until = await endpoints.get_endpoint(db, caller, endpoint_id), utc_now()
    since = until - timedelta(hours=query.hours)
    counts = [
        (state, await replays.count_replayed(db, caller, endpoint_id, _which(since, until, [state])))
        for state in REPLAYABLE
    ]
    return page(
        request, "endpoint_replay.html", title=f"Replay to {one.name}", one=one, since=since, until=until,
        hours=query.hours, spans=list(HOURS.items()), counts=counts, total=sum(count for _, count in counts), **WORDS,
    )  # fmt: skip


@post("/endpoints/{endpoint_id:int}/replay", role=Role.WRITE, page=True, again=replay_page)
async def replay(request: Request, tx: Tx, caller: Caller, endpoint_id: int, form: ReplayForm) -> Reply:
    """Let it go again."""
    asked = await replays.ask_for_replay(tx, caller, endpoint_id, _which(form.since, form.until, REPLAYABLE))
    words = f"{asked.count:,} {'delivery goes' if asked.count == 1 else 'deliveries go'} again, under the same ids."
    return see_other(request, f"/endpoints/{endpoint_id}", words)


def _which(since: Any, until: Any, states: Sequence[Any]) -> replays.Which:
    return replays.Which(since=since, until=until, states=states)


def _kind(text: str) -> Kind:
    if text not in get_args(Kind):
        raise NotFound(f"There is no kind of endpoint {text!r}")
    return cast(Kind, text)


def _shown_once(request: Request, what: str, secret: str, note: str, url: str) -> Reply:
    """A page that shows a secret which no page can show again; so no cache may keep it."""
    words = {"title": what, "secret": secret, "note": note, "url": url, "until": None, "base_url": ""}
    shown = page(request, "secret.html", status=201, **words)
    shown.headers += [(b"cache-control", b"no-store")]
    return shown


routes: Sequence[Any] = [
    endpoints_page, new_page, make, endpoint_page, save, rotate, enable, test, remove, replay_page, replay,
]  # fmt: skip
