"""Public events and those who come to them by mail: the application, what is due in it, and a mail server."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from soonish.access.actions.audit import system_caller
from soonish.due import drain
from soonish.events.actions.events import create_event
from soonish.events.actions.handed import Events
from soonish.events.model.events import Event
from soonish.events.model.links import Links
from tests.support.http import Answer
from tests.support.site import House, Site, site
from tests.support.smtp import Post, mail_server

PUBLIC = "https://soonish.example.org"
WISH: dict[str, Any] = {
    "name": "Garden party", "description": "Bring a coat.", "location": "Yard", "link": None, "end_date": None,
    "timezone": "Europe/Berlin", "organizer_id": None, "is_public": True, "reminder_offsets": None,
    "show_time_in": "event", "state": "scheduled",
}  # fmt: skip


@dataclass
class Guests:
    """One application with mail, and the second workspace of it."""

    site: Site
    post: Post

    @property
    def house(self) -> House:
        return self.site.acme

    @property
    def events(self) -> Events:
        found: Events = self.site.app.state.events
        return found

    async def event(self, **more: Any) -> Event:
        """An event that is scheduled; in an hour, unless it says so itself."""
        wish = WISH | {"start_date": soon(hours=1)} | more
        async with self.house.db.transaction(self.house.id) as tx:
            return await create_event(tx, self.events, system_caller(self.house.id), wish)

    async def links(self) -> Links:
        return Links(await self.events.hmac(), "")

    async def page(self, event: Event) -> str:
        """The path of its public page."""
        return (await self.links()).page(self.house.id, event.id, event.link_generation)

    async def ask(self, path: str, **fields: Any) -> Answer:
        """Subscribe by the form of that page."""
        return await self.form(f"{path}/subscribe", **{"email": "ben@example.org"} | fields)

    async def form(self, path: str, **fields: Any) -> Answer:
        body = urlencode(fields, doseq=True)
        return await self.site.anyone.form(path, body, accept="text/html")

    async def json(self, path: str, body: dict[str, Any]) -> Answer:
        return await self.site.anyone.post(path, body, accept="application/json")

    async def look(self, path: str, **headers: str) -> Answer:
        return await self.site.anyone.get(path, **headers)

    async def work(self) -> None:
        """Do all that is due."""
        assert self.site.process
        await drain(self.site.db.loops, self.site.process.kinds.values())

    def mails(self, to: str | None = None) -> list[EmailMessage]:
        return [one.mail for one in self.post.taken if to is None or to.lower() in map(str.lower, one.recipients)]

    async def joined(self, event: Event, email: str = "ben@example.org", **fields: Any) -> str:
        """Subscribe this mailbox to the end; answers the path of its page."""
        assert (await self.ask(await self.page(event), email=email, **fields)).status == 202
        await self.work()
        answer = await self.json(path_in(self.mails(email)[-1], "join"), {})
        assert answer.status == 200, answer.body
        await self.work()
        return str(answer.json["manage_url"]).removeprefix(PUBLIC)


@asynccontextmanager
async def guests(database_url: str, folder: Path, **settings: str) -> AsyncIterator[Guests]:
    post = Post()
    with mail_server(post) as port:
        mail = {"smtp_host": "127.0.0.1", "smtp_port": str(port), "smtp_from": "soonish@example.org"}
        quick = {"smtp_tls": "none", "rate_address": "0", "rate_host": "0", "public_url": PUBLIC}
        async with site(database_url, folder, **mail | quick | settings) as opened:
            yield Guests(opened, post)


def soon(**span: float) -> datetime:
    return (datetime.now(UTC) + timedelta(**span)).replace(microsecond=0)


def body_of(mail: EmailMessage) -> str:
    found = mail.get_body(("plain",))
    assert found
    return str(found.get_content())


def path_in(mail: EmailMessage, noun: str) -> str:
    """The path of the link of this kind in a mail."""
    found = re.search(rf"{PUBLIC}(/p/{noun}/\S+)", body_of(mail))
    assert found, body_of(mail)
    return found[1]


def calendar_of(mail: EmailMessage) -> str | None:
    """The calendar file that is attached."""
    files = [part for part in mail.iter_attachments() if part.get_content_type() == "text/calendar"]
    return files[0].get_content() if files else None
