"""What the program hands to this slice, for its routes to find at `app.state.events`. Knows no rows."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from litestar import Request

from soonish.delivery.outbox import Outbox
from soonish.events.model.terms import Terms
from soonish.people.actions.hooks import People
from soonish.vault import Hmac, Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The outbox, people, what seals and signs, where browsers reach this program, and what the operator decided."""

    outbox: Outbox
    people: People
    vault: Vault
    hmac: Callable[[], Awaitable[Hmac]]
    public_url: str
    terms: Terms
    smtp: bool  # whether mail can be sent


def events_of(request: Request[Any, Any, Any]) -> Events:
    return request.app.state.events  # type: ignore[no-any-return]
