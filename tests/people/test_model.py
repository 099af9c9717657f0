"""The rules of people and addresses as values alone: mail addresses, pastes, tags, how somebody can be reached."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from soonish.errors import Invalid
from soonish.people.model.address import Address, check_target, reach, read_tags
from soonish.people.model.mail import masked, normal_email
from soonish.people.model.paste import read_paste

THEN = datetime(2026, 1, 1, tzinfo=UTC)
ADDRESS = Address(
    id=1, person_id=1, kind="apprise", label="phone", scheme="json", target_hint="json://***", tags=[], active=True,
    health="ok", disabled_reason=None, fails=0, last_ok_at=None, last_failed_at=None, last_error=None, verified_at=None,
    circuit_until=None, version=1, created_at=THEN, updated_at=THEN,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Ben@Example.ORG", "Ben@example.org"),
        ("ben+tag@bücher.example", "ben+tag@xn--bcher-kva.example"),
        ("b.e.n@straße.example", "b.e.n@xn--strae-oqa.example"),
        ("o'neil@example.org", "o'neil@example.org"),
        ("root@localhost", "root@localhost"),
    ],
)
def test_a_mail_address_is_written_in_one_way(text: str, kept: str) -> None:
    assert normal_email(text) == kept
    assert normal_email(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        "", "ben", "@example.org", "ben@", "ben@example..org", "ben@-a.example", "a b@example.org", "ben@exa mple.org",
        ".ben@example.org", "ben.@example.org", "b..n@example.org", '"ben"@example.org', "ben@[127.0.0.1]",
        "Ben <ben@example.org>", "ben@example.org,ana@example.org", "bén@example.org", "x" * 65 + "@example.org",
        "ben@example.org\r\nBcc: all@example.org", "ben@exa_mple.org",
    ],
)  # fmt: skip
def test_what_is_no_mail_address_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        normal_email(text)


def test_a_mask_shows_the_beginning_and_the_server() -> None:
    assert masked("ben@example.org") == "b***@example.org"


def test_a_target_says_what_speaks_there_and_where() -> None:
    checked = check_target("apprise", "NTFYS://user:pass@Push.Example.org:8443/topic?x=1")
    assert (checked.scheme, checked.host, checked.hint) == ("ntfys", "push.example.org", "ntfys://***")
    assert check_target("apprise", "tgram://123456:abc/chat").hint == "tgram://***"
    for text in ("", "ntfy", "://x", "1a://x", "ntfy:/x", "a://b c://d", "a://b\nc://d"):
        with pytest.raises(Invalid) as caught:
            check_target("apprise", text)
        assert caught.value.errors[0].code == "apprise_url"


def test_tags_are_words_with_commas_or_spaces_between() -> None:
    assert read_tags(" Phone, urgent urgent\ta:b ") == ["phone", "urgent", "a:b"]
    assert read_tags("  ") == []
    for text in ("no!", "-a", " ".join(f"t{n}" for n in range(21)), "x" * 41):
        with pytest.raises(Invalid):
            read_tags(text)


def owned(*changes: dict[str, Any]) -> Sequence[Address]:
    return [msgspec.structs.replace(ADDRESS, **one) for one in changes]


@pytest.mark.parametrize(
    ("addresses", "state", "word"),
    [
        ([], {}, "no address"),
        ([{}], {}, "reachable"),
        ([{}], {"quiet": True}, "quiet hours"),
        ([{}], {"paused": True, "quiet": True}, "paused"),
        ([{"active": False}], {}, "cannot be reached"),
        ([{"health": "disabled"}], {"quiet": True}, "cannot be reached"),
        ([{"health": "disabled"}, {}], {}, "reachable"),
        ([{"health": "unverified"}], {}, "waits for confirmation"),
        ([{"health": "failing"}], {}, "failing"),
        ([{"health": "failing"}, {}], {}, "reachable"),
    ],
)
def test_how_things_stand_with_somebody_is_one_word(
    addresses: list[dict[str, Any]], state: dict[str, bool], word: str
) -> None:
    found = reach(owned(*addresses), **{"paused": False, "quiet": False, **state})
    assert found.word == word


def test_a_paste_is_a_table_with_names_above_or_json_line_by_line() -> None:
    table = [{"name": "Ana", "email": "a@example.org"}, {"name": "Ben, Bo"}]
    assert read_paste('name,email\nAna,a@example.org\n"Ben, Bo",\n') == table
    assert read_paste("Email;Name\na@example.org;Ana\n;Ben, Bo") == table
    assert read_paste("\nname\temail\r\nAna\ta@example.org\r\nBen, Bo\r\n\r\n") == table
    assert read_paste(' {"name": "Ana"}\n\n{"name": "Ben"}') == [{"name": "Ana"}, {"name": "Ben"}]
    assert read_paste("name\nAna,too,much")[0] == {"name": "Ana", "": ["too", "much"]}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Ana,ana@example.org", "pattern"),
        ("name,name of the dog\nAna,Rex", "pattern"),
        ("name\n", "length"),
        ("name\n" + "Ana\n" * 1001, "length"),
        ('{"name": "Ana"}\n{"name"', "pattern"),
        ("{" + '"a":[' * 100_000, "pattern"),
    ],
)
def test_a_paste_that_cannot_be_read_is_refused_with_the_reason(text: str, code: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_paste(text)
    assert [(one.field, one.code) for one in caught.value.errors] == [("rows", code)]
