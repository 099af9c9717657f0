"""People at the console: added, given addresses and rest, imported, erased; on a desk and on a phone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.support.accessibility import complaints
from tests.support.browser import SIZES, Console, Scheme, opened, picture, row, said
from tests.support.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console() -> AsyncIterator[Console]:
    async with opened(Service()) as console:
        yield console


async def workspace(console: Console) -> str:
    """A fresh workspace; answers its admin key."""
    async with console.service.client() as soonish:
        made = await soonish.post("/v1/workspaces", {"slug": f"w{uuid4().hex[:12]}", "name": "Fresh"})
    return str(made["api_key"])


async def make(console: Console, **fields: Any) -> int:
    """A person; answers their id."""
    async with console.service.client() as soonish:
        return int((await soonish.post("/v1/people", {"name": "Ben", **fields}))["id"])


@pytest.mark.parametrize("size", SIZES)
async def test_a_person_and_a_console_address_are_added(console: Console, size: str) -> None:
    name = f"Ben {uuid4().hex[:6]}"
    async with console.visit("write", size=size) as page:
        await page.goto("/people")
        await page.get_by_role("link", name="Add a person").click()
        form = page.locator("#new-person")
        await expect(form.get_by_label("Name")).to_be_focused()
        await form.get_by_label("Name").fill(name)
        await form.get_by_label("Time zone").fill("Europe/Berlin")
        await form.get_by_role("button", name="Add", exact=True).click()
        await said(page, f"{name} is here. Add an address next")
        await expect(page.get_by_role("heading", level=1)).to_have_text(name)
        await expect(page.locator(".lead")).to_contain_text("no address")
        await page.locator("#new-address > summary").click()
        await page.get_by_label("Label").fill("console")
        await page.get_by_label("Tags").fill("Here, urgent")
        await page.locator("#new-address").get_by_role("button", name="Add", exact=True).click()
        await said(page, "Messages go there from now on")
        await expect(page.locator(".lead")).to_contain_text("reachable")
        await expect(row(page, "console").locator(".chip")).to_have_text(["here", "urgent"])
        await row(page, "console").get_by_role("link", name="urgent").click()
        await expect(row(page, name).locator(".state")).to_have_text("reachable")


@pytest.mark.parametrize("size", SIZES)
async def test_a_browser_signs_in_as_a_person_by_a_link_from_their_page(console: Console, size: str) -> None:
    ben = await make(console)
    async with console.visit(size=size) as page, console.visit(None, size="phone") as theirs:
        await page.goto(f"/people/{ben}")
        await page.locator("#person-link > summary").click()
        await page.locator("#person-link").get_by_role("button", name="Make the link").click()
        await theirs.goto(await page.locator(".secret code").inner_text())
        await theirs.get_by_role("button", name="Sign in").click()
        await expect(theirs.get_by_role("heading", level=1)).to_have_text("Now")
        await page.get_by_role("link", name="Done").click()
        await expect(row(page, "A browser with the role read")).to_be_visible()
        await page.goto("/settings")
        await expect(page.locator(f'td a[href="/people/{ben}"]')).to_have_text("Ben")


async def test_all_of_it_works_without_script(console: Console) -> None:
    name = f"Ana {uuid4().hex[:6]}"
    async with console.visit("write", script=False) as page:
        await page.goto("/people")
        await page.locator("#new-person > summary").click()
        await page.locator("#new-person").get_by_label("Name").fill(name)
        await page.locator("#new-person").get_by_role("button", name="Add", exact=True).click()
        await page.locator("#new-address > summary").click()
        await page.get_by_label("Label").fill("phone")
        await page.get_by_label("Kind").select_option("apprise")
        await page.locator("#new-address").get_by_role("button", name="Add", exact=True).click()
        await expect(page.locator("#new-address .error")).to_contain_text("It is needed")
        await expect(page.get_by_label("Label").last).to_have_value("phone")
        await page.get_by_label("Where it leads").fill("ntfys://secret-token@push.example.org/ana")
        await page.locator("#new-address").get_by_role("button", name="Add", exact=True).click()
        await expect(row(page, "phone")).to_contain_text("ntfys://***")
        assert "secret-token" not in await page.content()
        await row(page, "phone").locator("summary").filter(has_text="Remove").click()
        await page.get_by_role("button", name="Remove it").click()
        await expect(page.locator("#owned .name")).to_have_text("No address yet")


async def test_quiet_hours_and_a_pause_are_set_and_shown(console: Console) -> None:
    person_id = await make(console, name=f"Cem {uuid4().hex[:6]}", timezone="Asia/Tokyo")
    async with console.visit("write") as page:
        await page.goto(f"/people/{person_id}")
        await page.get_by_label("Quiet from").fill("22:00")
        await page.get_by_role("button", name="Save", exact=True).last.click()
        await expect(page.locator(".field.wrong")).to_contain_text("Quiet hours need a start and an end")
        await page.get_by_label("Quiet until").fill("07:00")
        await page.get_by_label("Paused until").fill("2099-01-01T08:00")
        await page.get_by_role("button", name="Save", exact=True).last.click()
        await said(page, "Saved")
        await expect(page.locator(".lead")).to_contain_text("paused until")
        await expect(page.get_by_label("Quiet from")).to_have_value("22:00")
        await page.get_by_role("button", name="Save", exact=True).last.click()
        await said(page, "Nothing was different")
    async with console.service.client() as soonish:
        found = await soonish.get(f"/v1/people/{person_id}")
    assert found["quiet_hours"] == {"start": "22:00", "end": "07:00", "critical": "send"}
    assert found["paused_until"] == "2098-12-31T23:00:00Z"


async def test_people_are_imported_by_paste_with_a_result_for_each_row(console: Console) -> None:
    mark = uuid4().hex[:6]
    async with console.visit("write") as page:
        await page.goto("/people")
        await page.get_by_role("link", name="Import").click()
        rows = f"name;external_id;timezone\nAna {mark};{mark}-1;Europe/Lisbon\nBen {mark};{mark}-2;Mars/Base\n"
        await page.get_by_label("People").fill(rows)
        await page.get_by_role("button", name="Import").click()
        await expect(row(page, f"Ana {mark}").locator(".state")).to_have_text("created")
        await expect(row(page, f"Ben {mark}")).to_contain_text("'Mars/Base' is not a zone known here")
        again = (
            f'{{"name": "Ana {mark}", "external_id": "{mark}-1"}}\n{{"name": "Ben {mark}", "external_id": "{mark}-2"}}'
        )
        await page.get_by_label("People").fill(again)
        await page.get_by_role("button", name="Import").click()
        await expect(page.locator("[data-row] .state")).to_have_text(["same", "created"])
        await page.get_by_role("link", name=f"Ben {mark}").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Ben {mark}")


async def test_who_is_erased_is_gone_from_the_list(console: Console) -> None:
    name = f"Dee {uuid4().hex[:6]}"
    person_id = await make(console, name=name)
    async with console.visit("write") as page:
        await page.goto(f"/people/{person_id}")
        await page.locator("#erase-person > summary").click()
        await page.get_by_role("button", name="Erase them").click()
        await said(page, "Erased")
        await page.get_by_role("searchbox").or_(page.get_by_label("Search", exact=True)).first.fill(name)
        await page.get_by_role("button", name="Search").click()
        await expect(page.locator("#list .name")).to_have_text("Nobody like that")


async def test_an_empty_workspace_says_what_people_are_for(console: Console) -> None:
    async with console.visit(key=await workspace(console)) as page:
        await page.goto("/people")
        await expect(page.locator(".empty .name")).to_have_text("Nobody is here yet")
        await expect(page.locator(".empty code")).to_contain_text("soonish api POST /v1/people name=Ben")


async def test_who_may_only_read_is_offered_nothing_else(console: Console) -> None:
    person_id = await make(console, quiet_hours={"start": "22:00", "end": "07:00"})
    async with console.visit("read") as page:
        for path in ("/people", f"/people/{person_id}"):
            await page.goto(path)
            await expect(page.locator("main form[method=post]")).to_have_count(0)
        await expect(page.locator(".facts")).to_contain_text("22:00 to 07:00")


async def test_a_list_that_is_open_shows_who_came_meanwhile(console: Console) -> None:
    name = f"Eve {uuid4().hex[:6]}"
    async with console.visit("read") as page:
        await page.goto("/people")
        await expect(page.locator("html")).to_have_attribute("data-live", "on")
        await make(console, name=name)
        await expect(row(page, name)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_each_page_of_people_is_for_everybody(
    console: Console, tmp_path: Path, size: str, scheme: Scheme
) -> None:
    person_id = await make(
        console, name=f"Fay {uuid4().hex[:6]}", timezone="Europe/Berlin", email=f"{uuid4().hex}@example.org"
    )
    async with console.service.client() as soonish:
        for kind, label, target in (("console", "console", None), ("apprise", "phone", "ntfys://ntfy.sh/fay")):
            body = {"kind": kind, "label": label, "target": target, "tags": ["urgent", "phone"]}
            await soonish.post(f"/v1/people/{person_id}/addresses", body)
    found = {}
    async with console.visit(size=size, scheme=scheme) as page:
        for name, path in (("people", "/people"), ("import", "/people/import"), ("person", f"/people/{person_id}")):
            await page.goto(path)
            for summary in await page.locator("details.add > summary").all():
                await summary.click()
            found[name] = await complaints(page)
            await picture(page, tmp_path, f"{name}-{size}-{scheme}")
        await page.get_by_label("Change: phone").click()
        found["change"] = await complaints(page)
        await picture(page, tmp_path, f"person-change-{size}-{scheme}")
    assert {name: told for name, told in found.items() if told} == {}
