"""A browser may sign in as a person: so it is known who they are, until they are gone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.http import Answer, Client
from tests.support.site import House, Site, site


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    async with site(database_url, tmp_path) as opened:
        yield opened


async def ben(house: House) -> int:
    return int((await house.admin.post("/v1/people", {"name": "Ben"})).json["id"])


async def link(house: House, **body: Any) -> Answer:
    return await house.admin.post("/v1/login-links", {"role": "write"} | body)


def path_of(made: Answer) -> str:
    return "/login/" + str(made.json["url"]).rpartition("/")[2]


def browser_of(product: Site, answer: Answer) -> Client:
    return product.anyone.by(None, cookie=answer.headers["set-cookie"].partition(";")[0])


async def signed_in(product: Site, made: Answer) -> Client:
    return browser_of(product, await product.anyone.form(path_of(made)))


async def test_who_signs_in_by_the_link_of_a_person_is_that_person(product: Site) -> None:
    acme = product.acme
    person_id = await ben(acme)
    made = await link(acme, person_id=person_id)
    assert (made.status, made.json["person_id"]) == (201, person_id)
    assert (await acme.admin.get(made.headers["location"])).json["person_id"] == person_id
    me = (await (await signed_in(product, made)).get("/v1/me")).json
    assert (me["person_id"], me["role"]) == (person_id, "write")
    nobody = await signed_in(product, await link(acme))
    assert (await nobody.get("/v1/me")).json["person_id"] is None
    found = await acme.admin.every("/v1/sign-ins")
    assert [one["person_id"] for one in found] == [None, person_id]
    assert [one["person_id"] for one in (await acme.admin.get(f"/v1/people/{person_id}/export")).json["sign_ins"]] == [
        person_id
    ]
    [line] = await acme.admin.every(f"/v1/ops/audit?entity=login_link/{made.json['id']}")
    assert line["changes"]["person_id"] == person_id


async def test_a_link_is_made_for_nobody_who_is_not_here(product: Site) -> None:
    acme = product.acme
    foreign, gone = await ben(product.main), await ben(acme)
    assert (await acme.admin.delete(f"/v1/people/{gone}")).status == 204
    for person_id in (foreign, gone, 999, 2**63 - 1):
        answer = await link(acme, person_id=person_id)
        assert (answer.refused, answer.fields) == ((422, "unknown_person"), {"person_id": "unknown_person"})
    for wrong, code in ((0, "range"), ("7", "type"), (2**63, "range")):
        assert (await link(acme, person_id=wrong)).fields == {"person_id": code}
    assert await acme.rows("SELECT id FROM login_link") == []


async def test_who_is_erased_is_signed_in_nowhere_and_no_link_lets_them_in(product: Site) -> None:
    acme = product.acme
    person_id = await ben(acme)
    browser = await signed_in(product, await link(acme, person_id=person_id))
    waiting = await link(acme, person_id=person_id)
    other = await signed_in(product, await link(acme, person_id=await ben(acme)))
    assert (await acme.admin.delete(f"/v1/people/{person_id}")).status == 204
    assert (await browser.get("/v1/me")).refused == (401, "unauthorized")
    assert (await product.anyone.form(path_of(waiting))).status == 404
    assert (await other.get("/v1/me")).status == 200


async def test_a_link_that_is_used_while_its_person_is_erased_leaves_nobody_signed_in(product: Site) -> None:
    acme = product.acme
    for _ in range(5):
        person_id = await ben(acme)
        made = await link(acme, person_id=person_id)
        used, erased = await asyncio.gather(
            product.anyone.form(path_of(made)), acme.admin.delete(f"/v1/people/{person_id}")
        )
        assert erased.status == 204
        assert used.status in (303, 404)
        if used.status == 303:
            assert (await browser_of(product, used).get("/v1/me")).status == 401
    assert await acme.admin.every("/v1/sign-ins") == []


async def test_the_console_makes_such_a_link_on_the_page_of_the_person(product: Site) -> None:
    acme = product.acme
    person_id = await ben(acme)
    admin, writer = await acme.browser(), await acme.browser("write")
    page = (await admin.get(f"/people/{person_id}", accept="text/html")).body.decode()
    assert "No browser is signed in as Ben." in page
    assert "person-sign-ins" not in (await writer.get(f"/people/{person_id}", accept="text/html")).body.decode()
    token = page.partition('name="csrf" value="')[2].partition('"')[0]
    wanted = {"csrf": token, "role": "read", "minutes": "5"}
    bad = await admin.form("/settings/links", urlencode(wanted | {"person_id": 999}))
    assert bad.status == 422
    assert "There is no person 999" in bad.body.decode()
    made = await admin.form("/settings/links", urlencode(wanted | {"person_id": person_id}))
    assert made.status == 201
    shown = made.body.decode()
    assert f'href="/people/{person_id}#person-sign-ins"' in shown
    secret = shown.partition("/login/")[2][:43]
    me = await browser_of(product, await product.anyone.form(f"/login/{secret}")).get("/v1/me")
    assert me.json["person_id"] == person_id
    assert f'<a href="/people/{person_id}">Ben</a>' in (await admin.get("/settings", accept="text/html")).body.decode()
    assert "A browser with the role read" in (await admin.get(f"/people/{person_id}", accept="text/html")).body.decode()
