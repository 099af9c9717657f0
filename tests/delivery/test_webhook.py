"""A webhook says the same in every try, is signed so that others can check it, and tells what may have happened."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import standardwebhooks
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from soonish import clock
from soonish.delivery.channel import Outcome, Parcel, Target
from soonish.delivery.channels import webhook
from soonish.delivery.channels.webhook import Webhook
from soonish.delivery.egress import Guard
from soonish.delivery.model import webhooks
from tests.support.places import free_port
from tests.support.receiver import Receiver, Reply

LOOPBACK = [ip_network("127.0.0.0/8")]
BODY = b'{"type":"game.reminder_due","data":{"game_id":17}}'
WIRE_ID = "dlv_" + "5f" * 16


@pytest.fixture
async def channel() -> AsyncIterator[Webhook]:
    async with open_channel() as one:
        yield one


@asynccontextmanager
async def open_channel(
    *, timeout: float = 10.0, tries_4xx: int = 1, guard: Guard | None = None
) -> AsyncIterator[Webhook]:
    one = Webhook(guard or Guard(LOOPBACK), "1.2.3", timeout, tries_4xx)
    try:
        yield one
    finally:
        await one.close()


def target(
    url: str, *, headers: Mapping[str, str] | None = None, secrets: Sequence[bytes] = (b"s" * 32,), version: int = 1
) -> Target:
    config: dict[str, Any] = {"headers": headers} if headers else {}
    return Target(7, version, 1, url, config, tuple(secrets))


def parcel(n: int = 1, body: bytes = BODY) -> Parcel:
    return Parcel(WIRE_ID, n, "game.reminder_due", "game/17", body, clock.utc_now(), "main")


async def told(reply: Reply | int, **options: Any) -> Outcome:
    """What one try comes to against one reply."""
    async with Receiver(reply) as receiver, open_channel(**options) as channel:
        return await channel.send(target(receiver.url), parcel())


# --- what is sent -----------------------------------------------------------------------------------------------------


async def test_a_try_carries_the_id_twice_the_number_of_the_try_and_who_sent_it(channel: Webhook) -> None:
    async with Receiver() as receiver:
        assert await channel.send(target(receiver.url), parcel(n=3)) == Outcome("sent", status=200)
    (arrival,) = receiver.arrivals
    assert (arrival.method, arrival.path, arrival.body) == ("POST", "/in", BODY)
    wanted = {
        "content-type": "application/json",
        "user-agent": "Soonish/1.2.3",
        "webhook-id": WIRE_ID,
        "x-idempotency-key": WIRE_ID,
        "soonish-attempt": "3",
    }
    assert {name: arrival.headers[name] for name in wanted} == wanted


async def test_every_try_has_the_same_id_and_the_same_bytes(channel: Webhook) -> None:
    async with Receiver(503, 503, 200) as receiver:
        outcomes = [await channel.send(target(receiver.url), parcel(n)) for n in (1, 2, 3)]
    assert [one.result for one in outcomes] == ["failed", "failed", "sent"]
    assert {(one.id, one.headers["x-idempotency-key"], one.body) for one in receiver.arrivals} == {
        (WIRE_ID, WIRE_ID, BODY)
    }


async def test_a_signature_verifies_with_the_library_of_the_standard(channel: Webhook) -> None:
    secret = webhooks.new_secret()
    async with Receiver() as receiver:
        await channel.send(target(receiver.url, secrets=[secret]), parcel())
    (arrival,) = receiver.arrivals
    library = standardwebhooks.Webhook(webhooks.show_secret(secret))
    assert library.verify(arrival.body, dict(arrival.headers)) == {"type": "game.reminder_due", "data": {"game_id": 17}}


async def test_after_a_rotation_both_secrets_sign_and_after_the_overlap_one(channel: Webhook) -> None:
    old, new = webhooks.new_secret(), webhooks.new_secret()
    async with Receiver() as receiver:
        await channel.send(target(receiver.url, secrets=[new, old]), parcel())
        await channel.send(target(receiver.url, secrets=[new]), parcel())
    during, after = receiver.arrivals
    assert (verifies(during, new), verifies(during, old)) == (True, True)
    assert (verifies(after, new), verifies(after, old)) == (True, False)
    first = webhooks.signature([new], WIRE_ID, int(during.headers["webhook-timestamp"]), BODY)
    assert during.headers["webhook-signature"].startswith(f"{first} ")


def verifies(arrival: Any, secret: bytes) -> bool:
    try:
        standardwebhooks.Webhook(secret).verify(arrival.body, dict(arrival.headers))
    except standardwebhooks.WebhookVerificationError:
        return False
    return True


async def test_own_headers_go_along_and_never_over_ours(channel: Webhook) -> None:
    own = {"X-Team": "hr", "User-Agent": "Ours", "Webhook-Id": "forged", "Content-Type": "text/plain"}
    async with Receiver() as receiver:
        await channel.send(target(receiver.url, headers=own), parcel())
    (arrival,) = receiver.arrivals
    names = ("x-team", "user-agent", "webhook-id", "content-type")
    assert [arrival.headers.getall(name) for name in names] == [["hr"], ["Ours"], [WIRE_ID], ["application/json"]]


async def test_the_user_of_a_url_becomes_a_header_and_a_fragment_stays_here(channel: Webhook) -> None:
    async with Receiver() as receiver:
        url = receiver.url.replace("//", "//ben:s%3Acret@") + "?a=1#part"
        await channel.send(target(url), parcel())
    (arrival,) = receiver.arrivals
    assert (arrival.path, arrival.headers["authorization"]) == ("/in?a=1", "Basic YmVuOnM6Y3JldA==")


async def test_a_new_version_of_an_endpoint_has_its_own_headers(channel: Webhook) -> None:
    async with Receiver() as receiver:
        await channel.send(target(receiver.url, headers={"X-Team": "hr"}), parcel())
        await channel.send(target(receiver.url, headers={"X-Team": "crm"}, version=2), parcel())
    assert [one.headers["x-team"] for one in receiver.arrivals] == ["hr", "crm"]


async def test_one_connection_carries_many_tries(channel: Webhook) -> None:
    async with Receiver(Reply(200, body=b"thanks")) as receiver:
        for _ in range(5):
            await channel.send(target(receiver.url), parcel())
    assert (len(receiver.arrivals), receiver.connections) == (5, 1)


async def test_no_cookie_is_kept(channel: Webhook) -> None:
    async with Receiver(Reply(200, {"set-cookie": "a=1"})) as receiver:
        for _ in range(2):
            await channel.send(target(receiver.url), parcel())
    assert "cookie" not in receiver.arrivals[1].headers


async def test_no_proxy_of_the_environment_sees_a_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Receiver() as proxy, Receiver() as receiver:
        monkeypatch.setenv("http_proxy", proxy.url)
        async with open_channel() as channel:
            await channel.send(target(receiver.url), parcel())
    assert (len(receiver.arrivals), proxy.connections) == (1, 0)


# --- what it comes to -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_is_sent(status: int) -> None:
    assert await told(status) == Outcome("sent", status=status)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 422, 451])
async def test_a_4xx_is_the_end_at_once(status: int) -> None:
    outcome = await told(Reply(status, body=b"no such thing"))
    assert outcome == Outcome("failed", f"http_{status}", permanent=True, status=status, answer="no such thing")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_a_pause_or_an_error_of_theirs_is_worth_another_try(status: int) -> None:
    assert await told(status) == Outcome("failed", f"http_{status}", status=status)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with Receiver() as elsewhere:
        outcome = await told(Reply(status, {"location": elsewhere.url}))
    assert outcome == Outcome("failed", f"http_{status}", status=status)
    assert elsewhere.connections == 0


async def test_an_operator_may_give_4xx_some_tries_but_never_410() -> None:
    async with Receiver(404) as receiver, open_channel(tries_4xx=3) as channel:
        found = [(await channel.send(target(receiver.url), parcel(n))).permanent for n in (1, 2, 3)]
    assert found == [False, False, True]
    assert (await told(410, tries_4xx=3)).permanent


@pytest.mark.parametrize("status", [429, 503])
async def test_a_receiver_may_ask_for_a_pause(status: int) -> None:
    assert (await told(Reply(status, {"retry-after": "3"}))).retry_after == 3.0


async def test_what_a_receiver_says_is_cut_and_holds_nothing_that_a_database_refuses() -> None:
    outcome = await told(Reply(500, body=b"\x00broken \xff" + "ä".encode() * 1000))
    assert outcome.answer.startswith("broken \N{REPLACEMENT CHARACTER}ää")
    assert len(outcome.answer) == 500


async def test_what_a_receiver_tells_again_of_what_it_was_told_in_confidence_is_not_kept() -> None:
    said = b"no user canary-user, password canary-pass%40 or canary-pass@, team CANARY-TEAM, at hr" + b"." * 600
    async with Receiver(Reply(401, body=said)) as receiver, open_channel() as channel:
        url = receiver.url.replace("://", "://canary-user:canary-pass%40@")
        outcome = await channel.send(target(url, headers={"X-Team": "canary-team", "X-Short": "hr"}), parcel())
    assert outcome.answer.startswith("no user ***, password ***")
    assert "canary" not in outcome.answer.lower()
    assert "at hr" in outcome.answer
    assert len(outcome.answer) == 500


# --- when nobody answers ----------------------------------------------------------------------------------------------


async def test_nobody_listens(channel: Webhook) -> None:
    outcome = await channel.send(target(f"http://127.0.0.1:{free_port()}/"), parcel())
    assert outcome == Outcome("failed", "connect", answer="Connection refused")


async def test_a_name_that_is_none_is_tried_again() -> None:
    def unheard_of(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    async with open_channel(guard=Guard(resolve=unheard_of)) as channel:
        outcome = await channel.send(target("https://gone.example/in"), parcel())
    assert (outcome.result, outcome.code, outcome.permanent) == ("failed", "dns", False)


async def test_a_certificate_that_nobody_signed(tmp_path: Path) -> None:
    async with Receiver(tls=certificate(tmp_path)) as receiver, open_channel() as channel:
        outcome = await channel.send(target(receiver.url), parcel())
    assert (outcome.result, outcome.code, outcome.permanent) == ("failed", "tls", False)
    assert outcome.answer == "CERTIFICATE_VERIFY_FAILED"
    assert receiver.arrivals == []


async def test_the_name_is_kept_for_tls_and_for_host(tmp_path: Path) -> None:
    """The address is chosen by the guard; the certificate is that of the name."""
    guard = Guard(LOOPBACK, resolve=here)
    async with Receiver(tls=certificate(tmp_path)) as receiver, open_channel(guard=guard) as channel:
        aiohttp.connector._SSL_CONTEXT_VERIFIED.load_verify_locations(tmp_path / "server.pem")
        outcomes = [
            await channel.send(target(f"https://{name}.example:{receiver.port}/"), parcel())
            for name in ("inner", "other", "inner")
        ]
    assert [(one.result, one.code) for one in outcomes] == [("sent", "ok"), ("failed", "tls"), ("sent", "ok")]
    assert [one.headers["host"] for one in receiver.arrivals] == [f"inner.example:{receiver.port}"] * 2


async def test_tls_at_a_door_that_does_not_speak_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "CONNECT", 0.5)
    async with Receiver(Reply(way="garbage")) as receiver, open_channel() as channel:
        outcome = await channel.send(target(receiver.url.replace("http:", "https:")), parcel())
    assert (outcome.result, outcome.code) in {("failed", "tls"), ("failed", "connect")}


async def test_no_answer_after_reading_is_unknown() -> None:
    assert await told(Reply(way="hang"), timeout=1.0) == Outcome("unknown", "timeout")


@pytest.mark.parametrize("way", ["cut", "garbage"])
async def test_an_answer_that_is_none_is_unknown(way: Any) -> None:
    outcome = await told(Reply(way=way))
    assert (outcome.result, outcome.code) == ("unknown", "lost")


async def test_a_status_counts_even_where_its_body_is_cut() -> None:
    assert await told(Reply(200, body=b"than", way="cut body")) == Outcome("sent", status=200)
    assert (await told(Reply(500, body=b"brok", way="cut body"))).answer == "brok"


@pytest.mark.parametrize("way", ["drip", "huge"])
@pytest.mark.parametrize("status", [200, 500])
async def test_a_body_without_end_is_left_and_its_connection_closed(
    way: Any, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "LINGER", 0.2)
    async with Receiver(Reply(status, way=way)) as receiver, open_channel() as channel:
        outcome = await channel.send(target(receiver.url), parcel())
        await channel.send(target(receiver.url), parcel())
    assert (outcome.result, outcome.status) == ("sent" if status == 200 else "failed", status)
    assert len(outcome.answer) <= 500
    assert receiver.connections == 2


async def test_a_late_answer_is_not_taken_for_that_of_the_next_try() -> None:
    late = asyncio.Event()
    async with Receiver(Reply(500, after=late), 200) as receiver, open_channel(timeout=1.0) as channel:
        assert (await channel.send(target(receiver.url), parcel())).result == "unknown"
        late.set()
        assert (await channel.send(target(receiver.url), parcel(2))).result == "sent"
    assert receiver.connections == 2


async def test_a_status_counts_where_the_limit_comes_in_the_middle_of_its_body() -> None:
    assert await told(Reply(200, way="drip"), timeout=1.0) == Outcome("sent", status=200)
    assert (await told(Reply(503, way="drip"), timeout=1.0)).code == "http_503"


async def test_what_comes_before_an_answer_is_passed_over(channel: Webhook) -> None:
    async with Receiver(Reply(way="early")) as receiver:
        assert await channel.send(target(receiver.url), parcel()) == Outcome("sent", status=202)


async def test_a_body_in_pieces_is_read_to_its_end_and_its_connection_kept(channel: Webhook) -> None:
    async with Receiver(Reply(500, body=b"in pieces", way="pieces")) as receiver:
        answers = [(await channel.send(target(receiver.url), parcel())).answer for _ in range(3)]
    assert (answers, receiver.connections) == (["in pieces"] * 3, 1)


async def test_one_that_hangs_holds_up_no_other(channel: Webhook) -> None:
    async with Receiver(Reply(way="hang")) as slow, Receiver() as quick:
        waiting = asyncio.create_task(channel.send(target(slow.url), parcel()))
        await slow.wait()
        other = Target(8, 1, 1, quick.url, {}, ())
        assert (await channel.send(other, parcel())).result == "sent"
        assert not waiting.done()
        waiting.cancel()


# --- the guard --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:{port}/", "https://127.1:{port}/", "https://localhost:{port}/", "https://[::1]:{port}/"]
)
async def test_what_is_private_is_refused_for_good_and_not_reached(url: str) -> None:
    async with Receiver() as receiver, open_channel(guard=Guard()) as channel:
        outcome = await channel.send(target(url.format(port=receiver.port)), parcel())
    assert (outcome.result, outcome.permanent, outcome.code) == ("failed", True, "egress_refused")
    assert "SOONISH_EGRESS_ALLOW" in outcome.answer
    assert receiver.connections == 0


async def test_plain_http_to_a_name_needs_the_operators_word() -> None:
    async with Receiver() as receiver:
        url = f"http://localhost:{receiver.port}/"
        async with open_channel(guard=Guard(LOOPBACK)) as channel:
            assert (await channel.send(target(url), parcel())).code == "egress_refused"
        async with open_channel(guard=Guard(LOOPBACK, plain_http=True, resolve=here)) as channel:
            assert (await channel.send(target(url), parcel())).result == "sent"
    assert [one.headers["host"] for one in receiver.arrivals] == [f"localhost:{receiver.port}"]


def here(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


async def test_a_refusal_to_connect_does_not_tell_the_address_of_a_name() -> None:
    async with open_channel(guard=Guard(LOOPBACK, resolve=here)) as channel:
        outcome = await channel.send(target(f"https://inner.example:{free_port()}/"), parcel())
    assert (outcome.code, outcome.answer) == ("connect", "Connection refused")


async def test_what_makes_no_request_is_refused_and_not_raised(channel: Webhook) -> None:
    """Headers are checked when they are stored; should a bad one be there all the same, it harms nobody else."""
    async with Receiver() as receiver:
        outcome = await channel.send(target(receiver.url, headers={"X-A": "b\r\nX-C: d"}), parcel())
    assert (outcome, receiver.arrivals) == (Outcome("failed", "bad_request", permanent=True), [])


def certificate(folder: Path) -> ssl.SSLContext:
    """A server's context, with a certificate that it made itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "inner.example")])
    now = clock.utc_now()
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("inner.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = folder / "server.pem"
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + made.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
