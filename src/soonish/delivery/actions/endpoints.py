"""Endpoints: make, list, change, remove, rotate, enable and test them.

Secrets go in and never come out: those of a configuration are shown as `***`, the one that signs is told where it is
made. Every change gives an endpoint a new version, by which senders know what they may keep open.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from soonish.access.actions.audit import record
from soonish.access.model import changed, told
from soonish.db.pool import Database, Tx
from soonish.delivery import outbox
from soonish.delivery.actions.configs import read_config
from soonish.delivery.actions.facts import SQL, asked_by
from soonish.delivery.actions.handed import Delivering
from soonish.delivery.model.endpoints import (
    MOST_SECRETS,
    Config,
    Endpoint,
    EndpointMade,
    Kind,
    Rotated,
    Tested,
    endpoint,
    hidden,
    opened,
    twice,
    values,
)
from soonish.delivery.model.facts import TEST
from soonish.delivery.model.webhooks import new_secret, read_secret, show_secret
from soonish.errors import Conflict, FieldError, Invalid, NotFound
from soonish.vault import Vault
from soonish.web.auth import Caller
from soonish.web.sse import ring

TOPIC = "endpoints"


class Match(Protocol):
    """What the caller knows of the version (`If-Match`)."""

    def check(self, version: int) -> None: ...


class New(Protocol):
    """An endpoint to be made."""

    name: str
    kind: Kind
    config: Config
    fact_types: list[str]
    active: bool
    rate_per_second: int | None
    max_in_flight: int
    secret: str | None


async def make_endpoint(tx: Tx, hand: Delivering, caller: Caller, new: New) -> EndpointMade:
    """Make an endpoint; a webhook gets a secret that signs, unless one is given."""
    errors = _fact_type_errors(hand, new.fact_types)
    whole, wrong = read_config(new.kind, new.config, {}, hand.guard, caller.workspace_id)
    secret = _first_secret(new, errors)
    if errors := [*errors, *wrong]:
        raise Invalid("", *errors)
    endpoint_id = await SQL.place_of_endpoint.value(tx)
    shown, sealed = _sealed(hand.vault, caller.workspace_id, endpoint_id, whole)
    row = await SQL.make_endpoint.row(
        tx,
        id=endpoint_id,
        config=shown,
        secret_config=sealed,
        **{name: getattr(new, name) for name in ("name", "kind", "fact_types", "active")},
        rate_per_second=new.rate_per_second,
        max_in_flight=new.max_in_flight,
    )
    if secret:
        await _add_secret(tx, hand.vault, caller.workspace_id, endpoint_id, secret)
    await _note(tx, caller, "make", endpoint_id, {"kind": new.kind, "fact_types": new.fact_types})
    return EndpointMade(**values(row), secret=show_secret(secret) if secret else None)


def _first_secret(new: New, errors: list[FieldError]) -> bytes | None:
    if new.kind != "webhook":
        if new.secret is not None:
            errors.append(FieldError("secret", "unknown_field", "Only webhooks are signed"))
        return None
    return _read_secret(new.secret, errors)


def _read_secret(text: str | None, errors: list[FieldError]) -> bytes | None:
    try:
        return new_secret() if text is None else read_secret(text)
    except Invalid as error:
        errors.append(FieldError("secret", error.code, error.message))
        return None


def _fact_type_errors(hand: Delivering, fact_types: Sequence[str]) -> list[FieldError]:
    return [*hand.types.complaints(fact_types), *twice(fact_types)]


def _sealed(vault: Vault, workspace_id: int, endpoint_id: int, whole: Config) -> tuple[str, bytes | None]:
    """What is stored of a configuration: the part that may be shown, and the sealed rest."""
    shown, secrets = hidden(whole)
    place = (workspace_id, "endpoint", "secret_config", endpoint_id)
    return msgspec.json.encode(shown).decode(), vault.seal(secrets, place) if secrets else None


async def _add_secret(tx: Tx, vault: Vault, workspace_id: int, endpoint_id: int, secret: bytes) -> None:
    secret_id = await SQL.place_of_secret.value(tx)
    sealed = vault.seal(secret, (workspace_id, "endpoint_secret", "secret", secret_id))
    await SQL.add_secret.run(tx, id=secret_id, endpoint_id=endpoint_id, secret=sealed)


async def list_endpoints(db: Database, caller: Caller, *, before: int | None = None, limit: int = 50) -> list[Endpoint]:
    """Endpoints, newest first."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        return [endpoint(row) for row in await SQL.endpoints.rows(tx, before=before, k=limit)]


