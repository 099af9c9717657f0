"""What kept something waiting and is over: holds of a delivery, moves and pauses of a due item, in words.

Pure: what the ledger and the queue noted comes in. None of it was a try.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import pairwise
from typing import Any, Final

from soonish.clock import parse_instant
from soonish.ops.model.why import Step, moment

Row = Mapping[str, Any]

AWAY: Final = "Unavailable"
"""How the error begins that an engine or a key left which was away."""

_WERE: Final = {
    "quiet_hours": "Quiet hours held it until {until}.",
    "circuit_open": "Its target kept failing and was left alone until {until}.",
    "rate_limited": "There was more for its target at once than may be sent: it waited for its turn until {until}.",
}


_BEGAN: Final = {
    "quiet_hours": "Quiet hours began to hold it.",
    "circuit_open": "Its target kept failing, and is left alone since then.",
    "rate_limited": "There was more for its target at once than may be sent: it waits for its turn since then.",
}


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold of a delivery; `until` is what was meant when it was last put back."""

    why: str
    at: datetime
    until: datetime
    times: int


@dataclass(frozen=True, slots=True)
class Note:
    """A move of a due item, or a pause during which it would have happened."""

    what: str
    at: datetime
    values: Row

    def moment(self, name: str) -> datetime:
        return parse_instant(self.values[name])


def holds_of(text: str | None) -> list[Hold]:
    """The holds of a delivery, as the ledger keeps them."""
    return [
        Hold(one["why"], parse_instant(one["at"]), parse_instant(one["until"]), one["times"])
        for one in json.loads(text or "[]")
    ]


def notes_of(row: Row) -> list[Note]:
    """The moves and pauses of a due item, as the queue keeps them."""
    return [Note(one["what"], parse_instant(one["at"]), one) for one in json.loads(row["notes"] or "[]")]


def held_steps(
    holds: Sequence[Hold], later: Sequence[datetime], zone: tzinfo, *, going_on: bool = False
) -> Iterator[Step]:
    """The holds, of which the last one may go on; one was cut short where something came before its end."""
    moments = [*later, *(hold.at for hold in holds)]
    for hold in holds:
        until = min([hold.until, *(at for at in moments if at > hold.at)])
        words = _WERE.get(hold.why, f"It was held until {{until}}: {hold.why}.")
        if going_on and hold is holds[-1]:
            words = _BEGAN.get(hold.why, f"It is held since then: {hold.why}.")
        times = f" It was looked at {hold.times:,} times." if hold.times > 1 else ""
        yield Step(at=hold.at, what="held", text=words.format(until=moment(until, zone)) + times)


def pause_steps(notes: Sequence[Note], zone: tzinfo) -> Iterator[Step]:
    """Pauses that are over and kept it from its moment."""
    for note in notes:
        if note.what == "paused":
            what = "everything" if note.values["kind"] == "*" else note.values["kind"]
            why = f" ({note.values['why']})" if note.values["why"] else ""
            text = f"It stood still until {moment(note.moment('until'), zone)}, for {what} was paused{why}."
            yield Step(at=note.at, what="held", text=text)


def move_steps(notes: Sequence[Note], due_at: datetime, zone: tzinfo) -> Iterator[Step]:
    """Each move: from which promise to which."""
    moves = [note for note in notes if note.what == "moved"]
    promises = [*(note.moment("from") for note in moves), due_at]
    for note, (begin, end) in zip(moves, pairwise(promises), strict=True):
        text = "It was put anew, for the same moment." if begin == end else _moved(begin, end, zone)
        yield Step(at=note.at, what="planned", text=text)


def promised_first(notes: Sequence[Note], due_at: datetime) -> datetime:
    """The moment that was promised before any move."""
    return next((note.moment("from") for note in notes if note.what == "moved"), due_at)


def aside_steps(row: Row, notes: Sequence[Note], told: int = 0) -> Iterator[Step]:
    """How often it was put back untried since its last move, but for so many times that are told already."""
    fence = max((note.values["fence"] for note in notes if note.what == "moved"), default=0)
    count = row["spared"] - fence - told
    if count <= 0:
        return
    error = row["last_error"] or ""
    why = f", the last time for {error}" if is_away(row) else ", for want of a place or on its own wish"
    yield Step(at=row["first_at"], what="held", text=f"It was put back {_times(count)} without a try{why}.")


def is_away(row: Row) -> bool:
    """Whether its last error is of an engine that was away, and of no try."""
    return failed_tries(row) == 0 or (row["last_error"] or "").startswith(AWAY)


def failed_tries(row: Row) -> int:
    """Claims that counted and led to nothing: not the one that runs, nor the one that ended it."""
    open_one = row.get("leased") or row.get("fate") in ("done", "dropped")
    return int(row["attempts"] - row["spared"] - bool(open_one))


def _moved(begin: datetime, end: datetime, zone: tzinfo) -> str:
    return f"It was moved from {moment(begin, zone)} to {moment(end, zone)}."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
