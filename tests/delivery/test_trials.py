"""Trying an address, asking anew whether it may be written to, and letting go again what an endpoint missed."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from soonish.db.pool import Database
from soonish.delivery import on_due
from soonish.delivery.model.letters import Message, Recipient
from soonish.delivery.on_due import replay
from soonish.delivery.outbox import MOST_PEOPLE, Fact
from soonish.due import Kind, Lane, Put, drain, put
from tests.delivery.test_way import QUICK, address, ends, get, person, text_of, work
from tests.support.ledger import Ledger
from tests.support.site import Site, site
from tests.support.smtp import Post, mail_server


@pytest.fixture
async def mailing(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Site, Post]]:
    inbox = Post()
    with mail_server(inbox) as where:
        mail = {"smtp_host": "127.0.0.1", "smtp_port": str(where), "smtp_tls": "none", "smtp_from": "soon@example.org"}
        async with site(database_url, tmp_path, **QUICK, **mail) as product:
            yield product, inbox


async def ask(product: Site, path: str) -> Any:
    return await product.acme.write.post(path)


async def test_an_address_that_nobody_agreed_to_is_not_tried_and_is_asked_three_times_a_day(
    mailing: tuple[Site, Post],
) -> None:
    product, inbox = mailing
    ben = await person(product)
    mail = await address(product, ben, "mail", "email", target="ben@example.org")
    here = f"/v1/addresses/{mail}"
    assert (await ask(product, f"{here}/test")).refused == (409, "not_verified")
    for _ in range(2):
        answer = await ask(product, f"{here}/verify")
        assert answer.status == 202
    refused = await ask(product, f"{here}/verify")
    assert refused.refused == (429, "rate_limited")
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    await work(product)
    assert len(inbox.taken) == 3
    told = await get(product, f"/v1/deliveries/{answer.json['delivery_id']}")
    assert (told["state"], told["channel"], told["address_id"]) == ("sent", "email", None)
    links = {re.findall(r"/p/confirm/[\w.-]+", text_of(one.mail, "plain"))[0] for one in inbox.taken}
    assert len(links) == 3
    assert (await product.anyone.form(links.pop())).status == 200
    assert (await ask(product, f"{here}/verify")).refused == (409, "already_verified")
    assert (await ask(product, f"{here}/test")).status == 202
    await work(product)
    assert inbox.taken[-1].mail["subject"] == "Test from Soonish"


async def test_only_what_is_on_can_be_tried_and_only_mail_be_confirmed(mailing: tuple[Site, Post]) -> None:
    product, _ = mailing
    ben = await person(product)
    here = f"/v1/addresses/{await address(product, ben)}"
    assert (await ask(product, f"{here}/verify")).refused == (409, "already_verified")
    await product.acme.admin.patch(here, {"active": False})
    assert (await ask(product, f"{here}/test")).refused == (409, "conflict")
    await product.acme.admin.patch(here, {"active": True})
    await product.acme.run("UPDATE address SET health = 'disabled'")
    assert (await ask(product, f"{here}/test")).refused == (409, "conflict")
    for path in ("/v1/addresses/999/test", "/v1/addresses/999/verify"):
        assert (await ask(product, path)).refused == (404, "not_found")
    assert ends((await get(product, "/v1/deliveries"))["items"]) == []


async def test_a_replay_goes_on_pass_by_pass_and_no_further_than_was_asked_for(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_due, "REPLAYED", 3)
    ledger = await Ledger.of(db)
    one = await ledger.endpoint()
    async with db.transaction(1) as tx:
        await ledger.outbox.state_all(tx, [Fact(cause=f"a/{n}", type="a.b", subject="", data={}) for n in range(10)])
    await ledger.run("DELETE FROM due.due")
    await ledger.run("UPDATE delivery SET state = 'skipped', expires_at = now(), steps = 3, ended_at = now()")
    await ledger.run("UPDATE delivery SET state = 'sent' WHERE id = 2")
    payload = {"since": "2026-01-01T00:00:00Z", "until": None, "states": ["skipped"], "limit": 8, "after": 0}
    async with db.transaction(1) as tx:
        await put(tx, [Put("delivery.replay", f"{one}/x", payload=payload, lane=Lane.BULK)])

    async def handler(item: Any) -> Any:
        return await replay(db, item)

    await drain(db.loops, [Kind("delivery.replay", handler, Lane.BULK)])
    found = await ledger.deliveries()
    assert [row["state"] for row in found] == ["pending", "sent", *["pending"] * 7, "skipped"]
    assert {(row["expires_at"], row["steps"]) for row in found if row["state"] == "pending"} == {(None, 0)}
    waiting = [row for row in await ledger.due() if row["kind"] == "delivery.send"]
    assert len(waiting) == 8
    assert {row["lane"] for row in waiting} == {Lane.BULK}
    assert [row["wire_id"] for row in await ledger.deliveries()] == [row["wire_id"] for row in found]


async def test_no_more_than_five_thousand_people_are_told_by_one_call(db: Database) -> None:
    ledger = await Ledger.of(db)
    people = [Recipient(n) for n in range(MOST_PEOPLE + 1)]
    with pytest.raises(ValueError, match="page them"):
        async with db.transaction(1) as tx:
            await ledger.outbox.tell(tx, "message/1", Message(title="a", body="b"), people)
    assert await ledger.deliveries() == []
