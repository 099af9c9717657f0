"""Settings and the record in a real browser: keys, links, sign-ins, workspaces, and who may not."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from soonish import due
from soonish.client import Soonish
from soonish.errors import Unauthorized
from tests.support.browser import Console, opened, row, said
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console() -> AsyncIterator[Console]:
    async with opened(Service()) as console:
        yield console


async def workspace(console: Console) -> str:
    """A fresh workspace; answers its first key."""
    async with console.service.client() as soonish:
        made = await soonish.post("/v1/workspaces", {"slug": f"w{uuid4().hex[:8]}", "name": "Fresh"})
    return str(made["api_key"])


def entry(page: Page, words: str) -> Locator:
    """The row of a table: the record, further down, tells of the same things."""
    return row(page, words).and_(page.locator("tr"))


async def opens(console: Console, key: str) -> bool:
    async with Soonish(console.service.url, key) as soonish:
        try:
            await soonish.get("/v1/me")
        except Unauthorized:
            return False
    return True


async def test_the_workspace_is_changed_and_wrong_values_keep_what_was_typed(console: Console) -> None:
    async with console.visit(key=await workspace(console)) as page:
        await page.goto("/settings")
        form = page.locator('form[action="/settings/workspace"]')
        await form.get_by_label("Name").fill("Ada & <b>Ben</b>")
        await form.get_by_label("Time zone").fill("Mars/Base")
        await form.get_by_label("Language").fill("?")
        await form.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("alert")).to_contain_text("2 fields need a change. Nothing was saved.")
        await expect(page.get_by_role("alert")).to_be_focused()
        await expect(form.get_by_label("Name")).to_have_value("Ada & <b>Ben</b>")
        zone = form.get_by_label("Time zone")
        await expect(zone).to_have_value("Mars/Base")
        await expect(zone).to_have_attribute("aria-invalid", "true")
        await expect(zone).to_have_accessible_description(re.compile("'Mars/Base' is not a zone known here"))
        await zone.fill("Asia/Tokyo")
        await form.get_by_label("Language").fill("pt-BR")
        await form.get_by_role("button", name="Save").click()
        await said(page, "Saved. It holds from now on.")
        await expect(page.locator("#record ~ *, .board").first).to_be_visible()
        await expect(page.locator("body")).to_have_attribute("data-zone", "Asia/Tokyo")
        await expect(page.locator(".board .at").first).to_contain_text("Tokyo")
        await form.get_by_role("button", name="Save").click()
        await said(page, "Nothing was different.")


async def test_a_change_upon_another_one_is_refused_and_says_what_to_do(console: Console) -> None:
    key = await workspace(console)
    async with console.visit(key=key) as page, Soonish(console.service.url, key) as soonish:
        await page.goto("/settings")
        await soonish.request("PATCH", "/v1/workspace", {"name": "Changed meanwhile"})
        form = page.locator('form[action="/settings/workspace"]')
        await form.get_by_label("Name").fill("Mine")
        await form.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("alert")).to_contain_text("It was changed since you looked")
        await expect(form.get_by_label("Name")).to_have_value("Mine")
        await form.get_by_role("button", name="Save").click()  # having read that, once more
        await said(page, "Saved.")


async def test_a_key_is_shown_once_works_and_is_revoked(console: Console) -> None:
    async with console.visit(key=await workspace(console), permissions=["clipboard-read", "clipboard-write"]) as page:
        await page.goto("/settings")
        await page.get_by_text("Make a key").click()
        form = page.locator("#new-key")
        await form.get_by_label("Name").fill("laptop")
        await form.get_by_label("Role").select_option("read")
        await form.get_by_label("Ends after so many days").fill("7")
        await form.get_by_role("button", name="Make the key").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("The key “laptop”")
        key = await page.locator(".secret code").inner_text()
        assert await opens(console, key)
        await page.locator(".secret").get_by_role("button", name="Copy").click()
        await said(page, "Copied.")
        assert await page.evaluate("navigator.clipboard.readText()") == key
        await page.get_by_role("link", name="Done").click()
        await expect(entry(page, "laptop")).to_contain_text(key[:7])
        assert key not in await page.content()
        await expect(entry(page, "laptop")).to_contain_text("in 6 d")
        await entry(page, "laptop").locator("summary").click()
        await expect(entry(page, "laptop")).to_contain_text("Whatever uses “laptop” stops within 5 seconds")
        await entry(page, "laptop").get_by_role("button", name="Revoke it").click()
        await said(page, "The key is revoked.")
        await expect(entry(page, "laptop")).to_have_count(0)
    deadline = asyncio.get_running_loop().time() + 30
    while await opens(console, key):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.2)


async def test_the_last_admin_key_stays_and_the_page_says_why(console: Console) -> None:
    async with console.visit(key=await workspace(console)) as page:
        await page.goto("/settings")
        await entry(page, "First key").locator("summary").click()
        await entry(page, "First key").get_by_role("button", name="Revoke it").click()
        await expect(page.get_by_role("alert")).to_contain_text("make another admin key first")
        await expect(entry(page, "First key")).to_be_visible()


async def test_a_login_link_lets_another_browser_in_until_its_sign_in_is_ended(console: Console) -> None:
    key = await workspace(console)
    async with console.visit(key=key) as page, console.visit(None, size="phone") as phone:
        await page.goto("/settings")
        await page.get_by_text("Make a login link").click()
        form = page.locator("#new-link")
        await form.get_by_label("Works for so many minutes").fill("2000")
        await form.get_by_role("button", name="Make the link").click()
        await expect(form.locator(".error")).to_contain_text("Write a number from 1 to 1440")
        await form.get_by_label("Works for so many minutes").fill("5")
        await form.get_by_label("Role").select_option("write")
        await form.get_by_role("button", name="Make the link").click()
        await expect(page.get_by_role("main")).to_contain_text("It works until")
        await phone.goto(await page.locator(".secret code").inner_text())
        await phone.get_by_role("button", name="Sign in").click()
        await expect(phone.get_by_role("heading", level=1)).to_have_text("Now")
        await page.get_by_role("link", name="Done").click()
        await expect(entry(page, "this browser")).to_contain_text("admin")
        other = entry(page, "write").filter(has_not_text="this browser")
        await other.locator("summary").click()
        await other.get_by_role("button", name="End it").click()
        await said(page, "Signed out. That browser needs a new link.")
        await phone.goto("/due")
        await expect(phone.get_by_role("heading", level=1)).to_have_text("Not signed in")


async def test_the_operator_makes_and_closes_a_workspace(console: Console) -> None:
    slug = f"acme-{uuid4().hex[:6]}"
    async with console.visit() as page:
        await page.goto("/settings")
        await page.get_by_text("Make a workspace").click()
        form = page.locator("#new-workspace")
        await form.get_by_label("Name").fill("Acme")
        await form.get_by_label("Slug").fill("main")
        await form.get_by_role("button", name="Make the workspace").click()
        await expect(form.get_by_role("alert")).to_contain_text("There is a workspace 'main' already")
        await form.get_by_label("Slug").fill(slug)
        await form.get_by_role("button", name="Make the workspace").click()
        key = await page.locator(".secret code").inner_text()
        assert await opens(console, key)
        await page.get_by_role("link", name="Done").click()
        await entry(page, slug).locator("summary").click()
        await expect(entry(page, slug)).to_contain_text("all that is due there is dropped")
        await entry(page, slug).get_by_role("button", name="Close it").click()
        await said(page, "Acme is closed.")
        await expect(entry(page, slug).locator(".state")).to_have_text("closed")
        await expect(entry(page, "main").locator("summary")).to_have_count(0)


async def test_the_record_tells_who_changed_what_and_is_filtered(console: Console) -> None:
    key = await workspace(console)
    async with Soonish(console.service.url, key) as soonish:
        for n in range(60):
            await soonish.post("/v1/api-keys", {"name": f"key {n}", "role": "read"})
    async with console.visit(key=key, permissions=["clipboard-read", "clipboard-write"]) as page:
        await page.goto("/settings")
        await page.get_by_role("link", name="All of the record").click()
        await expect(row(page, "made key “key 59”")).to_be_visible()
        await expect(page.locator("tbody tr")).to_have_count(50)
        await page.get_by_role("link", name="Show more").click()
        await expect(row(page, "made key “key 0”")).to_be_visible()
        await row(page, "made key “key 0”").get_by_role("link").last.click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        request = await page.locator("tbody code.id").inner_text()
        assert str(UUID(request)) == request
        await page.get_by_role("button", name="Copy the request").click()
        await said(page, "Copied.")
        assert await page.evaluate("navigator.clipboard.readText()") == request
        await page.get_by_label("What").fill("nothing/1")
        await page.get_by_role("button", name="Filter").click()
        await expect(page.get_by_role("main")).to_contain_text("Nothing like that is on record")
        await page.get_by_role("link", name="Clear", exact=True).click()
        await expect(page.locator("tbody tr")).to_have_count(50)


# --- who may not


@pytest.mark.parametrize("role", ["read", "write"])
async def test_pages_offer_only_what_the_role_may_do(console: Console, role: str) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    await console.service.put([due.Put("test.note", f"for {role}", at)])
    acts = 1 if role == "write" else 0
    async with console.visit(role) as page:
        await page.goto("/due")
        mine = row(page, f"for {role}")
        await expect(mine.get_by_role("button", name="Now")).to_have_count(acts)
        await mine.get_by_role("link").first.click()
        await expect(page.get_by_role("button", name="Now")).to_have_count(acts)
        await page.goto("/due/pauses")
        await expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        await page.goto("/settings")
        await expect(page.locator("main form")).to_have_count(0)
        await expect(page.locator("main")).to_contain_text(f"Your role{role}")
        answer = await page.goto("/settings/record")
        assert answer
        assert answer.status == 403
        await expect(page.locator(".remedy")).to_contain_text("Ask an admin of this workspace")


async def test_a_form_that_is_sent_with_too_low_a_role_or_a_stale_token_changes_nothing(console: Console) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    await console.service.put([due.Put("test.note", "untouched", at)])
    async with console.visit("write") as page:
        await page.goto("/due")
        await page.locator("#act [name=csrf]").evaluate("one => { one.value = 'of another day'; }")
        await row(page, "untouched").get_by_role("button", name="Now").click()
        await expect(page.locator("main")).to_contain_text("or is too old; load the page again")
        await page.goto("/due")
        token = await page.locator("#act [name=csrf]").input_value()
        for path, form in (
            ("/settings/keys", {"name": "mine", "role": "admin"}),
            ("/due/pauses", {"kind": "test.note"}),
        ):
            answer = await page.request.post(path, form={**form, "csrf": token}, headers={"accept": "text/html"})
            assert answer.status == 403
        await expect(row(page, "untouched")).to_be_visible()


async def test_nothing_of_a_workspace_is_seen_from_another(console: Console) -> None:
    at = datetime.now(UTC) + timedelta(hours=1)
    await console.service.put([due.Put("test.note", "ours alone", at)])
    async with console.visit() as page:
        await page.goto("/due")
        await row(page, "ours alone").get_by_role("link").first.click()
        await expect(page).to_have_url(re.compile(r"/due/\d+$"))
        path = page.url.removeprefix(console.service.url)
    async with console.visit(key=await workspace(console)) as page:
        for shown in ("/", "/due", "/due/past", "/settings", "/settings/record"):
            await page.goto(shown)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.locator("main")).not_to_contain_text("ours alone")
        await expect(page.locator("main")).not_to_contain_text("Tidy up")
        answer = await page.goto(path)
        assert answer
        assert answer.status == 404
        await page.goto("/due")
        token = await page.locator("#act [name=csrf]").input_value()
        for act in ("now", "cancel"):
            refused = await page.request.post(f"{path}/{act}", form={"csrf": token}, headers={"accept": "text/html"})
            assert refused.status == 404
        system = await page.goto("/due?system=true")
        assert system
        assert system.status == 403
        await page.goto("/settings")
        await expect(page.locator("#new-workspace")).to_have_count(0)


async def test_nobody_is_sent_elsewhere_by_a_form(console: Console) -> None:
    async with console.visit("write") as page:
        await page.goto("/due")
        token = await page.locator("#act [name=csrf]").input_value()
        for back in ("//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example"):
            answer = await page.request.post(
                "/due/dead/retry", form={"csrf": token, "back": back}, headers={"accept": "text/html"}, max_redirects=0
            )
            assert answer.status == 422
            assert "location" not in answer.headers
