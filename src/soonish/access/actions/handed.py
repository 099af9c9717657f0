"""What the program hands to access, for its routes to find at `app.state.access`. People are known here by number."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litestar import Request

from soonish.db.pool import Tx
from soonish.errors import FieldError, Invalid, NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What is asked of people when a browser signs in as one of them."""

    hold_person: Callable[[Tx, int], Awaitable[object]]
    """Raises NotFound where there is none; else nobody erases the person until the transaction ends."""
    name_people: Callable[[Tx, Sequence[int]], Awaitable[Mapping[int, str]]]


def access_of(request: Request[Any, Any, Any]) -> Access:
    return request.app.state.access  # type: ignore[no-any-return]


async def check_person(access: Access, tx: Tx, person_id: int | None) -> None:
    """Raise Invalid unless it names nobody, or somebody who is there and stays until the transaction ends."""
    if person_id is None:
        return
    try:
        await access.hold_person(tx, person_id)
    except NotFound as error:
        raise Invalid("", FieldError("person_id", "unknown_person", error.message)) from error
