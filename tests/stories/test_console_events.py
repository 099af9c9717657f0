"""Events at the console and on their public pages: made, told, joined, left, cancelled; on a desk and on a phone."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support.accessibility import complaints, complaints_of_keys
from tests.support.browser import SIZES, Console, Scheme, opened, picture, row, said
from tests.support.due import until
from tests.support.guests import body_of
from tests.support.service import Service
from tests.support.smtp import Post, mail_server

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def post() -> AsyncIterator[tuple[Post, int]]:
    post = Post()
    with mail_server(post) as port:
        yield post, port


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console(post: tuple[Post, int]) -> AsyncIterator[Console]:
    mail: dict[str, Any] = {
        "SOONISH_SMTP_HOST": "127.0.0.1",
        "SOONISH_SMTP_PORT": str(post[1]),
        "SOONISH_SMTP_TLS": "none",
    }
    async with opened(Service(SOONISH_SMTP_FROM="soonish@example.org", **mail)) as console:
        yield console


def soon(**span: float) -> datetime:
    return (datetime.now(UTC) + timedelta(**span)).replace(second=0, microsecond=0)


async def ask(console: Console, path: str, body: dict[str, Any]) -> Any:
    async with console.service.client() as soonish:
        return await soonish.post(path, body)


async def made(console: Console, **more: Any) -> int:
    """An event of workspace 1 with two subscribers that have an inbox; answers its id."""
    wish = {
        "name": "Garden party", "start_date": soon(days=3).isoformat(), "timezone": "Europe/Berlin", "location": "Yard",
        "description": "Bring a coat.\nIt is outside.", "is_public": True,
    }  # fmt: skip
    event = await ask(console, "/v1/events", wish | more)
    for name, offsets in (("Ann", None), ("Ben", [1_800])):
        person = await ask(console, "/v1/people", {"name": name, "timezone": "Europe/Berlin"})
        await ask(console, f"/v1/people/{person['id']}/addresses", {"kind": "console", "label": "console"})
        body = {"person_id": person["id"], "reminder_offsets": offsets, "welcome": False}
        await ask(console, f"/v1/events/{event['id']}/subscriptions", body)
    return int(event["id"])


async def find(console: Console, path: str) -> Any:
    async with console.service.client() as soonish:
        return await soonish.get(path)


async def typed(console: Console, *words: str) -> Any:
    """What `soonish api` answers."""
    ran = await asyncio.to_thread(console.service.run, "api", *words)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout) if ran.stdout.strip() else None


async def test_the_whole_story_is_told_by_commands_alone(console: Console) -> None:
    """Make it, subscribe two with different leads, move it, say something, cancel it."""
    start = soon(hours=4)
    event = await typed(console, "POST", "/v1/events", "name=Walk", f"start_date={start.isoformat()}", "location=Gate")
    people = []
    for name, offsets in (("Ann", "null"), ("Ben", "[1800]")):
        person = await typed(console, "POST", "/v1/people", f"name={name}")
        people.append(person["id"])
        await typed(console, "POST", f"/v1/people/{person['id']}/addresses", "kind=console", "label=console")
        who = (f"person_id={person['id']}", f"reminder_offsets={offsets}", "welcome=false")
        await typed(console, "POST", f"/v1/events/{event['id']}/subscriptions", *who)
    base, later = f"/v1/events/{event['id']}", start + timedelta(days=2)
    await typed(console, "PATCH", base, f"start_date={later.isoformat()}", "note=The river is high.")
    planned = (await typed(console, "GET", f"{base}/reminders"))["items"]
    assert [(one["offset_seconds"], one["audience"], one["state"]) for one in planned] == [
        (86_400, 1, "planned"), (3_600, 1, "planned"), (1_800, 1, "planned"),
    ]  # fmt: skip
    assert planned[0]["moment"] == (later - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    await typed(console, "POST", f"{base}/announcements", "title=Boots", "body=Wear them.")
    await _told(console, base, 2)
    await typed(console, "POST", f"{base}/cancel", "message=Too wet.")
    await _told(console, base, 3)
    for person_id in people:
        query = f"person_id={person_id}&cause_prefix=event/{event['id']}/"
        rows = (await typed(console, "GET", f"/v1/deliveries?{query}"))["items"]
        assert [one["state"] for one in rows] == ["sent"] * 3
        told = await asyncio.to_thread(console.service.run, "why", "delivery", str(rows[0]["id"]))
        assert told.returncode == 0
    messages = (await typed(console, "GET", f"{base}/broadcasts"))["items"]
    assert [one["title"] for one in messages] == ["Event Cancelled: Walk", "Boots", "Event Update: Walk"]
    assert messages[0]["body"].endswith("Too wet.")
    assert "The river is high." in messages[2]["body"]
    assert (await typed(console, "GET", f"{base}/reminders"))["items"][0]["state"] == "past"


async def _told(console: Console, base: str, count: int) -> None:
    """Until so many messages have reached both."""
    async with console.service.client() as soonish:

        async def reached() -> bool:
            items = (await soonish.get(f"{base}/broadcasts"))["items"]
            stats = [(await soonish.get(f"{base}/broadcasts/{one['id']}"))["stats"] for one in items]
            return [one["delivered"] for one in stats] == [2] * count

        await until(reached, 30.0)


@pytest.mark.parametrize("size", SIZES)
async def test_an_event_is_made_subscribed_changed_announced_and_cancelled(console: Console, size: str) -> None:
    name = f"Barbecue {uuid4().hex[:6]}"
    ben = await ask(console, "/v1/people", {"name": f"Ben {uuid4().hex[:6]}"})
    await ask(console, f"/v1/people/{ben['id']}/addresses", {"kind": "console", "label": "console"})
    async with console.visit("write", size=size) as page:
        await _makes(page, name)
        await _subscribes(page, ben)
        await _changes(page)
        await _announces(page, name, ben["name"])
        await _cancels(page, name)


async def _makes(page: Page, name: str) -> None:
    """Look at the reminders first, then publish it."""
    await page.goto("/events")
    await page.get_by_role("link", name="New event").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label("Starts", exact=True).fill(soon(hours=5).strftime("%Y-%m-%dT%H:%M"))
    await page.get_by_label("Place").fill("Yard")
    await page.get_by_role("button", name="Show the reminders").click()
    shown = page.locator("#preview")
    await expect(shown).to_contain_text("past: nobody is reminded then")
    await expect(shown).to_contain_text("1 hour before")
    await expect(page.get_by_label("Name", exact=True)).to_have_value(name)
    await page.get_by_role("button", name="Publish").click()
    await said(page, f"{name} is on")
    await expect(page.locator(".lead")).to_contain_text("in 4 h")


async def _subscribes(page: Page, who: dict[str, Any]) -> None:
    """One person, with a lead of their own."""
    await page.locator("#new-subscriber > summary").click()
    await page.get_by_label("Who", exact=True).last.fill(f"{who['name']} (#{who['id']})")
    await page.get_by_label("As the event has them").uncheck()
    await page.get_by_label("15 minutes before").check()
    await page.get_by_role("button", name="Subscribe them").click()
    await said(page, "They hear of changes from now on")
    await expect(row(page, who["name"])).to_contain_text("15 minutes before")


async def _changes(page: Page) -> None:
    """Look at the message first, then save it with a note."""
    await page.get_by_role("link", name="Edit", exact=True).click()
    await page.get_by_label("Place").fill("Hall")
    await page.get_by_label("A note to it").fill("It will rain.")
    await page.get_by_role("button", name="Show the message").click()
    await expect(page.locator("#preview")).to_contain_text("• Location: Hall (was Yard)")
    await page.get_by_role("button", name="Save").click()
    await said(page, "1 subscriber hears of it now")


async def _announces(page: Page, name: str, who: str) -> None:
    """Say something, see whom it reached, and why."""
    await page.get_by_role("link", name="Messages").click()
    await expect(page.locator("main")).to_contain_text("Goes to 1 subscriber, 1 address in all")
    await page.get_by_label("Title").fill("Doors are open")
    await page.get_by_label("Words").fill("Come in.")
    await page.get_by_role("button", name="Send it").click()
    await said(page, "1 subscriber hears it now")
    for title in ("Doors are open", f"Event Update: {name}"):
        await expect(row(page, title)).to_contain_text("told", timeout=30_000)
        await expect(row(page, title)).to_contain_text("1 of 1")
    await row(page, "Doors are open").get_by_role("link").first.click()
    await expect(row(page, who)).to_contain_text("delivered")
    await row(page, who).get_by_role("link", name="Why").click()
    await expect(page.locator("#sentence")).to_contain_text(who)


async def _cancels(page: Page, name: str) -> None:
    """With a last word."""
    await page.goto("/events")
    await page.get_by_role("link", name=name).click()
    await page.locator("#cancel-event > summary").click()
    await page.get_by_label("What to tell them").fill("The grill is broken.")
    await page.get_by_role("button", name="Cancel the event").click()
    await said(page, "It is cancelled")
    await expect(row(page, f"Event Cancelled: {name}")).to_contain_text("1 of 1", timeout=30_000)
    await expect(page.locator("#banners")).to_contain_text("The grill is broken.")


@pytest.mark.parametrize("size", SIZES)
async def test_somebody_joins_by_mail_without_script_and_manages_and_leaves(
    console: Console, post: tuple[Post, int], size: str
) -> None:
    event_id = await made(console, name=f"Open day {size}")
    url = (await find(console, f"/v1/events/{event_id}"))["public_url"]
    mailbox = f"{size}{uuid4().hex[:6]}@example.org"
    async with console.visit(None, size=size, script=False) as page:
        await page.goto(url)
        await page.get_by_label("Your mail address").fill("nonsense")
        await page.get_by_role("button", name="Subscribe").click()
        await expect(page.locator(".banner.bad")).to_contain_text("This is no mail address")
        await page.get_by_label("Your mail address").fill(mailbox)
        await page.get_by_role("button", name="Subscribe").click()
        await expect(page.locator("main")).to_contain_text("Look into your mailbox")
        await page.goto(await link_of(post[0], mailbox, "Please confirm", "join"))
        await page.get_by_role("button", name="Subscribe").click()
        await expect(page.locator("main")).to_contain_text("You are subscribed")
        await page.get_by_role("link", name="Your reminders").click()
        await page.get_by_label("As the organizer has set them").uncheck()
        await page.get_by_label("3 hours before").check()
        await page.get_by_label("Other times").fill("5")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".banner.ok")).to_contain_text("Saved.")
        await page.get_by_role("button", name="Remind me").click()
        await expect(page.locator(".banner.ok")).to_contain_text("You will be reminded again")
        manage = page.url
        await page.goto(await link_of(post[0], mailbox, "Subscribed", "unsubscribe"))
        await page.get_by_role("button", name="Unsubscribe").click()
        await expect(page.locator("main")).to_contain_text("You have left")
        await page.get_by_role("link", name="Come back").click()
        assert page.url == manage
        await page.get_by_role("button", name="Come back").click()
        await expect(page.locator(".banner.ok")).to_contain_text("You are back")
    [one] = (await find(console, f"/v1/events/{event_id}/subscriptions?q={size}"))["items"]
    assert 10_800 in one["reminder_offsets"]
    assert 300 in one["reminder_offsets"]


async def link_of(post: Post, mailbox: str, subject: str, noun: str) -> str:
    """The link of this kind in the mail that went there, as soon as it has come."""
    async with asyncio.timeout(30):
        while True:
            for one in post.taken:
                if mailbox in one.recipients and one.mail["subject"].startswith(subject):
                    return next(word for word in body_of(one.mail).split() if f"/p/{noun}/" in word)
            await post.seen.wait()
            post.seen.clear()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_is_for_everybody(console: Console, tmp_path: Path, size: str, scheme: Scheme) -> None:
    event_id = await made(console, link="https://example.org/party", organizer_id=None)
    await ask(console, f"/v1/events/{event_id}/announcements", {"title": "Doors are open", "body": "Come in.\nNow."})
    async with console.service.client() as soonish:
        await soonish.patch(f"/v1/events/{event_id}", {"location": "Hall", "note": "It will rain."})
        [one, *_] = (await soonish.get(f"/v1/events/{event_id}/subscriptions"))["items"]
        broadcast = (await soonish.get(f"/v1/events/{event_id}/broadcasts"))["items"][0]
        page_url = (await soonish.get(f"/v1/events/{event_id}"))["public_url"]
    await ask(console, f"/v1/events/{event_id}/subscriptions/{one['id']}/snoozes", {"in_seconds": 600})
    base = f"/events/{event_id}"
    paths = {
        "list": "/events", "past": "/events?when=past", "new": "/events/new", "event": base, "edit": f"{base}/edit",
        "messages": f"{base}/messages", "message": f"{base}/messages/{broadcast['id']}",
        "reminders": f"{base}/reminders", "history": f"{base}/history",
        "subscription": f"{base}/subscriptions/{one['id']}", "settings": "/settings/events",
    }  # fmt: skip
    async with console.visit("admin", size=size, scheme=scheme) as page:
        for name, path in paths.items():
            await page.goto(path)
            await seen(page, tmp_path, f"events-{name}-{size}-{scheme}")
        await page.goto(base)
        await page.locator("#new-subscriber > summary").click()
        await page.get_by_label("As the event has them").uncheck()
        await page.locator("#cancel-event > summary").click()
        await seen(page, tmp_path, f"events-open-{size}-{scheme}")
    async with console.visit(None, size=size, scheme=scheme) as page:
        for name, path in {"public": page_url, "manage": one["manage_url"]}.items():
            await page.goto(path)
            await seen(page, tmp_path, f"events-{name}-{size}-{scheme}")
        await page.get_by_role("button", name="Unsubscribe").click()
        await seen(page, tmp_path, f"events-left-{size}-{scheme}")


async def seen(page: Page, folder: Path, name: str) -> None:
    await picture(page, folder, name)
    assert await complaints(page) == [], name


async def test_the_keyboard_reaches_everything_in_its_order(console: Console) -> None:
    event_id = await made(console)
    url = (await find(console, f"/v1/events/{event_id}"))["public_url"]
    async with console.visit() as page:
        for path in (f"/events/{event_id}", f"/events/{event_id}/history", url):
            await page.goto(path)
            assert await complaints_of_keys(page) == [], path


async def test_the_list_and_an_open_event_follow_what_happens(console: Console) -> None:
    event_id = await made(console, name="Lively")
    async with console.visit() as page:
        await page.goto(f"/events/{event_id}")
        person = await ask(console, "/v1/people", {"name": "Newcomer"})
        await ask(console, f"/v1/events/{event_id}/subscriptions", {"person_id": person["id"]})
        await expect(row(page, "Newcomer")).to_be_visible()
        await page.goto("/events")
        await ask(console, f"/v1/events/{event_id}/cancel", {})
        await expect(row(page, "Lively")).to_have_count(0)
