"""An Apprise API server in place of the library: a small one of ours speaks that protocol here."""

import json
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import pytest

from soonish.delivery.channel import Letter, Outcome, Target
from soonish.delivery.channels.apprise_api import AppriseApi
from soonish.delivery.egress import Guard
from tests.support.receiver import Receiver, Reply

LETTER = Letter("dlv_" + "5f" * 16, "Doors open", "Hello Ben", level="critical")
BEN = Target(1, 1, 1, "json://8.8.8.8/sesame-open", {})
JSON = {"content-type": "application/json"}


def said(status: int, *lines: tuple[str, str], error: str | None = "Not all was sent") -> Reply:
    """What that server answers: its log as lines of level, time and text."""
    details = [[level, "2026-11-19 12:00:00,000", text] for level, text in lines]
    return Reply(status, JSON, json.dumps({"error": error, "details": details}).encode())


def fate(outcome: Outcome) -> tuple[str, bool, str, int | None]:
    return outcome.result, outcome.permanent, outcome.code, outcome.status


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def api(receiver: Receiver) -> AsyncIterator[AppriseApi]:
    api = AppriseApi(f"http://127.0.0.1:{receiver.port}/base/", Guard())  # the operator's own address is trusted
    yield api
    await api.close()


async def test_the_server_is_asked_to_send_to_the_one_url(api: AppriseApi, receiver: Receiver) -> None:
    assert fate(await api.send(BEN, LETTER)) == ("sent", False, "ok", 200)
    arrival = receiver.arrivals[0]
    assert (arrival.method, arrival.path) == ("POST", "/base/notify")
    assert json.loads(arrival.body) == {
        "urls": "json://8.8.8.8/sesame-open",
        "title": "Doors open",
        "body": "Hello Ben",
        "type": "failure",
        "format": "text",
    }
    assert arrival.headers["accept"] == "application/json"
    assert arrival.headers["x-apprise-log-level"] == "INFO"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (said(200, ("INFO", "Sent JSON POST notification."), error=None), ("sent", False, "ok", 200)),
        (Reply(200, body=b"<html>"), ("sent", False, "ok", 200)),
        (Reply(204), ("failed", True, "no_service", 204)),
        (said(400), ("failed", True, "rejected", 400)),
        (Reply(403), ("failed", True, "http_403", 403)),
        (said(424, ("WARNING", "Failed to send"), ("INFO", "Loading")), ("failed", False, "http_424", 424)),
        (said(424, ("WARNING", "Sent nothing at all")), ("failed", False, "http_424", 424)),
        (said(424, ("INFO", "Sent JSON."), ("WARNING", "Failed")), ("partial", False, "partial", 424)),
        (Reply(424, body=b"no JSON at all \xff"), ("failed", False, "http_424", 424)),
        (Reply(424, JSON, b'{"details": [1, ["INFO"], null]}'), ("failed", False, "http_424", 424)),
        (Reply(424, JSON, b'["details"]'), ("failed", False, "http_424", 424)),
        (Reply(424, JSON, b"[" * 60_000), ("failed", False, "http_424", 424)),
        (Reply(408), ("failed", False, "http_408", 408)),
        (Reply(500), ("failed", False, "http_500", 500)),
        (Reply(302, {"location": "http://127.0.0.1:9/"}), ("failed", False, "http_302", 302)),
        (Reply(way="cut"), ("unknown", False, "lost", None)),
        (Reply(200, way="huge"), ("sent", False, "ok", 200)),
        (Reply(500, way="cut body"), ("failed", False, "http_500", 500)),
    ],
)
async def test_an_answer_counts_by_its_status_and_for_424_by_its_lines(
    api: AppriseApi, receiver: Receiver, reply: Reply, expected: Any
) -> None:
    receiver.answer(reply)
    assert fate(await api.send(BEN, LETTER)) == expected
    assert len(receiver.arrivals) == 1


async def test_a_server_can_ask_for_a_pause(api: AppriseApi, receiver: Receiver) -> None:
    receiver.answer(Reply(429, {"retry-after": "7"}))
    assert (await api.send(BEN, LETTER)).retry_after == 7.0


async def test_what_it_says_does_not_tell_the_target(api: AppriseApi, receiver: Receiver) -> None:
    receiver.answer(said(424, error="Could not tell json://8.8.8.8/sesame-open"))
    assert (await api.send(BEN, LETTER)).answer == "Could not tell json://***/***"


async def test_no_answer_in_time_leaves_doubt(receiver: Receiver) -> None:
    receiver.answer(Reply(way="hang"))
    api = AppriseApi(f"http://127.0.0.1:{receiver.port}", Guard(), limit=0.5)
    assert fate(await api.send(BEN, LETTER)) == ("unknown", False, "timeout", None)
    await api.close()


async def test_a_server_that_is_away_is_tried_again() -> None:
    async with Receiver() as receiver:
        url = f"http://127.0.0.1:{receiver.port}"
    api = AppriseApi(url, Guard())
    assert fate(await api.send(BEN, LETTER)) == ("failed", False, "no_connection", None)
    await api.close()


@pytest.mark.parametrize(
    "url",
    [
        "json://127.0.0.1/x",
        "json://localhost/x",
        "jsons://10.0.0.7",
        "json://2130706433/",
        "xml://0x7f.1:8080/",
        "json://[::1]/",
    ],
)
async def test_a_target_that_must_not_be_dialled_is_not_told_to_the_server(
    api: AppriseApi, receiver: Receiver, url: str
) -> None:
    assert fate(await api.send(Target(1, 1, 1, url, {}), LETTER)) == ("failed", True, "egress_refused", None)
    assert not receiver.arrivals


async def test_with_the_range_opened_it_is(receiver: Receiver) -> None:
    api = AppriseApi(f"http://127.0.0.1:{receiver.port}", Guard([ip_network("127.0.0.0/8")]))
    assert (await api.send(Target(1, 1, 1, "json://localhost/x", {}), LETTER)).result == "sent"
    await api.close()


@pytest.mark.parametrize("url", ["tgram://123456789:abcdefg_hijklmnop/12315544/", "ntfy://a-topic"])
async def test_a_service_with_a_host_of_its_own_needs_no_judgement(api: AppriseApi, url: str) -> None:
    assert (await api.send(Target(1, 1, 1, url, {}), LETTER)).result == "sent"


async def test_a_name_that_cannot_be_resolved_now_is_tried_again(api: AppriseApi) -> None:
    assert fate(await api.send(Target(1, 1, 1, "json://nobody.invalid", {}), LETTER)) == ("failed", False, "dns", None)


async def test_what_is_no_target_any_more_ends_for_good(api: AppriseApi, receiver: Receiver) -> None:
    assert (await api.send(Target(1, 1, 1, "json://8.8.8.8/?verify=no", {}), LETTER)).code == "apprise_parameter"
    assert (await api.send(Target(1, 1, 1, "nosuchservice://x", {}), LETTER)).code == "apprise_scheme"
    assert (await api.send(Target(1, 1, 1, "discord://x", {}), LETTER)).code == "apprise_url"
    assert not receiver.arrivals
