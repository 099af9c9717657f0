"""What the program hands to this slice, for its routes to find at `app.state.delivery`. Knows no rows."""

from dataclasses import dataclass
from typing import Any

from litestar import Request

from soonish.delivery.egress import Guard
from soonish.delivery.model.facts import FactTypes
from soonish.delivery.outbox import Outbox
from soonish.vault import Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivering:
    """The outbox, what seals secrets, the guard at the way out, and the types of facts of all slices."""

    outbox: Outbox
    vault: Vault
    guard: Guard
    types: FactTypes


def delivery_of(request: Request[Any, Any, Any]) -> Delivering:
    return request.app.state.delivery  # type: ignore[no-any-return]
