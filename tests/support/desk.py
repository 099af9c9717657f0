"""Somebody at the console, page by page and form by form, without a browser."""

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

from tests.support.guests import Guests
from tests.support.http import Answer, Client
from tests.web.test_auth import csrf


class Desk:
    """Somebody at the console of a workspace."""

    def __init__(self, party: Guests, browser: Client) -> None:
        self.party = party
        self.browser = browser

    async def look(self, path: str) -> str:
        found = await self.browser.get(path)
        assert found.status == 200, (path, found.status, found.body[-800:])
        return text_of(found.body)

    async def send(self, path: str, **fields: Any) -> Answer:
        given = {"csrf": await csrf(self.browser), **fields}
        return await self.browser.form(path, urlencode(given, doseq=True))

    async def said(self, path: str, **fields: Any) -> tuple[str, str]:
        """Where a form led, and what the page there says that was done."""
        answer = await self.send(path, **fields)
        assert answer.status == 303, (answer.status, text_of(answer.body)[:600])
        [cookie] = [one for one in answer.headers.getall("set-cookie") if one.startswith("soonish_toast")]
        name, _, value = cookie.partition(";")[0].partition("=")
        told = await self.party.look("/login/x", cookie=f"{name}={value}", accept="text/html")
        words = re.search(r'class="toast".*?<span>(.*?)</span>', told.body.decode(), re.DOTALL)
        return answer.headers["location"], words[1] if words else ""


def text_of(body: bytes) -> str:
    """The words of a page, without its marks."""
    main = re.sub(r"<[^>]+>", " ", body.decode().partition("<main")[2])
    return unescape(re.sub(r"\s+", " ", main))
