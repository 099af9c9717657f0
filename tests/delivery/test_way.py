"""From a request to what arrives, through the whole application: people, addresses, endpoints, messages, facts."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Literal

import pytest

from soonish.due import drain
from tests.support.receiver import Receiver
from tests.support.site import Site, site
from tests.support.smtp import Post, mail_server

QUICK = {"egress_allow": "127.0.0.0/8", "rate_address": "0", "rate_host": "0"}
HOUR = timedelta(hours=1)


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    async with site(database_url, tmp_path, **QUICK) as product:
        yield product


async def work(product: Site) -> int:
    """Do all that is due."""
    assert product.process
    return await drain(product.db.loops, product.process.kinds.values())


async def post(product: Site, path: str, body: Any = None) -> Any:
    answer = await product.acme.admin.post(path, body if body is not None else {})
    assert answer.status in (200, 201, 202), answer.json
    return answer.json


async def get(product: Site, path: str) -> Any:
    answer = await product.acme.admin.get(path)
    assert answer.status == 200, answer.json
    return answer.json


async def person(product: Site, name: str = "Ben", **more: Any) -> int:
    return int((await post(product, "/v1/people", {"name": name} | more))["id"])


async def address(product: Site, person_id: int, label: str = "inbox", kind: str = "console", **more: Any) -> int:
    body = {"kind": kind, "label": label} | more
    return int((await post(product, f"/v1/people/{person_id}/addresses", body))["id"])


async def message(product: Site, *person_ids: int, **more: Any) -> int:
    body = {"to": {"person_ids": list(person_ids)}, "title": "Doors open", "body": "Hello {{name}}"} | more
    return int((await post(product, "/v1/messages", body))["id"])


async def deliveries(product: Site, query: str = "") -> list[Any]:
    """All of them, in the order in which they were asked for."""
    items = (await get(product, f"/v1/deliveries?limit=200&{query}"))["items"]
    return sorted(items, key=lambda one: (one["message_id"] or 0, one["fact_id"] or 0, one["id"]))


def ends(found: list[Any]) -> list[tuple[str, str | None]]:
    return [(one["state"], one["reason"]) for one in found]


def soon(**span: float) -> str:
    return (datetime.now(UTC) + timedelta(**span)).isoformat()


# --- messages


async def test_a_message_is_told_to_every_address_and_its_summary_counts_people(product: Site) -> None:
    ben, ann, bob = [await person(product, name) for name in ("Ben", "Ann", "Bob")]
    await address(product, ben, "inbox")
    await address(product, ann, "inbox")
    number = await message(product, ben, ann, bob)
    assert await deliveries(product) == []
    await work(product)
    assert ends(await deliveries(product)) == [("sent", None), ("sent", None), ("skipped", "no_address")]
    told = await get(product, f"/v1/messages/{number}")
    assert {name: told["summary"][name] for name in ("total", "delivered", "skipped", "pending")} == {
        "total": 3, "delivered": 2, "skipped": 1, "pending": 0,
    }  # fmt: skip


async def test_tag_and_id_name_one_address_and_no_selector_is_not_no_address(product: Site) -> None:
    ben = await person(product)
    phone = await address(product, ben, "phone", tags=["x"])
    await address(product, ben, "other", "apprise", target="json://127.0.0.1:9/")
    await message(product, ben, selectors=[{"tag": "x"}, {"address_id": phone}])
    await message(product, ben, selectors=[])
    await message(product, ben, selectors=[{"tag": "none"}])
    await work(product)
    found = await deliveries(product)
    assert [one["address_id"] for one in found] == [phone, None, None]
    assert ends(found) == [("sent", None), ("skipped", "muted"), ("skipped", "no_match")]
    ann = await person(product, "Ann")
    body = {"to": {"person_ids": [ann]}, "title": "a", "body": "b", "selectors": [{"address_id": phone}]}
    refused = await product.acme.admin.post("/v1/messages", body)
    assert refused.refused == (422, "foreign_selector")


async def test_what_was_overdue_at_a_start_is_told_unless_its_time_is_over(product: Site) -> None:
    ben = await person(product)
    await address(product, ben)
    for n in range(120):
        await message(
            product, ben, title=f"m{n}", send_at=soon(minutes=5), expires_at=soon(minutes=10 if n % 2 else 500)
        )
    await product.acme.run("UPDATE due.due SET due_at = due_at - interval '1 h', wake_at = wake_at - interval '1 h'")
    for column in ("send_at", "expires_at"):
        await product.acme.run(f"UPDATE message SET {column} = {column} - interval '1 h'")
    await message(product, ben, title="on time")
    await work(product)
    found = ends(await deliveries(product))
    assert (found.count(("sent", None)), found.count(("skipped", "expired"))) == (61, 60)


async def test_a_cancelled_message_is_told_to_nobody(product: Site) -> None:
    ben = await person(product)
    await address(product, ben)
    number = await message(product, ben, send_at=soon(hours=1))
    await post(product, f"/v1/messages/{number}/cancel")
    await product.acme.run("UPDATE due.due SET wake_at = now()")
    await work(product)
    assert await deliveries(product) == []


async def test_a_tag_is_asked_when_the_message_is_told(product: Site) -> None:
    ben, ann = await person(product, "Ben"), await person(product, "Ann")
    await address(product, ben, tags=["crew"])
    await post(product, "/v1/messages", {"to": {"tag": "crew"}, "title": "a", "body": "b", "send_at": soon(hours=1)})
    await address(product, ann, tags=["crew"])
    await product.acme.run("UPDATE due.due SET wake_at = now()")
    await work(product)
    assert sorted(one["person_id"] for one in await deliveries(product)) == [ben, ann]


# --- channels


async def test_apprise_speaks_of_levels_in_its_own_words_and_follows_the_ladder(product: Site) -> None:
    async with Receiver(200, 200, 200, 500, 404) as receiver:
        ben = await person(product)
        await address(product, ben, "phone", "apprise", target=f"json://127.0.0.1:{receiver.port}/in")
        for level in ("info", "warning", "critical"):
            await message(product, ben, level=level)
        await work(product)
        assert sorted(re.findall(rb'"type": ?"(\w+)"', a.body)[0] for a in receiver.arrivals) == [
            b"failure", b"info", b"warning",
        ]  # fmt: skip
        await message(product, ben)
        await work(product)
        assert (await deliveries(product))[-1]["state"] == "pending"
        await product.acme.run("UPDATE due.due SET wake_at = now()")
        await work(product)
    assert ends(await deliveries(product))[-1] == ("failed", "http_404")


def text_of(mail: EmailMessage, kind: Literal["plain", "html"]) -> str:
    part = mail.get_body((kind,))
    assert part
    return str(part.get_content())


@pytest.fixture
async def mailing(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Site, Post]]:
    inbox = Post()
    with mail_server(inbox) as where:
        mail = {"smtp_host": "127.0.0.1", "smtp_port": str(where), "smtp_tls": "none", "smtp_from": "soon@example.org"}
        async with site(database_url, tmp_path, **QUICK, **mail) as product:
            yield product, inbox


async def test_a_mailbox_gets_one_mail_that_asks_and_nothing_else_until_somebody_agrees(
    mailing: tuple[Site, Post],
) -> None:
    product, inbox = mailing
    ben = await person(product, "Ben <b>")
    mail = await address(product, ben, "mail", "email", target="ben@example.org")
    await message(product, ben)
    await work(product)
    assert ends(await deliveries(product, f"person_id={ben}&state=skipped")) == [("skipped", "no_address")]
    [asked] = inbox.taken
    [path] = re.findall(r"/p/confirm/[\w.-]+", text_of(asked.mail, "plain"))
    for _ in range(2):
        assert (await product.anyone.get(path, accept="text/html")).status == 200
    assert (await get(product, f"/v1/addresses/{mail}"))["health"] == "unverified"
    for _ in range(2):
        assert (await product.anyone.form(path)).status == 200
    await message(product, ben)
    await work(product)
    told = inbox.taken[-1].mail
    [delivery] = await deliveries(product, f"address_id={mail}")
    assert told["Message-ID"].startswith(f"<{delivery['wire_id']}@")
    assert "Hello Ben &lt;b&gt;" in text_of(told, "html")
    assert len(inbox.taken) == 2


async def test_a_fact_reaches_endpoints_by_their_lists_and_replay_sends_what_was_missed(product: Site) -> None:
    async with Receiver(410, 200) as receiver, Receiver() as other:
        body = {"name": "crm", "kind": "webhook", "fact_types": ["custom.*"], "config": {"url": receiver.url}}
        endpoint = (await post(product, "/v1/endpoints", body))["id"]
        await post(
            product, "/v1/endpoints", body | {"name": "ops", "fact_types": ["endpoint.*"], "config": {"url": other.url}}
        )
        since = soon(seconds=-60)
        for n in range(3):
            await post(product, "/v1/facts", {"type": "custom.thing", "data": {"n": n}})
            await work(product)
        await work(product)
        assert (await get(product, f"/v1/endpoints/{endpoint}"))["health"] == "disabled"
        assert ends(await deliveries(product, f"endpoint_id={endpoint}")) == [
            ("failed", "http_410"), ("skipped", "endpoint_disabled"), ("skipped", "endpoint_disabled"),
        ]  # fmt: skip
        assert b'"type":"endpoint.disabled"' in other.arrivals[0].body
        before = {one["id"]: one["wire_id"] for one in await deliveries(product, f"endpoint_id={endpoint}")}
        await post(product, f"/v1/endpoints/{endpoint}/enable")
        assert (await post(product, f"/v1/endpoints/{endpoint}/replay", {"since": since}))["count"] == 3
        await work(product)
        assert sorted(set(receiver.ids)) == sorted(before.values())
    assert {state for state, _ in ends(await deliveries(product, f"endpoint_id={endpoint}"))} == {"sent"}


async def test_after_a_rotation_two_secrets_sign_until_the_overlap_ends(product: Site) -> None:
    from standardwebhooks import Webhook

    async with Receiver() as receiver:
        body = {"name": "crm", "kind": "webhook", "fact_types": ["*"], "config": {"url": receiver.url}}
        made = await post(product, "/v1/endpoints", body)
        fresh = await post(product, f"/v1/endpoints/{made['id']}/rotate")
        for n in range(2):
            await post(product, "/v1/facts", {"type": "custom.thing", "data": {"n": n}})
            await work(product)
            await product.acme.run("UPDATE endpoint_secret SET ends_at = now() WHERE ends_at IS NOT NULL")
            await product.acme.run("UPDATE endpoint SET version = version + 1")  # nobody remembers the old end
    both, one = (dict(arrival.headers) for arrival in receiver.arrivals)
    for secret in (made["secret"], fresh["secret"]):
        Webhook(secret).verify(receiver.arrivals[0].body, both)
    Webhook(fresh["secret"]).verify(receiver.arrivals[1].body, one)
    assert (both["webhook-signature"].count("v1,"), one["webhook-signature"].count("v1,")) == (2, 1)


# --- people


async def test_nothing_is_sent_to_a_person_who_was_removed_and_their_rows_stay_without_a_name(product: Site) -> None:
    async with Receiver() as receiver:
        ben = await person(product, "Ben", email="ben@example.org", external_id="hr-1")
        await address(product, ben, "phone", "apprise", target=f"json://127.0.0.1:{receiver.port}/in")
        await message(product, ben, title="For Ben alone")
        await work(product)
        await message(product, ben)
        held = await get(product, f"/v1/people/{ben}/export")
        assert "For Ben alone" in str(held)
        await product.acme.run("UPDATE due.due SET wake_at = now() + interval '1 h' WHERE kind = 'delivery.send'")
        assert (await product.acme.admin.delete(f"/v1/people/{ben}")).status == 204
        await product.acme.run("UPDATE due.due SET wake_at = now()")
        await work(product)
        assert len(receiver.arrivals) == 1
    assert (await product.acme.admin.get(f"/v1/people/{ben}/export")).status == 404
    assert ends(await deliveries(product, f"person_id={ben}")) == [("sent", None), ("skipped", "person_gone")]
    for table in ("person", "message", "delivery", "fact", "audit", "attempt"):
        rows = str([row[0] for row in await product.acme.rows(f"SELECT t::text FROM {table} t")])
        assert [word for word in ("Ben", "ben@", "hr-1") if word in rows] == [], table


async def test_changes_of_people_are_facts_and_no_change_is_none(product: Site) -> None:
    ben = await person(product)
    for _ in range(2):
        await product.acme.admin.patch(f"/v1/people/{ben}", {"name": "Benjamin"})
    await product.acme.admin.delete(f"/v1/people/{ben}")
    facts = await get(product, "/v1/facts")
    assert [one["type"] for one in facts["items"]] == ["person.removed", "person.updated", "person.created"]


async def test_a_test_reaches_one_address_in_spite_of_quiet_hours(product: Site) -> None:
    ben = await person(product, timezone="UTC", quiet_hours={"start": "00:00", "end": "23:59", "critical": "hold"})
    inbox = await address(product, ben, "inbox")
    await address(product, ben, "other", "apprise", target="json://127.0.0.1:9/")
    made = await post(product, f"/v1/addresses/{inbox}/test")
    await work(product)
    told = await get(product, f"/v1/deliveries/{made['delivery_id']}")
    assert (told["state"], told["address_id"]) == ("sent", inbox)
    assert len(await deliveries(product)) == 1


# --- at scale, at rest


async def test_a_pause_of_sending_holds_everything_and_a_resume_sends_what_has_not_expired(product: Site) -> None:
    ben = await person(product)
    await address(product, ben)
    await post(product, "/v1/ops/pauses", {"kind": "delivery.send"})
    await work(product)
    await message(product, ben)
    await message(product, ben, expires_at=soon(seconds=60))
    await work(product)
    assert [state for state, _ in ends(await deliveries(product))] == ["pending", "pending"]
    assert (await get(product, "/v1/ops/due?state=overdue&kind=delivery.send"))["items"] == []
    await product.acme.run(
        "UPDATE delivery SET expires_at = now() - interval '1 s' WHERE message_id = (SELECT max(id) FROM message)"
    )
    assert (await product.acme.admin.delete("/v1/ops/pauses/delivery.send")).status == 204
    await work(product)
    assert ends(await deliveries(product)) == [("sent", None), ("skipped", "expired")]


async def test_a_dead_item_is_a_fact(product: Site) -> None:
    assert product.process
    await product.acme.run(
        """INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, created_at,
             finished_at, fate, reason)
           VALUES (77, current_workspace(), 'shop.thing', 'a', 0, now(), 3, 0, '{}', now(), now(), 'dead', 'budget')"""
    )
    product.process.health.pulse.suspect([product.acme.id])
    await product.process.health.pulse.beat()
    product.process.health.pulse.suspect([product.acme.id])
    await product.process.health.pulse.beat()
    [fact] = (await get(product, "/v1/facts?type=due.dead"))["items"]
    assert fact["data"] == {"due_id": 77, "kind": "shop.thing", "key": "a", "reason": "budget"}


@pytest.mark.parametrize(
    "target", ["http://169.254.169.254/", "http://[::ffff:10.0.0.1]/", "http://2130706433/", "http://10.1.2.3:8080/"]
)
async def test_what_must_not_be_reached_is_refused_when_it_is_stored(product: Site, target: str) -> None:
    body = {"name": "crm", "kind": "webhook", "fact_types": ["*"], "config": {"url": target}}
    if "2130706433" in target:
        target = "http://167772161/"  # 10.0.0.1
        body["config"] = {"url": target}
    refused = await product.acme.admin.post("/v1/endpoints", body)
    assert refused.refused == (422, "egress_refused")
    ben = await person(product)
    refused = await product.acme.admin.post(
        f"/v1/people/{ben}/addresses",
        {"kind": "apprise", "label": "x", "target": target.replace("http://", "json://")},
    )
    assert refused.refused == (422, "egress_refused")
