"""Why a due item is where it is, in words: who put it, its moves, tries, holds, its end. Pure: rows come in."""

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Any

from soonish.delivery.model.ledger import late_words
from soonish.ops.model.items import LiveState, state_of
from soonish.ops.model.items import late_ms as late_of
from soonish.ops.model.pages import in_words
from soonish.ops.model.why import Step, What, moment
from soonish.ops.model.why_held import (
    aside_steps,
    failed_tries,
    is_away,
    move_steps,
    notes_of,
    pause_steps,
    promised_first,
)

_ENDS = {
    "done": "was done",
    "dropped": "was dropped",
    "cancelled": "was cancelled",
    "expired": "expired before it had worked",
    "dead": "died",
}
_STANDS: dict[LiveState, str] = {
    "waiting": "will happen",
    "leased": "is being worked on",
    "retrying": "is tried again",
    "overdue": "is due now, and waits for a free worker",
    "paused": "stands still until its kind is resumed",
}


def is_live(row: Mapping[str, Any]) -> bool:
    """Whether it has not ended yet."""
    return "wake_at" in row


def due_sentence(label: str, row: Mapping[str, Any], zone: tzinfo) -> str:
    """How it stands, or how it ended."""
    if not is_live(row):
        why = f": {in_words(row.get('reason'))}" if row.get("reason") else ""
        return f"“{label}” {_ENDS[fate_of(row)]} at {moment(row['finished_at'], zone)}, {_lateness(row)}{why}."
    state = state_of(row)
    when = f" at {moment(row['wake_at'], zone)}" if state in ("waiting", "retrying") else ""
    return f"“{label}” {_stands_so(row)}{when}{_failed(row) if state == 'retrying' else ''}."


def due_steps(row: Mapping[str, Any], zone: tzinfo) -> Iterator[Step]:
    """What the queue itself knows of one life of an item."""
    notes = notes_of(row)
    promise = moment(promised_first(notes, row["due_at"]), zone)
    yield Step(at=row["created_at"], what="planned", text=f"It was put, promised for {promise}.")
    yield from move_steps(notes, row["due_at"], zone)
    yield from pause_steps(notes, zone)
    yield from aside_steps(row, notes)
    if row["first_at"]:
        text = f"It came due, and was first taken up {late_words(late_of(row['due_at'], row['first_at']))}."
        yield Step(at=row["first_at"], what="fired", text=text)
    if row["last_error"] and not is_away(row):
        tries = failed_tries(row)
        which = "The try" if tries == 1 else f"The last of {tries} tries"
        yield Step(at=row.get("finished_at"), what="tried", text=f"{which} failed: {row['last_error']}")
    yield _stands(row) if is_live(row) else _ended(row)


def fate_of(row: Mapping[str, Any]) -> str:
    """Done items stand in a table of their own, which need not say so."""
    return str(row.get("fate") or "done")


def _stands(row: Mapping[str, Any]) -> Step:
    state = state_of(row)
    at = row["lease_until"] if state == "leased" else row["wake_at"]
    what: What = "held" if state == "paused" else "planned"
    return Step(at=at, what=what, text=f"It {_stands_so(row)}.", ref="/due/pauses" if state == "paused" else None)


def _stands_so(row: Mapping[str, Any]) -> str:
    state = state_of(row)
    return "is held" if state == "retrying" and is_away(row) else _STANDS[state]


def _failed(row: Mapping[str, Any]) -> str:
    tried = "" if is_away(row) else f"try {failed_tries(row)} failed: "
    return f", for {tried}{row['last_error']}"


def _ended(row: Mapping[str, Any]) -> Step:
    why = f": {in_words(row.get('reason'))}" if row.get("reason") else ""
    again = " It was let live again later." if row.get("revived_at") else ""
    return Step(at=row["finished_at"], what="ended", text=f"It {_ENDS[fate_of(row)]}{why}.{again}")


def _lateness(row: Mapping[str, Any]) -> str:
    if row["first_at"] is None:
        return "and nobody ever took it up"
    return f"first taken up {late_words(late_of(row['due_at'], row['first_at']))}"
