"""From a stated fact to a broker: kept until somebody can take it, published under one id in every try."""

import json
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from soonish.db.pool import Database
from soonish.delivery.channels.amqp import Amqp
from soonish.delivery.channels.sqs import Sqs
from soonish.delivery.egress import Guard
from soonish.delivery.model.endpoints import hidden
from soonish.delivery.model.ledger import wire
from soonish.delivery.outbox import Fact
from tests.support.ledger import Ledger
from tests.support.queues import REGION, taken, told
from tests.support.rabbit import Gate, Rabbit, gate, program, reader, take
from tests.support.sending import Sending

KEYS = {"access_key_id": "AKIATESTTESTTESTTEST", "secret_access_key": "secret-word"}

with_rabbit = pytest.mark.skipif(
    program() is None, reason="rabbitmq-server is not installed (as root: apt-get install rabbitmq-server)"
)


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Rabbit]:
    node = Rabbit()
    try:
        node.start()
        yield node
    finally:
        node.remove()


@pytest.fixture
async def way(rabbit: Rabbit) -> AsyncIterator[Gate]:
    async with gate(rabbit.port) as one:
        yield one


@pytest.fixture
async def ledger(db: Database) -> Ledger:
    return await Ledger.of(db)


@pytest.fixture
async def sending(ledger: Ledger) -> AsyncIterator[Sending]:
    guard = Guard([ip_network("127.0.0.0/8")])
    one = Sending(ledger, channels={"amqp": Amqp(guard), "sqs": Sqs(guard)})
    yield one
    await one.close()


async def endpoint(ledger: Ledger, kind: str, **config: Any) -> int:
    """An endpoint as it is stored: its secrets sealed, and not where the rest is."""
    shown, secrets = hidden(config)
    endpoint_id = await ledger.endpoint(kind=kind, config=json.dumps(shown))
    sealed = ledger.vault.seal(secrets or b"{}", (1, "endpoint", "secret_config", endpoint_id))
    await ledger.run("UPDATE endpoint SET secret_config = $2 WHERE id = $1", endpoint_id, sealed)
    return endpoint_id


async def state(ledger: Ledger, *numbers: int) -> None:
    async with ledger.db.transaction(1) as tx:
        for n in numbers:
            fact = Fact(cause=f"game/{n}", type="game.reminder_due", subject=f"game/{n}", data={"game_id": n})
            await ledger.outbox.state(tx, fact)


async def told_of(ledger: Ledger) -> list[tuple[str, int, list[str]]]:
    """The state of each delivery, how often it was tried, and the codes of these tries."""
    statement = """SELECT d.state, d.tries, array_agg(a.code ORDER BY a.n) AS codes
                   FROM delivery d JOIN attempt a ON a.delivery_id = d.id GROUP BY d.id ORDER BY d.id"""
    return [(row["state"], row["tries"], row["codes"]) for row in await ledger.rows(statement)]


@with_rabbit
async def test_a_fact_that_nobody_hears_yet_arrives_after_somebody_has_bound_a_queue(
    rabbit: Rabbit, ledger: Ledger, sending: Sending
) -> None:
    await endpoint(ledger, "amqp", url=rabbit.url, exchange="story", unroutable="retry")
    await state(ledger, 17)
    await sending.drain()
    async with reader(rabbit.url) as receiver:
        queue = await receiver.bind("story", "game.reminder_due")
        await sending.later(seconds=2)
        (got,) = await take(queue)
    assert await told_of(ledger) == [("sent", 2, ["unroutable", "ok"])]
    [delivery] = await ledger.deliveries()
    assert got.message_id == wire(delivery["wire_id"])
    assert json.loads(got.body)["data"] == {"game_id": 17}
    assert got.headers["x-soonish-attempt"] == 2


@with_rabbit
async def test_what_is_stated_while_the_broker_is_away_arrives_after_its_return(
    rabbit: Rabbit, way: Gate, ledger: Ledger, sending: Sending
) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{way.port}/"
    await endpoint(ledger, "amqp", url=url, exchange="away", unroutable="retry")
    async with reader(rabbit.url) as receiver:
        queue = await receiver.bind("away")
        await state(ledger, 1)
        await sending.drain()
        way.shut()
        await state(ledger, 2, 3)
        await sending.drain()
        way.open()
        await sending.later(seconds=2)
        got = await take(queue, 3)
    assert [one for one, *_ in await told_of(ledger)] == ["sent"] * 3
    assert sorted(json.loads(one.body)["data"]["game_id"] for one in got) == [1, 2, 3]


async def test_facts_for_a_queue_go_together_and_only_the_busy_one_goes_again(ledger: Ledger, sending: Sending) -> None:
    def first_but_not_second(entries: list[Any]) -> dict[str, Any]:
        busy = {"Id": entries[1]["Id"], "SenderFault": False, "Code": "InternalError"}
        return taken(entries[:1]) | {"Failed": [busy]}

    async with told((200, first_but_not_second), (200, taken)) as server:
        await endpoint(ledger, "sqs", queue_url=server.queue_url, region=REGION, endpoint_url=None, **KEYS)
        await state(ledger, 1, 2)
        await sending.drain()
        await sending.later(seconds=2)
    assert sorted(codes for *_, codes in await told_of(ledger)) == [["http_500", "ok"], ["ok"]]
    first, second = server.batches
    assert [len(first), len(second)] == [2, 1]
    assert second[0]["MessageBody"] == first[1]["MessageBody"]
    ids = [one["MessageAttributes"]["idempotency_key"]["StringValue"] for one in (first[1], second[0])]
    assert ids[0] == ids[1]
