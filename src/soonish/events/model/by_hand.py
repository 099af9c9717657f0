"""What somebody signals to a workflow by hand, outside the API: read with the same limits. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from soonish.delivery.model.letters import Level
from soonish.errors import FieldError, Invalid
from soonish.events.model.broadcasts import MOST_NAMED

TITLE: Final = 200
BODY: Final = 10_000


def announcement(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Title, body, level and subscriptions of an announcement; raises Invalid naming all that is wrong."""
    if errors := list(_complaints(asked)):
        raise Invalid("", *errors)
    return {
        "title": asked["title"].strip(),
        "body": asked["body"].strip(),
        "notification_level": asked.get("notification_level") or "info",
        "subscription_ids": asked.get("subscription_ids"),
    }


def _complaints(asked: Mapping[str, Any]) -> Iterator[FieldError]:
    title, body, ids = asked.get("title"), asked.get("body"), asked.get("subscription_ids")
    if not _is_text(title, TITLE) or any(ord(one) < 32 for one in str(title).strip()):
        yield FieldError("title", "length", f"Give one line of 1 to {TITLE} characters")
    if not _is_text(body, BODY):
        yield FieldError("body", "length", f"Give 1 to {BODY} characters")
    if (asked.get("notification_level") or "info") not in get_args(Level):
        yield FieldError("notification_level", "one_of", f"Give one of {', '.join(get_args(Level))}")
    if ids is not None and not (isinstance(ids, list) and len(ids) <= MOST_NAMED and all(map(_is_id, ids))):
        yield FieldError("subscription_ids", "type", f"Give null, or a list of at most {MOST_NAMED} ids")


def _is_text(value: Any, most: int) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= most and "\x00" not in value


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**63
