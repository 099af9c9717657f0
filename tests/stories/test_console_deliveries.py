"""Deliveries at the console: seen as they happen, opened try by try, sent again, told why; on a desk and a phone."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support.accessibility import complaints
from tests.support.browser import SIZES, Console, Scheme, opened, picture, row, said
from tests.support.receiver import Receiver
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console() -> AsyncIterator[Console]:
    async with opened(Service(SOONISH_EGRESS_ALLOW="127.0.0.0/8", SOONISH_RATE_ADDRESS="0")) as console:
        yield console


async def live(page: Page) -> None:
    await expect(page.locator("html")).to_have_attribute("data-live", "on")


async def make(console: Console, *addresses: tuple[str, str, str | None]) -> tuple[int, str]:
    """A person with addresses of kind, label, target; answers their id and name."""
    name = f"Ben {uuid4().hex[:6]}"
    async with console.service.client() as soonish:
        made = await soonish.post("/v1/people", {"name": name, "timezone": "Europe/Berlin"})
        for kind, label, target in addresses:
            body = {"kind": kind, "label": label, "target": target}
            await soonish.post(f"/v1/people/{made['id']}/addresses", body)
    return int(made["id"]), name


async def tell(console: Console, person_id: int, title: str, **more: Any) -> list[Any]:
    """A message at once; answers its deliveries as soon as they have ended."""
    message = {"to": {"person_ids": [person_id]}, "title": title, "body": "Hello {{name}}"} | more
    async with console.service.client() as soonish:
        made = await soonish.post("/v1/messages", message)
        while not (found := [one async for one in soonish.list("/v1/deliveries", message_id=made["id"])]):
            await asyncio.sleep(0.05)
        return [await soonish.get(f"/v1/deliveries/{one['id']}", wait=20) for one in found]


CONSOLE = ("console", "desk", None)


async def test_before_anything_was_sent_the_page_says_what_it_is_for(console: Console) -> None:
    async with console.service.client() as soonish:
        made = await soonish.post("/v1/workspaces", {"slug": f"w{uuid4().hex[:12]}", "name": "Fresh"})
    async with console.visit(key=made["api_key"]) as page:
        await page.goto("/deliveries")
        await expect(page.locator(".empty .name")).to_have_text("Nothing was sent yet")
        await expect(page.locator(".empty code")).to_contain_text("soonish send --to 1")
        assert await page.locator("#nav a[aria-current=page]").inner_text() == "Deliveries"


@pytest.mark.parametrize("size", SIZES)
async def test_a_message_appears_as_it_is_sent_and_leads_to_its_why(console: Console, size: str) -> None:
    ben, name = await make(console, CONSOLE)
    title = f"Doors open {uuid4().hex[:6]}"
    async with console.visit("read", size=size) as page:
        await page.goto("/deliveries")
        await live(page)
        await tell(console, ben, title)
        line = row(page, title)
        await expect(line.locator(".state")).to_have_text("sent")
        await expect(line).to_contain_text(name)
        await line.get_by_role("link", name=title, exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"{title} to {name}")
        await expect(page.locator("#tries [data-row]")).to_have_count(1)
        await page.get_by_role("link", name="Why", exact=True).click()
        await expect(page.locator("#sentence")).to_contain_text(f"{name} was told “{title}” by desk at")
        await expect(page.locator("#sentence")).to_contain_text("after the moment, because")
        await expect(page.locator(".timeline .note")).to_have_text(
            ["Asked", "Planned", "For whom", "Came due", "Tried", "Ended"]
        )


async def test_an_address_is_tried_on_a_phone_and_its_why_opened(console: Console) -> None:
    ben, name = await make(console, CONSOLE)
    async with console.visit("write", size="phone") as page:
        await page.goto(f"/people/{ben}")
        await page.get_by_role("button", name="Test: desk").click()
        await said(page, "The test is on its way")
        await expect(page.locator("#head .state")).to_have_text("sent")
        await expect(page.locator("#tries [data-row] .state")).to_have_text("sent")
        await page.get_by_role("link", name="Why", exact=True).click()
        await expect(page.locator("#sentence")).to_contain_text(f"{name} was told “Test from Soonish” by desk")


async def test_what_failed_goes_again_by_one_press(console: Console) -> None:
    async with Receiver(404) as receiver:
        target = receiver.url.replace("http://", "json://")
        ben, _ = await make(console, ("apprise", "phone", target))
        [failed] = await tell(console, ben, f"Doors open {uuid4().hex[:6]}")
        assert (failed["state"], failed["reason"]) == ("failed", "http_404")
        receiver.answer(200)
        async with console.visit("write") as page:
            await page.goto(f"/deliveries/{failed['id']}")
            await expect(page.locator("#head .state")).to_have_text("failed")
            await live(page)
            await page.get_by_role("button", name="Retry").click()
            await said(page, f"Delivery {failed['id']} goes again now, under the same id")
            await expect(page.locator("#head .state")).to_have_text("sent")
            await expect(page.locator("#tries [data-row] .state")).to_have_text(["failed", "sent"])
            await expect(page.get_by_role("button", name="Retry")).to_have_count(0)


async def test_all_that_a_filter_finds_goes_again_and_the_filter_stays_in_the_address(console: Console) -> None:
    async with Receiver(404) as receiver:
        ben, _ = await make(console, ("apprise", "phone", receiver.url.replace("http://", "json://")))
        for _ in range(2):
            await tell(console, ben, f"Doors open {uuid4().hex[:6]}")
        receiver.answer(200)
        async with console.visit("write", script=False) as page:
            await page.goto("/deliveries")
            await page.get_by_label("State").select_option("failed")
            await page.get_by_label("Person", exact=True).fill(str(ben))
            await page.get_by_role("button", name="Filter").click()
            await expect(page).to_have_url(re.compile(f"person_id={ben}"))
            await expect(page.locator("[data-row]")).to_have_count(2)
            await page.locator("#retry-all > summary").click()
            await page.get_by_role("button", name="Retry them").click()
            await said(page, "2 deliveries go again now, under the same ids")
            assert "state=failed" in page.url
            async with console.service.client() as soonish:
                ids = [one["id"] async for one in soonish.list("/v1/deliveries", person_id=ben)]
                assert {(await soonish.get(f"/v1/deliveries/{one}", wait=20))["state"] for one in ids} == {"sent"}
            await page.reload()
            await expect(page.locator(".empty .name")).to_have_text("Nothing like that was sent")


async def test_a_person_has_an_inbox_and_a_line_for_each_thing_with_its_why(console: Console) -> None:
    ben, name = await make(console, CONSOLE)
    async with console.visit("read") as page:
        await page.goto(f"/people/{ben}")
        await expect(page.locator("#told-list")).to_contain_text(f"Nothing was told to {name} yet")
        await live(page)
        await tell(console, ben, "Doors open", level="warning")
        await expect(page.locator("#told-list [data-row]")).to_contain_text("“Doors open” was sent by desk")
        await page.reload()
        await expect(page.locator("#inbox-list [data-row]")).to_contain_text(f"Hello {name}")
        await expect(page.locator("#inbox-list .state")).to_have_text("warning")
        await page.locator("#told-list").get_by_role("link", name="Why: Doors open").click()
        await expect(page.locator("#sentence")).to_contain_text(f"{name} was told “Doors open” by desk")
        await page.goto(f"/why/person/{ben}")
        await page.get_by_label("Why not about").fill("game/17")
        await page.get_by_role("button", name="Ask").click()
        await expect(page.locator("#sentence")).to_contain_text(
            "nothing on record has a cause that begins with game/17"
        )


async def test_who_may_only_read_is_offered_nothing_else(console: Console) -> None:
    ann, _ = await make(console)
    [skipped] = await tell(console, ann, "Doors open")
    async with console.visit("read") as page:
        for path in ("/deliveries?state=skipped", f"/deliveries/{skipped['id']}", f"/why/delivery/{skipped['id']}"):
            await page.goto(path)
            await expect(page.locator("main form[method=post]")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_each_page_is_for_everybody(console: Console, tmp_path: Path, size: str, scheme: Scheme) -> None:
    async with Receiver(404) as receiver:
        ben, _ = await make(console, CONSOLE, ("apprise", "phone", receiver.url.replace("http://", "json://")))
        told = await tell(console, ben, "Doors open at the old mill", level="critical")
    failed = next(one["id"] for one in told if one["state"] == "failed")
    pages = {
        "deliveries": "/deliveries",
        "deliveries-failed": "/deliveries?state=failed&late_over_ms=0&cause_prefix=message",
        "delivery": f"/deliveries/{failed}",
        "why-delivery": f"/why/delivery/{failed}",
        "why-person": f"/why/person/{ben}",
        "person-told": f"/people/{ben}",
    }
    found = {}
    async with console.visit(size=size, scheme=scheme) as page:
        for name, path in pages.items():
            await page.goto(path)
            found[name] = await complaints(page)
            await picture(page, tmp_path, f"{name}-{size}-{scheme}")
    assert {name: told for name, told in found.items() if told} == {}
