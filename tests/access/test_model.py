"""The pure rules: what has the form of a secret, what may be shown of one, what the record keeps of a change."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from soonish.access.model import (
    AuditEntry,
    Workspace,
    changed,
    csrf_token,
    hint,
    is_key,
    is_token,
    key_ids,
    readable,
    told,
)
from soonish.vault import new_token

WORKSPACE = Workspace(
    id=7,
    slug="acme",
    name="Acme",
    timezone="UTC",
    locale="en",
    email_trust="confirm",
    unknown_people="retry_once",
    closed_at=None,
    version=3,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    updated_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def test_a_new_key_has_the_form_of_a_key() -> None:
    assert is_key(new_token("sk_"))


@pytest.mark.parametrize("text", ["", "sk_", "sk_short", "pk_" + "a" * 43, "sk_" + "a" * 44, "sk_" + "é" * 43])
def test_what_has_not_the_form_of_a_key_is_none(text: str) -> None:
    assert not is_key(text)


@pytest.mark.parametrize("text", ["a" * 42, "a" * 43 + "\n", "/" * 43])
def test_what_has_not_the_form_of_a_token_is_none(text: str) -> None:
    assert not is_token(text)


def test_the_hint_of_a_key_is_its_first_seven_characters() -> None:
    assert hint("sk_AbCdefgh") == "sk_AbCd"


def test_a_form_token_needs_both_the_cookie_and_the_half_that_is_kept() -> None:
    token = csrf_token("cookie", b"half")
    assert token == csrf_token("cookie", b"half")
    assert token not in (csrf_token("other", b"half"), csrf_token("cookie", b"other"))


def test_a_wish_for_what_is_so_already_is_no_change() -> None:
    assert changed(WORKSPACE, {"name": "Acme", "locale": "de"}) == {"locale": "de"}


def test_the_record_keeps_values_but_never_a_name() -> None:
    assert told(WORKSPACE, {"name": "Ben's", "locale": "de"}) == {"name": {}, "locale": {"from": "en", "to": "de"}}


def entry(actor: str, verb: str, entity: str, **changes: Any) -> AuditEntry:
    request_id = UUID("6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return AuditEntry(id=1, at=at, actor=actor, request_id=request_id, verb=verb, entity=entity, changes=changes)


@pytest.mark.parametrize(
    ("given", "sentence", "detail"),
    [
        (entry("key:1", "make", "api_key/2", role="read", expires_at=None), "key “Ann” made key 2", "role read"),
        (entry("sign_in:5", "sign_in", "sign_in/5", login_link=3), "sign-in 5 signed in", "login link 3"),
        (entry("system", "revoke", "api_key/1"), "this server revoked key “Ann”", ""),
        (entry("key:9", "pause", "pause/delivery.send"), "key 9 paused delivery.send", ""),
        (
            entry("key:1", "change", "workspace/1", locale={"from": "en", "to": "de"}, name={}),
            "key “Ann” changed workspace 1",
            "locale en → de, name",
        ),
        (
            entry("key:1", "make", "login_link/4", expires_at="2026-03-01T12:05:00.25Z"),
            "key “Ann” made login link 4",
            "expires at 01 Mar 2026 12:05 UTC",
        ),
    ],
)
def test_a_line_of_the_record_is_a_sentence(given: AuditEntry, sentence: str, detail: str) -> None:
    line = readable(given, {1: "Ann"})
    assert (f"{line.who} {line.did}", line.detail) == (sentence, detail)


def test_the_keys_that_the_record_speaks_of_are_looked_up_once() -> None:
    entries = [
        entry("key:3", "make", "api_key/2"),
        entry("sign_in:7", "end", "sign_in/8"),
        entry("key:3", "x", "due/1"),
    ]
    assert key_ids(entries) == [2, 3]
