"""Endpoints over the API: what is secret, what is refused, what stops and begins."""

import base64
import json
from typing import Any

import pytest

from soonish.delivery.model.endpoints import HIDDEN, hidden, kept, opened
from soonish.delivery.model.webhooks import read_secret
from soonish.errors import FieldError
from tests.support.http import Answer
from tests.support.site import House, Site

URL = "https://crm.example.org/in"
WEBHOOK: dict[str, Any] = {"name": "crm", "kind": "webhook", "fact_types": ["custom.*"], "config": {"url": URL}}
AMQP: dict[str, Any] = {**WEBHOOK, "kind": "amqp", "config": {"url": "amqps://user:pass@mq.example.org/vhost"}}
QUEUE = "https://sqs.eu-west-1.amazonaws.com/1/q"
SQS: dict[str, Any] = {
    **WEBHOOK,
    "kind": "sqs",
    "config": {"queue_url": QUEUE, "region": "eu-west-1", "access_key_id": "AKIA1", "secret_access_key": "hush"},
}


async def make(house: House, body: dict[str, Any] = WEBHOOK, **more: Any) -> Any:
    answer = await house.admin.post("/v1/endpoints", body | more)
    assert answer.status == 201, answer.body
    assert answer.headers["location"] == f"/v1/endpoints/{answer.json['id']}"
    return answer.json


async def change(house: House, one: Any, **wanted: Any) -> Answer:
    return await house.admin.patch(f"/v1/endpoints/{one['id']}", wanted)


async def state(house: House, type_: str = "custom.sale") -> int:
    answer = await house.write.post("/v1/facts", {"type": type_, "data": {}})
    assert answer.status == 202
    return int(answer.json["id"])


async def deliveries(house: House, one: Any) -> list[tuple[str, str | None]]:
    rows = await house.rows("SELECT state, reason FROM delivery WHERE endpoint_id = $1 ORDER BY id", one["id"])
    return [tuple(row) for row in rows]


async def facts(house: House) -> list[tuple[str, Any]]:
    rows = await house.rows("SELECT type, data FROM fact WHERE type LIKE 'endpoint.%' ORDER BY id")
    return [(row["type"], json.loads(row["data"])) for row in rows]


async def verbs(house: House, one: Any) -> list[str]:
    lines = (await house.admin.get(f"/v1/ops/audit?entity=endpoint/{one['id']}")).json["items"]
    return [line["verb"] for line in reversed(lines)]


async def opened_config(product: Site, house: House, one: Any) -> Any:
    """What a sender reads."""
    [row] = await house.rows("SELECT config, secret_config FROM endpoint WHERE id = $1", one["id"])
    place = (house.id, "endpoint", "secret_config", one["id"])
    sealed = row["secret_config"]
    assert product.process
    return opened(json.loads(row["config"]), sealed and product.process.vault.unseal(sealed, place))


async def signing(product: Site, house: House, one: Any) -> list[bytes]:
    """The secrets that sign now, the newest first."""
    rows = await house.rows(
        """SELECT id, secret FROM endpoint_secret WHERE endpoint_id = $1 AND coalesce(ends_at > now(), true)
           ORDER BY id DESC""",
        one["id"],
    )
    assert product.process
    unseal = product.process.vault.unseal
    return [unseal(row["secret"], (house.id, "endpoint_secret", "secret", row["id"])) for row in rows]


# --- made, listed, changed


async def test_a_webhook_is_made_with_a_secret_that_is_shown_once(product: Site) -> None:
    acme = product.acme
    made = await make(acme, config={"url": URL, "headers": {"X-Team": "hr"}}, rate_per_second=5)
    assert len(base64.b64decode(made["secret"].removeprefix("whsec_"))) == 32
    shown = (await acme.read.get(f"/v1/endpoints/{made['id']}")).json
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert shown["config"] == {"url": URL, "headers": {"X-Team": HIDDEN}}
    assert (shown["health"], shown["active"], shown["rate_per_second"], shown["max_in_flight"]) == ("ok", True, 5, 100)
    assert await signing(product, acme, made) == [read_secret(made["secret"])]
    assert await verbs(acme, made) == ["make"]


