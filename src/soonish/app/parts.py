"""What a process consists of, and who is given what: the only file that knows every slice."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from litestar import Litestar

from soonish import telemetry
from soonish.access.actions.callers import Callers
from soonish.access.actions.closed import ClosedWorkspaces
from soonish.access.actions.idempotency import Idempotency
from soonish.access.actions.retention import sweeps
from soonish.access.model import SECRET_COLUMNS
from soonish.access.routes import api as access_api
from soonish.access.routes import pages as access_pages
from soonish.app import lives, signing_in
from soonish.app.delivering import delivering, hooks, sender, warm
from soonish.app.eventing import ahead as events_ahead
from soonish.app.eventing import eventing, with_events
from soonish.app.eventing import explain as explain_events
from soonish.app.eventing import kinds as eventing_kinds
from soonish.app.eventing import tellers as eventing_tellers
from soonish.app.first_steps import first_steps
from soonish.app.installation import Signature
from soonish.db.listen import Listener
from soonish.db.pool import Database, Tx
from soonish.delivery import on_due as delivery_due
from soonish.delivery.actions import facts
from soonish.delivery.actions.deaths import state_deaths
from soonish.delivery.actions.handed import Delivering
from soonish.delivery.actions.retention import sweeps as delivery_sweeps
from soonish.delivery.model import endpoints
from soonish.delivery.routes import (
    addresses_api,
    endpoints_api,
    endpoints_pages,
    facts_api,
    facts_pages,
    ledger_api,
    ledger_pages,
    messages_api,
)
from soonish.due import Kind, Lane, Loop
from soonish.events.actions.handed import Events
from soonish.events.model import joining as events_model
from soonish.events.routes import broadcasts_api, events_api, subscriptions_api
from soonish.events.routes import feeds_api as events_feeds
from soonish.events.routes import files_api as events_files
from soonish.events.routes import messages_pages as events_messages
from soonish.events.routes import pages as events_pages
from soonish.events.routes import public as events_public
from soonish.events.routes import subscribers_pages as events_subscribers
from soonish.ops import on_due as ops_due
from soonish.ops.actions import why_labels
from soonish.ops.actions.handed import Ops
from soonish.ops.actions.health import Health
from soonish.ops.model.items import Label
from soonish.ops.model.upkeep import explain
from soonish.ops.routes import api as ops_api
from soonish.ops.routes import pages as ops_pages
from soonish.ops.routes import probes, why_api, why_pages
from soonish.people import on_due as people_due
from soonish.people.actions.hooks import Hooks, People
from soonish.people.actions.retention import sweeps as people_sweeps
from soonish.people.model import address as people_addresses
from soonish.people.model import person as people_model
from soonish.people.routes import api as people_api
from soonish.people.routes import confirm as people_confirm
from soonish.people.routes import pages as people_pages
from soonish.settings import Settings
from soonish.temporal.engine import Engine
from soonish.vault import Vault
from soonish.web.auth import Secret
from soonish.web.server import Nav, Parts, create

MONTH: Final = timedelta(days=31)
SLICES: Final = Path(__file__).parents[1]
NAVIGATION: Final = (
    Nav("Now", "/", "n", "clock"),
    Nav("Events", "/events", "t", "calendar"),
    Nav("People", "/people", "p", "people", also=["/why/person"]),
    Nav("Deliveries", "/deliveries", "v", "arrow", also=["/why/delivery"]),
    Nav("Endpoints", "/endpoints", "e", "plug", also=["/facts"]),
    Nav("Due", "/due", "d", "due", also=["/why/due"]),
    Nav("Settings", "/settings", "s", "settings"),
)
SECRETS: Final = tuple(
    ops_due.Secret(table, column)
    for table, column in (
        *SECRET_COLUMNS,
        *people_addresses.SECRET_COLUMNS,
        *endpoints.SECRET_COLUMNS,
        *events_model.SECRET_COLUMNS,
    )
)


@dataclass(frozen=True, slots=True)
class Process:
    """What every process has; one that only serves has no workflow engine."""

    settings: Settings
    db: Database
    vault: Vault
    engine: Engine | None
    kinds: Mapping[str, Kind]
    health: Health
    signature: Signature
    given: Delivering
    hooks: Hooks
    events: Events


@asynccontextmanager
async def opened(settings: Settings, vault: Vault, role: str) -> AsyncIterator[Process]:
    """Database, workflow engine and health of a process of this role: `up`, `serve` or `work`."""
    async with AsyncExitStack() as stack:
        assert settings.database_url
        db = await Database.open(settings.database_url, listen_url=settings.database_listen_url)
        stack.push_async_callback(db.close)
        given, signature = delivering(settings, vault), Signature(db, vault)
        people = People(vault=vault, hmac=signature, hooks=hooks(settings, given))
        events, listeners = with_events(eventing(settings, vault, signature, given.outbox, people))
        engine = Engine(settings)  # one that is not entered answers that it is away
        if working := engine if role != "serve" else None:
            engine.take_on(lives.crew(db, events, engine))
            await stack.enter_async_context(engine)
        health = Health(
            db, data_dir=settings.data_dir, role=role, version=version("soonish"), vault=vault, secrets=SECRETS
        )
        health.engine = working
        await stack.enter_async_context(health)
        await signature.read()
        sending = sender(settings, db, given, signature)
        stack.push_async_callback(sending.close)
        health.pulse.on_dead = partial(state_deaths, db, given.outbox)
        found = (
            *_kinds(settings, db, vault, listeners),
            *delivery_due.kinds(db, given.outbox, sending),
            *eventing_kinds(db, events),
            *lives.kinds(db, engine, events),
        )
        kinds = {kind.name: kind for kind in found}
        yield Process(settings, db, vault, working, kinds, health, signature, given, listeners, events)


def due_loop(process: Process, lanes: frozenset[Lane], closed: ClosedWorkspaces) -> Loop:
    """The loop of these lanes, not yet started."""
    settings, health = process.settings, process.health
    slots = {Lane.CONTROL: settings.lane_control, Lane.PEOPLE: settings.lane_people, Lane.BULK: settings.lane_bulk}
    health.loop = Loop(
        process.db.loops,
        process.kinds.values(),
        lanes={lane: slots[lane] for lane in lanes},
        lease=settings.lease,
        grace=settings.late_grace,
        backlog_after=settings.backlog_after,
        observer=health.pulse,
        may_claim=health.may_claim,
        refuse=closed.refuse,
        redact=telemetry.redact,
        connect=process.db.connect,
    )
    return health.loop


def application(process: Process, listener: Listener) -> Litestar:
    """The API and the console of all slices; `listener` is started after this."""
    process.health.listener = listener
    ops = _ops(process)
    callers = Callers(process.db)
    return create(
        Parts(
            settings=process.settings,
            db=process.db,
            find_caller=callers.find,
            find_ended=callers.ended,
            idempotency=Idempotency(process.vault),
            routes=_routes(),
            navigation=NAVIGATION,
            templates=[SLICES / name / "templates" for name in ("access", "people", "delivery", "events", "ops")],
            gate=process.health,
            listener=listener,
            health=ops_pages.Dots(process.db, ops).look,
            heads=partial(facts.heads, process.db),
            on_start=[warm],
            state={
                "access": signing_in.ACCESS,
                "ops": ops,
                "people": process.events.people,
                "delivery": process.given,
                "events": process.events,
            },
        )
    )


def _routes() -> list[Any]:
    """What every slice answers."""
    modules = (
        access_api,
        access_pages,
        people_api,
        people_confirm,
        people_pages,
        addresses_api,
        endpoints_api,
        facts_api,
        ledger_api,
        messages_api,
        ledger_pages,
        endpoints_pages,
        facts_pages,
        events_api,
        subscriptions_api,
        broadcasts_api,
        events_feeds,
        events_files,
        events_pages,
        events_subscribers,
        events_messages,
        events_public,
        ops_api,
        ops_pages,
        why_api,
        why_pages,
        probes,
    )
    return [route for module in modules for route in module.routes]


def probe(process: Process) -> Litestar:
    """What a process without an API says of itself; nobody signs in there."""

    async def nobody(_kind: str, _secret: str, _request_id: str) -> None:
        return None

    async def all_of(secrets: Sequence[Secret]) -> Sequence[Secret]:
        return secrets

    return create(
        Parts(
            settings=process.settings,
            find_caller=nobody,
            find_ended=all_of,
            routes=probes.routes,
            state={"ops": _ops(process)},
        )
    )


def _ops(process: Process) -> Ops:
    return Ops(
        health=process.health,
        kinds=process.kinds,
        tellers={
            "delivery": why_labels.tell,
            "message": why_labels.tell_message,
            **eventing_tellers(process.events.terms),
        },
        explainers={
            "system": explain,
            "delivery": why_labels.label,
            "people": _explain_people,
            "events": explain_events,
        },
        ahead=[events_ahead(process.events.terms)],
        first_steps=first_steps,
        metrics_token=process.settings.metrics_token,
    )


async def _explain_people(_tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[Label]:
    return [Label(people_model.label(row["key"])) for row in rows]


def _kinds(settings: Settings, db: Database, vault: Vault, listeners: Hooks) -> Iterator[Kind]:
    """What comes due in this program."""
    yield from ops_due.kinds(
        db,
        keep=settings.keep_due * MONTH,
        vault=vault,
        sweeps=[
            ops_due.Sweep(name, sweep)
            for name, sweep in (
                *sweeps(settings.keep_deliveries),
                *people_sweeps(),
                *delivery_sweeps(settings.keep_deliveries),
            )
        ],
        secrets=SECRETS,
    )
    yield from people_due.kinds(db, listeners.erasers)
    if settings.test_kinds:
        module, _, function = settings.test_kinds.partition(":")
        yield from getattr(import_module(module), function)()
