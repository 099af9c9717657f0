"""What requests about people and addresses carry, field by field."""

from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import Annotated, Any

import msgspec

from soonish.errors import FieldError
from soonish.people.model.address import MOST_TAGS, TAG, TARGET_LENGTH, AddressKind
from soonish.people.model.mail import normal_email
from soonish.people.model.person import Critical, QuietHours
from soonish.web.fields import LOCALE, UNSET, ZONE, Body, Instant, Paged, Unset, changes, checked, items, line, raw
from soonish.web.shapes import json_shape

ExternalId = Annotated[str, line(200)]
Name = Annotated[str, line(201)]
HalfName = Annotated[str, line(100)]
Email = Annotated[str, line(320), checked(normal_email)]
Tag = Annotated[str, line(40, pattern=TAG)]
Label = Annotated[str, line(60)]
Target = Annotated[str, raw(TARGET_LENGTH)]
Tags = Annotated[list[Tag], items(MOST_TAGS)]


class QuietTimes(Body):
    """When a person is not to be disturbed, by their own clock."""

    start: time
    end: time
    critical: Critical = "send"


class _Said(Body):
    """What may be said of a person; a field that is left out stays as it is."""

    name: Name | Unset | None = UNSET
    first_name: HalfName | Unset | None = UNSET
    last_name: HalfName | Unset | None = UNSET
    email: Email | Unset | None = UNSET
    timezone: ZONE | Unset = UNSET
    locale: LOCALE | Unset = UNSET
    date_of_birth: date | Unset | None = UNSET
    quiet_hours: QuietTimes | Unset | None = UNSET
    paused_until: Instant | Unset | None = UNSET


class PersonOfExternalId(_Said):
    """A person to be made or changed; a field that is left out stays as it is."""


class NewPerson(_Said):
    """A person to be made: a name, or first and last name, and what else is known."""

    external_id: ExternalId | Unset | None = UNSET


class PersonChange(_Said):
    """What to change of a person; null clears."""

    external_id: ExternalId | Unset | None = UNSET


class ManyPeople(Body):
    """People to be made, or changed where their external id is known; each row is judged by itself."""

    people: Annotated[list[Any], items(1000, 1)]


class PeopleQuery(Paged):
    """Which people."""

    q: Annotated[str, line(200)] | None = None
    external_id: ExternalId | None = None
    email: Annotated[str, line(320)] | None = None
    tag: Tag | None = None


class NewAddress(Body):
    """A way to reach a person."""

    kind: AddressKind
    label: Label
    target: Target | None = None
    tags: Tags = msgspec.field(default_factory=list)
    active: bool = True


class AddressChange(Body):
    """What to change of an address; a new target begins anew."""

    label: Label | Unset = UNSET
    tags: Tags | Unset = UNSET
    active: bool | Unset = UNSET
    target: Target | Unset = UNSET


def wish_of(body: _Said) -> dict[str, Any]:
    """What was said of a person, in the words of the model."""
    wish = changes(body)
    if hours := wish.get("quiet_hours"):
        wish["quiet_hours"] = QuietHours.of(hours.start, hours.end, hours.critical)
    return wish


def rows_of(people: Sequence[Any]) -> list[Mapping[str, Any] | Sequence[FieldError]]:
    """Each row as a wish, or what is wrong with it."""
    return [_row(one) for one in people]


def _row(value: Any) -> Mapping[str, Any] | Sequence[FieldError]:
    errors: list[FieldError] = []
    found = json_shape(NewPerson)(value, "", errors)
    return errors or wish_of(found)
