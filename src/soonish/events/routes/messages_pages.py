"""The other tabs of an event: what is told at once, its reminders, its history; and the defaults of a workspace."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from soonish.access.actions import audit
from soonish.access.model import AuditEntry
from soonish.clock import parse_instant
from soonish.delivery.model.letters import Level
from soonish.errors import FieldError, Invalid
from soonish.events.actions import announcements, defaults, listing, looking, showing
from soonish.events.actions.announcements import NewAnnouncement
from soonish.events.actions.handed import events_of
from soonish.events.model import items as causes
from soonish.events.model import texts
from soonish.events.model.broadcasts import BroadcastState, Status
from soonish.events.model.changes import EventChange
from soonish.events.model.defaults import holding
from soonish.events.model.offsets import LARGEST
from soonish.events.routes.bodies import Text, Title
from soonish.events.routes.forms import Given, LocalTime, Minutes, instant_of, local_of, presets, read_offsets, too_many
from soonish.events.routes.pages import Nothing, words_of
from soonish.web.auth import Role
from soonish.web.fields import Form, Paged, checked, line, number
from soonish.web.moments import plural
from soonish.web.operation import Caller, Database, IfMatch, Reply, Request, Tx, get, post
from soonish.web.pages import page, see_other

MOST: Final = 50  # broadcasts on the tab; the API lists all
STATES: Final[Mapping[BroadcastState, str]] = {
    "scheduled": "info", "queued": "info", "telling": "info", "told": "ok", "withdrawn": "quiet",
}  # fmt: skip
STATUSES: Final[Mapping[Status, str]] = {
    "delivered": "ok", "pending": "info", "failed": "bad", "unknown": "warn", "skipped": "quiet", "no_targets": "warn",
}  # fmt: skip
LEVELS: Final = (("info", "information"), ("warning", "warning"), ("critical", "critical: also at quiet times"))
FIELDS: Final = {
    "name": "Name", "start_date": "Start", "end_date": "End", "timezone": "Time zone", "location": "Place",
    "link": "Link", "description": "Description",
}  # fmt: skip


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _ids(text: str) -> str:
    if any(not word.isdigit() or len(word) > 18 for word in _words(text)):
        raise Invalid("Write the numbers of subscriptions with commas between; empty: everybody", code="type")
    return text


IdsText = Annotated[str, line(10_000, least=0), checked(_ids)]


class AnnouncementForm(Form):
    """What is said, to whom, and when, by the clock of the event's zone."""

    title: Title
    body: Text
    notification_level: Level = "info"
    subscription_ids: IdsText = ""
    send_at: LocalTime | None = None

    def ids(self) -> list[int] | None:
        return [int(word) for word in _words(self.subscription_ids)] or None


class AnnouncementChange(Form):
    """An announcement that waits, as the form shows it."""

    title: Title
    body: Text
    send_at: LocalTime
    notification_level: Level = "info"


class RecipientsFilter(Paged):
    """Which recipients."""

    status: Status | None = None


