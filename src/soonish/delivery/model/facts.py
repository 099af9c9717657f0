"""What machines are told: the types of facts, who subscribes to which, and the envelope that carries one.

Pure: knows no database and no channel. What a type means is known to the slice that registers it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from msgspec import Struct

from soonish.errors import FieldError

Ladder: TypeAlias = Literal["short", "long"]
Json: TypeAlias = dict[str, Any]

ALL: Final = "*"
CUSTOM: Final = "custom"
TEST: Final = "soonish.test"
TYPE_LENGTH: Final = 64
DATA_BYTES: Final = 16_384
ENVELOPE_BYTES: Final = 20_000
TYPE: Final = r"[a-z][a-z0-9]*(\.[a-z][a-z0-9_]*){1,2}"
CUSTOM_TYPE: Final = rf"^{CUSTOM}(\.[a-z][a-z0-9_]*){{1,2}}$"

_TYPE: Final = re.compile(TYPE)
_CUSTOM: Final = re.compile(CUSTOM_TYPE)
_FAMILY: Final = re.compile(r"([a-z][a-z0-9]*)\.\*")


class FactType(Struct, frozen=True, kw_only=True):
    """One type of facts: how long it is worth trying to tell it, and what its data is."""

    name: str
    ladder: Ladder
    schema: Json
    example: Json


class FactTypes:
    """The types that this program states; those that begin with `custom.` need no entry."""

    def __init__(self, types: Iterable[FactType] = ()) -> None:
        self._all: dict[str, FactType] = {}
        for one in (*KERNEL, *types):
            if len(one.name) > TYPE_LENGTH or not _TYPE.fullmatch(one.name) or one.name.startswith(f"{CUSTOM}."):
                raise ValueError(f"fact type {one.name!r}: write it like 'game.reminder_due'")
            if one.name in self._all:
                raise ValueError(f"fact type {one.name!r} is registered twice")
            self._all[one.name] = one
        self._families = {CUSTOM, *(name.partition(".")[0] for name in self._all)}

    def __iter__(self) -> Iterator[FactType]:
        return iter(sorted(self._all.values(), key=lambda one: one.name))

    def ladder(self, name: str) -> Ladder:
        """How long facts of a type are worth telling; those of an unknown type, for long."""
        return self._all[name].ladder if name in self._all else "long"

    def knows(self, pattern: str) -> bool:
        """Whether an endpoint may subscribe to this: a type, the first word of some with `.*`, or `*`."""
        if family := _FAMILY.fullmatch(pattern):
            return family[1] in self._families
        return pattern == ALL or pattern in self._all or is_custom(pattern)

    def complaints(self, patterns: Sequence[str]) -> Iterator[FieldError]:
        """What of a list of subscriptions no fact will ever fit."""
        for n, pattern in enumerate(patterns):
            if not self.knows(pattern):
                yield FieldError(f"fact_types.{n}", "unknown_fact_type", _unknown(pattern))


def is_custom(name: str) -> bool:
    """Whether it is a type that users make up."""
    return len(name) <= TYPE_LENGTH and _CUSTOM.fullmatch(name) is not None


def subscriptions(name: str) -> list[str]:
    """The entries in an endpoint's list that a fact of this type fits."""
    return [name, f"{name.partition('.')[0]}.*", ALL]


def _unknown(pattern: str) -> str:
    return f"{pattern!r} is no fact type here; see GET /v1/fact-types, or write {CUSTOM}.*, or {ALL} for all"


# --- one fact


class Fact(Struct, frozen=True, kw_only=True):
    """Something that happened or is due, told to machines."""

    id: int
    wire_id: str
    type: str
    subject: str
    cause: str
    data: Json
    occurred_at: datetime
    due_at: datetime | None
    deliver_until: datetime | None


class Told(Struct, frozen=True, kw_only=True):
    """How many deliveries something has, by their state."""

    total: int
    sent: int
    pending: int
    failed: int
    unknown: int
    skipped: int


class FactDetail(Fact, frozen=True, kw_only=True):
    """A fact, the envelope that carries it, and what became of its deliveries."""

    envelope: Json
    deliveries: Told


class StatedFact(Struct, frozen=True, kw_only=True):
    """A fact that was stated, and how many deliveries that made."""

    id: int
    deliveries: int


def fact(row: Mapping[str, Any]) -> Fact:
    """A row as the API shows it."""
    return Fact(**_shown(row))


def detail(row: Mapping[str, Any], sent: bytes, deliveries: Told) -> FactDetail:
    """The same with what its receivers get."""
    return FactDetail(**_shown(row), envelope=msgspec.json.decode(sent), deliveries=deliveries)


