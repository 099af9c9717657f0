"""The pages of people: the list, an import by paste, and a person with their addresses."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from soonish import clock
from soonish.clock import utc_now
from soonish.errors import FieldError, Invalid
from soonish.people.actions import addresses, people
from soonish.people.actions.batch import Result
from soonish.people.actions.batch import batch as write_batch
from soonish.people.actions.hooks import People, people_of
from soonish.people.model.address import TONES, Address, AddressKind, Reach, reach, read_tags
from soonish.people.model.paste import COLUMNS, MOST_ROWS, read_paste
from soonish.people.model.person import FIELDS, Critical, Person, QuietHours
from soonish.people.model.quiet import first_instant, quiet_until
from soonish.people.routes.bodies import Email, ExternalId, HalfName, Label, Name, Tag, Target, rows_of
from soonish.web.auth import Role
from soonish.web.fields import LOCALE, ZONE, Form, Paged, checked, line, lines, number
from soonish.web.operation import Caller, Database, IfMatch, Reply, Request, Tx, get, post
from soonish.web.pages import page, see_other

LOCAL: Final = "%Y-%m-%dT%H:%M"  # as a browser's field for date and time has it


def _local(text: str) -> str:
    try:
        datetime.fromisoformat(text[:16])
    except ValueError as error:
        raise Invalid("Write a date and a time, like 2026-12-01T18:00", code="type") from error
    return text[:16]


def _tags(text: str) -> str:
    read_tags(text)
    return text


TagText = Annotated[str, line(1_000, least=0), checked(_tags)]


class PeopleFilter(Paged):
    """What is looked for."""

    q: Annotated[str, line(200, least=0)] | None = None
    tag: Tag | None = None


class PersonForm(Form):
    """A person to be made."""

    name: Name
    email: Email | None = None
    external_id: ExternalId | None = None
    timezone: ZONE | None = None


class ChangeForm(Form):
    """A person as the form shows them, and the version that was seen."""

    version: Annotated[int, number(1)]
    timezone: ZONE
    locale: LOCALE
    name: Name | None = None
    first_name: HalfName | None = None
    last_name: HalfName | None = None
    email: Email | None = None
    external_id: ExternalId | None = None
    date_of_birth: date | None = None
    quiet_start: time | None = None
    quiet_end: time | None = None
    quiet_critical: Critical = "send"
    paused_until: Annotated[str, line(19), checked(_local)] | None = None

    def rules(self) -> list[FieldError]:
        """Quiet hours have two ends."""
        if (self.quiet_start is None) != (self.quiet_end is None):
            missing = "quiet_start" if self.quiet_start is None else "quiet_end"
            return [FieldError(missing, "required", "Quiet hours need a start and an end")]
        if self.quiet_start is not None and self.quiet_start == self.quiet_end:
            return [FieldError("quiet_end", "range", "Quiet hours end at another time than they start")]
        return []


class AddressForm(Form):
    """An address to be added."""

    kind: AddressKind
    label: Label
    target: Target | None = None
    tags: TagText = ""


class AddressChangeForm(Form):
    """An address as the form shows it; an empty target stays as it is."""

    version: Annotated[int, number(1)]
    label: Label
    active: bool
    tags: TagText = ""
    target: Target | None = None


class PasteForm(Form):
    """Rows of people."""

    rows: Annotated[str, lines(900_000, least=1)]


class Nothing(Form):
    """A form that is a button alone."""


@get("/people", role=Role.READ, page=True)
async def people_page(request: Request, db: Database, caller: Caller, query: PeopleFilter) -> Reply:
    """Who can be told something."""
    rows = await people.list_people(
        db, caller, q=query.q or None, tag=query.tag, before=query.position(int), limit=query.limit + 1
    )
    listing = query.listing(rows, lambda row: (row.id,))
    found = await addresses.addresses_of(db, caller, [one.id for one in listing.items])
    shown = [(one, found[one.id], _reach(one, found[one.id])) for one in listing.items]
    chosen = {"q": query.q, "tag": query.tag}
    return page(
        request,
        "people.html",
        title="People",
        shown=shown,
        next=listing.next,
        query=query,
        url=lambda **more: "/people?" + urlencode({k: v for k, v in (chosen | more).items() if v}),
    )


@post("/people", role=Role.WRITE, page=True, again=people_page)
async def add_person(request: Request, tx: Tx, caller: Caller, form: PersonForm) -> Reply:
    """Make a person, and go on to their addresses."""
    wish = {name: value for name in form.__struct_fields__ if (value := getattr(form, name)) is not None}
    made = await people.create(tx, people_of(request), caller, wish)
    told = f"{made.name} is here. Add an address next, so that something can reach them."
    return see_other(request, f"/people/{made.id}#addresses", toast=told)


@get("/people/import", role=Role.WRITE, page=True)
async def import_page(request: Request, caller: Caller) -> Reply:
    """Paste many people."""
    del caller
    return _import(request, ())


@post("/people/import", role=Role.WRITE, page=True, again=import_page)
async def import_people(request: Request, tx: Tx, caller: Caller, form: PasteForm) -> Reply:
    """Make or change the people of a paste, and say what became of each row."""
    rows = read_paste(form.rows)
    results = await write_batch(tx, people_of(request), caller, rows_of(rows))
    return _import(request, [(result, _called(row)) for result, row in zip(results, rows, strict=True)])


@get("/people/{person_id:int}", role=Role.READ, page=True)
async def person_page(request: Request, db: Database, caller: Caller, person_id: int) -> Reply:
    """One person: how they can be reached, when they rest."""
    handed = people_of(request)
    person = await people.get_person(db, caller, person_id)
    owned = await addresses.list_addresses(db, caller, person_id)
    sections = [section for find in handed.hooks.sections for section in await find(db, caller, person)]
    zone = clock.zone(person.timezone)
    return page(
        request,
        "person.html",
        title=person.name,
        person=person,
        addresses=owned,
        reach=_reach(person, owned),
        quiet=_quiet(person),
        there=utc_now().astimezone(zone),
        paused=_paused_text(person),
        sections=sections,
        kinds=addresses.kinds(handed),
        tones=TONES,
        urls=_urls(handed),
    )


@post("/people/{person_id:int}", role=Role.WRITE, page=True, again=person_page)
async def save_person(request: Request, tx: Tx, caller: Caller, person_id: int, form: ChangeForm) -> Reply:
    """Change a person, unless somebody else did so since the form was shown."""
    before = await people.person_in(tx, person_id)
    wish = {name: value for name, value in _wish(form, before).items() if value != getattr(before, name)}
    after = await people.change(tx, people_of(request), caller, person_id, wish, IfMatch(f'"{form.version}"'))
    told = "Saved. It holds from now on." if after.version > form.version else "Nothing was different."
    return see_other(request, f"/people/{person_id}", toast=told)


@post("/people/{person_id:int}/erase", role=Role.WRITE, page=True, again=person_page)
async def erase_person(request: Request, tx: Tx, caller: Caller, person_id: int, form: Nothing) -> Reply:
    """Erase a person."""
    del form
    await people.delete(tx, people_of(request), caller, person_id, IfMatch(None))
    told = "Erased. Nothing is sent to them any more; what others kept about them goes in the next minutes."
    return see_other(request, "/people", toast=told)


@post("/people/{person_id:int}/addresses", role=Role.WRITE, page=True, again=person_page)
async def add_address(request: Request, tx: Tx, caller: Caller, person_id: int, form: AddressForm) -> Reply:
    """Add an address."""
    made = await addresses.add_address(
        tx,
        people_of(request),
        caller,
        person_id,
        kind=form.kind,
        label=form.label,
        target=form.target,
        tags=read_tags(form.tags),
    )
    waits = made.health == "unverified"
    told = "It is used once its owner has agreed by mail." if waits else "Messages go there from now on."
    return see_other(request, f"/people/{person_id}#addresses", toast=f"“{made.label}” is added. {told}")


@post("/people/{person_id:int}/addresses/{address_id:int}", role=Role.WRITE, page=True, again=person_page)
async def save_address(
    request: Request, tx: Tx, caller: Caller, person_id: int, address_id: int, form: AddressChangeForm
) -> Reply:
    """Change an address."""
    wish: dict[str, Any] = {"label": form.label, "tags": read_tags(form.tags), "active": form.active}
    wish |= {"target": form.target} if form.target else {}
    seen = IfMatch(f'"{form.version}"')
    after = await addresses.change_address(tx, people_of(request), caller, address_id, wish, seen)
    told = "Saved. It holds from now on." if after.version > form.version else "Nothing was different."
    return see_other(request, f"/people/{person_id}#addresses", toast=told)


@post("/people/{person_id:int}/addresses/{address_id:int}/enable", role=Role.WRITE, page=True, again=person_page)
async def enable_address(
    request: Request, tx: Tx, caller: Caller, person_id: int, address_id: int, form: Nothing
) -> Reply:
    """Use an address again."""
    del form
    after = await addresses.enable_address(tx, caller, address_id)
    return see_other(request, f"/people/{person_id}#addresses", toast=f"“{after.label}” is used again from now on.")


@post("/people/{person_id:int}/addresses/{address_id:int}/remove", role=Role.WRITE, page=True, again=person_page)
async def remove_address(
    request: Request, tx: Tx, caller: Caller, person_id: int, address_id: int, form: Nothing
) -> Reply:
    """Remove an address."""
    del form
    silent = await addresses.remove_address(tx, caller, address_id, IfMatch(None))
    told = "Removed. Nothing reaches this person any more." if silent else "Removed. Nothing is sent there any more."
    return see_other(request, f"/people/{person_id}#addresses", toast=told)


def _import(request: Request, results: Sequence[tuple[Result, str]]) -> Reply:
    made = {status: sum(result.status == status for result, _ in results) for status in STATUSES}
    words: dict[str, Any] = {
        "results": results,
        "counts": made,
        "columns": COLUMNS,
        "most": MOST_ROWS,
        "tones": STATUSES,
    }
    return page(request, "people_import.html", title="Import people", **words)


STATUSES: Final[Mapping[str, str]] = {"created": "ok", "changed": "info", "same": "quiet", "refused": "bad"}


def _called(row: Any) -> str:
    """How a row calls itself."""
    if not isinstance(row, Mapping):
        return ""
    parts = (row.get("name"), row.get("first_name"), row.get("last_name"), row.get("email"), row.get("external_id"))
    return next((str(part)[:60] for part in parts if part), "")


def _wish(form: ChangeForm, before: Person) -> dict[str, Any]:
    """What the form says in the words of the model."""
    wish = {name: getattr(form, name) for name in FIELDS if name not in ("quiet_hours", "paused_until")}
    wish["quiet_hours"] = None
    if form.quiet_start is not None and form.quiet_end is not None:
        wish["quiet_hours"] = QuietHours.of(form.quiet_start, form.quiet_end, form.quiet_critical)
    # The field has no seconds: where it was left as it was, the moment stays as it is.
    wish["paused_until"] = before.paused_until
    if (form.paused_until or "") != _paused_text(before):
        zone = clock.zone(form.timezone)
        wish["paused_until"] = form.paused_until and first_instant(datetime.fromisoformat(form.paused_until), zone)
    return wish


def _paused_text(person: Person) -> str:
    """Until when they are paused, as the field of the form has it."""
    until = person.paused_until
    return until.astimezone(clock.zone(person.timezone)).strftime(LOCAL) if until and until > utc_now() else ""


def _quiet(person: Person) -> datetime | None:
    hours = person.quiet_hours
    return quiet_until(*hours.times, person.timezone, utc_now()) if hours else None


def _reach(person: Person, owned: Sequence[Address]) -> Reach:
    paused = person.paused_until is not None and person.paused_until > utc_now()
    return reach(owned, paused=paused, quiet=_quiet(person) is not None)


def _urls(handed: People) -> dict[str, str | None]:
    return {"test": handed.hooks.test_url, "verify": handed.hooks.verify_url}


routes: Sequence[Any] = [
    people_page, add_person, import_page, import_people, person_page, save_person, erase_person, add_address,
    save_address, enable_address, remove_address,
]  # fmt: skip
