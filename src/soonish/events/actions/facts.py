"""State what happened to an event, for machines to hear, in the transaction of the change."""

from collections.abc import Mapping
from typing import Any

from soonish.db.pool import Tx
from soonish.delivery.actions.facts import asked_by
from soonish.delivery.outbox import Fact, Outbox
from soonish.events.actions.handed import Events
from soonish.events.model.events import Event
from soonish.events.model.facts import COMPLETED, SUBSCRIBER_ADDED, SUBSCRIBER_REMOVED, data_of
from soonish.events.model.items import fact_cause, subject
from soonish.events.model.subscriptions import Subscription
from soonish.web.auth import Caller


async def state_event(
    tx: Tx, outbox: Outbox, event: Event, kind: str, *parts: int | str, data: Mapping[str, Any], caller: Caller | None
) -> None:
    """One fact, once a cause; `parts` end the cause, `caller` is whoever asked for the change."""
    because = {} if caller is None else asked_by(caller)
    fact = Fact(cause=fact_cause(event.id, *parts), type=kind, subject=subject(event.id), data=data, because=because)
    await outbox.state(tx, fact)


async def state_subscribers(
    tx: Tx, outbox: Outbox, event: Event, subscriptions: list[Subscription], caller: Caller
) -> None:
    """That these have come, or gone."""
    await outbox.state_all(tx, [_of_subscriber(event, one, caller) for one in subscriptions])


def _of_subscriber(event: Event, one: Subscription, caller: Caller) -> Fact:
    kind = SUBSCRIBER_ADDED if one.is_active else SUBSCRIBER_REMOVED
    who: dict[str, Any] = {"subscription_id": one.id, "person_id": one.person_id}
    how = {"source": one.source} if one.is_active else {"removed_by": one.removed_by}
    return Fact(
        cause=fact_cause(event.id, kind.partition(".")[2], one.id, one.activations),
        type=kind,
        subject=subject(event.id),
        data=data_of(event, **who, **how),
        because=asked_by(caller),
    )


async def completed(tx: Tx, events: Events, event: Event) -> None:
    """That its end was reached."""
    data = data_of(event, completed_at=event.completed_at)
    await state_event(tx, events.outbox, event, COMPLETED, "completed", data=data, caller=None)
