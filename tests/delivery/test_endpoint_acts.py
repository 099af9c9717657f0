"""What is done with endpoints: secrets are rotated, tests sent, and what was missed goes again."""

import base64
from datetime import UTC, datetime, timedelta

from standardwebhooks.webhooks import Webhook

from soonish.delivery.model.webhooks import read_secret, signature
from tests.delivery.test_endpoints import AMQP, deliveries, make, signing, state, verbs
from tests.support.site import Site

# --- secrets that sign


def verifies(secret: str, secrets: list[bytes]) -> bool:
    """Whether a receiver that knows this secret takes what these sign."""
    now = int(datetime.now(UTC).timestamp())
    signed = signature(secrets, "dlv_1", now, b"{}")
    headers = {"webhook-id": "dlv_1", "webhook-timestamp": str(now), "webhook-signature": signed}
    try:
        Webhook(secret).verify(b"{}", headers)
    except Exception as error:
        assert type(error).__name__ == "WebhookVerificationError"
        return False
    return True


async def test_after_a_rotation_two_signatures_verify_and_after_the_overlap_one(product: Site) -> None:
    acme, one = product.acme, await make(product.acme)
    path = f"/v1/endpoints/{one['id']}/rotate"
    rotated = await acme.admin.post(path, {"overlap_seconds": 3600})
    assert rotated.status == 200
    old, new = one["secret"], rotated.json["secret"]
    secrets = await signing(product, acme, one)
    assert [verifies(secret, secrets) for secret in (old, new)] == [True, True]
    assert secrets[0] == read_secret(new)
    await acme.run("UPDATE endpoint_secret SET ends_at = now() WHERE ends_at IS NOT NULL")
    secrets = await signing(product, acme, one)
    assert [verifies(secret, secrets) for secret in (old, new)] == [False, True]
    assert (await acme.read.get(f"/v1/endpoints/{one['id']}")).json["version"] == 2, "senders keep a version's secrets"


async def test_three_secrets_sign_at_most_and_one_without_an_overlap_makes_room(product: Site) -> None:
    acme, one = product.acme, await make(product.acme)
    path = f"/v1/endpoints/{one['id']}/rotate"
    assert [(await acme.admin.post(path)).status for _ in range(3)] == [200, 200, 409]
    assert (await acme.admin.post(path)).refused == (409, "too_many_secrets")
    assert len(await signing(product, acme, one)) == 3
    given = "whsec_" + base64.b64encode(b"s" * 24).decode()
    answer = await acme.admin.post(path, {"overlap_seconds": 0, "secret": given})
    assert answer.json["secret"] == given
    assert (await signing(product, acme, one))[0] == b"s" * 24
    assert len(await signing(product, acme, one)) == 3


async def test_a_rotation_is_asked_for_in_its_bounds_and_of_webhooks_alone(product: Site) -> None:
    acme, one, broker = product.acme, await make(product.acme), await make(product.acme, AMQP)
    answer = await acme.admin.post(f"/v1/endpoints/{one['id']}/rotate", {"overlap_seconds": 604_801, "secret": "x"})
    assert answer.fields == {"overlap_seconds": "range"}
    assert (await acme.admin.post(f"/v1/endpoints/{one['id']}/rotate", {"secret": "x"})).fields == {"secret": "pattern"}
    assert (await acme.admin.post(f"/v1/endpoints/{broker['id']}/rotate")).refused == (409, "conflict")
    assert broker["secret"] is None


# --- tests and replays


async def test_a_test_goes_to_this_one_endpoint_whatever_it_hears(product: Site) -> None:
    acme, one = product.acme, await make(product.acme)
    other = await make(acme, fact_types=["*"])
    answer = await acme.write.post(f"/v1/endpoints/{one['id']}/test")
    assert answer.status == 202
    found = (await acme.read.get(f"/v1/deliveries/{answer.json['delivery_id']}")).json
    assert (found["endpoint_id"], found["state"]) == (one["id"], "pending")
    [fact] = (await acme.read.get("/v1/facts?type=soonish.test")).json["items"]
    assert (fact["subject"], fact["data"]) == (f"endpoint/{one['id']}", {"endpoint_id": one["id"]})
    assert await deliveries(acme, other) == []
    assert await verbs(acme, one) == ["make", "test"]


async def test_a_replay_counts_what_will_go_again_and_puts_one_due_item(product: Site) -> None:
    acme, one = product.acme, await make(product.acme)
    for _ in range(4):
        await state(acme)
    await acme.run(
        """UPDATE delivery SET state = (ARRAY['failed', 'skipped', 'unknown', 'sent'])
           [id - (SELECT min(id) - 1 FROM delivery)]"""
    )
    since = datetime.now(UTC) - timedelta(hours=1)
    path, body = f"/v1/endpoints/{one['id']}/replay", {"since": since.isoformat()}
    answer = await acme.write.post(path, body, idempotency_key="one")
    assert (answer.status, answer.json["count"]) == (202, 3)
    [item] = (await acme.read.get("/v1/ops/due?kind=delivery.replay")).json["items"]
    assert (item["key"], item["lane"]) == (answer.json["key"], "bulk")
    payload = (await acme.read.get(f"/v1/ops/due/{item['id']}")).json["payload"]
    assert payload == {
        "since": since.isoformat().replace("+00:00", "Z"), "until": None, "after": 0, "limit": 100_000,
        "states": ["failed", "skipped", "unknown"],
    }  # fmt: skip
    assert (await acme.write.post(path, body, idempotency_key="one")).json == answer.json
    some = await acme.write.post(path, body | {"states": ["failed", "skipped"], "limit": 1})
    assert some.json["count"] == 1
    early = await acme.write.post(path, body | {"until": (since + timedelta(minutes=1)).isoformat()})
    assert early.json["count"] == 0


async def test_a_replay_needs_an_endpoint_that_hears_and_a_span_that_ends_later(product: Site) -> None:
    acme, one = product.acme, await make(product.acme)
    path, since = f"/v1/endpoints/{one['id']}/replay", "2026-01-01T00:00:00Z"
    assert (await acme.write.post(path, {"since": since, "until": since, "states": ["sent"]})).fields == {
        "states.0": "one_of"
    }
    assert (await acme.write.post(path, {"since": since, "until": since})).fields == {"until": "range"}
    await acme.run("UPDATE endpoint SET health = 'disabled'")
    assert (await acme.write.post(path, {"since": since})).refused == (409, "conflict")
