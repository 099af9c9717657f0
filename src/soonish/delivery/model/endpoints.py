"""Endpoints: machines that hear facts, and which parts of their configuration are secret.

Pure: knows no database, no vault. What a kind of endpoint needs of its configuration is checked elsewhere.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from soonish.errors import FieldError

Kind: TypeAlias = Literal["webhook", "amqp", "sqs"]
Health: TypeAlias = Literal["ok", "failing", "disabled"]
Replayable: TypeAlias = Literal["failed", "skipped", "unknown"]
Config: TypeAlias = dict[str, Any]

HIDDEN: Final = "***"
"""What stands for a secret in an answer; sent back, it keeps the secret that is stored."""
MOST_SECRETS: Final = 3  # that sign at once
OVERLAP: Final = 86_400  # seconds for which an older secret signs on
MOST_OVERLAP: Final = 604_800
MOST_REPLAYED: Final = 100_000
REPLAYABLE: Final[tuple[Replayable, ...]] = ("failed", "skipped", "unknown")
SECRET_COLUMNS: Final = (("endpoint", "secret_config"), ("endpoint_secret", "secret"), ("delivery", "mailbox"))
"""The columns of deliveries that are encrypted, as (table, column); each under its row's workspace and id."""

_URLS: Final = ("url", "queue_url", "endpoint_url")
_WORDS: Final = ("secret_access_key",)


class Endpoint(Struct, frozen=True, kw_only=True):
    """A machine that hears facts. What is secret of its configuration is shown as `***`."""

    id: int
    name: str
    kind: Kind
    config: Config
    fact_types: list[str]
    active: bool
    health: Health
    disabled_reason: str | None
    fails: int
    failing_since: datetime | None
    circuit_until: datetime | None
    rate_per_second: int | None
    max_in_flight: int
    last_ok_at: datetime | None
    last_failed_at: datetime | None
    last_error: str | None
    version: int
    created_at: datetime
    updated_at: datetime

    @property
    def works(self) -> bool:
        """Whether facts are tried with it."""
        return self.active and self.health != "disabled"

    @property
    def troubled(self) -> bool:
        """Whether there is anything to forget when it is enabled."""
        return self.health != "ok" or self.circuit_until is not None or self.fails > 0


class EndpointMade(Endpoint, frozen=True, kw_only=True):
    """A new endpoint; the secret that signs for a webhook is shown this once."""

    secret: str | None


class Rotated(Struct, frozen=True, kw_only=True):
    """A new secret, shown this once, and until when the one before it signs too."""

    secret: str
    older_until: datetime


class Tested(Struct, frozen=True, kw_only=True):
    """The delivery of a test."""

    delivery_id: int


class Replay(Struct, frozen=True, kw_only=True):
    """How many deliveries go again, and the key of the due item `delivery.replay` that sees to it."""

    endpoint_id: int
    count: int
    key: str


def endpoint(row: Mapping[str, Any]) -> Endpoint:
    """A row as the API shows it."""
    return Endpoint(**values(row))


def values(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an endpoint in a row."""
    return {name: row[name] for name in Endpoint.__struct_fields__} | {"config": msgspec.json.decode(row["config"])}


# --- what is secret


def hidden(config: Mapping[str, Any]) -> tuple[Config, bytes | None]:
    """A configuration as it may be shown, and its secrets as they are to be sealed; None where it has none."""
    shown, secrets = dict(config), dict[str, Any]()
    for name in _URLS:
        if user := _user(config.get(name)):
            shown[name], secrets[name] = _with_user(config[name], HIDDEN), user
    for name in _WORDS:
        if config.get(name):
            shown[name], secrets[name] = HIDDEN, config[name]
    if headers := config.get("headers"):
        shown["headers"], secrets["headers"] = dict.fromkeys(headers, HIDDEN), headers
    return shown, msgspec.json.encode(secrets) if secrets else None


def opened(config: Mapping[str, Any], secrets: bytes | None) -> Config:
    """The whole configuration, from the one that is shown and its secrets."""
    whole = dict(config)
    for name, value in (msgspec.json.decode(secrets) if secrets else {}).items():
        whole[name] = _with_user(whole[name], value) if name in _URLS else value
    return whole


def kept(wanted: Mapping[str, Any], stored: Mapping[str, Any], errors: list[FieldError]) -> Config:
    """What was asked for, with `***` as what is stored there; names those for which there is nothing to keep."""
    whole = dict(wanted)
    for name in _URLS:
        if _user(wanted.get(name)) == HIDDEN:
            whole[name] = _kept_url(wanted[name], stored.get(name), name, errors)
    for name in _WORDS:
        if wanted.get(name) == HIDDEN:
            whole[name] = stored.get(name) or _nothing_kept(name, errors)
    if "headers" in wanted:
        before = stored.get("headers", {})
        whole["headers"] = {
            name: (before.get(name) or _nothing_kept(f"headers.{name}", errors)) if value == HIDDEN else value
            for name, value in wanted["headers"].items()
        }
    return whole


def _kept_url(wanted: str, stored: str | None, name: str, errors: list[FieldError]) -> str:
    """The stored user part goes to the host that it was given for, and to no other."""
    user = _user(stored)
    if user and stored and _place(wanted) == _place(stored):
        return _with_user(wanted, user)
    return _nothing_kept(name, errors)


def _nothing_kept(name: str, errors: list[FieldError]) -> str:
    errors.append(FieldError(f"config.{name}", "required", "Nothing is stored for this; write it out"))
    return HIDDEN


def _split(url: str | None) -> SplitResult | None:
    try:
        return urlsplit(url) if url else None
    except ValueError:  # it is refused where URLs are judged
        return None


def _user(url: str | None) -> str:
    """Who logs in, and with which password."""
    parts = _split(url)
    return parts.netloc.rpartition("@")[0] if parts else ""


def _place(url: str) -> tuple[str, str]:
    parts = _split(url)
    return (parts.scheme, parts.netloc.rpartition("@")[2].lower()) if parts else ("", "")


def _with_user(url: str, user: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}").geturl()


# --- in words

TONES: Final = {"ok": "ok", "failing": "warn", "disabled": "bad", "inactive": "quiet"}
_REASONS: Final = {
    "gone": "it answered 410: it does not want to hear any more",
    "failing": "it failed for too long",
}


def condition(one: Endpoint) -> str:
    """Its state in a word."""
    return one.health if one.active else "inactive"


def trouble(one: Endpoint) -> str:
    """Why it is disabled, in words."""
    reason = one.disabled_reason or ""
    return _REASONS.get(reason, reason.replace("_", " "))


def place(config: Mapping[str, Any]) -> str:
    """Where it is, without what is secret."""
    url = config.get("url") or config.get("queue_url") or ""
    parts = _split(url)
    return parts.netloc.rpartition("@")[2] if parts else url


def twice(fact_types: Sequence[str]) -> Iterator[FieldError]:
    """What a list of subscriptions names again."""
    for n, one in enumerate(fact_types):
        if one in fact_types[:n]:
            yield FieldError(f"fact_types.{n}", "one_of", f"{one!r} is in the list already")
