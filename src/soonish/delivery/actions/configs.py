"""What each kind of endpoint needs to know of its machine, and whether that may be stored.

A configuration is whole here: its secrets are open. How they are hidden and kept stands in the model.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal

import msgspec

from soonish.access.model import OPERATOR_WORKSPACE
from soonish.delivery.egress import Guard
from soonish.delivery.model.brokers import amqp_errors, sqs_errors
from soonish.delivery.model.endpoints import Config, Kind, kept
from soonish.delivery.model.webhooks import header_errors
from soonish.errors import FieldError, Invalid
from soonish.web.fields import Body, line, raw
from soonish.web.scalars import BAD
from soonish.web.shapes import json_shape

Url = Annotated[str, line(2_000)]
Word = Annotated[str, line(200)]


class Webhook(Body):
    """A webhook: where facts are posted, and headers of the receiver's own."""

    url: Url
    headers: dict[str, Annotated[str, raw(5_000, 0)]] = msgspec.field(default_factory=dict)


class Amqp(Body):
    """An exchange of RabbitMQ. `unroutable`: what is done with a fact that no queue is bound for."""

    url: Url
    exchange: Annotated[str, line(255)] = "soonish.facts"
    unroutable: Literal["retry", "accept"] = "retry"


class Sqs(Body):
    """A queue of Amazon SQS, or of something that speaks like it at `endpoint_url`."""

    queue_url: Url
    region: Annotated[str, line(60, pattern=r"^[a-z0-9-]+$")]
    access_key_id: Word | None = None
    secret_access_key: Annotated[str, raw(200)] | None = None
    endpoint_url: Url | None = None


_FORMS: Final[Mapping[Kind, type[Body]]] = {"webhook": Webhook, "amqp": Amqp, "sqs": Sqs}
_WEB: Final = ("https", "http")


def read_config(
    kind: Kind, given: Mapping[str, Any], stored: Mapping[str, Any], guard: Guard, workspace_id: int
) -> tuple[Config, list[FieldError]]:
    """The whole configuration, where `***` keeps what is stored; and all that is wrong with it."""
    errors: list[FieldError] = []
    found = json_shape(_FORMS[kind])(dict(given), "config", errors)
    if found is BAD:
        return {}, errors
    whole = kept(msgspec.to_builtins(found), stored, errors)
    if not errors:
        errors += _CHECKS[kind](whole, guard, workspace_id)
    return whole, errors


def _webhook(config: Config, guard: Guard, workspace_id: int) -> Iterator[FieldError]:
    del workspace_id
    yield from _judged("url", partial(guard.check_url, config["url"], schemes=_WEB, plain=False))
    yield from header_errors(config["headers"])


def _amqp(config: Config, guard: Guard, workspace_id: int) -> Iterator[FieldError]:
    del workspace_id
    yield from _judged("url", partial(guard.check_url, config["url"], schemes=("amqps", "amqp")))
    yield from amqp_errors(config)


def _sqs(config: Config, guard: Guard, workspace_id: int) -> Iterator[FieldError]:
    for name in ("queue_url", "endpoint_url"):
        if config[name]:
            yield from _judged(name, partial(guard.check_url, config[name], schemes=_WEB, plain=False))
    yield from sqs_errors(config, operator=workspace_id == OPERATOR_WORKSPACE)


_CHECKS: Final[Mapping[Kind, Callable[[Config, Guard, int], Iterator[FieldError]]]] = {
    "webhook": _webhook, "amqp": _amqp, "sqs": _sqs,
}  # fmt: skip


def _judged(name: str, judge: Callable[[], None]) -> Iterator[FieldError]:
    try:
        judge()
    except Invalid as error:
        yield FieldError(f"config.{name}", error.code, error.message)
