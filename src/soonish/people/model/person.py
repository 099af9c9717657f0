"""A person, and the rules for what is said of one. Pure: the moment and the workspace's zone and language come in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from soonish import clock
from soonish.errors import FieldError, Invalid

Critical: TypeAlias = Literal["send", "hold"]

FIELDS: Final = (
    "external_id", "name", "first_name", "last_name", "email", "timezone", "locale", "date_of_birth", "quiet_hours",
    "paused_until",
)  # fmt: skip
FIRST_BIRTHDAY: Final = date(1900, 1, 1)
ERASE: Final = "people.erase"
"""The kind of the item that removes what others keep about a person."""
ERASED: Final = "erased"
"""The name of whoever was erased: no page shows it."""

_TOLD: Final = frozenset({"timezone", "locale"})  # what the record may repeat; the rest tells who somebody is


class QuietHours(Struct, frozen=True, kw_only=True):
    """When a person is not to be disturbed, by their own clock; across midnight where they start after they end."""

    start: str
    end: str
    critical: Critical = "send"

    @classmethod
    def of(cls, start: time, end: time, critical: Critical = "send") -> "QuietHours":
        return cls(start=_clock(start), end=_clock(end), critical=critical)

    @property
    def times(self) -> tuple[time, time]:
        return time.fromisoformat(self.start), time.fromisoformat(self.end)


class Person(Struct, frozen=True, kw_only=True):
    """Somebody who can be told something."""

    id: int
    external_id: str | None
    name: str
    first_name: str | None
    last_name: str | None
    email: str | None
    timezone: str
    locale: str
    date_of_birth: date | None
    quiet_hours: QuietHours | None
    paused_until: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Place:
    """What holds where nothing else is said: the workspace's zone and language; and the moment, by the database."""

    timezone: str
    locale: str
    now: datetime
    trusted: bool = False  # whether new mail addresses are used at once


def plan_person(wish: Mapping[str, Any], before: Person | None, place: Place) -> dict[str, Any]:
    """All fields of the person as they will be; raises Invalid with each that cannot be so.

    A field that the wish does not name stays; a new person gets the workspace's zone and language.
    """
    values: dict[str, Any] = {name: getattr(before, name, None) for name in FIELDS}
    if before is None:
        values |= {"timezone": place.timezone, "locale": place.locale}
    values |= wish
    values["name"] = _name(wish, before, values)
    errors = [*_names(values), *_birthday(wish, before, values, place), *_quiet(values["quiet_hours"])]
    if errors:
        raise Invalid("", *errors)
    return values


def changed(before: Person, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that will be different."""
    return tuple(name for name in FIELDS if getattr(before, name) != values[name])


def told(before: Person, after: Person) -> dict[str, Any]:
    """A change as the record keeps it: which fields, and values only where they say nothing about who it is."""
    names = [name for name in FIELDS if getattr(before, name) != getattr(after, name)]
    return {
        name: {"from": getattr(before, name), "to": getattr(after, name)} if name in _TOLD else {} for name in names
    }


def label(key: str) -> str:
    """What an item that erases is about."""
    return f"Erase what is kept about person {key}"


def _name(wish: Mapping[str, Any], before: Person | None, values: Mapping[str, Any]) -> str | None:
    """The name that was given, else first and last name together, else the one so far."""
    both = _both(values["first_name"], values["last_name"])
    if wish.get("name") is not None:
        return str(wish["name"])
    own = before is not None and before.name != _both(before.first_name, before.last_name)
    if "name" in wish or before is None or not own:
        return both or (before.name if before and "name" not in wish else None)
    return before.name


def _both(first: str | None, last: str | None) -> str | None:
    return f"{first} {last}" if first and last else None


def _names(values: Mapping[str, Any]) -> Iterator[FieldError]:
    missing = [name for name in ("first_name", "last_name") if values[name] is None]
    if len(missing) == 1:
        yield FieldError(missing[0], "required", "First and last name go together: give both, or `name` alone")
    elif values["name"] is None:
        yield FieldError("name", "required", "Give a name, or first_name and last_name")


def _birthday(
    wish: Mapping[str, Any], before: Person | None, values: Mapping[str, Any], place: Place
) -> Iterator[FieldError]:
    born: date | None = values["date_of_birth"]
    if born is None:
        return
    if before is None and "timezone" not in wish:
        yield FieldError("timezone", "required", "With a date of birth, say in which zone the person lives")
    if born < FIRST_BIRTHDAY:
        yield FieldError("date_of_birth", "range", f"Nobody here was born before {FIRST_BIRTHDAY}")
    elif born > place.now.astimezone(clock.zone(values["timezone"])).date():
        yield FieldError("date_of_birth", "in_future", "This day has not come yet where the person lives")


def _quiet(hours: QuietHours | None) -> Iterator[FieldError]:
    if hours and hours.start == hours.end:
        yield FieldError("quiet_hours.end", "range", "Quiet hours end at another time than they start")


def _clock(at: time) -> str:
    """As people write it; seconds only where there are any."""
    return at.isoformat("seconds" if at.second else "minutes")
