"""The links of events: what stands behind each, and what a message carries so that they can be made when it is sent.

A link is a signed token of one purpose, without end, and stored nowhere. Pure: the key comes in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from soonish.events.model.events import Event

PAGE: Final = "event_page"
JOIN: Final = "event_join"
LEAVE: Final = "event_leave"
MANAGE: Final = "event_manage"
FEED: Final = "event_feed"
CAUSES: Final = "event/"
"""All that people are told of events begins with this."""
SUFFIX: Final = ".ics"


class Signer(Protocol):
    """What signs tokens."""

    def token(self, purpose: str, workspace_id: int, *ids: int | str, version: int = 1) -> str: ...


@dataclass(frozen=True, slots=True)
class Links:
    """What makes the links of one installation."""

    hmac: Signer
    public_url: str

    def page(self, workspace_id: int, event_id: int, generation: int) -> str:
        """The page of an event for everybody; a new generation makes the older links void."""
        return self._url("event", self.hmac.token(PAGE, workspace_id, event_id, version=generation))

    def join(self, workspace_id: int, request_id: int) -> str:
        return self._url("join", self.hmac.token(JOIN, workspace_id, request_id))

    def leave(self, workspace_id: int, subscription_id: int) -> str:
        return self._url("unsubscribe", self.hmac.token(LEAVE, workspace_id, subscription_id))

    def manage(self, workspace_id: int, subscription_id: int) -> str:
        return self._url("subscription", self.hmac.token(MANAGE, workspace_id, subscription_id))

    def feed(self, workspace_id: int, person_id: int, generation: int) -> str:
        return self._url("calendar", self.hmac.token(FEED, workspace_id, person_id, version=generation)) + SUFFIX

    def _url(self, noun: str, token: str) -> str:
        return f"{self.public_url.rstrip('/')}/p/{noun}/{token}"


def merge_of(event: Event, subscription_id: int | None = None) -> dict[str, Any]:
    """What a delivery keeps for its links: the subscription; and the page of the event, where it is the link."""
    found = {} if subscription_id is None else {"subscription_id": subscription_id}
    return found | ({"page": event.link_generation} if event.is_public and not event.link else {})


def links_of(links: Links, row: Mapping[str, Any], merge: Mapping[str, Any], footer: str) -> dict[str, str]:
    """The links of one delivery, from its row. `footer`: `email`, or `all` channels name the ways out."""
    workspace_id: int = row["workspace_id"]
    _, event_id, *rest = str(row["cause"]).split("/")
    found: dict[str, str] = {}
    if "page" in merge:
        found["link"] = links.page(workspace_id, int(event_id), merge["page"])
    if rest[0] == "join":
        found["join_url"] = links.join(workspace_id, int(rest[1]))
    if "subscription_id" in merge:
        found |= _ways_out(links, workspace_id, merge["subscription_id"])
        if footer == "all" and row["channel"] != "email":
            found["footer"] = f"Your reminders: {found['manage_url']}\nUnsubscribe: {found['unsubscribe_url']}"
    return found


def _ways_out(links: Links, workspace_id: int, subscription_id: int) -> dict[str, str]:
    return {
        "unsubscribe_url": links.leave(workspace_id, subscription_id),
        "manage_url": links.manage(workspace_id, subscription_id),
    }
