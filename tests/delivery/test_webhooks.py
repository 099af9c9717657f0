"""The rules of webhooks: secrets, a receiver's own headers, and the pause that it may ask for."""

from datetime import UTC, datetime

import pytest

from soonish.delivery.model import webhooks
from soonish.errors import Invalid


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_secret_reads_as_it_was_shown(length: int) -> None:
    secret = bytes(range(length))
    assert webhooks.show_secret(secret).startswith("whsec_")
    assert webhooks.read_secret(webhooks.show_secret(secret)) == secret


@pytest.mark.parametrize(
    "text",
    ["", "whsec_", "whsec_abc", webhooks.show_secret(b"a" * 23), webhooks.show_secret(b"a" * 65), "c2VjcmV0" * 5],
)
def test_what_is_no_secret_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        webhooks.read_secret(text)
    assert refusal.value.code == "pattern"


@pytest.mark.parametrize(
    "name",
    ["Host", "content-type", "Content-Length", "WEBHOOK-ID", "soonish-attempt", "Connection", "transfer-encoding",
     "X-Idempotency-Key"],
)  # fmt: skip
def test_headers_that_are_ours_are_reserved(name: str) -> None:
    assert webhooks.reserved_header(name)
    assert [error.code for error in webhooks.header_errors({name: "x"})] == ["reserved_header"]


@pytest.mark.parametrize(
    ("headers", "codes"),
    [
        ({"X-Team": "hr", "Authorization": "Bearer abc", "Contents": "", "Hostess": "x"}, []),
        ({"X Team": "hr"}, ["pattern"]),
        ({"": "hr"}, ["pattern"]),
        ({"X-Team": "a" * 501}, ["length"]),
        ({"X-Team": "a\r\nb"}, ["control_character"]),
        ({"X-Team": "ä"}, ["control_character"]),
        ({"X-Team": "a", "x-team": "b"}, ["pattern"]),
        ({f"X-{n}": "" for n in range(10)}, []),
        ({f"X-{n}": "" for n in range(11)}, ["length"]),
    ],
)
def test_own_headers_are_few_short_and_harmless(headers: dict[str, str], codes: list[str]) -> None:
    assert [error.code for error in webhooks.header_errors(headers)] == codes


NOW = datetime(2026, 12, 1, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("3", 3.0),
        ("0", 0.0),
        (" 60 ", 60.0),
        ("999999999", 86400.0),
        ("Tue, 01 Dec 2026 18:01:30 GMT", 90.0),
        ("Tue, 01 Dec 2026 17:00:00 GMT", 0.0),
        ("Tue, 01 Dec 2026 18:01:30", 90.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 86400.0),
        ("Tue, 99 Dec 2026 18:01:30 GMT", None),
    ],
)
def test_a_pause_is_asked_for_in_seconds_or_as_a_date(text: str | None, seconds: float | None) -> None:
    assert webhooks.pause(text, NOW) == seconds
