"""Every page of the console is for everybody: on a phone and on a desk, by day and by night, by keyboard."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from soonish import due
from tests.support.accessibility import complaints, complaints_of_keys
from tests.support.browser import SIZES, Console, Scheme, opened, picture
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGES = {
    "now": "/",
    "due": "/due",
    "due-nothing": "/due?kind=nothing.here",
    "past": "/due/past",
    "dead": "/due/dead",
    "pauses": "/due/pauses",
    "settings": "/settings",
    "health": "/settings/health",
    "record": "/settings/record",
    "missing": "/due/999999",
}
HEAVIEST = 100_000  # bytes, with all that a page needs
UNREACHED = """
() => [...document.querySelectorAll('main time:not([tabindex])')].filter((one) => {
  const line = one.closest('[data-row], .next');
  return !line?.querySelector(`time[tabindex="0"][datetime="${one.dateTime}"]`);
}).map((one) => one.outerHTML)
"""
MINE = "Test: note remind Ada"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console() -> AsyncIterator[Console]:
    """A service in which something waits, something is done, something is dead and something is paused."""
    async with opened(Service()) as console:
        await _fill(console.service)
        yield console


async def _fill(service: Service) -> None:
    now = datetime.now(UTC)
    waits = [due.Put("test.note", f"remind Ada {n}", now + timedelta(hours=n, minutes=3)) for n in range(1, 12)]
    await service.put(waits)
    await service.put([due.Put("test.poison", f"bad {n}") for n in range(2)])
    await service.put([due.Put("test.note", "done", payload={"file": str(service.folder / "ledger")})])
    async with service.client() as soonish:
        await soonish.post("/v1/ops/pauses", {"kind": "system.rekey", "reason": "the keys are being changed"})
        while not {"done", "dead"} <= {one["fate"] async for one in soonish.list("/v1/ops/past")}:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_each_page_is_for_everybody(console: Console, tmp_path: Path, size: str, scheme: Scheme) -> None:
    found = {}
    async with console.visit(size=size, scheme=scheme) as page:
        for name, path in PAGES.items():
            await page.goto(path)
            found[name] = await complaints(page)
            await picture(page, tmp_path, f"{name}-{size}-{scheme}")
    assert {name: said for name, said in found.items() if said} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_what_opens_on_a_page_is_for_everybody(
    console: Console, tmp_path: Path, size: str, scheme: Scheme
) -> None:
    async with console.visit(size=size, scheme=scheme) as page:
        await page.goto("/settings")
        for summary in await page.locator("details.add > summary").all():
            await summary.click()
        await page.locator("#new-key").get_by_role("button", name="Make the key").click()
        await expect(page.get_by_text("1 field needs a change")).to_be_visible()
        await page.locator("details.confirm > summary").first.click()
        await picture(page, tmp_path, f"settings-open-{size}-{scheme}")
        assert await complaints(page) == []
        await page.goto("/due")
        await page.get_by_role("link", name=f"{MINE} 1", exact=True).click()
        await page.locator("details.confirm > summary").click()
        await picture(page, tmp_path, f"item-{size}-{scheme}")
        assert await complaints(page) == []


@pytest.mark.parametrize("size", SIZES)
async def test_the_page_of_a_login_link_is_for_everybody(console: Console, tmp_path: Path, size: str) -> None:
    async with console.visit(None, size=size) as page:
        await page.goto(await console.link("read"))
        await picture(page, tmp_path, f"login-{size}")
        assert await complaints(page) == []
        await page.goto("/")
        await picture(page, tmp_path, f"stranger-{size}")
        assert await page.get_by_role("heading", level=1).inner_text() == "Not signed in"
        assert await complaints(page) == []


@pytest.mark.parametrize("name", ["now", "due", "settings"])
async def test_the_keyboard_reaches_everything_in_its_order(console: Console, name: str) -> None:
    async with console.visit() as page:
        await page.goto(PAGES[name])
        assert await complaints_of_keys(page) == []


@pytest.mark.parametrize("name", PAGES)
async def test_each_moment_can_be_reached_by_keyboard_and_then_shows_its_utc(console: Console, name: str) -> None:
    async with console.visit() as page:
        await page.goto(PAGES[name])
        assert await page.evaluate(UNREACHED) == []
        for time in (await page.locator("time[tabindex='0']").all())[:3]:
            await time.focus()
            told = await time.evaluate("one => getComputedStyle(one, '::after').content")
            assert told == f'"{await time.get_attribute("data-utc")}"'


async def test_each_page_is_light_with_all_that_it_needs(console: Console) -> None:
    heavy = {}
    async with console.visit() as page:
        session = await page.context.new_cdp_session(page)
        sizes: list[int] = []
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        await session.send("Network.enable")
        await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        for name, path in PAGES.items():
            sizes.clear()
            await page.goto(path, wait_until="load")
            heavy[name] = sum(sizes)
            assert len(sizes) > 10  # the page, its looks, its scripts
    assert {name: size for name, size in heavy.items() if size > HEAVIEST} == {}


@pytest.mark.parametrize(
    ("path", "works"),
    [("/", []), ("/due", ["Search or filter"]), ("/settings", ["New"]), ("/settings/record", ["Search or filter"])],
)
async def test_the_help_of_the_keyboard_lists_what_works_on_the_page(
    console: Console, path: str, works: list[str]
) -> None:
    async with console.visit() as page:
        await page.goto(path)
        await page.keyboard.press("?")
        listed = page.get_by_role("dialog", name="Keyboard").get_by_role("definition")
        await expect(listed.filter(has_text="This list")).to_be_visible()
        shown = [await one.inner_text() for one in await listed.all() if await one.is_visible()]
        assert [one for one in shown if one in ("Search or filter", "New")] == works