async def test_endpoints_are_listed_newest_first_page_by_page(product: Site) -> None:
    ids = [(await make(product.acme, name=f"e{n}"))["id"] for n in range(3)]
    assert [one["id"] for one in await product.acme.read.every("/v1/endpoints?limit=2")] == ids[::-1]


async def test_a_patch_changes_what_it_names_and_an_old_version_changes_nothing(product: Site) -> None:
    acme, made = product.acme, await make(product.acme)
    answer = await change(acme, made, name="CRM", fact_types=["*"], rate_per_second=7)
    assert answer.status == 200
    assert (answer.json["name"], answer.json["fact_types"], answer.json["version"]) == ("CRM", ["*"], 2)
    again = await change(acme, made, name="CRM", config={"url": URL})
    assert (again.json["version"], again.headers["etag"]) == (2, '"2"')
    stale = await acme.admin.patch(f"/v1/endpoints/{made['id']}", {"name": "x"}, if_match='"1"')
    assert stale.refused == (412, "stale")
    cleared = await change(acme, made, rate_per_second=None)
    assert (cleared.json["rate_per_second"], cleared.json["version"]) == (None, 3)
    assert await verbs(acme, made) == ["make", "change", "change"]


async def test_all_that_is_wrong_with_an_endpoint_is_named_at_once(product: Site) -> None:
    answer = await product.acme.admin.post(
        "/v1/endpoints",
        {"name": "", "kind": "webhook", "fact_types": [], "config": {}, "rate_per_second": 0, "max_in_flight": 1001},
    )
    assert answer.fields == {
        "name": "length", "fact_types": "length", "rate_per_second": "range", "max_in_flight": "range",
    }  # fmt: skip
    answer = await product.acme.admin.post(
        "/v1/endpoints",
        WEBHOOK
        | {
            "fact_types": ["custom.sale", "gamse.*", "custom.sale"],
            "config": {"url": "ftp://x.example.org", "headers": {"Webhook-Id": "1", "X-A": "a\r\nb"}},
            "secret": "whsec_c2hvcnQ=",
        },
    )
    assert answer.fields == {
        "fact_types.1": "unknown_fact_type", "fact_types.2": "one_of", "secret": "pattern",
        "config.url": "egress_refused", "config.headers.Webhook-Id": "reserved_header",
        "config.headers.X-A": "control_character",
    }  # fmt: skip
    assert await product.acme.rows("SELECT FROM endpoint") == []


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (WEBHOOK | {"config": {"url": "http://10.0.0.1/in"}}, {"config.url": "egress_refused"}),
        (WEBHOOK | {"config": {"url": "http://crm.example.org/in"}}, {"config.url": "egress_refused"}),
        (WEBHOOK | {"config": {"url": f"https://{HIDDEN}@crm.example.org"}}, {"config.url": "required"}),
        (WEBHOOK | {"config": {"url": URL, "exchange": "x"}}, {"config.exchange": "unknown_field"}),
        (AMQP | {"config": {"url": URL}}, {"config.url": "egress_refused"}),
        (AMQP | {"config": {"url": "amqp://mq.example.org", "unroutable": "drop"}}, {"config.unroutable": "one_of"}),
        (AMQP | {"config": {"url": "amqp://mq.example.org/a/b"}}, {"config.url": "pattern"}),
        (AMQP | {"secret": "whsec_" + "a" * 32}, {"secret": "unknown_field"}),
        (SQS | {"config": {"queue_url": QUEUE, "region": "eu-west-1"}}, {"config.access_key_id": "required"}),
        (
            SQS | {"config": {"queue_url": QUEUE, "region": "eu-west-1", "access_key_id": "A"}},
            {"config.secret_access_key": "required"},
        ),
        (
            SQS | {"config": {**SQS["config"], "endpoint_url": "https://169.254.169.254/"}},
            {"config.endpoint_url": "egress_refused"},
        ),
    ],
)
async def test_a_configuration_that_cannot_work_is_refused_when_it_is_stored(
    product: Site, body: dict[str, Any], wrong: dict[str, str]
) -> None:
    answer = await product.acme.admin.post("/v1/endpoints", body)
    assert (answer.status, answer.fields) == (422, wrong)


