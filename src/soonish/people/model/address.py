"""Addresses: the ways to reach a person, what may be shown of them, and how well they work. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from soonish.errors import Conflict, FieldError, Invalid
from soonish.people.model.mail import domain, masked, normal_email

AddressKind: TypeAlias = Literal["apprise", "email", "console"]
Health: TypeAlias = Literal["unverified", "ok", "failing", "disabled"]

SECRET_COLUMNS: Final = (("address", "target"),)
"""The columns of people that are encrypted, as (table, column); each under its row's workspace and id."""
TAG: Final = "^[a-z0-9][a-z0-9:_-]{0,39}$"
MOST_TAGS: Final = 20
TARGET_LENGTH: Final = 2_000
MAILS_A_DAY: Final = 3
CONFIRM_DAYS: Final = 7

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]{0,39})://([^/?#\s]*)\S*", re.IGNORECASE)


class Address(Struct, frozen=True, kw_only=True):
    """One way to reach a person. Of where it leads only a hint is shown."""

    id: int
    person_id: int
    kind: AddressKind
    label: str
    scheme: str
    target_hint: str
    tags: list[str]
    active: bool
    health: Health
    disabled_reason: str | None
    fails: int
    last_ok_at: datetime | None
    last_failed_at: datetime | None
    last_error: str | None
    verified_at: datetime | None
    circuit_until: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class CheckedTarget:
    """What is known of a good target: what speaks there, where it leads, and what may be shown of it."""

    scheme: str
    host: str | None
    hint: str


class Scheme(Struct, frozen=True, kw_only=True):
    """One service that an Apprise URL can name."""

    scheme: str
    service: str
    sample: str


class KindOfAddress(Struct, frozen=True, kw_only=True):
    """A kind of address, whether it can be used here, and what its target looks like."""

    kind: AddressKind
    about: str
    available: bool
    sample: str | None
    schemes: Sequence[Scheme] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """How well somebody can be reached, in a word, with its tone."""

    word: str
    tone: str


TONES: Final[Mapping[str, str]] = {"ok": "ok", "unverified": "warn", "failing": "warn", "disabled": "bad"}


def read_target(kind: AddressKind, target: str | None) -> str:
    """The target as it is kept, in one way of writing; the console has none."""
    if kind == "console":
        if target:
            raise Invalid("", FieldError("target", "unknown_field", "The console needs no target; leave it out"))
        return ""
    if not target:
        raise Invalid("", FieldError("target", "required", "It is needed"))
    return _mailbox(target) if kind == "email" else target.strip()


def check_target(kind: AddressKind, target: str) -> CheckedTarget:
    """What a target says of itself; whether its service exists and may be reached is known elsewhere."""
    if kind == "console":
        return CheckedTarget("console", None, "the page of the person")
    if kind == "email":
        return CheckedTarget("email", domain(target), masked(target))
    match = _URL.fullmatch(target)
    if match is None:
        raise Invalid("", FieldError("target", "apprise_url", "Write one Apprise URL, like 'ntfys://ntfy.sh/topic'"))
    scheme = match[1].lower()
    return CheckedTarget(scheme, match[2].rpartition("@")[2].partition(":")[0].lower() or None, f"{scheme}://***")


def printable(kind: AddressKind, target: str) -> str:
    """What two targets have in common that are one."""
    return f"{kind} {target.lower() if kind == 'email' else target}"


def first_health(kind: AddressKind, *, trusted: bool) -> Health:
    """Of an address that nothing was sent to yet."""
    return "unverified" if kind == "email" and not trusted else "ok"


def unique(tags: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(tags))


def taken(*, same_target: bool) -> Conflict:
    """Why an address cannot stand beside another one of the person."""
    if same_target:
        return Conflict("The person has this address already; change that one", code="duplicate_address")
    return Conflict("The person has an address of this label already; choose another label", code="label_taken")


def read_tags(text: str) -> list[str]:
    """Tags as somebody types them: words with commas or spaces between."""
    tags = unique(re.split(r"[\s,]+", text.strip().lower()) if text.strip() else [])
    if strange := next((tag for tag in tags if not re.match(TAG, tag)), None):
        raise Invalid(f"{strange[:40]!r} is no tag; write small letters and digits, like 'phone'", code="pattern")
    if len(tags) > MOST_TAGS:
        raise Invalid(f"At most {MOST_TAGS} tags fit here; these are {len(tags)}", code="length")
    return tags


def reach(addresses: Sequence[Address], *, paused: bool, quiet: bool) -> Reach:
    """How things stand with a person, the most important first."""
    usable = [one for one in addresses if one.active and one.health in ("ok", "failing")]
    if paused:
        return Reach("paused", "warn")
    if not addresses:
        return Reach("no address", "warn")
    if not usable:
        waits = any(one.active and one.health == "unverified" for one in addresses)
        return Reach("waits for confirmation", "warn") if waits else Reach("cannot be reached", "bad")
    if all(one.health == "failing" for one in usable):
        return Reach("failing", "warn")
    return Reach("quiet hours", "quiet") if quiet else Reach("reachable", "ok")


def _mailbox(target: str) -> str:
    try:
        return normal_email(target.strip())
    except Invalid as error:
        raise Invalid("", FieldError("target", error.code, error.message)) from error
