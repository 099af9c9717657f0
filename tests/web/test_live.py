"""Live pages: that something changed, never what; for sign-ins alone."""

import asyncio
from typing import Any

import pytest

from soonish.web import sse
from soonish.web.sse import ring
from tests.support.http import Client, Events, events
from tests.support.site import House, Site
from tests.support.things import until


@pytest.fixture
async def browser(shop: Site) -> Client:
    return await shop.acme.browser("read")


async def changed(house: House, topic: str, workspace_id: int | None = None) -> None:
    async with house.db.transaction(house.id) as tx:
        await ring(tx, house.id if workspace_id is None else workspace_id, topic)


async def begun(stream: Events, topics: set[str]) -> None:
    """Past the greeting: a page whose moment is not known here is told that everything changed."""
    assert (await stream.next()) is not None
    assert await told(stream) == topics


async def told(stream: Events) -> set[str]:
    [row] = await stream.rows(1)
    assert row.type == "changed"
    assert list(row.json) == ["topics"]
    return set(row.json["topics"])


async def test_a_page_is_told_which_of_its_topics_changed(shop: Site, browser: Client) -> None:
    async with events(browser, "/live?topics=due,people") as stream:
        await begun(stream, {"due", "people"})
        await changed(shop.acme, "due")
        assert await told(stream) == {"due"}
        await changed(shop.acme, "other")
        await changed(shop.acme, "people")
        assert await told(stream) == {"people"}


async def test_what_changed_between_the_page_and_its_stream_is_told_and_nothing_else(
    shop: Site, browser: Client
) -> None:
    mark = shop.app.state.hub.mark
    await changed(shop.acme, "due")
    await until(lambda: shop.app.state.hub.mark != mark)
    async with events(browser, f"/live?topics=due,people&since={mark}") as stream:
        await begun(stream, {"due"})
    async with events(browser, f"/live?topics=due&since={shop.app.state.hub.mark}") as stream:
        assert (await stream.next()) is not None
        with pytest.raises(TimeoutError):
            await stream.next(within=0.2)


async def test_topics_of_another_workspace_are_not_heard_and_those_of_everybody_are(
    shop: Site, browser: Client
) -> None:
    async with events(browser, "/live?topics=due") as stream:
        await begun(stream, {"due"})
        await changed(shop.main, "due")
        with pytest.raises(TimeoutError):
            await stream.next(within=0.2)
        await changed(shop.main, "due", workspace_id=0)
        assert await told(stream) == {"due"}


async def test_many_changes_at_once_are_told_together(shop: Site, browser: Client) -> None:
    async with events(browser, "/live?topics=due,people") as stream:
        await begun(stream, {"due", "people"})
        for _ in range(50):
            await changed(shop.acme, "due")
            await changed(shop.acme, "people")
        seen: list[set[str]] = []
        while not {"due", "people"} <= set().union(*seen):
            seen.append(await told(stream))
        await asyncio.sleep(2 * sse.COALESCE)
        shop.app.state.hub.end()
        assert len(seen) + len([block for block in await stream.end() if block.data]) < 20


async def test_live_pages_are_for_sign_ins_alone(shop: Site) -> None:
    assert (await shop.acme.admin.get("/live?topics=due")).refused == (403, "forbidden")
    assert (await shop.anyone.get("/live?topics=due")).refused == (401, "unauthorized")


@pytest.mark.parametrize("topics", ["", "Due", "due,", ",due", "due people", "a" * 101, ",".join(["due"] * 21)])
async def test_topics_have_names(shop: Site, browser: Client, topics: Any) -> None:
    answer = await browser.get(f"/live?topics={topics.replace(' ', '%20')}")
    assert answer.status == 422
    assert list(answer.fields) == ["topics"]


async def test_a_page_shows_the_moment_at_which_it_was_made(product: Site) -> None:
    page = await (await product.acme.browser()).get("/settings", accept="text/html")
    assert f'data-live-since="{product.app.state.hub.mark}"'.encode() in page.body
