"""How events are put together: what the operator decided, and what their actions are handed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from soonish.app.installation import Signature
from soonish.db.pool import Database, Tx
from soonish.delivery.outbox import Outbox
from soonish.due import Kind
from soonish.events.actions import joining
from soonish.events.actions.explaining import account_of_cause, account_of_item, label
from soonish.events.actions.explaining import ahead as lines_ahead
from soonish.events.actions.handed import Events
from soonish.events.actions.looking import export
from soonish.events.actions.subscriptions import Leavers
from soonish.events.model.accounts import Account, Line
from soonish.events.model.terms import Terms
from soonish.events.on_due import announce, join, live, reminder, replan, snooze
from soonish.ops.model.items import Label
from soonish.ops.model.why import About, Ahead, Step, Story, Teller
from soonish.people.actions.hooks import Hooks, People
from soonish.settings import Settings
from soonish.vault import Vault

_PREFIX = "events_"


def eventing(settings: Settings, vault: Vault, signature: Signature, outbox: Outbox, people: People) -> Events:
    """What the routes, actions and handlers of events need."""
    return Events(
        outbox=outbox,
        people=people,
        vault=vault,
        hmac=signature,
        public_url=settings.public_url,
        terms=terms(settings),
        smtp=settings.smtp_host is not None,
    )


def with_events(events: Events) -> tuple[Events, Hooks]:
    """What people are handed, with what events do when they change; and the events with these people."""
    before = events.people.hooks
    after = replace(
        before,
        on_erased=[*before.on_erased, Leavers(events).erased],
        erasers=[*before.erasers, joining.erase],
        export=[*before.export, export],
    )
    return replace(events, people=replace(events.people, hooks=after)), after


def kinds(db: Database, events: Events) -> list[Kind]:
    """What comes due of events that needs no workflow engine."""
    return [
        reminder.kind(db, events),
        snooze.kind(db, events),
        announce.kind(db),
        live.kind(db),
        replan.kind(db, events),
        *join.kinds(db, events),
    ]


def tellers(terms: Terms) -> dict[str, Teller]:
    """What explains causes and items of events."""

    async def of_cause(tx: Tx, about: About) -> Story | None:
        return _story(await account_of_cause(tx, terms, about.name, about.person_id))

    async def of_item(tx: Tx, about: About) -> Story | None:
        return _story(await account_of_item(tx, about.name, about.key))

    return {"event": of_cause, "event.fact": of_cause, "events": of_item}


def ahead(terms: Terms) -> Ahead:
    """What people will be told of events."""

    async def of_person(tx: Tx, person_id: int, since: datetime | None, until: datetime | None) -> list[Step]:
        return _steps(await lines_ahead(tx, terms, person_id, since, until))

    return of_person


async def explain(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[Label]:
    """What items of events are about."""
    return [Label(*one) for one in await label(tx, rows)]


def _story(account: Account | None) -> Story | None:
    if account is None:
        return None
    return Story(because=account.because, steps=_steps(account.lines), cause=account.cause)


def _steps(lines: Sequence[Line]) -> list[Step]:
    return [Step(at=one.at, what=one.what, text=one.text, ref=one.ref) for one in lines]


def terms(settings: Settings) -> Terms:
    """The settings of events, each by its name."""
    named: dict[str, Any] = {name: _value(settings, name) for name in Terms.__dataclass_fields__}
    return Terms(**named)


def _value(settings: Settings, name: str) -> object:
    return getattr(settings, name if name == "reminder_engine" else _PREFIX + name)
