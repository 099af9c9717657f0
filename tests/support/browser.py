"""A real browser for tests of pages: Debian's Chromium, driven by Playwright, against a `soonish up` of its own.

A visit fails where the page made an error in the browser's console. Pictures go to the folder that SOONISH_SCREENSHOTS
names, or else to that of the test.
"""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, async_playwright, expect

from tests.support.service import Service

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
WITHOUT = "chromium is not here (as root: apt-get install chromium), so pages cannot be seen"
PATIENCE = 30_000  # milliseconds
SIZES = {"phone": (360, 740), "desk": (1280, 860)}
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")

Scheme = Literal["light", "dark"]
expect.set_options(timeout=PATIENCE)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The browser; without it the test is skipped, and says why."""
    if CHROMIUM is None:
        pytest.skip(WITHOUT)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


def row(page: Page, words: str) -> Locator:
    """The row of a list that says so: of a table, or of a board."""
    return page.locator("[data-row]").filter(has_text=words)


async def said(page: Page, words: str) -> None:
    """Wait until the page says so after a change."""
    await expect(page.locator("#toasts")).to_contain_text(words)


@asynccontextmanager
async def opened(service: Service) -> AsyncIterator["Console"]:
    """The service started, and a browser before it, for as long as the block lasts."""
    async with chromium() as browser:
        await asyncio.to_thread(service.start)
        try:
            yield Console(service, browser)
        finally:
            await asyncio.to_thread(service.remove)


@dataclass
class Console:
    """A service, and a browser to look at it."""

    service: Service
    browser: Browser
    _states: dict[str, Any] = field(default_factory=dict)

    async def link(self, role: str, key: str | None = None) -> str:
        """A fresh login link, of the workspace of this key."""
        async with self.service.client() as soonish:
            if key:
                soonish = type(soonish)(self.service.url, key)
            return str((await soonish.post("/v1/login-links", {"role": role}))["url"])

    @asynccontextmanager
    async def visit(
        self,
        role: str | None = "admin",
        *,
        size: str = "desk",
        scheme: Scheme = "light",
        script: bool = True,
        key: str | None = None,
        **more: Any,
    ) -> AsyncIterator[Page]:
        """A page in a browser that is signed in with this role, or in none."""
        state = await self._signed_in(role, key) if role else None
        width, height = SIZES[size]
        context = await self.browser.new_context(
            base_url=self.service.url,
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            java_script_enabled=script,
            storage_state=state,
            reduced_motion="reduce",
            **more,
        )
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        said = listen(page)
        yield page
        await context.close()
        assert not said, said

    async def _signed_in(self, role: str, key: str | None) -> Any:
        """What a browser holds that used a link; kept, for links are counted."""
        name = f"{role} {key}"
        if name not in self._states:
            context = await self.browser.new_context()
            await sign_in(context, await self.link(role, key))
            self._states[name] = await context.storage_state()
            await context.close()
        return self._states[name]


def listen(page: Page) -> list[str]:
    """What goes wrong in the browser: errors of scripts, and what the policy of the page refused."""
    said: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not REFUSED.match(message.text):
            said.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: said.append(str(error)))
    return said


async def sign_in(context: BrowserContext, link: str) -> Page:
    page = await context.new_page()
    await page.goto(link)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(lambda url: "/login/" not in url)
    return page


async def picture(page: Page, folder: Path, name: str) -> None:
    """A picture of the whole page, for somebody to look at."""
    place = os.environ.get("SOONISH_SCREENSHOTS") or str(folder)
    await page.screenshot(path=f"{place}/{name}.png", full_page=True)
