"""A mailbox that asks to hear of an event: what it wishes, and what keeps a mail from going there. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from soonish.delivery.model.letters import Message
from soonish.events.model import texts
from soonish.events.model.events import Event
from soonish.events.model.terms import Terms

SECRET_COLUMNS: Final = (("subscription_request", "email"),)
"""The columns of events that are encrypted, as (table, column); each under its row's workspace and id."""
SOURCE: Final = "public"
ACTOR: Final = "mail"
"""Who asks on the pages behind links: whoever reads that mailbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Who wants to hear of it, and when they want to be reminded; no offsets of their own: as the event has it."""

    email: str
    name: str | None = None
    reminder_offsets: list[int] | None = None

    @property
    def called(self) -> str:
        """A name for a person of whom nothing else is known."""
        return self.name or self.email.rpartition("@")[0]


def hindrance(row: Mapping[str, Any], event: Event | None) -> str | None:
    """Why no mail goes to whoever asked, whatever went there before."""
    if row["over"]:
        return "expired"
    return None if event and event.is_open and event.is_public else "event_closed"


def too_many(counts: Mapping[str, Any], terms: Terms) -> str | None:
    """Why another mail would be a nuisance."""
    if counts["just_now"]:
        return "paused"
    return "mailbox_limit" if counts["of_day"] >= terms.join_per_mailbox_day else None


def mail(event: Event, row: Mapping[str, Any], ttl: timedelta, *, subscribed: bool) -> Message:
    """What the mailbox is told: the link to confirm, or the way to the subscription that it has."""
    span = texts.span(round(ttl.total_seconds()))
    title, body = texts.joined_already(event) if subscribed else texts.joining(event, span)
    because = {"because": "somebody asked on the page of the event"}
    return Message(title=title, body=body, hold="never", expires_at=row["expires_at"], because=because)
