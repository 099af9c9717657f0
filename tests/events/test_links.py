"""The links that a delivery gets when it is sent, made of its cause and its merge alone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from soonish.events.model.links import FEED, JOIN, LEAVE, MANAGE, PAGE, Links, links_of, merge_of
from soonish.vault import Hmac
from tests.events.test_texts import event

HMAC = Hmac(b"k" * 32)
LINKS = Links(HMAC, "https://soonish.example.org/")
NOW = datetime(2026, 12, 4, tzinfo=UTC)


def made(cause: str, merge: dict[str, Any], channel: str = "email", footer: str = "email") -> dict[str, str]:
    return links_of(LINKS, {"workspace_id": 3, "cause": cause, "channel": channel}, merge, footer)


def said(url: str, purpose: str) -> tuple[int, tuple[Any, ...], int]:
    """What the token in a link says, for that purpose and no other."""
    token = url.rpartition("/")[2].removesuffix(".ics")
    for other in {PAGE, JOIN, LEAVE, MANAGE, FEED} - {purpose}:
        assert HMAC.check(other, token, NOW) is None
    claim = HMAC.check(purpose, token, NOW)
    assert claim
    assert claim.expires is None
    return claim.workspace_id, claim.ids, claim.version


def test_each_link_has_one_purpose_and_is_the_same_whenever_it_is_made() -> None:
    found = made("event/12/broadcast/31", {"subscription_id": 88, "page": 2})
    assert found == made("event/12/reminder/3600/1", {"subscription_id": 88, "page": 2})
    assert said(found["link"], PAGE) == (3, (12,), 2)
    assert said(found["unsubscribe_url"], LEAVE) == (3, (88,), 1)
    assert said(found["manage_url"], MANAGE) == (3, (88,), 1)
    assert found["link"].startswith("https://soonish.example.org/p/event/")
    assert said(LINKS.feed(3, 9, 4), FEED) == (3, (9,), 4)


def test_the_mail_to_a_mailbox_has_the_link_of_its_request() -> None:
    assert said(made("event/12/join/5", {})["join_url"], JOIN) == (3, (5,), 1)
    assert set(made("event/12/created", {})) == set()


@pytest.mark.parametrize(
    ("channel", "setting", "named"),
    [("email", "email", False), ("email", "all", False), ("apprise", "email", False), ("apprise", "all", True)],
)
def test_other_channels_name_the_ways_out_where_it_is_wanted(channel: str, setting: str, named: bool) -> None:
    found = made("event/12/broadcast/31", {"subscription_id": 88}, channel, setting)
    assert ("footer" in found) is named
    if named:
        assert found["manage_url"] in found["footer"]
        assert found["unsubscribe_url"] in found["footer"]


@pytest.mark.parametrize(
    ("more", "merge"),
    [
        ({"is_public": True, "link_generation": 2}, {"subscription_id": 88, "page": 2}),
        ({"is_public": True, "link": "https://x.org"}, {"subscription_id": 88}),
        ({"is_public": False}, {"subscription_id": 88}),
    ],
)
def test_the_page_is_the_link_of_a_public_event_that_has_none(more: dict[str, Any], merge: dict[str, Any]) -> None:
    assert merge_of(event(**more), 88) == merge
    assert "subscription_id" not in merge_of(event(**more))