class DefaultsForm(Form):
    """What holds for the events of a workspace, and the version that was seen; empty = as the operator decided."""

    version: Annotated[int, number(0)]
    reminder_offsets: Given = msgspec.field(default_factory=lambda: ["default"])
    minutes: Minutes = ""
    duration_minutes: Annotated[int, number(1, LARGEST // 60)] | None = None
    coalesce_s: Annotated[int, number(0, 86_400)] | None = None

    def rules(self) -> Sequence[FieldError]:
        return too_many(self.reminder_offsets, self.minutes)


@get("/events/{event_id:int}/messages", role=Role.READ, page=True)
async def messages_page(request: Request, db: Database, caller: Caller, event_id: int) -> Reply:
    """What subscribers were told at once, and what to tell them next."""
    head = await showing.head(db, events_of(request), caller, event_id)
    told = await showing.list_told(db, caller, event_id, MOST)
    reach = await showing.reach(db, caller, event_id)
    words: dict[str, Any] = {"told": told, "most": MOST, "reach": reach, "levels": LEVELS}
    return page(request, "event_messages.html", **words_of(head, "messages") | words | WORDS)


@post("/events/{event_id:int}/messages", role=Role.WRITE, page=True, again=messages_page)
async def announce(request: Request, tx: Tx, caller: Caller, event_id: int, form: AnnouncementForm) -> Reply:
    """Say something to all subscribers or to some, now or at a moment."""
    event = (await showing.head_in(tx, events_of(request), event_id)).event
    new = NewAnnouncement(
        title=form.title,
        body=form.body,
        notification_level=form.notification_level,
        subscription_ids=form.ids(),
        send_at=instant_of(form.send_at, event.timezone) if form.send_at else None,
    )
    reach = await announcements.preview(tx, event_id, new)
    made = await announcements.announce(tx, caller, event_id, new)
    who = plural(reach.total, "subscriber hears", "subscribers hear")
    when = texts.local(made.send_at, event.timezone) if new.send_at else "now"
    none = f" {plural(reach.no_targets, 'has', 'have')} no address." if reach.no_targets else ""
    return see_other(request, f"/events/{event_id}/messages", toast=f"{who} it {when}.{none}")


@get("/events/{event_id:int}/messages/{broadcast_id:int}", role=Role.READ, page=True)
async def message_page(
    request: Request, db: Database, caller: Caller, event_id: int, broadcast_id: int, query: RecipientsFilter
) -> Reply:
    """One message: its words, and what became of it for each subscriber."""
    head = await showing.head(db, events_of(request), caller, event_id)
    one = await listing.show_broadcast(db, caller, event_id, broadcast_id)
    rows = await listing.list_recipients(
        db, caller, event_id, broadcast_id, status=query.status, after=query.position(int), limit=query.limit + 1
    )
    found = query.listing(rows, lambda row: (row.subscription_id,))
    base = f"/events/{event_id}/messages/{broadcast_id}?"
    words = {
        "title": one.title,
        "one": one,
        "recipients": found,
        "names": await showing.names_of(db, caller, [row.person_id for row in found.items]),
        "query": query,
        "cause": causes.broadcast_cause(event_id, broadcast_id),
        "send_at": local_of(one.send_at, head.event.timezone),
        "levels": LEVELS,
        "url": lambda **more: base + urlencode({k: v for k, v in ({"status": query.status} | more).items() if v}),
    }
    return page(request, "event_message.html", **words_of(head, "messages") | words | WORDS)


@post("/events/{event_id:int}/messages/{broadcast_id:int}", role=Role.WRITE, page=True, again=message_page)
async def change_announcement(
    request: Request, tx: Tx, caller: Caller, event_id: int, broadcast_id: int, form: AnnouncementChange
) -> Reply:
    """Change an announcement that waits for its moment."""
    event = (await showing.head_in(tx, events_of(request), event_id)).event
    wish = {name: getattr(form, name) for name in ("title", "body", "notification_level")}
    wish["send_at"] = instant_of(form.send_at, event.timezone)
    changed = await announcements.change_announcement(tx, caller, event_id, broadcast_id, wish)
    told = f"Saved. It goes out {texts.local(changed.send_at, event.timezone)}."
    return see_other(request, f"/events/{event_id}/messages/{broadcast_id}", toast=told)


@post("/events/{event_id:int}/messages/{broadcast_id:int}/withdraw", role=Role.WRITE, page=True, again=message_page)
async def withdraw_announcement(
    request: Request, tx: Tx, caller: Caller, event_id: int, broadcast_id: int, form: Nothing
) -> Reply:
    """Let nobody hear it."""
    del form
    await announcements.withdraw_announcement(tx, caller, event_id, broadcast_id)
    return see_other(request, f"/events/{event_id}/messages", toast="Withdrawn. Nobody hears it.")


@get("/events/{event_id:int}/reminders", role=Role.READ, page=True)
async def reminders_page(request: Request, db: Database, caller: Caller, event_id: int, query: Paged) -> Reply:
    """When subscribers are reminded, and how many."""
    hand = events_of(request)
    head = await showing.head(db, hand, caller, event_id)
    rows = await looking.list_reminders(db, hand, caller, event_id, below=query.position(int), limit=query.limit + 1)
    found = query.listing(rows, lambda row: (row.offset_seconds,))
    start, zone = head.event.start_date, head.event.timezone
    words: dict[str, Any] = {
        "reminders": [
            (one, texts.local(one.moment, zone), causes.reminder_cause(event_id, one.offset_seconds, start))
            for one in found.items
        ],
        "next": found.next,
    }
    return page(request, "event_reminders.html", **words_of(head, "reminders") | words)


@get("/events/{event_id:int}/history", role=Role.READ, page=True)
async def history_page(request: Request, db: Database, caller: Caller, event_id: int, query: Paged) -> Reply:
    """What changed, who changed it, and whether subscribers were told."""
    head = await showing.head(db, events_of(request), caller, event_id)
    rows = await looking.list_changes(db, caller, event_id, before=query.position(int), limit=query.limit + 1)
    found = query.listing(rows, lambda row: (row.id,))
    admin = caller.role >= Role.ADMIN and query.after is None
    entries = await audit.list_audit(db, caller, entity=f"event/{event_id}", limit=MOST) if admin else []
    who = await audit.read_aloud(db, caller, [_as_entry(one) for one in found.items])
    words: dict[str, Any] = {
        "changes": [
            (one, line.who, _differences(one, head.event.timezone)) for one, line in zip(found.items, who, strict=True)
        ],
        "next": found.next,
        "lines": await audit.read_aloud(db, caller, entries),
    }
    return page(request, "event_history.html", **words_of(head, "history") | words)


@get("/settings/events", role=Role.READ, page=True)
async def defaults_page(request: Request, db: Database, caller: Caller) -> Reply:
    """What holds for events that say nothing themselves."""
    terms = events_of(request).terms
    own = await defaults.show_defaults(db, caller)
    words: dict[str, Any] = {
        "own": own,
        "holding": holding(own, terms),
        "terms": terms,
        "presets": presets,
        "lead": texts.span,
    }
    return page(request, "settings_events.html", title="Settings of events", **words)


@post("/settings/events", role=Role.ADMIN, page=True, again=defaults_page)
async def save_defaults(request: Request, tx: Tx, caller: Caller, form: DefaultsForm) -> Reply:
    """Change what holds for events that say nothing."""
    wish = {
        "reminder_offsets": read_offsets(form.reminder_offsets, form.minutes),
        "default_duration_s": form.duration_minutes and form.duration_minutes * 60,
        "coalesce_s": form.coalesce_s,
    }
    seen = IfMatch(f'"{form.version}"' if form.version else None)
    saved = await defaults.change_defaults(tx, events_of(request), caller, wish, seen)
    changed = saved.version > form.version
    told = "Saved. Events that say nothing follow within moments." if changed else "Nothing was different."
    return see_other(request, "/settings/events", toast=told)


def _as_entry(one: EventChange) -> AuditEntry:
    """A change as the record has such lines, which knows how whoever made it is called."""
    return AuditEntry(
        id=0, at=one.at, actor=one.actor, request_id=UUID(int=0), verb="change", entity="event", changes={}
    )


def _differences(change: EventChange, timezone: str) -> list[tuple[str, str, str]]:
    """Each field with its old and its new value, as people read them."""
    return [
        (FIELDS[name], _value(name, each.get("old"), timezone), _value(name, each.get("new"), timezone))
        for name, each in change.changes.items()
        if name in FIELDS
    ]


def _value(name: str, value: Any, timezone: str) -> str:
    if value is None or value == "":
        return "none"
    return texts.local(parse_instant(value), timezone) if name in ("start_date", "end_date") else str(value)


WORDS: Final[dict[str, Any]] = {"state_tones": STATES, "status_tones": STATUSES}

routes: Sequence[Any] = [
    messages_page, announce, message_page, change_announcement, withdraw_announcement, reminders_page, history_page,
    defaults_page, save_defaults,
]  # fmt: skip
