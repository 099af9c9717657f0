"""How events are put together: what the operator decided, and what their actions are handed."""

from dataclasses import replace
from typing import Any

from soonish.app.installation import Signature
from soonish.db.pool import Database
from soonish.delivery.outbox import Outbox
from soonish.due import Kind
from soonish.events.actions import joining
from soonish.events.actions.handed import Events
from soonish.events.actions.looking import export
from soonish.events.actions.subscriptions import Leavers
from soonish.events.model.terms import Terms
from soonish.events.on_due import announce, join, live, reminder, replan, snooze
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


def terms(settings: Settings) -> Terms:
    """The settings of events, each by its name."""
    named: dict[str, Any] = {name: _value(settings, name) for name in Terms.__dataclass_fields__}
    return Terms(**named)


def _value(settings: Settings, name: str) -> object:
    return getattr(settings, name if name == "reminder_engine" else _PREFIX + name)
