"""The JSON face of messages: put one, list them, look at one, cancel it."""

from collections.abc import Iterator
from typing import Annotated, Any

from soonish.delivery.actions import messages
from soonish.delivery.model.letters import Hold, Level
from soonish.delivery.model.messages import (
    BODY_LENGTH,
    MOST_NAMED,
    TITLE_LENGTH,
    Message,
    MessageDetail,
    MessagePut,
)
from soonish.errors import FieldError
from soonish.web.answers import Accepted, Listing
from soonish.web.auth import Role
from soonish.web.fields import Body, Instant, Paged, items, line, lines
from soonish.web.operation import Caller, Database, Tx, get, post

Tag = Annotated[str, line(40, pattern=r"^[a-z0-9][a-z0-9:_-]*$")]


class Audience(Body):
    """To whom: one of the three."""

    person_ids: Annotated[list[int], items(MOST_NAMED, 1)] | None = None
    external_ids: Annotated[list[Annotated[str, line(200)]], items(MOST_NAMED, 1)] | None = None
    tag: Tag | None = None

    def rules(self) -> Iterator[FieldError]:
        if sum(one is not None for one in (self.person_ids, self.external_ids, self.tag)) != 1:
            yield FieldError("", "required", "Give one of person_ids, external_ids and tag")

    def people(self) -> messages.To:
        return messages.To(person_ids=self.person_ids, external_ids=self.external_ids, tag=self.tag)


class OneSelector(Body):
    """One address, or those of a tag."""

    address_id: int | None = None
    tag: Tag | None = None

    def rules(self) -> Iterator[FieldError]:
        if (self.address_id is None) == (self.tag is None):
            yield FieldError("", "required", "Give address_id or tag")

    def chosen(self) -> dict[str, Any]:
        return {"tag": self.tag} if self.address_id is None else {"address_id": self.address_id}


class NewMessage(Body):
    """A message to be told. Without `selectors` every address hears it, with an empty list none."""

    to: Audience
    title: Annotated[str, line(TITLE_LENGTH)]
    body: Annotated[str, lines(BODY_LENGTH, 1)]
    selectors: Annotated[list[OneSelector], items(20)] | None = None
    level: Level = "info"
    link: Annotated[str, line(2_000, pattern=r"^https?://[^\s/]")] | None = None
    send_at: Instant | None = None
    expires_at: Instant | None = None
    hold: Hold = "quiet"

    def message(self) -> messages.NewMessage:
        return messages.NewMessage(
            title=self.title, body=self.body, level=self.level, link=self.link, hold=self.hold, send_at=self.send_at,
            expires_at=self.expires_at,
        )  # fmt: skip


@post("/v1/messages", role=Role.WRITE)
async def put_message(tx: Tx, caller: Caller, body: NewMessage) -> Accepted[MessagePut]:
    """Tell people something, now or at its moment."""
    selectors = None if body.selectors is None else [one.chosen() for one in body.selectors]
    return Accepted(await messages.put_message(tx, caller, body.message(), body.to.people(), selectors))


@get("/v1/messages", role=Role.READ)
async def list_messages(db: Database, caller: Caller, query: Paged) -> Listing[Message]:
    """List messages, newest first."""
    rows = await messages.list_messages(db, caller, before=query.position(int), limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.id,))


@get("/v1/messages/{message_id:int}", role=Role.READ)
async def show_message(db: Database, caller: Caller, message_id: int) -> MessageDetail:
    """Show a message, and how many people it reached."""
    return await messages.get_message(db, caller, message_id)


@post("/v1/messages/{message_id:int}/cancel", role=Role.WRITE, codes=["already_finished"])
async def cancel_message(tx: Tx, caller: Caller, message_id: int) -> MessageDetail:
    """Tell nobody from now on: what is pending is skipped."""
    return await messages.cancel_message(tx, caller, message_id)


routes = [put_message, list_messages, show_message, cancel_message]