async def get_endpoint(db: Database, caller: Caller, endpoint_id: int) -> Endpoint:
    """One endpoint."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        row = await SQL.endpoint.row(tx, id=endpoint_id)
    if row is None:
        raise _unknown(endpoint_id)
    return endpoint(row)


async def change_endpoint(
    tx: Tx, hand: Delivering, caller: Caller, endpoint_id: int, wanted: Mapping[str, Any], if_match: Match
) -> Endpoint:
    """Change an endpoint; where nothing differs, nothing is written. Switched off, what is pending is skipped."""
    row = await _lock(tx, endpoint_id)
    before = endpoint(row)
    if_match.check(before.version)
    errors = _fact_type_errors(hand, wanted.get("fact_types", ()))
    stored = _whole(hand.vault, caller.workspace_id, row)
    given, whole = wanted.get("config"), stored
    if given is not None:
        whole, wrong = read_config(before.kind, given, stored, hand.guard, caller.workspace_id)
        errors += wrong
    if errors:
        raise Invalid("", *errors)
    change = changed(before, {name: value for name, value in wanted.items() if name != "config"})
    moved = whole != stored
    if not change and not moved:
        return before
    shown, sealed = _sealed(hand.vault, caller.workspace_id, endpoint_id, whole)
    names = ("id", "name", "fact_types", "active", "rate_per_second", "max_in_flight")
    after = {name: getattr(before, name) for name in names} | change
    works = after["active"] and before.health != "disabled"
    if works and not before.works:
        await _tell_others(tx, hand, caller, before, "enabled", "active")
    row = await SQL.change_endpoint.row(tx, **after, config=shown, secret_config=sealed, moved=moved)
    if before.works and not works:
        await hand.outbox.skip(tx, "endpoint_inactive", endpoint_id=endpoint_id)
        await _tell_others(tx, hand, caller, before, "disabled", "inactive")
    await _note(tx, caller, "change", endpoint_id, told(before, change) | ({"config": {}} if moved else {}))
    return endpoint(row)


def _whole(vault: Vault, workspace_id: int, row: Mapping[str, Any]) -> Config:
    """The stored configuration with its secrets open."""
    place, sealed = (workspace_id, "endpoint", "secret_config", row["id"]), row["secret_config"]
    return opened(msgspec.json.decode(row["config"]), None if sealed is None else vault.unseal(sealed, place))


async def _tell_others(tx: Tx, hand: Delivering, caller: Caller, one: Endpoint, what: str, reason: str) -> None:
    """State a fact about an endpoint: while it hears nothing itself, so that it goes to the others."""
    fact = outbox.Fact(
        cause=f"endpoint/{one.id}/{what}/{one.version + 1}",
        type=f"endpoint.{what}",
        subject=f"endpoint/{one.id}",
        data={"endpoint_id": one.id, "reason": reason},
        because=asked_by(caller),
    )
    await hand.outbox.state(tx, fact)


async def enable_endpoint(tx: Tx, hand: Delivering, caller: Caller, endpoint_id: int) -> Endpoint:
    """Try it again as if it had never failed; what was skipped meanwhile can be replayed."""
    before = endpoint(await _lock(tx, endpoint_id))
    if not before.troubled:
        return before
    if before.active and not before.works:
        await _tell_others(tx, hand, caller, before, "enabled", "asked")
    row = await SQL.enable_endpoint.row(tx, id=endpoint_id)
    await _note(tx, caller, "enable", endpoint_id)
    return endpoint(row)


async def remove_endpoint(tx: Tx, hand: Delivering, caller: Caller, endpoint_id: int, if_match: Match) -> None:
    """Remove an endpoint and its secrets; what is pending for it is skipped."""
    row = await _lock(tx, endpoint_id)
    if_match.check(row["version"])
    await hand.outbox.skip(tx, "endpoint_gone", endpoint_id=endpoint_id)
    await SQL.remove_endpoint.run(tx, id=endpoint_id)
    await _note(tx, caller, "remove", endpoint_id)


async def rotate_secret(
    tx: Tx, hand: Delivering, caller: Caller, endpoint_id: int, overlap: int, given: str | None
) -> Rotated:
    """Sign with a new secret; the one before it signs too until the overlap is over."""
    row = await _lock(tx, endpoint_id)
    if row["kind"] != "webhook":
        raise Conflict(f"Endpoint {endpoint_id} is no webhook: nothing that it gets is signed")
    errors: list[FieldError] = []
    secret = _read_secret(given, errors)
    if secret is None:
        raise Invalid("", *errors)
    older_until = await SQL.end_secrets.value(tx, endpoint_id=endpoint_id, overlap=timedelta(seconds=overlap))
    if await SQL.live_secrets.value(tx, endpoint_id=endpoint_id) >= MOST_SECRETS:
        raise Conflict(
            f"{MOST_SECRETS} secrets sign already; wait until one has ended, or rotate with a shorter overlap",
            code="too_many_secrets",
        )
    await _add_secret(tx, hand.vault, caller.workspace_id, endpoint_id, secret)
    await SQL.renew_endpoint.run(tx, id=endpoint_id)
    await _note(tx, caller, "rotate", endpoint_id, {"overlap_seconds": overlap})
    return Rotated(secret=show_secret(secret), older_until=older_until)


async def test_endpoint(tx: Tx, hand: Delivering, caller: Caller, endpoint_id: int) -> Tested:
    """Send it the fact `soonish.test`, the way of all facts; nobody else gets it."""
    await _lock(tx, endpoint_id)
    fact = outbox.Fact(
        cause=f"endpoint/{endpoint_id}/test/{uuid4().hex}",
        type=TEST,
        subject=f"endpoint/{endpoint_id}",
        data={"endpoint_id": endpoint_id},
        because=asked_by(caller),
        endpoint_ids=[endpoint_id],
    )
    stated = await hand.outbox.state(tx, fact)
    delivery_id = await SQL.delivery_of_fact.value(tx, fact_id=stated.fact_id)
    await record(tx, caller, "test", f"endpoint/{endpoint_id}", {"delivery_id": delivery_id})
    return Tested(delivery_id=delivery_id)


async def kind_of(tx: Tx, endpoint_id: int) -> Kind:
    """Which kind it is; that never changes."""
    return (await _lock(tx, endpoint_id))["kind"]  # type: ignore[no-any-return]


async def _lock(tx: Tx, endpoint_id: int) -> Mapping[str, Any]:
    row: Mapping[str, Any] | None = await SQL.endpoint_for_update.row(tx, id=endpoint_id)
    if row is None:
        raise _unknown(endpoint_id)
    return row


async def _note(tx: Tx, caller: Caller, verb: str, endpoint_id: int, changes: Mapping[str, Any] | None = None) -> None:
    await record(tx, caller, verb, f"endpoint/{endpoint_id}", changes)
    await ring(tx, caller.workspace_id, TOPIC)


def _unknown(endpoint_id: int) -> NotFound:
    return NotFound(f"There is no endpoint {endpoint_id}")