async def test_the_servers_own_login_at_a_cloud_is_for_the_first_workspace_alone(product: Site) -> None:
    body = SQS | {"config": {"queue_url": QUEUE, "region": "eu-west-1"}}
    made = await make(product.main, body)
    assert made["config"]["access_key_id"] is None


# --- what is secret


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (AMQP, {"url": f"amqps://{HIDDEN}@mq.example.org/vhost", "exchange": "soonish.facts", "unroutable": "retry"}),
        (SQS, {**SQS["config"], "secret_access_key": HIDDEN, "endpoint_url": None}),
        (
            WEBHOOK | {"config": {"url": "https://me:word@crm.example.org:8443/in?a=1", "headers": {"X-A": "b"}}},
            {"url": f"https://{HIDDEN}@crm.example.org:8443/in?a=1", "headers": {"X-A": HIDDEN}},
        ),
    ],
)
async def test_secrets_of_a_configuration_are_hidden_kept_and_found_by_who_sends(
    product: Site, body: dict[str, Any], shown: dict[str, Any]
) -> None:
    acme, made = product.acme, await make(product.acme, body)
    assert made["config"] == shown
    kept_back = await change(acme, made, config=shown, name="renamed")
    assert (kept_back.json["config"], kept_back.json["version"]) == (shown, 2)
    assert (await opened_config(product, acme, made)).items() >= body["config"].items()


async def test_no_secret_stands_in_a_row_in_the_clear_nor_in_the_record(product: Site) -> None:
    acme = product.acme
    for body in (AMQP, SQS, WEBHOOK | {"config": {"url": URL, "headers": {"X-A": "hush"}}}):
        made = await make(acme, body)
        await change(acme, made, config={**body["config"], **({"url": URL} if body["kind"] == "webhook" else {})})
        await acme.admin.post(f"/v1/endpoints/{made['id']}/rotate") if body["kind"] == "webhook" else None
    rows = await acme.rows("SELECT to_jsonb(e)::text AS text FROM endpoint e UNION ALL SELECT a::text FROM audit a")
    rows += await acme.rows("SELECT to_jsonb(s)::text AS text FROM endpoint_secret s")
    text = "\n".join(row["text"] for row in rows)
    assert not {word for word in ("pass", "hush", "whsec_") if word in text}


async def test_a_hidden_part_keeps_what_is_stored_and_nothing_else(product: Site) -> None:
    acme = product.acme
    made = await make(acme, config={"url": "https://me:word@crm.example.org/in", "headers": {"X-A": "a", "X-B": "b"}})
    one = await change(acme, made, config={"url": f"https://{HIDDEN}@crm.example.org/new", "headers": {"X-B": HIDDEN}})
    assert one.json["config"] == {"url": f"https://{HIDDEN}@crm.example.org/new", "headers": {"X-B": HIDDEN}}
    assert await opened_config(product, acme, made) == {
        "url": "https://me:word@crm.example.org/new", "headers": {"X-B": "b"},
    }  # fmt: skip
    elsewhere = await change(
        acme, made, config={"url": f"https://{HIDDEN}@other.example.org/new", "headers": {"X-A": HIDDEN}}
    )
    assert elsewhere.fields == {"config.url": "required", "config.headers.X-A": "required"}


def test_to_hide_and_to_open_again_gives_the_same() -> None:
    for config in (AMQP["config"], SQS["config"], {"url": "https://a:b%40c@h/", "headers": {"X": "y"}}, {"url": URL}):
        shown, secrets = hidden(config)
        assert opened(shown, secrets) == config
        errors: list[FieldError] = []
        assert kept(shown, config, errors) == config
        assert errors == []


# --- on and off


