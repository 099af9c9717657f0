"""Facts go to a topic exchange of RabbitMQ, confirmed or not sent, over one connection an endpoint."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import aio_pika
import pytest

from soonish.delivery.channel import SENT, Outcome, Parcel, Target
from soonish.delivery.channels.amqp import Amqp
from soonish.delivery.egress import Guard
from tests.support.certificates import certificate
from tests.support.places import free_port
from tests.support.rabbit import Gate, Rabbit, gate, program, reader, take

LOOPBACK = [ip_network("127.0.0.0/8")]
BODY = b'{"type":"game.reminder_due","data":{"game_id":17}}'
AT = datetime(2026, 12, 1, 17, tzinfo=UTC)
NAME = "mq.example.org"

pytestmark = pytest.mark.skipif(
    program() is None, reason="rabbitmq-server is not installed (as root: apt-get install rabbitmq-server)"
)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for NAME that signs itself, and its key."""
    return certificate(tmp_path_factory.mktemp("tls"), NAME)


@pytest.fixture(scope="module")
def rabbit(tls: tuple[Path, Path]) -> Iterator[Rabbit]:
    """One node for all of these."""
    node = Rabbit({"certfile": tls[0], "keyfile": tls[1]})
    try:
        node.start()
        yield node
    finally:
        node.remove()


@pytest.fixture
async def channel() -> AsyncIterator[Amqp]:
    async with opened() as one:
        yield one


@pytest.fixture
async def way(rabbit: Rabbit) -> AsyncIterator[Gate]:
    """A way to the node that can be frozen and cut."""
    async with gate(rabbit.port) as one:
        yield one


@asynccontextmanager
async def opened(guard: Guard | None = None, **options: Any) -> AsyncIterator[Amqp]:
    one = Amqp(guard or Guard(LOOPBACK), **options)
    try:
        yield one
    finally:
        await one.close()


def target(at: Rabbit | Gate | str, exchange: str, version: int = 1, **config: str) -> Target:
    url = at if isinstance(at, str) else f"amqp://guest:guest@127.0.0.1:{at.port}/"
    return Target(7, version, 1, url, {"exchange": exchange, "unroutable": "retry", **config})


def parcel(number: int = 0, n: int = 1) -> Parcel:
    return Parcel(f"dlv_{number:032x}", n, "game.reminder_due", "game/17", BODY, AT, "main")


# --- what is published ------------------------------------------------------------------------------------------------


async def test_a_bound_queue_gets_the_envelope_under_its_type_with_everything_a_receiver_needs(
    rabbit: Rabbit, channel: Amqp
) -> None:
    async with reader(rabbit.url) as receiver:
        queue = await receiver.bind("all", "game.*")
        assert await channel.send(target(rabbit, "all"), parcel(5, n=3)) == SENT
        (got,) = await take(queue)
    wire_id = "dlv_" + "0" * 31 + "5"
    assert (got.body, got.routing_key, got.exchange) == (BODY, "game.reminder_due", "all")
    assert (got.message_id, got.type, got.app_id) == (wire_id, "game.reminder_due", "soonish")
    assert (got.delivery_mode, got.content_type, got.timestamp) == (
        aio_pika.DeliveryMode.PERSISTENT, "application/json", AT,
    )  # fmt: skip
    assert got.headers == {"x-idempotency-key": wire_id, "x-soonish-workspace": "main", "x-soonish-attempt": 3}


async def test_the_exchange_is_there_before_anybody_bound_and_has_the_usual_name(rabbit: Rabbit, channel: Amqp) -> None:
    await channel.send(Target(7, 1, 1, rabbit.url, {}), parcel())
    async with reader(rabbit.url) as receiver:
        await receiver.bind("soonish.facts")  # fails for one that is no durable topic exchange


async def test_a_fact_that_nobody_hears_is_not_sent_and_arrives_once_a_queue_is_bound(
    rabbit: Rabbit, channel: Amqp
) -> None:
    first = await channel.send(target(rabbit, "unheard"), parcel())
    assert (first.result, first.code, first.permanent) == ("failed", "unroutable", False)
    async with reader(rabbit.url) as receiver:
        queue = await receiver.bind("unheard")
        assert await channel.send(target(rabbit, "unheard"), parcel(n=2)) == SENT
        (got,) = await take(queue)
    assert got.message_id == parcel().wire_id


async def test_an_endpoint_may_be_content_when_nobody_hears_it(rabbit: Rabbit, channel: Amqp) -> None:
    outcome = await channel.send(target(rabbit, "content", unroutable="accept"), parcel())
    assert outcome == Outcome("sent", "unroutable")


