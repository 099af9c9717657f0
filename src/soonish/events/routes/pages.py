"""The pages of events: the list, a new one, and what is done with one of them as a whole."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from soonish.clock import utc_now, zone
from soonish.errors import FieldError
from soonish.events.actions import cancelling, events, showing
from soonish.events.actions.handed import events_of
from soonish.events.actions.showing import Head, When
from soonish.events.model import texts
from soonish.events.model.changes import differing, visible
from soonish.events.model.events import Event, ShowTimeIn
from soonish.events.model.texts import Text
from soonish.events.routes.bodies import Description as Words
from soonish.events.routes.bodies import Link, Name, Note, Place
from soonish.events.routes.forms import (
    Given,
    LocalTime,
    Minutes,
    PersonText,
    instant_of,
    local_of,
    person_of,
    person_text,
    presets,
    read_offsets,
    too_many,
)
from soonish.reminders.leads import is_over, moment
from soonish.web.auth import Role
from soonish.web.fields import ZONE, Form, Paged, line, number
from soonish.web.moments import local, place, plural
from soonish.web.operation import Caller, Database, IfMatch, Reply, Request, Tx, get, post
from soonish.web.pages import page, see_other

TONES: Final[Mapping[str, str]] = {
    "draft": "quiet", "scheduled": "info", "live": "ok", "completed": "quiet", "cancelled": "bad",
}  # fmt: skip
FIELDS: Final = ("name", "location", "description", "link", "is_public", "show_time_in")
"""What a form says as the row has it."""
EMPTY: Final = dict.fromkeys((*FIELDS, "start_date", "end_date", "organizer_id"))


class EventsFilter(Paged):
    """Which list, and what is looked for in it."""

    when: When = "coming"
    q: Annotated[str, line(200, least=0)] | None = None


class EventForm(Form):
    """An event as a form has it: times by the clock of its zone."""

    name: Name
    start_date: LocalTime
    timezone: ZONE
    end_date: LocalTime | None = None
    location: Place = ""
    description: Words = ""
    link: Link | None = None
    organizer_id: PersonText | None = None
    is_public: bool = False
    show_time_in: ShowTimeIn = "event"
    reminder_offsets: Given = msgspec.field(default_factory=lambda: ["default"])
    minutes: Minutes = ""
    state: Literal["draft", "scheduled"] = "scheduled"

    def rules(self) -> Sequence[FieldError]:
        return too_many(self.reminder_offsets, self.minutes)


class EditForm(EventForm):
    """An event as the form shows it, the version that was seen, and whether to tell."""

    version: Annotated[int, number(1)] = 1
    notify: bool = False
    note: Note | None = None


class CancelForm(Form):
    """What to tell those who had wanted to come."""

    message: Note | None = None
    notify: bool = False


class Nothing(Form):
    """A form that is a button alone."""


@get("/events", role=Role.READ, page=True)
async def events_page(request: Request, db: Database, caller: Caller, query: EventsFilter) -> Reply:
    """What is to come, what is a draft still, what is past."""
    position = query.position(datetime, int)
    rows = await showing.list_lines(db, caller, query.when, query.q or None, after=position, limit=query.limit + 1)
    listing = query.listing(rows, lambda row: (row.event.start_date, row.event.id))
    chosen = {"when": query.when, "q": query.q}
    return page(
        request,
        "events.html",
        title="Events",
        listing=listing,
        query=query,
        tones=TONES,
        url=lambda **more: "/events?" + urlencode({k: v for k, v in (chosen | more).items() if v}),
    )


@get("/events/new", role=Role.WRITE, page=True)
async def new_page(request: Request, db: Database, caller: Caller) -> Reply:
    """A new event."""
    return await _new(request, db, caller, EMPTY | {"timezone": caller.timezone, "show_time_in": "event"}, None)


@post("/events/new/preview", role=Role.WRITE, page=True, again=new_page)
async def preview_event(request: Request, db: Database, caller: Caller, form: EventForm) -> Reply:
    """Show which reminders an event would have, before there is one."""
    return await _new(request, db, caller, _typed(form), _wish(form))


@post("/events/new", role=Role.WRITE, page=True, again=new_page)
async def make_event(request: Request, tx: Tx, caller: Caller, form: EventForm) -> Reply:
    """Make an event."""
    made = await events.create_event(tx, events_of(request), caller, {**_wish(form), "state": form.state})
    if made.is_draft:
        told = f"{made.name} is a draft. Nobody hears of it until you publish it."
        return see_other(request, f"/events/{made.id}", toast=told)
    return see_other(request, f"/events/{made.id}", toast=_begins(made, caller))


@get("/events/{event_id:int}/edit", role=Role.WRITE, page=True)
async def edit_page(request: Request, db: Database, caller: Caller, event_id: int) -> Reply:
    """Change an event."""
    head = await showing.head(db, events_of(request), caller, event_id)
    return await _edit(request, db, caller, head, _shown(head.event, head.organizer), head.event.reminder_offsets, None)


@post("/events/{event_id:int}/preview", role=Role.WRITE, page=True, again=edit_page)
async def preview_change(request: Request, db: Database, caller: Caller, event_id: int, form: EditForm) -> Reply:
    """Show what subscribers would be told of a change, before it is made."""
    head = await showing.head(db, events_of(request), caller, event_id)
    wish = _wish(form, head.event)
    return await _edit(request, db, caller, head, _typed(form), wish["reminder_offsets"], _message(head, wish, form))


@post("/events/{event_id:int}/edit", role=Role.WRITE, page=True, again=edit_page)
async def change_event(request: Request, tx: Tx, caller: Caller, event_id: int, form: EditForm) -> Reply:
    """Change an event, and tell its subscribers."""
    head = await showing.head_in(tx, events_of(request), event_id)
    wish = _wish(form, head.event)
    seen = IfMatch(f'"{form.version}"')
    changed = await events.change_event(
        tx, events_of(request), caller, event_id, wish, seen, notify=form.notify, note=form.note or None
    )
    return see_other(request, f"/events/{event_id}", toast=_saved(changed, form, head.subscribers))


@post("/events/{event_id:int}/publish", role=Role.WRITE, page=True, again=edit_page)
async def publish_event(request: Request, tx: Tx, caller: Caller, event_id: int, form: Nothing) -> Reply:
    """Let people hear of a draft."""
    del form
    made = await events.publish_event(tx, events_of(request), caller, event_id)
    return see_other(request, f"/events/{event_id}", toast=_begins(made, caller))


@post("/events/{event_id:int}/cancel", role=Role.WRITE, page=True, again=edit_page)
async def cancel_event(request: Request, tx: Tx, caller: Caller, event_id: int, form: CancelForm) -> Reply:
    """Cancel an event."""
    await cancelling.cancel_event(
        tx, events_of(request), caller, event_id, message=form.message or None, notify=form.notify
    )
    told = "Its subscribers are told now" if form.notify else "Nobody is told"
    return see_other(request, f"/events/{event_id}/messages", toast=f"It is cancelled. {told}; nothing else is sent.")


@post("/events/{event_id:int}/rotate-link", role=Role.WRITE, page=True, again=edit_page)
async def rotate_link(request: Request, tx: Tx, caller: Caller, event_id: int, form: Nothing) -> Reply:
    """Give the public page another address."""
    del form
    await events.rotate_link(tx, caller, event_id)
    return see_other(request, f"/events/{event_id}", toast="The public page has a new link. The old one leads nowhere.")


@post("/events/{event_id:int}/delete", role=Role.WRITE, page=True, again=edit_page)
async def delete_event(request: Request, tx: Tx, caller: Caller, event_id: int, form: Nothing) -> Reply:
    """Remove a draft, or an event that is over."""
    del form
    await events.delete_event(tx, caller, event_id, IfMatch(None))
    return see_other(request, "/events", toast="The event is removed. What was told of it stays on record.")


def words_of(head: Head, tab: str) -> dict[str, Any]:
    """What stands above each page of an event."""
    event = head.event
    return {
        "title": event.name,
        "tab": tab,
        "head": head,
        "event": event,
        "tones": TONES,
        "start": texts.local(event.start_date, event.timezone),
        "end": event.end_date and texts.local(event.end_date, event.timezone),
        "lead": texts.span,
        "presets": presets,
    }


def planned(offsets: Sequence[int], start: datetime, timezone: str) -> list[dict[str, Any]]:
    """When reminders of this start would come, and which are past."""
    now = utc_now()
    found = [(offset, moment(start, offset)) for offset in offsets]
    return [
        {
            "offset": offset,
            "at": at,
            "there": texts.local(at, timezone),
            "past": at <= now or is_over(start, offset, now),
        }
        for offset, at in found
    ]


async def _new(
    request: Request, db: Database, caller: Caller, values: Mapping[str, Any], wish: Mapping[str, Any] | None
) -> Reply:
    inherited = await showing.default_offsets(db, events_of(request), caller)
    own: list[int] | None = wish["reminder_offsets"] if wish else None
    found = planned(inherited if own is None else own, wish["start_date"], wish["timezone"]) if wish else None
    words: dict[str, Any] = {"values": values, "own": own, "inherited": inherited, "preview": found}
    words |= {"presets": presets, "lead": texts.span}
    return page(request, "event_new.html", title="New event", **words, **await _choices(db, caller))


async def _edit(
    request: Request,
    db: Database,
    caller: Caller,
    head: Head,
    values: Mapping[str, Any],
    own: list[int] | None,
    message: Text | None,
) -> Reply:
    inherited = await showing.default_offsets(db, events_of(request), caller)
    words: dict[str, Any] = {"values": values, "own": own, "inherited": inherited, "message": message}
    return page(request, "event_edit.html", **words_of(head, "edit") | words, **await _choices(db, caller))


async def _choices(db: Database, caller: Caller) -> dict[str, Any]:
    people = await showing.people_to_choose(db, caller)
    return {"people": [person_text(*one) for one in people]}


def _wish(form: EventForm, before: Event | None = None) -> dict[str, Any]:
    """What the form says, in the words of the actions."""
    was = (before.start_date, before.end_date) if before else (None, None)
    return {name: getattr(form, name) for name in FIELDS} | {
        "timezone": form.timezone,
        "start_date": _instant(form, form.start_date, was[0], before),
        "end_date": form.end_date and _instant(form, form.end_date, was[1], before),
        "organizer_id": person_of(form.organizer_id),
        "reminder_offsets": read_offsets(form.reminder_offsets, form.minutes),
    }


def _instant(form: EventForm, text: str, was: datetime | None, before: Event | None) -> datetime:
    """A local time; one that was left as it was stays the instant that it was, even where the clock shows it twice."""
    if was and before and form.timezone == before.timezone and text == local_of(was, before.timezone):
        return was
    return instant_of(text, form.timezone)


def _typed(form: EventForm) -> dict[str, Any]:
    """The same form again."""
    return {name: getattr(form, name) for name in form.__struct_fields__}


def _shown(event: Event, organizer: str | None) -> dict[str, Any]:
    """An event as the form shows it."""
    return {name: getattr(event, name) for name in FIELDS} | {
        "timezone": event.timezone,
        "start_date": local_of(event.start_date, event.timezone),
        "end_date": local_of(event.end_date, event.timezone),
        "organizer_id": person_text(event.organizer_id, organizer),
        "version": event.version,
        "notify": True,
        "note": None,
    }


def _message(head: Head, wish: Mapping[str, Any], form: EditForm) -> Text:
    """What subscribers would be told; nothing where they would see no difference."""
    changes = visible(differing(head.event, wish))
    if not changes:
        return Text("", "")
    after = msgspec.structs.replace(head.event, **{name: wish[name] for name in changes})
    return texts.updated(after, changes, [form.note])


def _begins(event: Event, caller: Caller) -> str:
    there = zone(caller.timezone)
    when = f"{local(event.start_date, utc_now(), there)} {place(there)}"
    return f"{event.name} is on: {when}. Add subscribers next, or share its page."


def _saved(changed: events.Changed, form: EditForm, subscribers: int) -> str:
    if changed.event.version == form.version:
        return "Nothing was different."
    if changed.broadcast_id is None:
        return "Saved. It holds from now on; nobody is told."
    return f"Saved. {plural(subscribers, 'subscriber hears', 'subscribers hear')} of it now."


routes: Sequence[Any] = [
    events_page, new_page, preview_event, make_event, edit_page, preview_change, change_event, publish_event,
    cancel_event, rotate_link, delete_event,
]  # fmt: skip
