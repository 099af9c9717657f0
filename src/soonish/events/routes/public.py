"""The pages of events that need no sign-in: what is behind a link, by form or by JSON, without script.

A page names nobody but the event. Looking changes nothing: each change is a button.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from soonish.clock import utc_now, zone
from soonish.errors import FieldError, NotFound
from soonish.events.actions import feeds, joining, managing, public
from soonish.events.actions.handed import events_of
from soonish.events.actions.managing import Managed, Step
from soonish.events.model import offsets, texts
from soonish.events.model.calendar import calendar_file
from soonish.events.model.events import Event
from soonish.events.model.joining import Wish
from soonish.events.model.links import LEAVE, SUFFIX
from soonish.events.routes.forms import Given, Minutes, presets, read_offsets, too_many
from soonish.people.model.mail import normal_email
from soonish.reminders.leads import moment
from soonish.web.answers import Accepted, Ok, matches
from soonish.web.fields import UNSET, Body, Form, Unset, checked, items, line, number
from soonish.web.operation import Database, Reply, Request, get, post
from soonish.web.pages import page
from soonish.web.reading import Headers, asks_json, read_body

Email = Annotated[str, line(320), checked(normal_email)]
Name = Annotated[str, line(201)]
Offset = Annotated[int, number(0, offsets.LARGEST)]
Offsets = Annotated[list[Offset], items(offsets.MOST)]
Span = Annotated[int, number(1, 2_592_000)]
Action = Literal["reminders", "snooze", "unsubscribe", "subscribe"]

SNOOZES: Final = ((600, "10 minutes"), (3_600, "1 hour"), (10_800, "3 hours"), (86_400, "1 day"))


class JoinForm(Form):
    """Who wants to hear of it, and when."""

    email: Email
    name: Name | None = None
    reminder_offsets: Given = msgspec.field(default_factory=lambda: ["default"])
    minutes: Minutes = ""

    def rules(self) -> Sequence[FieldError]:
        """What is wrong with the boxes stands beside what is wrong with the rest."""
        return too_many(self.reminder_offsets, self.minutes)


class JoinBody(Body):
    """Who wants to hear of it, and when; null: as the event has it."""

    email: Email
    name: Name | None = None
    reminder_offsets: Offsets | None = None


class ManageForm(Form):
    """What to do with a subscription."""

    action: Action
    reminder_offsets: Given | None = None
    minutes: Minutes = ""
    in_seconds: Span | None = None

    def rules(self) -> Sequence[FieldError]:
        missing = _needed(self.action, self.reminder_offsets is None, self.in_seconds)
        return missing or too_many(self.reminder_offsets, self.minutes)


class ManageBody(Body):
    """What to do with a subscription."""

    action: Action
    reminder_offsets: Offsets | Unset | None = UNSET
    in_seconds: Span | None = None

    def rules(self) -> Sequence[FieldError]:
        return _needed(self.action, self.reminder_offsets is UNSET, self.in_seconds)


class Asked(msgspec.Struct, frozen=True):
    """What is answered to every mailbox alike."""

    detail: str = "If the mailbox can be written to, a mail with a link is on its way to it."


class Subscribed(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription as its own page shows it."""

    event: str
    state: Literal["active", "removed"]
    subscription_id: int | None = None
    reminder_offsets: Sequence[int] | None = None
    effective_offsets: Sequence[int] = ()
    snoozes: Sequence[Any] = ()
    manage_url: str | None = None


@get("/p/event/{token:str}", role=None, page=True)
async def event_page(request: Request, db: Database, token: str) -> Reply:
    """What an event is, when and where; while it is open, a box to subscribe."""
    events = events_of(request)
    event, inherited = await public.look_at_event(db, events, token, utc_now())
    may = event.is_open and events.smtp
    return _page(request, "event_public.html", event, token=token, may_join=may, inherited=inherited)


@get("/p/event/{token:str}/event.ics", role=None, page=True)
async def event_file(request: Request, db: Database, token: str) -> Reply:
    """The event as a calendar file."""
    event, _ = await public.look_at_event(db, events_of(request), token, utc_now())
    return calendar(request, calendar_file(event), "event.ics")


@post("/p/event/{token:str}/subscribe", role=None, page=True, again=event_page)
async def subscribe(
    request: Request, db: Database, token: str, form: JoinForm | None = None, body: JoinBody | None = None
) -> Any:
    """Ask to hear of an event: a mail with a link goes to the mailbox."""
    event = await joining.ask(db, events_of(request), token, _wish(form, body), utc_now())
    if _json(request):
        return Accepted(Asked())
    return _page(request, "event_asked.html", event, status=202, token=token)


@get("/p/join/{token:str}", role=None, page=True)
async def join_page(request: Request, db: Database, token: str) -> Reply:
    """Ask whether to subscribe; looking subscribes nobody."""
    asked = await joining.look(db, events_of(request), token, utc_now())
    return _page(request, "event_join.html", asked.event, asked=asked)


@post("/p/join/{token:str}", role=None, page=True)
async def join(request: Request, db: Database, token: str) -> Any:
    """Subscribe the mailbox that the link went to."""
    asked = await joining.join(db, events_of(request), token, utc_now(), _request_id(request))
    if _json(request):
        return Subscribed(event=asked.event.name, state="active", manage_url=asked.manage_url)
    return _page(request, "event_join.html", asked.event, asked=asked)


@get("/p/unsubscribe/{token:str}", role=None, page=True)
async def leave_page(request: Request, db: Database, token: str) -> Reply:
    """Ask whether to leave; looking changes nothing."""
    managed = await managing.look(db, events_of(request), token, utc_now(), LEAVE)
    return _page(request, "event_leave.html", managed.event, managed=managed)