def _shown(row: Mapping[str, Any]) -> Json:
    names = ("id", "type", "subject", "cause", "occurred_at", "due_at", "deliver_until")
    return {
        **{name: row[name] for name in names},
        "wire_id": fact_wire_id(row["wire_id"]),
        "data": msgspec.json.decode(row["data"]),
    }


def fact_wire_id(uid: UUID) -> str:
    """The id of a fact as receivers see it."""
    return f"fct_{uid.hex}"


def source(uid: UUID | str, slug: str) -> str:
    """Who states facts: this workspace of this installation."""
    return f"urn:soonish:{uid}:{slug}"


def envelope(row: Mapping[str, Any], uid: UUID | str, slug: str) -> bytes:
    """The body of every delivery of a fact: a function of its row alone, so each try has the same bytes.

    `row` has wire_id, type, subject, cause, occurred_at, due_at, and data as the text that the database keeps.
    """
    at = row["occurred_at"].astimezone(UTC)
    said = _Envelope(
        specversion="1.0",
        id=fact_wire_id(row["wire_id"]),
        source=source(uid, slug),
        type=row["type"],
        time=at,
        timestamp=at,
        subject=row["subject"],
        cause=row["cause"],
        dueat=row["due_at"] and row["due_at"].astimezone(UTC),
        datacontenttype="application/json",
        # Numbers stay as they are written: read and written again, some would change.
        data=msgspec.Raw(msgspec.json.format(row["data"].encode(), indent=-1)),
    )
    return _JSON.encode(said)


class _Envelope(Struct, kw_only=True, omit_defaults=True):
    """In the order of the wire. What is empty is left out."""

    specversion: str
    id: str
    source: str
    type: str
    time: datetime
    timestamp: datetime
    subject: str = ""
    cause: str
    dueat: datetime | None = None
    datacontenttype: str
    data: msgspec.Raw


_JSON: Final = msgspec.json.Encoder()


def too_large(data: Json) -> bool:
    """Whether the database would keep more of this than a fact may have."""
    return len(msgspec.json.encode(data)) + _written_out(data) > DATA_BYTES


def _written_out(data: Any) -> int:
    """How much longer numbers become, for the database keeps all their digits: 1e300 has 301."""
    rest, more = [data], 0
    while rest:
        one = rest.pop()
        if isinstance(one, float):
            more += max(0, len(format(Decimal(repr(one)), "f")) - len(repr(one)))
        elif isinstance(one, dict):
            rest += one.values()
        elif isinstance(one, list):
            rest += one
    return more


# --- what the kernel states


class _Field(NamedTuple):
    """A field of a fact's data: its schema, and a value for the example."""

    schema: Json
    example: Any


_ID: Final = {"type": "integer"}
_TEXT: Final = {"type": "string"}
_NAMES: Final = {"type": "array", "items": _TEXT}


def _kernel(name: str, ladder: Ladder = "long", **fields: _Field) -> FactType:
    schema = {
        "type": "object",
        "properties": {key: field.schema for key, field in fields.items()},
        "required": list(fields),
    }
    return FactType(name=name, ladder=ladder, schema=schema, example={key: one.example for key, one in fields.items()})


def _kernel_types() -> Iterator[FactType]:
    person, endpoint = _Field(_ID, 7), _Field(_ID, 3)
    for verb, names in (("created", []), ("updated", ["timezone"]), ("removed", [])):
        yield _kernel(f"person.{verb}", person_id=person, changed=_Field(_NAMES, names))
    yield _kernel("address.disabled", address_id=_Field(_ID, 31), person_id=person, reason=_Field(_TEXT, "http_404"))
    for verb, reason in (("disabled", "gone"), ("enabled", "asked")):
        yield _kernel(f"endpoint.{verb}", endpoint_id=endpoint, reason=_Field(_TEXT, reason))
    for state in ("failed", "unknown"):
        yield _kernel(
            f"delivery.{state}",
            delivery_id=_Field(_ID, 55),
            person_id=_Field({"type": ["integer", "null"]}, 7),
            cause=_Field(_TEXT, "message/12"),
            reason=_Field(_TEXT, "exhausted" if state == "failed" else "timeout"),
        )
    yield _kernel(
        "due.dead",
        due_id=_Field(_ID, 941),
        kind=_Field(_TEXT, "delivery.message"),
        key=_Field(_TEXT, "12"),
        reason=_Field(_TEXT, "budget"),
    )
    yield _kernel(TEST, "short", endpoint_id=endpoint)


KERNEL: Final = tuple(_kernel_types())
