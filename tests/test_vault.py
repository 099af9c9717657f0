"""Secrets open only with their key and in their place; tokens cannot be made or changed by others."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soonish import vault
from soonish.errors import Unavailable
from soonish.settings import WrongSettings
from soonish.vault import Hmac, Vault

PLACE = (1, "address", "target", 7)
NOW = datetime(2026, 12, 1, 18, tzinfo=UTC)
places = st.lists(st.integers() | st.text(), max_size=5)


def a_vault(*ids: str) -> Vault:
    return Vault({key_id: key_id.encode().ljust(32, b".") for key_id in ids})


@given(st.binary(max_size=300), places)
def test_what_is_sealed_opens_in_its_place(plain: bytes, place: list[int | str]) -> None:
    box = a_vault("a")
    assert box.unseal(box.seal(plain, place), place) == plain


@given(places, places)
def test_what_is_sealed_opens_in_no_other_place(place: list[int | str], other: list[int | str]) -> None:
    box = a_vault("a")
    blob = box.seal(b"secret", place)
    if place != other:
        with pytest.raises(Unavailable, match="does not open"):
            box.unseal(blob, other)


def test_a_number_and_its_digits_are_two_places() -> None:
    box = a_vault("a")
    with pytest.raises(Unavailable):
        box.unseal(box.seal(b"x", [1]), ["1"])


def test_the_same_secret_never_looks_the_same() -> None:
    box = a_vault("a")
    assert box.seal(b"x", PLACE) != box.seal(b"x", PLACE)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_noticed(position: int, change: int) -> None:
    box = a_vault("a")
    blob = bytearray(box.seal(b"secret", PLACE))
    blob[position % len(blob)] ^= change
    with pytest.raises((Unavailable, ValueError)):
        box.unseal(bytes(blob), PLACE)


@given(st.binary(max_size=40))
def test_what_was_never_sealed_does_not_open(blob: bytes) -> None:
    with pytest.raises((Unavailable, ValueError)):
        a_vault("a").unseal(blob, PLACE)


def test_after_a_rotation_the_first_key_writes_and_all_read() -> None:
    old, new = a_vault("old"), a_vault("new", "old")
    blob = old.seal(b"secret", PLACE)
    assert new.unseal(blob, PLACE) == b"secret"
    assert (vault.key_id(blob), vault.key_id(new.seal(b"x", PLACE)), new.writing_key_id) == ("old", "new", "new")


def test_a_secret_whose_key_is_gone_waits_for_it() -> None:
    blob = a_vault("old").seal(b"secret", PLACE)
    with pytest.raises(Unavailable, match="'old'"):
        a_vault("new").unseal(blob, PLACE)


def test_a_made_key_is_taken_by_the_setting() -> None:
    first, second = vault.make_key(), vault.make_key()
    box = Vault.from_setting(f"{first}, {second}")
    assert box.writing_key_id == first.split(":")[0]
    assert Vault.from_setting(second).unseal(Vault.from_setting(second).seal(b"x", PLACE), PLACE) == b"x"


@pytest.mark.parametrize(
    "text",
    [None, "", ",", base64.b64encode(bytes(32)).decode(), "a:" + base64.b64encode(bytes(31)).decode(), "a:%%%",
     "a b:AAAA", ",".join(["a:" + base64.b64encode(bytes(32)).decode()] * 2)],
)  # fmt: skip
def test_a_program_without_good_keys_does_not_start(text: str | None) -> None:
    with pytest.raises(WrongSettings) as refused:
        Vault.from_setting(text)
    assert [each.field for each in refused.value.errors] == ["SOONISH_SECRETS_KEYS"]
    assert "AAAA" not in refused.value.message


@given(
    st.integers(0, 2**63),
    st.lists(st.integers() | st.text(max_size=20), max_size=3),
    st.integers(1, 99),
    st.integers(1, 10**9),
)
def test_a_token_says_what_was_put_into_it(workspace: int, ids: list[int | str], version: int, seconds: int) -> None:
    expires = NOW + timedelta(seconds=seconds)
    token = Hmac(b"k" * 32).token("join", workspace, *ids, version=version, expires=expires)
    assert Hmac(b"k" * 32).check("join", token, NOW) == (workspace, tuple(ids), version, expires)
    assert token.replace("-", "").replace("_", "").replace(".", "").isalnum()


def test_a_token_of_another_purpose_or_key_is_none() -> None:
    token = Hmac(b"k" * 32).token("join", 1, 7)
    assert Hmac(b"k" * 32).check("leave", token, NOW) is None
    assert Hmac(b"l" * 32).check("join", token, NOW) is None


def test_a_token_ends_at_its_moment() -> None:
    maker = Hmac(b"k" * 32)
    token = maker.token("join", 1, 7, expires=NOW)
    assert maker.check("join", token, NOW - timedelta(seconds=1)) is not None
    assert maker.check("join", token, NOW) is None


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: base64.urlsafe_b64encode(data).decode() + ".x"))
def test_a_made_up_token_is_none(token: str) -> None:
    assert Hmac(b"k" * 32).check("join", token, NOW) is None


@given(st.integers(0, 10**6), st.sampled_from("AB-_.= !"))
def test_a_token_cannot_be_respelled(position: int, letter: str) -> None:
    maker = Hmac(b"k" * 32)
    token = maker.token("join", 1, 7)
    for changed in (
        token + letter,
        letter + token,
        token[: position % len(token)] + letter + token[position % len(token) + 1 :],
    ):
        assert changed == token or maker.check("join", changed, NOW) is None


def test_random_tokens_are_long_and_kept_as_a_hash() -> None:
    token = vault.new_token("sk_")
    assert len(token) == 46
    assert token != vault.new_token("sk_")
    assert len(vault.hash_token(token)) == 32