@post("/p/unsubscribe/{token:str}", role=None, page=True)
async def leave(request: Request, db: Database, token: str) -> Any:
    """Leave at once, whatever is sent; mail programs do this by themselves."""
    by_program = b"One-Click" in await read_body(request.receive)
    by: Any = "one_click" if by_program else "person"
    managed = await managing.leave_by_link(db, events_of(request), token, utc_now(), _request_id(request), by)
    if managed is None:
        return (
            Ok(Subscribed(event="", state="removed"))
            if _json(request)
            else page(request, "event_gone.html", title="Unsubscribed")
        )
    return _managed(request, "event_leave.html", managed)


@get("/p/subscription/{token:str}", role=None, page=True)
async def manage_page(request: Request, db: Database, token: str) -> Reply:
    """What somebody hears of an event, and when: to change, to leave, to come back."""
    managed = await managing.look(db, events_of(request), token, utc_now())
    return _page(request, "event_manage.html", managed.event, managed=managed, moments=_moments(managed), done=None)


@post("/p/subscription/{token:str}", role=None, page=True, again=manage_page)
async def manage(
    request: Request, db: Database, token: str, form: ManageForm | None = None, body: ManageBody | None = None
) -> Any:
    """Change reminders, be reminded once more, leave or come back."""
    said, step = _step(form, body)
    managed = await managing.act(db, events_of(request), token, utc_now(), _request_id(request), step)
    return _managed(request, "event_manage.html", managed, done=said)


@get("/p/calendar/{token:str}", role=None, page=True)
async def feed(request: Request, db: Database, token: str) -> Reply:
    """The calendar of somebody's events."""
    if not token.endswith(SUFFIX):
        raise NotFound(public.GONE)
    text = await feeds.read_feed(db, events_of(request), token.removesuffix(SUFFIX), utc_now())
    return calendar(request, text, "events.ics")


def calendar(request: Request, text: str, name: str) -> Reply:
    """A calendar file; 304 for whoever has it already."""
    content = text.encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    head = [(b"etag", tag.encode()), (b"cache-control", b"no-cache")]
    seen = Headers(request.scope).get(b"if-none-match")
    if seen and matches(seen, tag):
        return Reply(304, head)
    kind = (b"content-type", b"text/calendar; charset=utf-8")
    return Reply(200, [kind, (b"content-disposition", f'inline; filename="{name}"'.encode()), *head], content)


def _page(request: Request, template: str, event: Event, *, status: int = 200, **more: Any) -> Reply:
    """A page about an event, with times as they are there."""
    words: dict[str, Any] = {
        "event": event,
        "zone": zone(event.timezone),
        "start": texts.local(event.start_date, event.timezone),
        "end": event.end_date and texts.local(event.end_date, event.timezone),
        "presets": presets,
        "lead": texts.span,
        "snooze_spans": SNOOZES,
    }
    return page(request, template, status, title=event.name, **words | more)


def _managed(request: Request, template: str, managed: Managed, **more: Any) -> Any:
    if not _json(request):
        return _page(request, template, managed.event, managed=managed, moments=_moments(managed), **more)
    one = managed.subscription
    return Subscribed(
        event=managed.event.name,
        state=one.state,
        subscription_id=one.id,
        reminder_offsets=one.reminder_offsets,
        effective_offsets=managed.effective,
        snoozes=managed.snoozes,
        manage_url=managed.manage_url,
    )


def _moments(managed: Managed) -> list[tuple[int, str, bool]]:
    """When its reminders come, the first at first, and whether each is still to come."""
    event, since = managed.event, offsets.since(managed.subscription, managed.event)
    found = [(offset, moment(event.start_date, offset)) for offset in managed.effective]
    return [(o, texts.local(at, event.timezone), at > event.read_at and at >= since) for o, at in found]


def _wish(form: JoinForm | None, body: JoinBody | None) -> Wish:
    if form:
        wanted = read_offsets(form.reminder_offsets, form.minutes)
        return Wish(email=form.email, name=form.name, reminder_offsets=wanted)
    assert body
    return Wish(email=body.email, name=body.name, reminder_offsets=_sorted(body.reminder_offsets))


def _step(form: ManageForm | None, body: ManageBody | None) -> tuple[str, Step]:
    """What is to be done, and its name."""
    said = form or body
    assert said
    if said.action == "reminders":
        wanted = read_offsets(form.reminder_offsets or (), form.minutes) if form else _sorted(said.reminder_offsets)
        return said.action, managing.remind(wanted)
    if said.action == "snooze":
        return said.action, managing.snooze(said.in_seconds or 0)
    return said.action, managing.leave() if said.action == "unsubscribe" else managing.come_back()


def _sorted(wanted: Any) -> list[int] | None:
    return sorted(set(wanted), reverse=True) if isinstance(wanted, list) else None


def _needed(action: str, no_offsets: bool, in_seconds: int | None) -> Sequence[FieldError]:
    """The field that an action cannot do without."""
    if action == "reminders" and no_offsets:
        return [FieldError("reminder_offsets", "required", "Say when to be reminded; `default` leaves it to the event")]
    if action == "snooze" and in_seconds is None:
        return [FieldError("in_seconds", "required", "Say in how many seconds")]
    return []


def _json(request: Request) -> bool:
    return asks_json(Headers(request.scope))


def _request_id(request: Request) -> str:
    found: str = request.scope["state"]["request_id"]
    return found


routes: Sequence[Any] = [
    event_page, event_file, subscribe, join_page, join, leave_page, leave, manage_page, manage, feed,
]  # fmt: skip
