"""Why something of an event was told, or was not, and what its due items are about. Changes nothing."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec

from soonish.db.pool import Tx
from soonish.events.actions.defaults import defaults_in
from soonish.events.actions.rows import SQL, find_event
from soonish.events.model import accounts
from soonish.events.model.accounts import Account, Line, Scene
from soonish.events.model.items import ANNOUNCE, FORGET, JOIN, LIVE, REMINDER, REPLAN, SIGNAL, SNOOZE, WATCH, cause
from soonish.events.model.subscriptions import subscription_of
from soonish.events.model.terms import Terms

Words: TypeAlias = Sequence[str]
MOST_AHEAD: Final = 50

_FACTS: Final = {
    "created": "it was scheduled",
    "updated": "it was changed",
    "cancelled": "it was cancelled",
    "completed": "its end was reached",
    "reminder_due": "a moment came at which subscribers are reminded",
    "subscriber_added": "somebody was subscribed",
    "subscriber_removed": "a subscription ended",
}


async def account_of_cause(tx: Tx, terms: Terms, name: str, person_id: int | None) -> Account | None:
    """Of what people were told under `event/...`, or machines under `event.fact/...`."""
    noun, event_id, *rest = name.strip("/").split("/")
    event = await find_event(tx, int(event_id)) if event_id.isdecimal() else None
    if event is None:
        return None
    row = None if person_id is None else await SQL.subscription_of_person.row(
        tx, event_id=event.id, person_id=person_id
    )  # fmt: skip
    scene = Scene(
        event=event,
        default=(await defaults_in(tx, terms)).reminder_offsets,
        subscription=None if row is None else subscription_of(row),
    )
    if noun == "event.fact":
        return accounts.of_event(scene, _FACTS.get(rest[0] if rest else "", "something happened to it"))
    tell = _TELLERS.get(rest[0]) if rest else None
    return await tell(tx, scene, rest[1:]) if tell else accounts.of_event(scene, f"it is about {scene.name}")


async def account_of_item(tx: Tx, kind: str, key: str) -> Account | None:
    """Of a due item: under which causes it tells people."""
    if kind == REMINDER:
        event_id, offset = key.split("/")
        return Account(cause=f"{cause(int(event_id), 'reminder', offset)}/")
    if kind == SNOOZE and (row := await SQL.snooze.row(tx, id=int(key))) is not None:
        return Account(cause=cause(row["event_id"], "snooze", key))
    if kind == ANNOUNCE and (event_id := await SQL.event_of_broadcast.value(tx, id=int(key))) is not None:
        return Account(cause=cause(event_id, "broadcast", key))
    return None


async def ahead(tx: Tx, terms: Terms, person_id: int, since: datetime | None, until: datetime | None) -> list[Line]:
    """What a person will be told of events, the soonest first."""
    default = list((await defaults_in(tx, terms)).reminder_offsets)
    rows = await SQL.ahead_of_person.rows(
        tx, person_id=person_id, default=default, since=since, until=until, k=MOST_AHEAD
    )
    return [accounts.line_ahead(row) for row in rows]


async def label(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
    """The items of kinds that begin with `events`: what each is about, and its page."""
    names = {row["id"]: row["name"] for row in await SQL.event_names.rows(tx, ids=_events_of(rows))}
    return [_label(row, names) for row in rows]


async def _reminder(tx: Tx, scene: Scene, rest: Words) -> Account:
    del tx
    if len(rest) < 1 or not all(part.isdecimal() for part in rest[:2]):
        return accounts.of_event(scene, f"it reminds of {scene.name}")
    started = int(rest[1]) if len(rest) > 1 else int(scene.event.start_date.timestamp())
    return accounts.of_reminder(scene, int(rest[0]), started)


async def _broadcast(tx: Tx, scene: Scene, rest: Words) -> Account:
    row = await SQL.broadcast.row(tx, event_id=scene.event.id, id=_number(rest))
    if row is None:
        return accounts.of_event(scene, f"it was told to the subscribers of {scene.name}")
    changes = [
        {**one, "fields": sorted(msgspec.json.decode(one["changes"]))}
        for one in await SQL.changes_of_broadcast.rows(tx, broadcast_id=row["id"])
    ]
    return accounts.of_broadcast(scene, row, changes)


async def _snooze(tx: Tx, scene: Scene, rest: Words) -> Account:
    row = await SQL.snooze.row(tx, id=_number(rest))
    return accounts.of_snooze(scene, row) if row else accounts.of_event(scene, "it was asked for once more")


async def _welcome(tx: Tx, scene: Scene, rest: Words) -> Account:
    del tx, rest
    return accounts.of_welcome(scene)


async def _created(tx: Tx, scene: Scene, rest: Words) -> Account:
    del tx, rest
    return accounts.of_event(scene, f"they organize {scene.name}")


async def _join(tx: Tx, scene: Scene, rest: Words) -> Account:
    del tx, rest
    return accounts.of_event(scene, f"somebody asked to subscribe this mailbox to {scene.name}")


_TELLERS: Final[Mapping[str, Callable[[Tx, Scene, Words], Awaitable[Account]]]] = {
    "reminder": _reminder, "broadcast": _broadcast, "snooze": _snooze, "welcome": _welcome, "created": _created,
    "join": _join,
}  # fmt: skip


def _number(rest: Words) -> int:
    return int(rest[0]) if rest and rest[0].isdecimal() else 0


def _events_of(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The events that items name by their keys."""
    keys = [row["key"].partition("/")[0] for row in rows if row["kind"] in (SIGNAL, REMINDER, LIVE, WATCH)]
    return [int(key) for key in keys if key.isdecimal()]


def _label(row: Mapping[str, Any], names: Mapping[int, str]) -> tuple[str, str | None]:
    kind, key = row["kind"], row["key"]
    if kind in _PLAIN:
        return _PLAIN[kind], None
    event_id, _, offset = key.partition("/")
    name = names.get(int(event_id))
    if name is None:
        return f"{_OF_EVENT[kind]} event {event_id}", None
    text = accounts.label_of_reminder(name, int(offset)) if offset else f"{_OF_EVENT[kind]} “{name}”"
    return text, f"/events/{event_id}"


_PLAIN: Final = {
    SNOOZE: "Remind one person once more",
    ANNOUNCE: "Tell subscribers what waits for this moment",
    JOIN: "Ask a mailbox whether it wants to hear of an event",
    FORGET: "Erase a mailbox that did not answer",
    REPLAN: "Plan the reminders of open events anew",
}
_OF_EVENT: Final = {
    SIGNAL: "Let the workflow hear of",
    REMINDER: "Remind of",
    LIVE: "Begin",
    WATCH: "Look whether the workflow has closed",
}
