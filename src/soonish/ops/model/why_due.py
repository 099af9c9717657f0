"""Why a due item is where it is, in words: who put it, its moves, tries, holds, its end. Pure: rows come in."""

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Any

from soonish.delivery.model.ledger import late_words
from soonish.ops.model.items import LiveState, state_of
from soonish.ops.model.items import late_ms as late_of
from soonish.ops.model.pages import in_words
from soonish.ops.model.why import Step, What, moment

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
    tries = row["attempts"] - row["spared"]
    failed = f", for try {tries} failed: {row['last_error']}" if state == "retrying" else ""
    return f"“{label}” {_STANDS[state]}{when}{failed}."


def due_steps(row: Mapping[str, Any], zone: tzinfo) -> Iterator[Step]:
    """What the queue itself knows of one life of an item."""
    yield Step(at=row["created_at"], what="planned", text=f"It was put, promised for {moment(row['due_at'], zone)}.")
    if row["spared"]:
        text = f"It was moved or held {_times(row['spared'])}, which is no try."
        yield Step(at=None, what="held", text=text)
    if row["first_at"]:
        text = f"It came due, and was first taken up {late_words(late_of(row['due_at'], row['first_at']))}."
        yield Step(at=row["first_at"], what="fired", text=text)
    tries = row["attempts"] - row["spared"]
    if row["last_error"]:
        which = "The try" if tries <= 1 else f"The last of {tries} tries"
        yield Step(at=row.get("finished_at"), what="tried", text=f"{which} failed: {row['last_error']}")
    yield _stands(row) if is_live(row) else _ended(row)


def fate_of(row: Mapping[str, Any]) -> str:
    """Done items stand in a table of their own, which need not say so."""
    return str(row.get("fate") or "done")


def _stands(row: Mapping[str, Any]) -> Step:
    state = state_of(row)
    at = row["lease_until"] if state == "leased" else row["wake_at"]
    what: What = "held" if state == "paused" else "planned"
    return Step(at=at, what=what, text=f"It {_STANDS[state]}.", ref="/due/pauses" if state == "paused" else None)


def _ended(row: Mapping[str, Any]) -> Step:
    why = f": {in_words(row.get('reason'))}" if row.get("reason") else ""
    again = " It was let live again later." if row.get("revived_at") else ""
    return Step(at=row["finished_at"], what="ended", text=f"It {_ENDS[fate_of(row)]}{why}.{again}")


def _lateness(row: Mapping[str, Any]) -> str:
    if row["first_at"] is None:
        return "and nobody ever took it up"
    return f"first taken up {late_words(late_of(row['due_at'], row['first_at']))}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
