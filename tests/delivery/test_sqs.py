"""Facts go to SQS in batches, each with an end of its own, by the endpoint's own keys."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import pytest

from soonish.delivery.channel import SENT, Outcome, Parcel, Target
from soonish.delivery.channels.sqs import Sqs
from soonish.delivery.egress import Guard
from tests.support.places import free_port
from tests.support.queues import REGION, Moto, error, taken, told

LOOPBACK = [ip_network("127.0.0.0/8")]
BODY = b'{"type":"game.reminder_due","data":{"game_id":17}}'
KEYS = {"access_key_id": "AKIATESTTESTTESTTEST", "secret_access_key": "secret-word"}
NO_KEYS: dict[str, Any] = dict.fromkeys(KEYS)


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    """One server of queues for all of these."""
    server = Moto()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def channel() -> AsyncIterator[Sqs]:
    async with opened() as one:
        yield one


@pytest.fixture(autouse=True)
def no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has no login of its own at AWS."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


@asynccontextmanager
async def opened(guard: Guard | None = None, **options: Any) -> AsyncIterator[Sqs]:
    one = Sqs(guard or Guard(LOOPBACK), **options)
    try:
        yield one
    finally:
        await one.close()


def target(queue_url: str, version: int = 1, workspace_id: int = 2, **config: Any) -> Target:
    return Target(7, version, workspace_id, queue_url, {"region": REGION, "endpoint_url": None, **KEYS, **config})


def parcel(number: int = 0, body: bytes = BODY, subject: str = "game/17") -> Parcel:
    at = datetime(2026, 12, 1, 17, tzinfo=UTC)
    return Parcel(f"dlv_{number:032x}", 3, "game.reminder_due", subject, body, at, "main")


async def end(*answers: Any, **options: Any) -> Outcome:
    """What one try comes to against these answers."""
    async with told(*answers) as server, opened(**options) as channel:
        return await channel.send(target(server.queue_url), parcel())


# --- what is sent -----------------------------------------------------------------------------------------------------


async def test_a_message_is_the_envelope_with_everything_a_receiver_needs_beside_it(moto: Moto, channel: Sqs) -> None:
    url = await moto.queue("all")
    assert await channel.send(target(url), parcel(5)) == SENT
    (got,) = await moto.messages(url)
    assert got["Body"] == BODY.decode()
    wire_id = parcel(5).wire_id
    assert {name: (one["DataType"], one["StringValue"]) for name, one in got["MessageAttributes"].items()} == {
        "id": ("String", wire_id),
        "type": ("String", "game.reminder_due"),
        "idempotency_key": ("String", wire_id),
        "workspace": ("String", "main"),
        "attempt": ("Number", "3"),
    }


async def test_a_fifo_queue_keeps_a_subject_in_order_and_knows_a_repeat(moto: Moto, channel: Sqs) -> None:
    url = await moto.queue("ordered.fifo")
    for _ in range(2):
        assert await channel.send(target(url), parcel(5)) == SENT
    assert await channel.send(target(url), parcel(6, subject="")) == SENT
    got = {one["Attributes"]["MessageDeduplicationId"]: one["Attributes"] for one in await moto.messages(url)}
    assert {name: one["MessageGroupId"] for name, one in got.items()} == {
        parcel(5).wire_id: "game/17",
        parcel(6).wire_id: "game.reminder_due",
    }


async def test_what_is_under_way_at_once_goes_in_batches_of_ten(channel: Sqs) -> None:
    async with told((200, taken)) as server:
        outcomes = await asyncio.gather(*(channel.send(target(server.queue_url), parcel(n)) for n in range(25)))
    assert outcomes == [SENT] * 25
    assert sorted(map(len, server.batches)) == [5, 10, 10]
    ids = [one["MessageAttributes"]["id"]["StringValue"] for batch in server.batches for one in batch]
    assert sorted(ids) == [parcel(n).wire_id for n in range(25)]


async def test_a_request_is_never_longer_than_one_may_be(channel: Sqs) -> None:
    async with told((200, taken)) as server:
        large = [parcel(n, b"x" * 100_000) for n in range(5)]
        assert await asyncio.gather(*(channel.send(target(server.queue_url), one) for one in large)) == [SENT] * 5
    assert sorted(map(len, server.batches)) == [1, 2, 2]


async def test_who_has_gone_away_does_not_send(channel: Sqs) -> None:
    async with told((200, taken)) as server, opened(gather=0.05) as channel:
        await channel.send(target(server.queue_url), parcel(0))
        gone, stays = (asyncio.create_task(channel.send(target(server.queue_url), parcel(n))) for n in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays == SENT
    (entry,) = server.batches[-1]
    assert entry["MessageAttributes"]["id"]["StringValue"] == parcel(2).wire_id


# --- what comes of it -------------------------------------------------------------------------------------------------


async def test_one_bad_entry_is_refused_for_ever_and_repeats_no_other(moto: Moto, channel: Sqs) -> None:
    url = await moto.queue("short", MaximumMessageSize="1024")
    bodies = [BODY, b"x" * 2_000, BODY]
    sending = (channel.send(target(url), parcel(n, body)) for n, body in enumerate(bodies))
    outcomes = await asyncio.gather(*sending)
    assert [(one.result, one.code, one.permanent) for one in outcomes] == [
        ("sent", "ok", False), ("failed", "too_long", True), ("sent", "ok", False),
    ]  # fmt: skip
    got = [one["MessageAttributes"]["id"]["StringValue"] for one in await moto.messages(url)]
    assert sorted(got) == [parcel(0).wire_id, parcel(2).wire_id]


async def test_each_entry_has_the_end_that_the_queue_tells_of_it(channel: Sqs) -> None:
    def answer(entries: list[Any]) -> dict[str, Any]:
        bad = {"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents", "Message": "no"}
        busy = {"Id": "2", "SenderFault": False, "Code": "InternalError", "Message": "later"}
        return {"Successful": taken(entries[:1])["Successful"], "Failed": [bad, busy]}

    async with told((200, answer)) as server:
        outcomes = await asyncio.gather(*(channel.send(target(server.queue_url), parcel(n)) for n in range(4)))
    assert [(one.result, one.code, one.permanent) for one in outcomes] == [
        ("sent", "ok", False),
        ("failed", "rejected", True),
        ("failed", "http_500", False),
        ("unknown", "no_answer", False),
    ]
    assert len(server.batches) == 1


async def test_a_queue_that_is_not_there_is_so_for_ever(moto: Moto, channel: Sqs) -> None:
    url = await moto.queue("there")
    outcome = await channel.send(target(url + "-not"), parcel())
    assert (outcome.result, outcome.code, outcome.permanent) == ("failed", "no_such_queue", True)


async def test_keys_that_open_nothing_are_refused_for_ever(moto: Moto, channel: Sqs) -> None:
    url = await moto.queue("shut")
    moto.check_keys(True)
    try:
        outcome = await channel.send(target(url), parcel())
    finally:
        moto.check_keys(False)
    assert (outcome.result, outcome.code, outcome.permanent) == ("failed", "access_denied", True)


@pytest.mark.parametrize(
    ("status", "code", "word"),
    [
        (400, "ThrottlingException", "throttled"),
        (403, "RequestThrottled", "throttled"),
        (500, "InternalFailure", "http_500"),
        (503, "ServiceUnavailable", "http_503"),
    ],
)
async def test_a_busy_service_is_asked_again_later_and_never_by_the_library_itself(
    status: int, code: str, word: str
) -> None:
    async with told((status, error(code)), (200, taken)) as server, opened() as channel:
        outcome = await channel.send(target(server.queue_url), parcel())
        assert (outcome.result, outcome.code, outcome.permanent, outcome.status) == ("failed", word, False, status)
        assert len(server.batches) == 1
        assert await channel.send(target(server.queue_url), parcel()) == SENT


async def test_a_redirect_is_not_followed(channel: Sqs) -> None:
    async with told((307, ""), (200, taken)) as server:
        outcome = await channel.send(target(server.queue_url), parcel())
    assert (outcome.result, outcome.code) == ("failed", "http_307")
    assert len(server.batches) == 1


@pytest.mark.parametrize(
    ("answer", "limit", "wanted"),
    [
        ("hang", 2.0, Outcome("unknown", "timeout")),
        ("cut", 60.0, Outcome("unknown", "lost", answer="ServerDisconnectedError")),
        ((200, "x" * 300_000), 60.0, Outcome("unknown", "lost", answer="ClientPayloadError")),
    ],
)
async def test_without_an_answer_nobody_knows(answer: Any, limit: float, wanted: Outcome) -> None:
    assert await end(answer, limit=limit) == wanted


async def test_an_answer_that_is_none_of_sqs_says_nothing() -> None:
    assert (await end((200, "<html>"))).result == "unknown"


async def test_nobody_there_is_tried_again(channel: Sqs) -> None:
    outcome = await channel.send(target(f"http://127.0.0.1:{free_port()}/1/q"), parcel())
    assert outcome == Outcome("failed", "connect", answer="Connection refused")


# --- logins and connections -------------------------------------------------------------------------------------------


async def test_the_servers_own_login_is_for_the_first_workspace_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOPERATOR")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of the operator")
    async with told((200, taken)) as server, opened() as channel:
        other = await channel.send(target(server.queue_url, workspace_id=2, **NO_KEYS), parcel())
        assert (other.result, other.code, other.permanent) == ("failed", "access_denied", True)
        assert server.headers == []
        assert await channel.send(target(server.queue_url, workspace_id=1, **NO_KEYS), parcel()) == SENT
    assert "Credential=AKIAOPERATOR/" in server.headers[0]["Authorization"]


async def test_a_new_version_of_an_endpoint_signs_with_its_new_keys(channel: Sqs) -> None:
    async with told((200, taken)) as server:
        await channel.send(target(server.queue_url), parcel())
        await channel.send(target(server.queue_url, 2, access_key_id="AKIANEW"), parcel())
    assert ["AKIANEW/" in one["Authorization"] for one in server.headers] == [False, True]


async def test_no_login_at_all_is_tried_again(channel: Sqs) -> None:
    async with told((200, taken)) as server:
        outcome = await channel.send(target(server.queue_url, workspace_id=1, **NO_KEYS), parcel())
    assert (outcome.result, outcome.code, outcome.answer) == ("failed", "client", "NoCredentialsError")


async def test_requests_go_where_the_endpoint_says(channel: Sqs) -> None:
    queue_url = "https://sqs.eu-west-1.amazonaws.com/1/q"
    async with told((200, taken)) as server:
        assert await channel.send(target(queue_url, endpoint_url=server.url), parcel()) == SENT
    assert len(server.batches) == 1


async def test_a_closed_network_is_refused_for_ever_and_nothing_reaches_it() -> None:
    async with told((200, taken)) as server, opened(Guard()) as channel:
        outcome = await channel.send(target(server.queue_url), parcel())
    assert (outcome.result, outcome.code, outcome.permanent) == ("failed", "egress_refused", True)
    assert "SOONISH_EGRESS_ALLOW" in outcome.answer
    assert server.headers == []


async def test_a_name_that_leads_into_a_closed_network_is_refused() -> None:
    guard = Guard(resolve=lambda host, port: ["127.0.0.1"], plain_http=True)
    async with told((200, taken)) as server, opened(guard) as channel:
        outcome = await channel.send(target(server.queue_url.replace("127.0.0.1", "sqs.example.org")), parcel())
    assert (outcome.code, outcome.permanent, server.headers) == ("egress_refused", True, [])
    assert "127.0.0.1" not in outcome.answer


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told((200, taken)) as server, told((200, taken)) as proxy, opened() as channel:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert await channel.send(target(server.queue_url), parcel()) == SENT
    assert (len(server.batches), len(proxy.batches)) == (1, 0)


async def test_logs_tell_neither_keys_nor_what_is_sent(channel: Sqs, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        async with told((200, taken)) as server:
            await channel.send(target(server.queue_url), parcel())
    for secret in ("secret-word", "AKIATEST", "game_id"):
        assert secret not in caplog.text


async def test_without_its_library_it_says_what_to_install(channel: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiobotocore.session", None)
    outcome = await channel.send(target("https://sqs.eu-west-1.amazonaws.com/1/q"), parcel())
    assert (outcome.code, outcome.permanent) == ("not_installed", True)
    assert "soonish[aws]" in outcome.answer


async def test_what_is_under_way_at_the_end_is_still_heard_of(channel: Sqs) -> None:
    async with told("hang") as server:
        sending = asyncio.create_task(channel.send(target(server.queue_url), parcel()))
        await server.reached.wait()
        await channel.close()
        assert (await sending).result == "unknown"
