"""A mailbox asks to hear of a public event: a request, one mail, and a button behind its link that subscribes.

Whether the mailbox is known here, or subscribed, is told to it alone. The mail itself is written when its item comes
due, so that asking takes the same time whoever asks.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from soonish.db.again import run_again
from soonish.db.pool import Database, Tx
from soonish.due import Put, put
from soonish.errors import Conflict, NotFound, TooMany
from soonish.events.actions.handed import Events
from soonish.events.actions.public import GONE, made_links, public_event, read_link, stranger
from soonish.events.actions.rows import SQL, find_event, get_event
from soonish.events.actions.subscriptions import subscribe
from soonish.events.model import items
from soonish.events.model.events import Event
from soonish.events.model.joining import SOURCE, Wish, hindrance, mail, too_many
from soonish.events.model.links import JOIN, PAGE
from soonish.events.model.subscriptions import Subscription, subscription_of
from soonish.people.actions import addresses, people
from soonish.people.actions.targets import print_of
from soonish.people.model.mail import masked
from soonish.web.auth import Caller

DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the owner of a mailbox is asked to agree to; once they have, where they change it."""

    event: Event
    hint: str
    manage_url: str | None


async def ask(db: Database, events: Events, token: str, wish: Wish, now: datetime) -> Event:
    """Take a request; nothing in the answer tells who is known here."""
    claim = await read_link(events, PAGE, token, now)
    target_print = await print_of(events.people, claim.workspace_id, "email", wish.email)
    async with db.transaction(claim.workspace_id) as tx:
        event = await public_event(tx, claim)
        _check_open(event)
        if not events.smtp:
            raise Conflict("No mail can be sent from here, so nobody can subscribe by it", code="smtp_missing")
        await _check_hour(tx, event.id, events.terms.join_per_event_hour)
        await _write(tx, events, claim.workspace_id, event.id, wish, target_print)
    return event


async def write_mail(tx: Tx, events: Events, workspace_id: int, request_id: int) -> str | None:
    """The mail to a mailbox that asked; answers why there is none. A second call finds that it was written."""
    row = await SQL.request_for_update.row(tx, id=request_id)
    if row is None or row["mailed_at"] or row["confirmed_at"]:
        return None
    event = await find_event(tx, row["event_id"])
    if (why := hindrance(row, event)) or (why := await _nuisance(tx, events, row)):
        return why
    assert event
    mailbox = _mailbox(events, workspace_id, row)
    subscription = await _subscribed(tx, events, workspace_id, event.id, mailbox)
    await events.outbox.post(
        tx,
        items.cause(event.id, "join", request_id),
        mailbox,
        mail(event, row, events.terms.join_ttl, subscribed=subscription is not None),
        merge={} if subscription is None else {"subscription_id": subscription.id},
    )
    await SQL.request_mailed.run(tx, id=request_id)
    return None


async def look(db: Database, events: Events, token: str, now: datetime) -> Asked:
    """What a link asks for; looking subscribes nobody."""
    claim = await read_link(events, JOIN, token, now)
    async with db.transaction(claim.workspace_id, readonly=True) as tx:
        row = _live(await SQL.request.row(tx, id=int(claim.ids[0])))
        return await _asked(tx, events, claim.workspace_id, row, row["subscription_id"])


async def join(db: Database, events: Events, token: str, now: datetime, request_id: str) -> Asked:
    """Subscribe the mailbox, and make the person that it belongs to; a second time changes nothing."""
    claim = await read_link(events, JOIN, token, now)
    return await run_again(_join, db, events, int(claim.ids[0]), stranger(claim.workspace_id, request_id))


async def forget(tx: Tx, request_id: int) -> bool:
    """Erase who asked, for the link works no more; answers whether the row still counts the mails of the day."""
    await SQL.forget_request.run(tx, id=request_id)
    await SQL.drop_request.run(tx, id=request_id)
    return await SQL.request.row(tx, id=request_id) is not None


async def erase(tx: Tx, person_id: int, limit: int) -> int:
    """Remove some requests of somebody who was erased; answers how many."""
    count: int = await SQL.requests_of_person.run(tx, person_id=person_id, k=limit)
    return count


async def _join(db: Database, events: Events, request_id: int, caller: Caller) -> Asked:
    async with db.transaction(caller.workspace_id) as tx:
        row = _live(await SQL.request_for_update.row(tx, id=request_id))
        subscription_id: int | None = row["subscription_id"]
        if subscription_id is None:
            subscription_id = (await _let_in(tx, events, caller, row)).id
            await SQL.request_confirmed.run(tx, id=request_id, subscription_id=subscription_id)
        return await _asked(tx, events, caller.workspace_id, row, subscription_id)


