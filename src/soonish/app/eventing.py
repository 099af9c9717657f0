"""How events are put together: what the operator decided, and what their actions are handed."""

from soonish.app.installation import Signature
from soonish.delivery.outbox import Outbox
from soonish.events.actions.handed import Events
from soonish.events.model.terms import Terms
from soonish.people.actions.hooks import People
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


def terms(settings: Settings) -> Terms:
    """The settings of events, each by its name."""
    named = {name: _value(settings, name) for name in Terms.__dataclass_fields__}
    return Terms(**named)


def _value(settings: Settings, name: str) -> object:
    return getattr(settings, name if name == "reminder_engine" else _PREFIX + name)
