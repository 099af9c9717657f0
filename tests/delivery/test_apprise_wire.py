"""The way out of Apprise: what its HTTP client and its sockets may reach, and what is noted of it."""

import asyncio
import os
import socket
import ssl
import subprocess
from contextvars import copy_context
from ipaddress import ip_network
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import requests

from soonish.delivery.channel import Outcome
from soonish.delivery.channels.apprise import outcome
from soonish.delivery.channels.apprise_wire import Account, Barred, Session, keeping
from soonish.delivery.egress import Guard
from tests.support.receiver import Receiver, Reply
from tests.support.smtp import make_certificate

LOOPBACK = [ip_network("127.0.0.0/8")]
Fate = tuple[str, bool, str, int | None]


def fate(outcome: Outcome) -> Fate:
    return outcome.result, outcome.permanent, outcome.code, outcome.status


def account(**seen: Any) -> Account:
    return Account(Guard(), monotonic() + 10, **seen)


@pytest.mark.parametrize(
    "escape",
    [
        lambda: subprocess.run(["true"]),
        lambda: os.system("true"),
        lambda: socket.create_connection(("127.0.0.1", 9)),
        lambda: socket.socket(socket.AF_UNIX).connect("/tmp/none"),
    ],
)
def test_the_code_of_a_service_cannot_leave_its_try(escape: Any) -> None:
    kept = account()

    def attempt() -> None:
        with keeping(kept), pytest.raises(Barred):
            escape()

    copy_context().run(attempt)
    assert kept.refusal
    assert kept.refusal.code == "egress_refused"


def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def ask(kept: Account, url: str, **options: Any) -> int:
    with keeping(kept), Session() as session:
        return session.get(url, **options).status_code


async def test_tls_is_spoken_to_the_judged_address_and_its_certificate_is_for_the_name(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path / "cert.pem")
    guard = Guard(LOOPBACK, resolve=lambda _host, _port: ["127.0.0.1"])
    async with Receiver(tls=tls(certificate)) as receiver:
        good, wrong = Account(guard, monotonic() + 10), Account(guard, monotonic() + 10)
        url = f"https://127.0.0.1:{receiver.port}/in"
        assert await asyncio.to_thread(ask, good, url, verify=str(certificate)) == 200
        with pytest.raises(requests.exceptions.SSLError):
            await asyncio.to_thread(ask, wrong, url.replace("127.0.0.1", "example.org"), verify=str(certificate))
        assert len(receiver.arrivals) == 1
    assert (good.written, good.statuses, wrong.written) == (1, [200], 0)


async def test_a_try_that_ends_cuts_what_waits_behind_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path / "cert.pem")
    async with Receiver(Reply(way="hang"), tls=tls(certificate)) as receiver:
        kept = Account(Guard(LOOPBACK), monotonic() + 100)
        url = f"https://127.0.0.1:{receiver.port}/in"
        waiting = asyncio.create_task(asyncio.to_thread(ask, kept, url, verify=str(certificate), timeout=90))
        await receiver.wait()
        kept.end()
        with pytest.raises(requests.RequestException):
            await waiting
    assert kept.lost


def test_outside_of_a_try_the_lent_client_dials_nobody() -> None:
    with pytest.raises(Barred), Session() as session:
        session.get("http://127.0.0.1:9/")


def test_when_a_try_is_over_nothing_more_is_written() -> None:
    kept = account()
    kept.end()
    with keeping(kept), pytest.raises(Barred), Session() as session:
        session.get("http://8.8.8.8/")
    assert kept.written == 0


def test_a_request_is_noted_as_written_only_once_it_is_on_the_wire() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        kept = Account(Guard(LOOPBACK), monotonic() + 10)
        with keeping(kept), Session() as session, pytest.raises(requests.ConnectionError):
            session.get(f"http://127.0.0.1:{nobody.getsockname()[1]}/")
    assert (kept.written, kept.lost) == (0, False)


@pytest.mark.parametrize(
    ("verdict", "seen", "expected"),
    [
        (True, {"written": 1, "statuses": [200]}, ("sent", False, "ok", 200)),
        (False, {"written": 2, "statuses": [200, 404]}, ("partial", False, "partial", 404)),
        (False, {"written": 2, "statuses": [404, 500]}, ("failed", False, "http_500", 500)),
        (False, {"written": 2, "statuses": [404, 401]}, ("failed", True, "http_401", 401)),
        (False, {"written": 2, "statuses": [404]}, ("unknown", False, "lost", 404)),
        (False, {}, ("failed", False, "no_connection", None)),
        (None, {}, ("failed", True, "no_service", None)),
    ],
)
def test_yes_no_and_nobody_are_weighed_with_what_was_seen(verdict: bool | None, seen: Any, expected: Fate) -> None:
    said = outcome(verdict, account(**seen), "json://example.org")
    assert fate(said)[:3] == expected[:3]
