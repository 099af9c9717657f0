"""The pages of the ledger: the list with its filters, one delivery with its tries, and what a person's page shows."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args
from urllib.parse import urlencode

from soonish.clock import show_instant
from soonish.delivery.actions import ledger
from soonish.delivery.model.ledger import (
    OUTCOMES,
    RETRIABLE,
    TONES,
    ChannelName,
    State,
    Wanted,
    in_words,
    late_words,
    line_sentence,
)
from soonish.delivery.routes.ledger_api import (
    Chosen,
    LedgerQuery,
    wanted,
)
from soonish.people.actions.hooks import Section
from soonish.people.model.person import Person
from soonish.web.answers import write_cursor
from soonish.web.auth import Role
from soonish.web.fields import OWN_PAGE, Form
from soonish.web.operation import Caller, Database, Reply, Request, Tx, get, post
from soonish.web.pages import page, see_other

SHOWN: Final = ("state", "channel", "person_id", "cause_prefix")  # the filters that have a field on the page
LATEST: Final = 20  # deliveries on the page of a person


class AgainForm(Chosen, Form):
    """Which deliveries shall go again, and the page to go back to."""

    back: OWN_PAGE = "/deliveries"


class BackForm(Form):
    """The page to go back to."""

    back: OWN_PAGE = "/deliveries"


@get("/deliveries", role=Role.READ, page=True)
async def deliveries_page(request: Request, db: Database, caller: Caller, query: LedgerQuery) -> Reply:
    """What was sent to whom, newest first."""
    part = await ledger.list_deliveries(db, caller, wanted(query), before=query.position(int), limit=query.limit)
    chosen = wanted(query).chosen()
    following = None if part.before is None else write_cursor((part.before,))
    return page(
        request,
        "deliveries.html",
        title="Deliveries",
        entries=part.entries,
        next=following and _url(chosen | {"after": following}),
        chosen=chosen,
        texts=dict.fromkeys(SHOWN, "") | _texts(chosen),
        others=[pair for pair in _texts(chosen).items() if pair[0] not in SHOWN],
        back=_url(chosen | {"after": query.after}),
        states=get_args(State),
        channels=get_args(ChannelName),
        **WORDS,
    )


@get("/deliveries/{delivery_id:int}", role=Role.READ, page=True)
async def delivery_page(request: Request, db: Database, caller: Caller, delivery_id: int) -> Reply:
    """One delivery, try by try."""
    told = await ledger.get_told(db, caller, delivery_id)
    one, words = told.entry, dict(WORDS)
    title = f"{one.title} to {one.who}"
    return page(
        request, "delivery.html", title=title, entry=one, one=one.delivery, tries=told.attempts.attempts, **words
    )


@post("/deliveries/{delivery_id:int}/retry", role=Role.WRITE, page=True, again=delivery_page)
async def retry_delivery(request: Request, tx: Tx, caller: Caller, delivery_id: int, form: BackForm) -> Reply:
    """Let one go again."""
    await ledger.retry_one(tx, caller, delivery_id)
    return see_other(request, form.back, f"Delivery {delivery_id} goes again now, under the same id.")


@post("/deliveries/retry", role=Role.WRITE, page=True, again=deliveries_page)
async def retry_deliveries(request: Request, tx: Tx, caller: Caller, form: AgainForm) -> Reply:
    """Let all that fit go again."""
    count = await ledger.retry_many(tx, caller, wanted(form), ledger.REACH)
    return see_other(request, form.back, _retried(count))


async def sections(db: Database, caller: Caller, person: Person) -> Sequence[Section]:
    """For the page of a person: their inbox, if they have had anything there, and what they were told."""
    part = await ledger.list_deliveries(db, caller, Wanted(person_id=person.id), limit=LATEST)
    values = {"entries": part.entries, "more": part.before is not None, "person": person, **WORDS}
    found = [Section("told", "What they were told", "deliveries_told.html", values)]
    if notes := await ledger.inbox(db, caller, person):
        found.insert(0, Section("inbox", "Inbox", "inbox.html", {"notes": notes, **WORDS}))
    return found


WORDS: Final[Mapping[str, Any]] = {
    "tones": TONES,
    "outcomes": OUTCOMES,
    "retriable": RETRIABLE,
    "in_words": in_words,
    "late_words": late_words,
    "line_sentence": line_sentence,
}


def _retried(count: int) -> str:
    if not count:
        return "None of these can go again: they were sent, are on their way, or lead nowhere any more."
    words = f"{count:,} {'delivery goes' if count == 1 else 'deliveries go'} again now, under the same ids."
    return f"{words} There may be more: press again." if count == ledger.REACH else words


def _url(filters: Mapping[str, Any]) -> str:
    given = _texts(filters)
    return f"/deliveries?{urlencode(given)}" if given else "/deliveries"


def _texts(filters: Mapping[str, Any]) -> dict[str, str]:
    """The filters as they stand in an address or a form."""
    set_ = {name: value for name, value in filters.items() if value is not None}
    return {name: show_instant(value) if hasattr(value, "tzinfo") else str(value) for name, value in set_.items()}


routes: Sequence[Any] = [deliveries_page, delivery_page, retry_delivery, retry_deliveries]