async def _let_in(tx: Tx, events: Events, caller: Caller, row: Any) -> Subscription:
    """The subscription of the mailbox: the one that it has, or a new one that writes to this mailbox alone."""
    event, mailbox = await get_event(tx, row["event_id"]), _mailbox(events, caller.workspace_id, row)
    _check_open(event)
    person_id = await _person(tx, events, caller, event, Wish(email=mailbox, name=row["name"]))
    address_id = await addresses.agreed_address(tx, events.people, caller, person_id, mailbox)
    if known := await _subscribed(tx, events, caller.workspace_id, event.id, mailbox):
        return known
    return await subscribe(
        tx,
        events,
        caller,
        event.id,
        person_id,
        reminder_offsets=row["reminder_offsets"],
        selectors=[{"address_id": address_id}],
        welcome=True,
        source=SOURCE,
    )


async def _person(tx: Tx, events: Events, caller: Caller, event: Event, wish: Wish) -> int:
    for last in (False, True):
        if owner := await addresses.find_owner(tx, events.people, caller.workspace_id, wish.email):
            return owner
        try:
            said = {"name": wish.called, "email": wish.email, "timezone": event.timezone}
            return (await people.create(tx, events.people, caller, said)).id
        except Conflict as error:  # somebody made them between the two looks
            if last or error.code != "email_taken":
                raise
    raise AssertionError


async def _subscribed(tx: Tx, events: Events, workspace_id: int, event_id: int, mailbox: str) -> Subscription | None:
    """The active subscription of whoever the mailbox belongs to."""
    owner = await addresses.find_owner(tx, events.people, workspace_id, mailbox)
    row = owner and await SQL.subscription_of_person.row(tx, event_id=event_id, person_id=owner)
    return subscription_of(row) if row and row["state"] == "active" else None


async def _asked(tx: Tx, events: Events, workspace_id: int, row: Any, subscription_id: int | None) -> Asked:
    links, event = await made_links(events), await get_event(tx, row["event_id"])
    manage = None if subscription_id is None else links.manage(workspace_id, subscription_id)
    return Asked(event, masked(_mailbox(events, workspace_id, row)), manage)


async def _check_hour(tx: Tx, event_id: int, most: int) -> None:
    await SQL.lock_joining.run(tx, what=f"event {event_id}")
    asked = await SQL.requests_of_hour.row(tx, event_id=event_id, most=most)
    if asked["count"] >= most:
        raise TooMany("Many people want to subscribe just now; try again in a while", max(1, asked["wait"] or 0))


async def _write(tx: Tx, events: Events, workspace_id: int, event_id: int, wish: Wish, target_print: bytes) -> None:
    request_id: int = await SQL.next_request_id.value(tx)
    sealed = events.vault.seal(wish.email.encode(), _place(workspace_id, request_id))
    expires_at = await SQL.add_request.value(
        tx,
        id=request_id,
        event_id=event_id,
        email=sealed,
        email_print=target_print,
        name=wish.name,
        reminder_offsets=wish.reminder_offsets,
        ttl=events.terms.join_ttl,
    )
    await put(
        tx,
        [
            Put(items.JOIN, str(request_id), expires_at=expires_at),
            Put(items.FORGET, str(request_id), expires_at),
        ],
    )


async def _nuisance(tx: Tx, events: Events, row: Any) -> str | None:
    await SQL.lock_joining.run(tx, what=row["email_print"].hex())
    counts = await SQL.mails_to_mailbox.row(
        tx, email_print=row["email_print"], event_id=row["event_id"], pause=events.terms.join_pause
    )
    return too_many(counts, events.terms)


def _check_open(event: Event) -> None:
    if not event.is_open:
        raise Conflict("This event is over or cancelled, so nobody can subscribe any more", code="event_closed")


def _live(row: Any) -> Any:
    """A request whose link works still."""
    if row is None or row["over"] or row["email"] is None:
        raise NotFound(GONE)
    return row


def _mailbox(events: Events, workspace_id: int, row: Any) -> str:
    return events.vault.unseal(row["email"], _place(workspace_id, row["id"])).decode()


def _place(workspace_id: int, request_id: int) -> tuple[int, str, str, int]:
    return workspace_id, "subscription_request", "email", request_id
