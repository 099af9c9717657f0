"""Endpoints and facts in a real browser: made, tested, changed, rotated, disabled, replayed, and what was stated."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import expect

from soonish.client import Soonish
from tests.support.accessibility import complaints, complaints_of_keys
from tests.support.browser import Console, Scheme, opened, picture, row, said
from tests.support.receiver import Receiver
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console() -> AsyncIterator[Console]:
    async with opened(Service(SOONISH_EGRESS_ALLOW="127.0.0.0/8")) as console:
        yield console


async def workspace(console: Console) -> str:
    """A fresh workspace; answers its first key."""
    async with console.service.client() as soonish:
        made = await soonish.post("/v1/workspaces", {"slug": f"w{uuid4().hex[:8]}", "name": "Fresh"})
    return str(made["api_key"])


async def make(console: Console, key: str, url: str, **more: Any) -> Any:
    async with Soonish(console.service.url, key) as soonish:
        body = {"name": "crm", "kind": "webhook", "fact_types": ["*"], "config": {"url": url}}
        return await soonish.post("/v1/endpoints", body | more)


async def state(console: Console, key: str, **data: Any) -> Any:
    async with Soonish(console.service.url, key) as soonish:
        return await soonish.post("/v1/facts", {"type": "custom.sale", "subject": "shop/1", "data": data})


@pytest.mark.parametrize("size", ["phone", "desk"])
async def test_an_endpoint_is_made_its_secret_shown_once_and_a_test_answers_on_its_page(
    console: Console, size: str
) -> None:
    async with Receiver() as receiver, console.visit(key=await workspace(console), size=size) as page:
        await page.goto("/endpoints")
        await expect(page.get_by_role("main")).to_contain_text("No machine hears anything yet")
        await page.get_by_role("link", name="New endpoint").first.click()
        await page.get_by_label("Name").fill("CRM & <b>co</b>")
        await page.get_by_label("Hears").fill("custom.*\nperson.created")
        await page.get_by_label("URL").fill(receiver.url)
        await page.get_by_label("Own headers").fill("X-Team: hr")
        await page.get_by_role("button", name="Make the endpoint").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("The secret of “CRM & <b>co</b>”")
        assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", await page.locator(".secret code").inner_text())
        await page.get_by_role("link", name="Done").click()
        await expect(page.locator("#what")).to_contain_text("X-Team: ***")
        await page.get_by_role("button", name="Send a test").click()
        await said(page, "A test is on its way.")
        [arrival] = await receiver.wait()
        assert arrival.headers["x-team"] == "hr"
        await expect(row(page, "soonish.test").locator(".state")).to_have_text("sent")
        await expect(row(page, "soonish.test")).to_contain_text("200")
        await page.goto("/endpoints")
        await expect(row(page, "CRM & <b>co</b>")).to_contain_text("took a fact")


async def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(console: Console) -> None:
    async with console.visit(key=await workspace(console)) as page:
        await page.goto("/endpoints/new/webhook")
        await page.get_by_label("Name").fill("crm")
        await page.get_by_label("Hears").fill("person.*\ngaem.*")
        await page.get_by_label("URL").fill("https://10.0.0.1/in")
        await page.get_by_label("Own headers").fill("Host: x\nX-A: b")
        await page.get_by_role("button", name="Make the endpoint").click()
        await expect(page.get_by_role("alert")).to_contain_text("3 fields need a change")
        await expect(page.locator(".field").filter(has_text="Hears")).to_contain_text(
            "line 2: 'gaem.*' is no fact type"
        )
        await expect(page.locator(".field.wrong").filter(has_text="URL")).to_contain_text("SOONISH_EGRESS_ALLOW")
        await expect(page.locator(".field.wrong").filter(has_text="Own headers")).to_contain_text("Host:")
        await expect(page.get_by_label("Hears")).to_have_value("person.*\ngaem.*")


@pytest.mark.parametrize(
    ("kind", "fields", "shown"),
    [
        ("amqp", {"URL": "amqp://me:hush@127.0.0.1:5672/v"}, "amqp://***@127.0.0.1:5672/v"),
        (
            "sqs",
            {
                "Queue URL": "https://127.0.0.1:4566/1/q", "Region": "eu-west-1", "Access key id": "AKIA1",
                "Secret access key": "hush",
            },
            "AKIA1",
        ),
    ],
)  # fmt: skip
async def test_brokers_are_made_by_forms_of_their_own_and_show_no_secret(
    console: Console, kind: str, fields: dict[str, str], shown: str
) -> None:
    async with console.visit(key=await workspace(console)) as page:
        await page.goto(f"/endpoints/new/{kind}")
        await page.get_by_label("Name").fill("broker")
        for label, value in fields.items():
            await page.get_by_label(label, exact=False).first.fill(value)
        await page.get_by_role("button", name="Make the endpoint").click()
        await said(page, "broker hears facts from now on.")
        await expect(page.locator("#what")).to_contain_text(shown)
        assert "hush" not in await page.content()
        await page.get_by_role("button", name="Save").click()
        await said(page, "Nothing was different.")


async def test_an_endpoint_is_changed_and_switched_off_and_an_old_form_changes_nothing(console: Console) -> None:
    key = await workspace(console)
    made = await make(console, key, "http://127.0.0.1:9/in")
    async with console.visit(key=key) as page, Soonish(console.service.url, key) as soonish:
        await page.goto(f"/endpoints/{made['id']}")
        await soonish.request("PATCH", f"/v1/endpoints/{made['id']}", {"rate_per_second": 5})
        await page.get_by_label("Name").fill("CRM")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("alert")).to_contain_text("It was changed since you looked")
        await page.goto(f"/endpoints/{made['id']}")
        await page.get_by_label("Name").fill("CRM")
        await page.get_by_label("It hears facts").uncheck()
        await page.get_by_role("button", name="Save").click()
        await said(page, "Saved.")
        await expect(page.get_by_role("heading", level=1)).to_have_text("CRM")
        await expect(page.locator("#head .state")).to_have_text("inactive")
        await expect(page.get_by_role("button", name="Send a test")).to_have_count(0)
        assert (await soonish.get(f"/v1/endpoints/{made['id']}"))["active"] is False


async def test_a_secret_is_rotated_and_the_older_one_signs_on_for_a_while(console: Console) -> None:
    key = await workspace(console)
    made = await make(console, key, "http://127.0.0.1:9/in")
    async with console.visit(key=key) as page:
        await page.goto(f"/endpoints/{made['id']}")
        await page.get_by_label("The old one signs for").select_option("3600")
        await page.get_by_role("button", name="Make a new secret").click()
        secret = await page.locator(".secret code").inner_text()
        assert secret != made["secret"]
        await expect(page.get_by_role("main")).to_contain_text("The one before it signs beside it for an hour.")
        await page.get_by_role("link", name="Done").click()
        await expect(page.locator("main")).to_contain_text("signs on")
        await expect(page.locator("main")).to_contain_text(re.compile("ends in (59|60) min"))


async def test_one_that_answered_410_is_enabled_and_what_it_missed_is_replayed_after_a_count(console: Console) -> None:
    key = await workspace(console)
    async with Receiver(410) as receiver, console.visit(key=key) as page:
        made = await make(console, key, receiver.url)
        await state(console, key, n=1)
        await receiver.wait()
        await page.goto(f"/endpoints/{made['id']}")
        await expect(page.get_by_role("alert")).to_contain_text("it answered 410")
        await state(console, key, n=2)
        await expect(row(page, "endpoint disabled")).to_have_count(1)
        receiver.answer(200)
        await page.get_by_role("button", name="Enable it").click()
        await said(page, "crm is tried again.")
        await page.get_by_role("link", name="Replay").click()
        await expect(page.locator(".stat").filter(has_text="failed")).to_contain_text("1")
        await page.get_by_role("button", name=re.compile("Replay . deliver")).click()
        await said(page, "again, under the same ids.")
        arrivals = await receiver.wait(3)
        assert receiver.ids.count(arrivals[0].id) == 2
        await expect(row(page, "custom.sale").first.locator(".state")).to_have_text("sent")


async def test_facts_appear_live_and_open_into_the_envelope(console: Console) -> None:
    key = await workspace(console)
    async with console.visit(key=key) as page:
        await page.goto("/endpoints")
        await page.get_by_role("link", name="Facts", exact=True).click()
        await expect(page.get_by_role("main")).to_contain_text("Nothing was stated yet")
        fact = await state(console, key, to="<b>Zoë</b>")
        await expect(row(page, "custom.sale")).to_contain_text("to <b>Zoë</b>")
        await row(page, "custom.sale").get_by_role("link").click()
        await expect(page.get_by_label("Envelope")).to_contain_text('"specversion": "1.0"')
        await expect(page.get_by_role("main")).to_contain_text("No endpoint heard this type")
        assert page.url.endswith(f"/facts/{fact['id']}")
        await page.goto("/facts?type=person.*")
        await expect(page.get_by_role("main")).to_contain_text("No such fact was stated")


async def test_a_removed_endpoint_is_gone(console: Console) -> None:
    key = await workspace(console)
    made = await make(console, key, "http://127.0.0.1:9/in")
    async with console.visit(key=key) as page:
        await page.goto(f"/endpoints/{made['id']}")
        await page.locator("#remove summary").click()
        await page.get_by_role("button", name="Remove it").click()
        await said(page, "The endpoint is gone.")
        await expect(page.get_by_role("main")).to_contain_text("No machine hears anything yet")


@pytest.mark.parametrize("role", ["read", "write"])
async def test_pages_offer_only_what_the_role_may_do(console: Console, role: str) -> None:
    key = await workspace(console)
    made = await make(console, key, "http://127.0.0.1:9/in")
    async with console.visit(role, key=key) as page:
        await page.goto("/endpoints")
        await expect(page.get_by_role("link", name="New endpoint")).to_have_count(0)
        await page.goto(f"/endpoints/{made['id']}")
        await expect(page.get_by_role("button", name="Send a test")).to_have_count(1 if role == "write" else 0)
        for name in ("Save", "Make a new secret", "Remove it"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)
        answer = await page.goto("/endpoints/new/webhook")
        assert answer
        assert answer.status == 403


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["phone", "desk"])
async def test_the_pages_are_for_everybody(console: Console, tmp_path: Path, size: str, scheme: Scheme) -> None:
    key = await workspace(console)
    async with Receiver() as receiver, console.visit(key=key, size=size, scheme=scheme) as page:
        made = await make(console, key, receiver.url, name="Customer relations", fact_types=["custom.*", "person.*"])
        fact = await state(console, key, sum=12.5, to="Zoë")
        await receiver.wait()
        here = f"/endpoints/{made['id']}"
        await page.goto(here)
        await expect(row(page, "custom.sale").locator(".state")).to_have_text("sent")  # from now on nothing moves
        paths = {
            "endpoints": "/endpoints", "endpoint": here, "endpoint-new": "/endpoints/new/sqs",
            "endpoint-replay": f"{here}/replay", "facts": "/facts", "fact": f"/facts/{fact['id']}",
        }  # fmt: skip
        for name, path in paths.items():
            await page.goto(path)
            await picture(page, tmp_path, f"{name}-{size}-{scheme}")
            assert await complaints(page) == [], name
    async with console.visit(key=key, size=size, script=False) as page:  # nothing is fetched anew while one goes along
        for name, path in paths.items():
            await page.goto(path)
            assert await complaints_of_keys(page) == [], name
