"""A whole product as a process, somebody in it who hears of everything, and a way to ask it that forgives nothing."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from soonish.app import parts
from soonish.web.plan import Operation
from soonish.web.server import operations
from tests.support.contract import BODIES, VALUES
from tests.support.http import Answer, Client
from tests.support.receiver import Receiver
from tests.support.schema import Document
from tests.support.service import Service
from tests.support.smtp import Post, mail_server

ORDER: Final = ("POST", "PUT", "PATCH", "GET", "DELETE")  # what removes comes last
AT_ONCE: Final = 8
_PARAMETER: Final = re.compile(r"\{(\w+)(?::\w+)?\}")


@dataclass
class Town:
    """What runs, its document, a key and a browser of its operator, and who hears of all that happens there."""

    service: Service
    client: Client
    browser: Client
    csrf: str
    document: Document
    post: Post
    receiver: Receiver
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    async def ask(self, said: dict[str, Any], method: str, path: str, body: Any, what: str, **headers: str) -> Answer:
        """Ask, count, and keep what is wrong with the answer."""
        answer = await self.client.ask(method, path, body, **headers)
        self.counts[str(answer.status)] += 1
        found = [*self.document.complaints(said, answer), *wrong_with(answer)]
        self.complaints += [f"{method} {path[:100]} ({what}): {one}" for one in found]
        return answer

    def memory(self) -> int:
        """The most that the process ever held, in bytes."""
        status = Path(f"/proc/{self.service.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) << 10

    def bodies(self) -> Iterator[tuple[str, str, dict[str, Any], Any, Any]]:
        """Each operation that takes a body: method, path, what is said of it, the schema, and a good one if known."""
        for method, path, said in sorted(self.document.operations(), key=lambda one: ORDER.index(one[0])):
            if content := said.get("requestBody", {}).get("content"):
                [good, *_] = BODIES.get(f"{method} {path}") or [None]
                yield method, path, said, content["application/json"]["schema"], good


@asynccontextmanager
async def town() -> AsyncIterator[Town]:
    """A fresh one."""
    post = Post()
    with mail_server(post) as port:
        mail = {"HOST": "127.0.0.1", "PORT": str(port), "TLS": "none", "FROM": "soon@example.org"}
        settings: Any = {f"SOONISH_SMTP_{name}": value for name, value in mail.items()}
        service = Service(**settings, SOONISH_EGRESS_ALLOW="127.0.0.0/8", SOONISH_RATE_ADDRESS="0")
        try:
            await asyncio.to_thread(service.start)
            async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session, Receiver() as receiver:
                yield await _settled(service, Client(session, service.url, service.key), post, receiver)
        finally:
            service.remove()


async def _settled(service: Service, client: Client, post: Post, receiver: Receiver) -> Town:
    """Ben hears by mail and console of all that is for the tag `a`; a machine hears of all facts."""
    assert (await client.patch("/v1/workspace", {"email_trust": "trusted"})).status == 200
    ben = (await client.post("/v1/people", {"name": "Ben"})).json["id"]
    for body in ({"kind": "console", "label": "c"}, {"kind": "email", "label": "m", "target": "ben@example.org"}):
        assert (await client.post(f"/v1/people/{ben}/addresses", body | {"tags": ["a"]})).status == 201
    crm = {"name": "crm", "kind": "webhook", "fact_types": ["*"], "config": {"url": receiver.url}}
    assert (await client.post("/v1/endpoints", crm)).status == 201
    link = (await client.post("/v1/login-links", {"role": "admin"})).json["url"]
    signed = await client.by(None).form(link.removeprefix(service.url))
    browser = client.by(None, cookie=signed.headers["set-cookie"].partition(";")[0])
    page = (await browser.get("/settings", accept="text/html")).body.decode()
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    document = Document((await client.get("/openapi.json")).json)
    return Town(service, client, browser, csrf, document, post, receiver)


def forms() -> list[Operation]:
    """The forms of the console, but for the one that signs out."""
    return [one for one in _pages() if one.form and one.method == "POST"]


def pages(numbers: Sequence[int]) -> list[str]:
    """The addresses of all pages, with each of these ids in them."""
    shown = [one.path for one in _pages() if one.method == "GET" and one.path != "/live"]
    return sorted({filled(path, str(number)) for path in shown for number in numbers})


def _pages() -> list[Operation]:
    return [one for one in operations(parts._routes()) if one.page]


def filled(path: str, value: str = "1") -> str:
    """The path of an operation with values in it."""
    return _PARAMETER.sub(lambda match: VALUES.get(match[1], value), path)


def wrong_with(answer: Answer) -> Iterator[str]:
    """What no answer may be."""
    if answer.status >= 500:
        yield f"breaks with {answer.status}"
    if "x-evil" in answer.headers or "bcc" in answer.headers:
        yield "has a header that was a text"


async def at_once(jobs: Sequence[Awaitable[Any]]) -> None:
    """So many at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(job: Awaitable[Any]) -> None:
        async with room:
            await job

    await asyncio.gather(*map(one, jobs))
