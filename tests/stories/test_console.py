"""What people do at the console, in a real browser against a real service: every form, right and wrong."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from soonish import due
from tests.support.browser import Console, opened, row, said
from tests.support.service import Service, notes

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console() -> AsyncIterator[Console]:
    async with opened(Service()) as console:
        yield console


async def later(console: Console, name: str | None = None) -> str:
    """An item that is due in an hour; answers how the pages call it."""
    name = name or f"later {uuid4().hex[:8]}"
    [item] = notes(console.service.folder / "ledger", [name])
    at = datetime.now(UTC) + timedelta(hours=1)
    await console.service.put([item._replace(at=at)])
    return f"Test: note {name}"


async def dead(console: Console, count: int = 1) -> list[str]:
    """Items that died; answers how the pages call them."""
    names = [f"bad {uuid4().hex[:8]}" for _ in range(count)]
    await console.service.put([due.Put("test.poison", name) for name in names])
    async with console.service.client() as soonish:
        while not set(names) <= {one["key"] async for one in soonish.list("/v1/ops/past", fate="dead", limit=200)}:
            await asyncio.sleep(0.05)
    return [f"Test: poison {name}" for name in names]


# --- signing in


async def test_a_link_signs_in_by_one_press_and_shows_now(console: Console) -> None:
    link = await console.link("admin")
    async with console.visit(None) as page:
        await page.goto(link)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Now")
        assert await page.locator("#nav a[aria-current=page]").inner_text() == "Now"
    async with console.visit(None) as page:
        await page.goto(link)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
        await expect(page.locator(".remedy")).to_contain_text("A link that works once may have been used")


async def test_signing_out_ends_the_sign_in(console: Console) -> None:
    async with console.visit(None) as page:
        await page.goto(await console.link("read"))
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Not signed in")
        await expect(page.locator(".remedy")).to_contain_text("soonish api POST /v1/login-links role=admin")


async def test_a_fresh_installation_shows_three_first_steps_and_where_they_lead(console: Console) -> None:
    fresh = await _workspace(console)
    async with console.visit(key=fresh) as page:
        await page.goto("/")
        steps = page.locator(".steps li")
        await expect(steps).to_have_count(3)
        await steps.nth(2).get_by_role("link", name="Make an event").click()
        await expect(page.get_by_label("Starts", exact=True)).to_be_visible()
        await page.goto("/")
        await steps.nth(0).get_by_role("link", name="Choose a time zone").click()
        await page.get_by_label("Time zone").fill("Europe/Lisbon")
        await page.get_by_role("button", name="Save").click()
        await page.goto("/")
        await expect(steps).to_have_count(2)
    async with console.visit("read", key=fresh) as page:
        await page.goto("/")
        await expect(page.locator(".empty .name")).to_have_text(["Nothing is due", "Nothing has happened yet"])


# --- Now, live


async def test_now_shows_what_happens_without_loading_the_page_again(console: Console) -> None:
    name = f"live {uuid4().hex[:8]}"
    async with console.visit() as page:
        await page.goto("/")
        await page.evaluate("window.same = true")
        await _live(page)
        await later(console, name)
        await console.service.put(notes(console.service.folder / "ledger", [f"{name} done"]))
        await expect(page.locator("#happened")).to_contain_text(f"{name} done")
        await expect(page.locator("#coming")).to_contain_text(name)
        await expect(row(page, f"{name} done").locator(".state")).to_have_text("done")
        assert await page.evaluate("window.same")


async def test_what_somebody_types_opens_and_points_at_outlives_a_change(console: Console) -> None:
    first = await later(console)
    async with console.visit() as page:
        await page.goto("/due")
        await _live(page)
        await row(page, first).locator("summary").click()
        kind = page.get_by_role("combobox", name="Kind")
        await kind.press_sequentially("test.")
        mine = await page.locator("#list tr").filter(has_text=first).element_handle()
        second = await later(console)
        await console.service.put(notes(console.service.folder / "ledger", [uuid4().hex]))
        await expect(row(page, second)).to_be_visible()
        await expect(kind).to_be_focused()
        await expect(kind).to_have_value("test.")
        assert mine
        assert await mine.evaluate("one => one.isConnected && one.querySelector('details').open")


async def test_countdowns_run_by_the_clock_of_the_server(console: Console) -> None:
    name = f"soon {uuid4().hex[:8]}"
    await console.service.put([due.Put("test.note", name, datetime.now(UTC) + timedelta(seconds=80))])
    async with console.visit() as page:
        await page.clock.install(time=datetime.now(UTC) - timedelta(minutes=10))
        await page.goto("/due")
        shown = row(page, name).locator("[data-relative]").first
        began = asyncio.get_running_loop().time()
        before = int(re.findall(r"in (\d+) s", await shown.inner_text())[0])
        assert 0 < before <= 80
        await page.clock.run_for(5_000)
        after = int(re.findall(r"in (\d+) s", await shown.inner_text())[0])
        assert 4 <= before - after <= 8 + asyncio.get_running_loop().time() - began


async def test_a_page_whose_sign_in_has_ended_says_so(console: Console) -> None:
    async with console.visit(None) as page:
        await page.goto(await console.link("read"))
        await page.get_by_role("button", name="Sign in").click()
        await _live(page)
        await page.context.clear_cookies()
        await console.service.put(notes(console.service.folder / "ledger", [uuid4().hex]))
        await said(page, "You are signed out")


# --- Due


async def test_due_is_filtered_by_kind_state_and_lane_and_the_address_keeps_it(console: Console) -> None:
    mine = await later(console)
    async with console.visit() as page:
        await page.goto("/due")
        await page.get_by_role("combobox", name="Kind").fill("test.note")
        await page.get_by_role("button", name="Filter").click()
        await expect(row(page, mine)).to_be_visible()
        await page.get_by_label("State").select_option("overdue")
        await page.wait_for_url("**state=overdue**")
        await expect(page.get_by_role("combobox", name="Kind")).to_have_value("test.note")
        await expect(page.locator("#list .name")).to_have_text("Nothing like that is due")
        await page.go_back()
        await expect(row(page, mine)).to_be_visible()
        await page.goto("/due?lane=bulk")
        await expect(row(page, mine)).to_have_count(0)
        await page.get_by_label("Whose").select_option("System")
        await expect(row(page, "Tidy up")).to_be_visible()
        await expect(row(page, mine)).to_have_count(0)
        await page.get_by_role("link", name="Clear").first.click()
        await expect(row(page, "Tidy up")).to_be_visible()
        await expect(row(page, mine)).to_be_visible()


async def test_a_long_list_is_shown_in_parts_without_gap_or_repeat(console: Console) -> None:
    kind, names = "test.note", {f"part {n:03} {uuid4().hex[:4]}" for n in range(60)}
    at = datetime.now(UTC) + timedelta(days=30)
    await console.service.put([due.Put(kind, name, at) for name in names])
    seen: list[str] = []
    async with console.visit() as page:
        await page.goto(f"/due?kind={kind}&before=2200-01-01T00:00:00Z")
        seen += await page.locator("#list a.title").all_inner_texts()
        while await (more := page.get_by_role("link", name="Show more")).count():
            async with page.expect_navigation():
                await more.click()
            seen += await page.locator("#list a.title").all_inner_texts()
    assert sorted(name for name in seen if "part" in name) == sorted(f"Test: note {name}" for name in names)


async def test_an_item_is_pulled_forward_and_happens(console: Console) -> None:
    mine = await later(console)
    async with console.visit("write") as page:
        await page.goto("/due?kind=test.note&lane=people")
        await row(page, mine).get_by_role("button", name="Now").click()
        await said(page, f"{mine}: it happens now.")
        assert "kind=test.note" in page.url
        await expect(row(page, mine)).to_have_count(0)
        await page.goto("/due/past")
        await expect(row(page, mine).locator(".state")).to_have_text("done")
        await expect(row(page, mine)).to_contain_text("pulled forward")


async def test_cancelling_asks_once_and_the_past_keeps_it(console: Console) -> None:
    mine = await later(console)
    async with console.visit("write") as page:
        await page.goto("/due")
        question = row(page, mine).locator("details.confirm")
        await question.locator("summary").click()
        await page.keyboard.press("Escape")
        await expect(question.get_by_role("button", name="Cancel it")).to_be_hidden()
        await question.locator("summary").click()
        await question.get_by_role("button", name="Cancel it").click()
        await said(page, f"{mine}: cancelled, it will not happen.")
        await page.goto("/due/past?fate=cancelled")
        await row(page, mine).get_by_role("link", name=mine).click()
        await expect(page.locator("#story")).to_contain_text("Cancelled: cancelled by sign_in:")


async def test_an_item_that_is_being_worked_on_is_cancelled_only_by_force(console: Console) -> None:
    name = f"busy {uuid4().hex[:8]}"
    await console.service.put(notes(console.service.folder / "ledger", [name], seconds=60))
    async with console.visit() as page:
        await page.goto("/due?state=leased")
        await row(page, name).get_by_role("link").first.click()
        await expect(page.get_by_role("button", name="Now")).to_have_count(0)
        await expect(page.locator("#head .state")).to_have_text("leased")
        await page.locator("#cancel > summary").click()
        await page.get_by_role("button", name="Cancel it").click()
        await expect(page.get_by_role("alert")).to_contain_text("is being worked on")
        await expect(page.get_by_role("heading", level=1)).to_contain_text(name)
        await page.locator("#cancel > summary").click()
        await page.get_by_label("Also while it is being worked on").check()
        await page.get_by_role("button", name="Cancel it").click()
        await said(page, "cancelled, it will not happen.")


async def test_a_kind_stands_still_and_goes_on(console: Console) -> None:
    async with console.visit() as page:
        await page.goto("/due?kind=test.note")
        await page.get_by_role("link", name="Pause test.note").click()
        await expect(page.get_by_role("combobox", name="Kind")).to_have_value("test.note")
        await page.get_by_role("combobox", name="Kind").fill("no kind")
        await page.get_by_label("Why").fill("The list is being cleaned")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("1 field needs a change. Nothing was saved.")
        await expect(page.get_by_role("combobox", name="Kind")).to_have_value("no kind")
        await expect(page.get_by_label("Why")).to_have_value("The list is being cleaned")
        await page.get_by_role("alert").get_by_role("link", name="kind").click()
        await expect(page.get_by_role("combobox", name="Kind")).to_be_focused()
        await page.get_by_role("combobox", name="Kind").fill("test.note")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await said(page, "test.note is paused")
        mine = await later(console)
        await page.goto("/")
        await expect(page.locator("#troubles")).to_contain_text("test.note is paused: The list is being cleaned.")
        await expect(page.locator("#health")).to_contain_text("test.note is paused")
        await page.goto("/due?state=paused")
        await expect(row(page, mine).locator(".state")).to_have_text("paused")
        await page.goto("/due/pauses")
        await page.get_by_role("button", name="Resume test.note").click()
        await said(page, "test.note goes on")
        await page.goto("/due?state=waiting&kind=test.note")
        await expect(row(page, mine).locator(".state")).to_have_text("waiting")


async def test_dead_items_are_retried_one_and_all(console: Console) -> None:
    one, *others = await dead(console, 3)
    async with console.visit("write") as page:
        await page.goto("/")
        await expect(page.locator("#troubles")).to_contain_text("dead items")
        await page.get_by_role("link", name="See why, then retry.").first.click()
        await expect(row(page, one)).to_contain_text("RuntimeError: poison")
        await expect(row(page, one)).to_contain_text("its tries were used up")
        old = await row(page, one).get_attribute("data-key")
        await row(page, one).get_by_role("button", name="Retry").click()
        await said(page, "1 item lives again, due now.")
        await expect(page.locator(f'[data-key="{old}"]')).to_have_count(0)
        await expect(row(page, one)).to_be_visible()  # it died again, as another item
        await page.goto(f"/due/{old}")
        await expect(page.locator("#story")).to_contain_text("It was let live again, as a new item.")
        await expect(page.get_by_role("button", name="Retry")).to_have_count(0)
        await page.goto("/due/dead?kind=test.poison")
        before = {await row(page, name).get_attribute("data-key") for name in others}
        await page.get_by_role("button", name=re.compile(r"Retry all \d+ of test.poison")).click()
        await said(page, "items live again, due now.")
        for key in before:
            await expect(page.locator(f'[data-key="{key}"]')).to_have_count(0)


async def test_an_item_that_ends_while_somebody_looks_at_it_says_so(console: Console) -> None:
    mine = await later(console)
    async with console.visit() as page:
        await page.goto("/due")
        await row(page, mine).get_by_role("link", name=mine).click()
        await expect(page.locator("#story")).to_contain_text("It happens.")
        await _live(page)
        async with console.service.client() as soonish:
            await soonish.post(f"/v1/ops/due/{page.url.rpartition('/')[2]}/now")
        await said(page, "This is over, and not here any more.")


# --- by keyboard, without script, with too few rights


async def test_the_keyboard_goes_everywhere(console: Console) -> None:
    first = await later(console, f"aaa {uuid4().hex[:8]}")
    async with console.visit() as page:
        await page.goto("/")
        await page.keyboard.press("g")
        await page.keyboard.press("d")
        await expect(page).to_have_url(re.compile("/due$"))
        await page.keyboard.press("/")
        await expect(page.get_by_role("combobox", name="Kind")).to_be_focused()
        await page.keyboard.type("g?j")
        await expect(page.get_by_role("combobox", name="Kind")).to_have_value("g?j")
        await page.goto("/due?kind=test.note")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await expect(page.locator("#list tbody tr").first.get_by_role("link").first).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(r"/due/\d+$"))
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
        await page.keyboard.press("g")
        await page.keyboard.press("s")
        await expect(page).to_have_url(re.compile("/settings$"))
        await page.keyboard.press("n")
        await expect(page.locator("#new-key").get_by_label("Name")).to_be_focused()
    assert first


async def test_all_of_it_works_without_script(console: Console) -> None:
    mine, other = await later(console), await later(console)
    async with console.visit(script=False, size="phone") as page:
        await page.goto("/")
        await page.get_by_role("button", name="Menu").click()
        await page.locator("#nav").get_by_role("link", name="Due").click()
        await row(page, mine).get_by_role("button", name="Now").click()
        await said(page, "it happens now")
        await row(page, other).locator("summary").click()
        await row(page, other).get_by_role("button", name="Cancel it").click()
        await said(page, "cancelled, it will not happen")
        await page.goto("/settings")
        await page.locator("#new-key > summary").click()
        await page.locator("#new-key").get_by_label("Name").fill("no script")
        await page.locator("#new-key").get_by_label("Ends after").fill("soon")
        await page.get_by_role("button", name="Make the key").click()
        await expect(page.locator("#new-key").get_by_label("Name")).to_have_value("no script")
        await expect(page.locator("#new-key").get_by_label("Ends after")).to_have_value("soon")
        await page.locator("#new-key").get_by_label("Ends after").fill("7")
        await page.get_by_role("button", name="Make the key").click()
        await expect(page.locator(".secret code")).to_contain_text("sk_")
        await page.get_by_role("button", name="Dark", exact=True).click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_the_theme_changes_at_once_and_stays(console: Console) -> None:
    async with console.visit() as page:
        await page.goto("/due")
        await page.evaluate("window.same = true")
        await page.get_by_role("button", name="Dark", exact=True).click()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert await page.evaluate("window.same")
        await page.wait_for_function("document.cookie.includes('soonish_theme=dark')")
        await page.reload()
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await page.get_by_role("button", name="Light", exact=True).click()
        await expect(page.locator("html")).not_to_have_attribute("data-theme", re.compile(""))


async def _live(page: Page) -> None:
    """The page follows what happens."""
    await expect(page.locator("html")).to_have_attribute("data-live", "on")


async def _workspace(console: Console) -> str:
    """A fresh workspace; answers its first key."""
    async with console.service.client() as soonish:
        made = await soonish.post("/v1/workspaces", {"slug": f"w{uuid4().hex[:8]}", "name": "Fresh"})
    return str(made["api_key"])