async def test_what_the_broker_does_not_take_is_tried_again(rabbit: Rabbit, channel: Amqp) -> None:
    async with reader(rabbit.url) as receiver:
        await receiver.bind("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        assert await channel.send(target(rabbit, "full"), parcel(1)) == SENT
        second = await channel.send(target(rabbit, "full"), parcel(2))
    assert (second.result, second.code, second.permanent) == ("failed", "nack", False)


async def test_many_are_under_way_at_once_and_each_is_confirmed_for_itself(rabbit: Rabbit, channel: Amqp) -> None:
    numbers = range(300)
    async with reader(rabbit.url) as receiver:
        queue = await receiver.bind("many")
        outcomes = await asyncio.gather(*(channel.send(target(rabbit, "many"), parcel(n)) for n in numbers))
        got = await take(queue, len(numbers))
    assert outcomes == [SENT] * len(numbers)
    assert {message.message_id for message in got} == {parcel(n).wire_id for n in numbers}


# --- connections ------------------------------------------------------------------------------------------------------


async def test_all_who_send_to_an_endpoint_share_one_connection(way: Gate, channel: Amqp) -> None:
    await asyncio.gather(*(channel.send(target(way, "shared"), parcel(n)) for n in range(20)))
    await channel.send(target(way, "shared"), parcel(21))
    assert way.passed == 1


async def test_a_new_version_of_an_endpoint_has_a_new_connection(way: Gate, channel: Amqp) -> None:
    for version in (1, 2, 2, 1):
        await channel.send(target(way, "versions", version), parcel())
    assert way.passed == 2


async def test_those_who_wait_for_a_connection_are_told_together_and_the_next_one_dials_anew(
    way: Gate, channel: Amqp
) -> None:
    wrong = f"amqp://guest:wrong-word@127.0.0.1:{way.port}/"
    outcomes = await asyncio.gather(*(channel.send(target(wrong, "wrong"), parcel(n)) for n in range(5)))
    assert {(one.result, one.code, one.permanent) for one in outcomes} == {("failed", "refused", False)}
    assert way.passed == 1
    await channel.send(target(wrong, "wrong"), parcel())
    assert way.passed == 2


async def test_one_who_gives_up_waiting_does_not_end_the_connection_of_the_others(way: Gate, channel: Amqp) -> None:
    first, second = (asyncio.create_task(channel.send(target(way, "patience"), parcel(n))) for n in (1, 2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).code == "unroutable"


async def test_an_idle_connection_ends(way: Gate) -> None:
    async with opened(idle=0.05) as channel:
        await channel.send(target(way, "idle"), parcel())
        await way.left()
        await channel.send(target(way, "idle"), parcel())
    assert way.passed == 2


async def test_what_is_under_way_when_the_connection_ends_is_tried_again(way: Gate, channel: Amqp) -> None:
    await channel.send(target(way, "cut"), parcel())
    way.freeze()
    sending = [asyncio.create_task(channel.send(target(way, "cut"), parcel(n))) for n in range(5)]
    await way.held.wait()
    way.cut()
    outcomes = await asyncio.gather(*sending)
    assert {(one.result, one.code, one.permanent) for one in outcomes} == {("failed", "closed", False)}
    assert (await channel.send(target(way, "cut"), parcel())).code == "unroutable"


async def test_without_the_brokers_word_nobody_knows_and_the_connection_is_trusted_no_more(way: Gate) -> None:
    async with opened() as channel:
        await channel.send(target(way, "silent"), parcel())
        way.freeze()
        channel._confirm, patience = 0.5, channel._confirm
        assert await channel.send(target(way, "silent"), parcel()) == Outcome("unknown", "timeout")
        channel._confirm = patience
        assert (await channel.send(target(way, "silent"), parcel())).code == "unroutable"
    assert way.passed == 2


async def test_an_exchange_that_somebody_removed_is_there_again_for_the_second_try(
    rabbit: Rabbit, channel: Amqp
) -> None:
    await channel.send(target(rabbit, "removed"), parcel())
    async with reader(rabbit.url) as receiver:
        await receiver.delete("removed")
    lost = await channel.send(target(rabbit, "removed"), parcel())
    assert (lost.result, lost.code, lost.answer, lost.permanent) == ("failed", "closed", "NOT_FOUND", False)
    assert (await channel.send(target(rabbit, "removed"), parcel())).code == "unroutable"


async def test_an_exchange_of_another_kind_is_told_by_the_brokers_word(rabbit: Rabbit, channel: Amqp) -> None:
    async with reader(rabbit.url) as receiver:
        await receiver.declare("other", aio_pika.ExchangeType.FANOUT)
    outcome = await channel.send(target(rabbit, "other"), parcel())
    assert (outcome.result, outcome.code, outcome.answer) == ("failed", "refused", "PRECONDITION_FAILED")


async def test_a_broker_that_is_away_gets_everything_after_its_return(tls: tuple[Path, Path], channel: Amqp) -> None:
    node = Rabbit()
    try:
        await asyncio.to_thread(node.start)
        async with reader(node.url) as receiver:
            await receiver.bind("away")
        assert await channel.send(target(node, "away"), parcel(0)) == SENT
        await asyncio.to_thread(node.halt)
        away = await asyncio.gather(*(channel.send(target(node, "away"), parcel(n)) for n in range(1, 4)))
        assert {(one.result, one.permanent) for one in away} == {("failed", False)}
        await asyncio.to_thread(node.start)
        back = await asyncio.gather(*(channel.send(target(node, "away"), parcel(n, 2)) for n in range(1, 4)))
        assert back == [SENT] * 3
        async with reader(node.url) as receiver:
            got = await take(await receiver.queue("away"), 4)
    finally:
        node.remove()
    assert sorted(str(message.message_id) for message in got) == [parcel(n).wire_id for n in range(4)]


async def test_those_who_wait_for_a_connection_hear_of_the_end_of_the_process() -> None:
    async with silent() as port, opened() as channel:
        sending = asyncio.create_task(channel.send(target(f"amqp://127.0.0.1:{port}/", "x"), parcel()))
        await asyncio.sleep(0)
        await channel.close()
        assert await sending == Outcome("failed", "closed", answer="This process is about to end")


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """A server that never says a word."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


# --- where it may go --------------------------------------------------------------------------------------------------


async def test_nobody_there_is_tried_again(channel: Amqp) -> None:
    outcome = await channel.send(target(f"amqp://127.0.0.1:{free_port()}/", "x"), parcel())
    assert outcome == Outcome("failed", "connect", answer="Connection refused")


async def test_a_closed_network_is_refused_for_ever_and_nothing_reaches_it(way: Gate) -> None:
    async with opened(Guard()) as channel:
        outcome = await channel.send(target(way, "x"), parcel())
    assert (outcome.result, outcome.code, outcome.permanent) == ("failed", "egress_refused", True)
    assert "SOONISH_EGRESS_ALLOW" in outcome.answer
    assert way.passed == 0


async def test_a_name_that_leads_into_a_closed_network_is_refused(way: Gate) -> None:
    async with opened(Guard(resolve=lambda host, port: ["127.0.0.1"])) as channel:
        outcome = await channel.send(target(f"amqp://{NAME}:{way.port}/", "x"), parcel())
    assert (outcome.code, outcome.permanent, way.passed) == ("egress_refused", True, 0)
    assert "127.0.0.1" not in outcome.answer


@pytest.mark.parametrize("name", [NAME, "other.example.org"])
async def test_a_checked_address_is_dialled_and_the_certificate_must_be_that_of_the_name(
    rabbit: Rabbit, tls: tuple[Path, Path], name: str
) -> None:
    guard = Guard(LOOPBACK, resolve=lambda host, port: ["127.0.0.1"])
    context = ssl.create_default_context(cafile=tls[0])
    async with opened(guard, tls=context) as channel:
        outcome = await channel.send(target(f"amqps://{name}:{rabbit.tls_port}/", "named"), parcel())
    assert outcome.code == ("unroutable" if name == NAME else "tls")


async def test_options_in_a_url_are_not_obeyed(rabbit: Rabbit, channel: Amqp) -> None:
    url = f"amqps://guest:guest@127.0.0.1:{rabbit.tls_port}/?no_verify_ssl=1"
    assert (await channel.send(target(url, "x"), parcel())).code == "tls"


async def test_neither_logs_nor_answers_tell_the_target(
    way: Gate, channel: Amqp, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        wrong = await channel.send(target(f"amqp://alice:secret-word@127.0.0.1:{way.port}/den", "x"), parcel())
        await channel.send(target(f"amqp://alice:secret-word@127.0.0.1:{free_port()}/den", "x", 2), parcel())
    for secret in ("alice", "secret-word", "den"):
        assert secret not in caplog.text + wrong.answer


async def test_without_its_library_it_says_what_to_install(
    channel: Amqp, monkeypatch: pytest.MonkeyPatch, rabbit: Rabbit
) -> None:
    monkeypatch.setitem(sys.modules, "aio_pika", None)
    outcome = await channel.send(target(rabbit, "x"), parcel())
    assert (outcome.code, outcome.permanent) == ("not_installed", True)
    assert "soonish[amqp]" in outcome.answer
