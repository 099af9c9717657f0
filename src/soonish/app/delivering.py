"""How deliveries are put together: the guard, the channels, the sender, and what people hear of the ledger."""

import asyncio
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from soonish.app import memory, signing_in
from soonish.app.installation import Signature
from soonish.db.pool import Database
from soonish.delivery.actions import people as told
from soonish.delivery.actions.handed import Delivering
from soonish.delivery.channel import Channel
from soonish.delivery.channels.amqp import Amqp
from soonish.delivery.channels.apprise import AppriseChannel
from soonish.delivery.channels.apprise_api import AppriseApi
from soonish.delivery.channels.apprise_library import Targets, library
from soonish.delivery.channels.console import Console
from soonish.delivery.channels.email import Email, Server
from soonish.delivery.channels.sqs import Sqs
from soonish.delivery.channels.webhook import Webhook
from soonish.delivery.egress import Guard
from soonish.delivery.model.facts import FactTypes
from soonish.delivery.model.health import Limits
from soonish.delivery.model.tries import CONFIRMATION, Ladders
from soonish.delivery.outbox import Outbox
from soonish.delivery.routes.ledger_pages import sections
from soonish.delivery.send.load import Loader
from soonish.delivery.send.record import Recorder
from soonish.delivery.send.sender import Links, Pace, Sender
from soonish.events.model import links as event_links
from soonish.events.model.facts import FACT_TYPES as EVENT_TYPES
from soonish.people.actions.confirmation import confirmation_url
from soonish.people.actions.hooks import Hooks
from soonish.settings import Settings
from soonish.vault import Vault

TYPES: Final = FactTypes(EVENT_TYPES)
WARM_AFTER: Final = 3.0  # seconds
LADDERS: Final = ("people", "short", "long", "broker")


def delivering(settings: Settings, vault: Vault) -> Delivering:
    """What the routes and actions of deliveries need."""
    outbox = Outbox(vault, bulk_audience=settings.bulk_audience)
    return Delivering(outbox=outbox, vault=vault, guard=Guard.of(settings), types=TYPES)


def sender(settings: Settings, db: Database, given: Delivering, signature: Signature) -> Sender:
    """What tries deliveries in this process."""
    half = (settings.lane_people + settings.lane_bulk) // 2
    return Sender(
        db,
        Loader(db, given.vault),
        Recorder(db, given.outbox, _limits(settings)),
        _channels(settings, given.guard),
        types=TYPES,
        ladders=_ladders(settings),
        pace=Pace(settings.rate_address, settings.rate_host, settings.rate_workspace, max(1, half)),
        links={
            CONFIRMATION: _confirmation(settings.public_url, signature),
            event_links.CAUSES: _of_events(settings, signature),
        },
    )


async def warm() -> None:
    """Load what is slow to load a while after the start, before anybody waits for it: the services of Apprise."""
    loop = asyncio.get_running_loop()
    loop.call_later(WARM_AFTER, loop.run_in_executor, None, _load)


def hooks(settings: Settings, given: Delivering) -> Hooks:
    """What happens elsewhere when people change."""
    listeners = told.Listeners(given.outbox, given.vault)
    targets = Targets(given.guard, settings.apprise_allow, remote=settings.apprise_api_url is not None)
    return Hooks(
        on_created=[listeners.created],
        on_changed=[listeners.changed],
        on_erased=[listeners.erased, signing_in.erased],
        export=[told.export, signing_in.export],
        erasers=[told.erase],
        sections=[sections, signing_in.sections],
        check_target=targets.check,
        on_address=listeners.addressed,
        smtp=settings.smtp_host is not None,
        schemes=targets.schemes,
        test_url="/addresses/{id}/test",
        verify_url="/addresses/{id}/verify",
    )


def _load() -> None:
    library()
    memory.settle()


def _channels(settings: Settings, guard: Guard) -> dict[str, Channel]:
    timeout = settings.webhook_timeout.total_seconds()
    found: dict[str, Channel] = {
        "console": Console(),
        "webhook": Webhook(guard, version("soonish"), timeout, settings.webhook_4xx_tries),
        "amqp": Amqp(guard),
        "sqs": Sqs(guard),
        "apprise": _apprise(settings, guard),
    }
    if server := Server.of(settings):
        found["email"] = Email(server)
    return found


def _apprise(settings: Settings, guard: Guard) -> Channel:
    if settings.apprise_api_url:
        return AppriseApi(settings.apprise_api_url, guard, settings.apprise_allow)
    return AppriseChannel(guard, settings.apprise_threads, settings.apprise_allow)


def _limits(settings: Settings) -> Limits:
    return Limits(settings.circuit_after, *settings.circuit_wait, settings.endpoint_disable_after)


def _ladders(settings: Settings) -> Ladders:
    waits = {name: tuple(span.total_seconds() for span in getattr(settings, f"ladder_{name}")) for name in LADDERS}
    return Ladders(**waits, unknown_pause=settings.unknown_pause.total_seconds())


def _confirmation(public_url: str, signature: Signature) -> Links:
    """The link of a confirmation mail, from the cause of its delivery: `confirm/<id of its row>`."""

    def links(row: Mapping[str, Any]) -> Mapping[str, str]:
        token_id = int(row["cause"].removeprefix(CONFIRMATION))
        return {"confirm_url": confirmation_url(signature.known, public_url, row["workspace_id"], token_id)}

    return links


def _of_events(settings: Settings, signature: Signature) -> Links:
    """The page of an event, and the ways out of what somebody hears of it."""

    def links(row: Mapping[str, Any]) -> Mapping[str, str]:
        made = event_links.Links(signature.known, settings.public_url)
        return event_links.links_of(made, row, json.loads(row["merge"]), settings.events_footer)

    return links
