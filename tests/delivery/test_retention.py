"""The ledger, messages and facts go after their time, some rows a call; what is still to come stays."""

from datetime import timedelta

from soonish.app.parts import SECRETS
from soonish.delivery.actions.retention import sweeps
from soonish.delivery.model.endpoints import SECRET_COLUMNS
from soonish.delivery.model.letters import Message
from soonish.ops.actions.secrets import count_by_key
from tests.delivery.test_endpoints import AMQP, make
from tests.delivery.test_messages import person, put, tell
from tests.support.site import Site

SWEEPS = dict(sweeps(timedelta(days=400)))
OLD = "now() - interval '400 days'"


async def swept(product: Site, limit: int = 5_000) -> dict[str, int]:
    async with product.db.transaction(product.acme.id) as tx:
        return {name: await sweep(tx, limit) for name, sweep in SWEEPS.items()}


async def counts(product: Site) -> dict[str, int]:
    names = ("delivery", "attempt", "message", "fact")
    found: dict[str, int] = {}
    for name in names:
        [row] = await product.acme.rows(f"SELECT count(*) AS count FROM {name}")
        found[name] = row["count"]
    return found


async def used(product: Site) -> None:
    """Two messages and two facts, each told to one target, and tried once."""
    acme = product.acme
    ben = await person(acme, "Ben", "phone")
    await make(acme)
    for _ in range(2):
        await tell(product, acme, await put(acme, {"person_ids": [ben]}))
        assert (await acme.write.post("/v1/facts", {"type": "custom.sale", "data": {}})).status == 202
    await acme.run("DELETE FROM fact WHERE type LIKE 'person.%'")
    await acme.run(
        """INSERT INTO attempt (workspace_id, delivery_id, n, started_at, ended_at, outcome, code, latency_ms)
           SELECT workspace_id, id, 1, now(), now(), 'sent', 'ok', 1 FROM delivery"""
    )


async def age(product: Site) -> None:
    await product.acme.run(f"UPDATE delivery SET created_at = {OLD}, ended_at = {OLD}, state = 'sent'")
    await product.acme.run(f"UPDATE message SET created_at = {OLD}, send_at = {OLD}, expires_at = {OLD}")
    await product.acme.run(f"UPDATE fact SET created_at = {OLD}")


async def test_nothing_goes_before_its_time(product: Site) -> None:
    await used(product)
    assert await swept(product) == {"delivery": 0, "message": 0, "fact": 0, "rate_slot": 0}


async def test_what_is_old_goes_some_rows_a_call_and_tries_go_with_their_deliveries(product: Site) -> None:
    await used(product)
    await age(product)
    assert await swept(product, 1) == {"delivery": 1, "message": 1, "fact": 0, "rate_slot": 0}
    assert await swept(product) == {"delivery": 3, "message": 1, "fact": 2, "rate_slot": 0}
    assert await counts(product) == {"delivery": 0, "attempt": 0, "message": 0, "fact": 0}


async def test_what_is_pending_stays_with_what_it_tells_however_old_it_is(product: Site) -> None:
    await used(product)
    await age(product)
    await product.acme.run("UPDATE delivery SET state = 'pending', ended_at = NULL")
    await put(product.acme, {"tag": "phone"}, send_at="2030-01-01T00:00:00Z")
    await product.acme.run(f"UPDATE message SET created_at = {OLD}")
    assert await swept(product) == {"delivery": 0, "message": 0, "fact": 0, "rate_slot": 0}


async def test_slots_of_rates_that_are_long_over_go_and_the_others_stay(product: Site) -> None:
    await product.acme.run(
        """INSERT INTO rate_slot
           SELECT 'address/' || n, now() + make_interval(hours => 20 * n) FROM generate_series(-3, 1) AS n"""
    )
    assert (await swept(product))["rate_slot"] == 2
    rows = await product.acme.rows("SELECT name FROM rate_slot ORDER BY next_at")
    assert [row["name"] for row in rows] == ["address/-1", "address/0", "address/1"]


async def test_the_secrets_of_endpoints_and_mailboxes_are_among_those_that_change_keys(product: Site) -> None:
    await make(product.acme, AMQP)
    await make(product.acme)
    async with product.db.transaction(product.acme.id) as tx:
        await product.app.state.delivery.outbox.post(tx, "test/1", "ben@example.org", Message(title="a", body="b"))
    assert product.process
    mine = [one for one in SECRETS if (one.table, one.column) in SECRET_COLUMNS]
    assert await count_by_key(product.db, mine) == {product.process.vault.writing_key_id: 3}