async def test_an_endpoint_that_is_switched_off_hears_nothing_and_the_others_are_told(product: Site) -> None:
    acme, off = product.acme, await make(product.acme, fact_types=["*"])
    other = await make(acme, fact_types=["endpoint.*"])
    await state(acme)
    assert (await change(acme, off, active=False)).json["active"] is False
    await state(acme)
    assert await deliveries(acme, off) == [("skipped", "endpoint_inactive")] * 3
    assert await deliveries(acme, other) == [("pending", None)]
    assert await facts(acme) == [("endpoint.disabled", {"endpoint_id": off["id"], "reason": "inactive"})]
    assert await acme.rows("SELECT FROM due.due WHERE kind = 'delivery.send'") != []
    await change(acme, off, active=True)
    await state(acme)
    assert (await deliveries(acme, off))[3:] == [("skipped", "endpoint_inactive"), ("pending", None)]
    assert (await facts(acme))[1:] == [("endpoint.enabled", {"endpoint_id": off["id"], "reason": "active"})]


async def test_what_is_switched_off_has_nothing_left_to_come(product: Site) -> None:
    acme, one = product.acme, await make(product.acme)
    await state(acme)
    await change(acme, one, active=False)
    assert await acme.rows("SELECT FROM due.due WHERE kind = 'delivery.send'") == []


async def test_a_disabled_endpoint_is_enabled_as_if_it_had_never_failed(product: Site) -> None:
    acme, one = product.acme, await make(product.acme, fact_types=["*"])
    other = await make(acme, fact_types=["endpoint.enabled"])
    await acme.run(
        """UPDATE endpoint SET health = 'disabled', disabled_reason = 'gone', fails = 9, misses = 5, circuit_step = 2,
           failing_since = now(), circuit_until = now() + interval '1 h' WHERE id = $1""",
        one["id"],
    )
    answer = await acme.admin.post(f"/v1/endpoints/{one['id']}/enable")
    assert answer.status == 200
    assert (answer.json["health"], answer.json["fails"], answer.json["disabled_reason"]) == ("ok", 0, None)
    assert (answer.json["failing_since"], answer.json["circuit_until"]) == (None, None)
    assert await facts(acme) == [("endpoint.enabled", {"endpoint_id": one["id"], "reason": "asked"})]
    assert await deliveries(acme, other) == [("pending", None)]
    assert await deliveries(acme, one) == [("skipped", "endpoint_disabled")]
    again = await acme.admin.post(f"/v1/endpoints/{one['id']}/enable")
    assert again.json["version"] == answer.json["version"]
    assert len(await facts(acme)) == 1


async def test_a_machine_that_moved_has_no_circuit(product: Site) -> None:
    acme, one = product.acme, await make(product.acme)
    await acme.run("UPDATE endpoint SET circuit_until = now() + interval '1 h', circuit_step = 3, misses = 8")
    assert (await change(acme, one, name="x")).json["circuit_until"] is not None
    assert (await change(acme, one, config={"url": f"{URL}/new"})).json["circuit_until"] is None


async def test_a_removed_endpoint_is_gone_and_what_was_pending_says_so(product: Site) -> None:
    acme, one = product.acme, await make(product.acme)
    await state(acme)
    path = f"/v1/endpoints/{one['id']}"
    assert (await acme.admin.delete(path, if_match='"9"')).refused == (412, "stale")
    assert (await acme.admin.delete(path)).status == 204
    assert (await acme.admin.delete(path)).refused == (404, "not_found")
    assert await deliveries(acme, one) == [("skipped", "endpoint_gone")]
    assert await acme.rows("SELECT FROM endpoint_secret") == []


# --- the wall


async def test_nothing_of_another_workspaces_endpoint_can_be_seen_or_done(product: Site) -> None:
    one = await make(product.acme)
    admin, path = product.main.admin, f"/v1/endpoints/{one['id']}"
    asked = [
        await admin.get(path), await admin.patch(path, {"name": "x"}), await admin.delete(path),
        await admin.post(f"{path}/rotate"), await admin.post(f"{path}/enable"), await admin.post(f"{path}/test"),
        await admin.post(f"{path}/replay", {"since": "2026-01-01T00:00:00Z"}),
    ]  # fmt: skip
    assert {answer.refused for answer in asked} == {(404, "not_found")}
    assert (await admin.get("/v1/endpoints")).json["items"] == []
