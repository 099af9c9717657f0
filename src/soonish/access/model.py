"""Who may ask, as nouns and rules: workspaces, keys, sign-ins, and what is written down about changes.

Pure: knows no database, no HTTP, no clock. A secret is shown once, where it is made; what is kept of it is its hash.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from msgspec import Struct

RoleName: TypeAlias = Literal["admin", "write", "read"]
EmailTrust: TypeAlias = Literal["confirm", "trusted"]
UnknownPeople: TypeAlias = Literal["retry_once", "never", "retry"]

OPERATOR_WORKSPACE: Final = 1
"""An admin of this workspace may do what concerns all of them."""
SLUG: Final = r"[a-z][a-z0-9-]{1,39}"
KEY_PREFIX: Final = "sk_"
LINK_MINUTES: Final = 15
SIGN_IN_LIFE: Final = timedelta(days=30)
"""However much it is used; without use it ends after 7 days."""
ANSWER_LIFE: Final = timedelta(hours=24)
CLOSED: Final = "workspace_closed"

SECRET_COLUMNS: Final = (("idempotency", "body"), ("installation", "hmac_key"))
"""The columns of access that are encrypted, as (table, column); each under its row's workspace (0 = none) and id."""

_NUMBERED: Final = re.compile(r"([a-z_]+)[:/](\d+)")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z$")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_HIDDEN: Final = frozenset({"name"})  # may be a person's: that it changed is written down, its values are not


class Workspace(Struct, frozen=True, kw_only=True):
    """A workspace: the wall between those who share this installation."""

    id: int
    slug: str
    name: str
    timezone: str
    locale: str
    email_trust: EmailTrust
    unknown_people: UnknownPeople
    closed_at: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime


class WorkspaceMade(Workspace, frozen=True, kw_only=True):
    """A new workspace, with its first admin key, which is shown this once."""

    api_key: str


class OwnWorkspace(Struct, frozen=True, kw_only=True):
    """The workspace of the one who asks, in short."""

    id: int
    slug: str
    name: str


class Me(Struct, frozen=True, kw_only=True):
    """The one who asks, as this server sees them."""

    workspace: OwnWorkspace
    role: Literal["read", "write", "admin", "operator"]
    actor: str
    person_id: int | None


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key that opens the API; of the key itself only its first characters are known."""

    id: int
    name: str
    role: RoleName
    hint: str
    expires_at: datetime | None
    last_used_at: datetime | None
    created_at: datetime


class ApiKeyMade(ApiKey, frozen=True, kw_only=True):
    """A new key, which is shown this once."""

    key: str


class LoginLink(Struct, frozen=True, kw_only=True):
    """A link that signs one browser in, once; of the link itself nothing is known any more."""

    id: int
    role: RoleName
    person_id: int | None
    expires_at: datetime
    used_at: datetime | None


class LoginLinkMade(LoginLink, frozen=True, kw_only=True):
    """A new link, which is shown this once."""

    url: str


class SignIn(Struct, frozen=True, kw_only=True):
    """A browser that used a login link."""

    id: int
    role: RoleName
    person_id: int | None
    created_at: datetime
    seen_at: datetime
    expires_at: datetime


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One line of the record: who changed what, by which request."""

    id: int
    at: datetime
    actor: str
    request_id: UUID
    verb: str
    entity: str
    changes: dict[str, Any]


def is_key(text: str) -> bool:
    """Whether this has the form of a key; what has not is not worth a look into the database."""
    return text.startswith(KEY_PREFIX) and is_token(text.removeprefix(KEY_PREFIX))


def is_token(text: str) -> bool:
    """Whether this has the form of what stands in a login link or in the cookie of a sign-in."""
    return _TOKEN.fullmatch(text) is not None


def hint(key: str) -> str:
    """What may be shown of a key for ever: enough to tell it from others, too little to use it."""
    return key[:7]


def csrf_token(cookie: str, half: bytes) -> str:
    """What a form of this sign-in carries. It needs the cookie, so a copy of the database makes none."""
    return urlsafe_b64encode(hmac.digest(cookie.encode(), half, hashlib.sha256)).rstrip(b"=").decode()


def changed(before: Struct, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Those wishes that differ from what is."""
    return {name: value for name, value in wanted.items() if getattr(before, name) != value}


def told(before: Struct, change: Mapping[str, Any]) -> dict[str, Any]:
    """A change as the record keeps it: from and to, or only the field where its value may be a name."""
    return {
        name: {} if name in _HIDDEN else {"from": getattr(before, name), "to": value} for name, value in change.items()
    }


class Line(Struct, frozen=True, kw_only=True):
    """A line of the record for people to read: who did what, and with which values."""

    at: datetime
    who: str
    did: str
    detail: str
    entry: AuditEntry


_VERBS: Final = {
    "add": "added",
    "announce": "announced something to",
    "cancel": "cancelled",
    "change": "changed",
    "close": "closed",
    "confirm": "confirmed",
    "enable": "enabled",
    "end": "ended",
    "import": "imported",
    "make": "made",
    "pause": "paused",
    "publish": "published",
    "pull_forward": "pulled forward",
    "relink": "made a new link for",
    "remove": "removed",
    "replay": "replayed to",
    "resume": "resumed",
    "retry": "retried",
    "revoke": "revoked",
    "rotate": "made a new secret for",
    "sign_in": "signed in",
    "sign_out": "signed out",
    "snooze": "asked for one more reminder of",
    "state": "stated",
    "subscribe": "subscribed somebody to",
    "test": "sent a test to",
    "unsnooze": "took back a reminder of",
    "unsubscribe": "unsubscribed somebody from",
    "withdraw": "withdrew",
}
_NOUNS: Final = {"api_key": "key", "due": "due item", "key": "key", "sign_in": "sign-in", "system": "this server"}


def readable(entry: AuditEntry, key_names: Mapping[int, str]) -> Line:
    """The line for an entry; keys that are still known are called by their names."""
    did = _VERBS.get(entry.verb, entry.verb.replace("_", " "))
    who, what = _called(entry.actor, key_names), _called(entry.entity, key_names)
    done = did if who == what else f"{did} {what}"
    return Line(at=entry.at, who=who, did=done, detail=_detail(entry.changes), entry=entry)


def key_ids(entries: Iterable[AuditEntry]) -> list[int]:
    """The keys that these entries speak of."""
    named = (_NUMBERED.fullmatch(text) for entry in entries for text in (entry.actor, entry.entity))
    return sorted({int(match[2]) for match in named if match and match[1] in ("key", "api_key")})


def _called(reference: str, key_names: Mapping[int, str]) -> str:
    """`key:7` or `api_key/7` as people say it."""
    match = _NUMBERED.fullmatch(reference)
    if match is None:
        return _NOUNS.get(reference) or reference.removeprefix("pause/").replace("/", " ", 1)
    noun, number = _NOUNS.get(match[1]) or match[1].replace("_", " "), int(match[2])
    name = key_names.get(number) if noun == "key" else None
    return f"{noun} “{name}”" if name else f"{noun} {number}"


def _detail(changes: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')}{_values(value)}" for name, value in changes.items() if value is not None
    )


def _values(value: Any) -> str:
    if isinstance(value, dict):
        return f" {value['from']} → {value['to']}" if value.keys() == {"from", "to"} else ""
    if isinstance(value, list):
        return f" {', '.join(map(str, value))}"
    if isinstance(value, str) and _INSTANT.match(value):
        return f" {datetime.fromisoformat(value):%d %b %Y %H:%M} UTC"
    return f" {value}"
