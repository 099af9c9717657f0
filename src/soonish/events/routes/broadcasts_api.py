"""The JSON face of what is told at once: announcements, broadcasts, figures and recipients."""

from collections.abc import Sequence
from typing import Any

from soonish.events.actions import announcements, listing
from soonish.events.model.broadcasts import BroadcastDetail, BroadcastShown, Preview, Recipient
from soonish.events.routes.bodies import Announcement, AnnouncementChange, RecipientsQuery
from soonish.web.answers import Created, Listing
from soonish.web.auth import Role
from soonish.web.fields import Paged, changes
from soonish.web.operation import Caller, Database, Tx, delete, get, patch, post


@post("/v1/events/{event_id:int}/announcements", role=Role.WRITE, codes=["not_published", "event_closed"])
async def announce(tx: Tx, caller: Caller, event_id: int, body: Announcement) -> Created[BroadcastDetail]:
    """Say something to all subscribers or to some, now or at a moment."""
    made = await announcements.announce(tx, caller, event_id, body.announcement())
    return Created(await listing.with_stats(tx, made), f"/v1/events/{event_id}/broadcasts/{made.id}")


@post("/v1/events/{event_id:int}/announcements/preview", role=Role.WRITE, codes=["not_published", "event_closed"])
async def preview(tx: Tx, event_id: int, body: Announcement) -> Preview:
    """Tell whom an announcement would reach; nobody is told."""
    return await announcements.preview(tx, event_id, body.announcement())


@get("/v1/events/{event_id:int}/broadcasts", role=Role.READ)
async def list_broadcasts(db: Database, caller: Caller, event_id: int, query: Paged) -> Listing[BroadcastShown]:
    """List what was told at once, or will be, newest first."""
    rows = await listing.list_broadcasts(db, caller, event_id, before=query.position(int), limit=query.limit + 1)
    return query.listing(rows, lambda row: (row.id,))


@get("/v1/events/{event_id:int}/broadcasts/{broadcast_id:int}", role=Role.READ)
async def show_broadcast(db: Database, caller: Caller, event_id: int, broadcast_id: int) -> BroadcastDetail:
    """Show a broadcast, and what became of it, counted in subscriptions."""
    return await listing.show_broadcast(db, caller, event_id, broadcast_id)


@get("/v1/events/{event_id:int}/broadcasts/{broadcast_id:int}/recipients", role=Role.READ)
async def list_recipients(
    db: Database, caller: Caller, event_id: int, broadcast_id: int, query: RecipientsQuery
) -> Listing[Recipient]:
    """List what became of a broadcast for each subscription."""
    rows = await listing.list_recipients(
        db, caller, event_id, broadcast_id, status=query.status, after=query.position(int), limit=query.limit + 1
    )
    return query.listing(rows, lambda row: (row.subscription_id,))


@patch(
    "/v1/events/{event_id:int}/broadcasts/{broadcast_id:int}", role=Role.WRITE, codes=["already_queued", "event_closed"]
)
async def change_announcement(
    tx: Tx, caller: Caller, event_id: int, broadcast_id: int, body: AnnouncementChange
) -> BroadcastDetail:
    """Change an announcement that waits for its moment."""
    changed = await announcements.change_announcement(tx, caller, event_id, broadcast_id, changes(body))
    return await listing.with_stats(tx, changed)


@delete("/v1/events/{event_id:int}/broadcasts/{broadcast_id:int}", role=Role.WRITE, codes=["already_queued"])
async def withdraw_announcement(tx: Tx, caller: Caller, event_id: int, broadcast_id: int) -> None:
    """Let nobody hear an announcement that waits for its moment."""
    await announcements.withdraw_announcement(tx, caller, event_id, broadcast_id)


routes: Sequence[Any] = [
    announce, preview, list_broadcasts, show_broadcast, list_recipients, change_announcement, withdraw_announcement,
]  # fmt: skip
