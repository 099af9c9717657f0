"""What a person was told, in words: a line a delivery, and where a chain ended that never reached them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from soonish.delivery.model.ledger import HELD, Entry, line_sentence
from soonish.ops.model.why import Step, What, in_order, moment


def of_line(entry: Entry) -> Step:
    """One delivery; its own page says all about it."""
    one = entry.delivery
    what: What = "ended"
    if one.state == "pending":
        what = "held" if one.reason in HELD else "planned"
    at = one.ended_at or one.next_at or one.due_at
    return Step(at=at, what=what, text=line_sentence(entry), ref=f"/why/delivery/{one.id}")


def of_letter(letter: Mapping[str, Any], name: str) -> Iterator[Step]:
    """A message of which this person heard nothing."""
    title = f"“{letter['title']}”"
    yield Step(at=letter["created_at"], what="planned", text=f"{title} was written.")
    if letter["cancelled_at"]:
        yield Step(at=letter["cancelled_at"], what="ended", text=f"{title} was cancelled.")
    elif letter["told"]:
        at = letter["told_at"] or letter["created_at"]
        yield Step(at=at, what="audience", text=f"{title} was told to others; {name} was not among them.")
    elif letter["told_at"]:
        yield Step(at=letter["told_at"], what="audience", text=f"{title} came due and found nobody to tell.")
    else:
        text = f"{title} is not told yet."
        yield Step(at=letter["send_at"] or letter["created_at"], what="planned", text=text)


def of_coming(letter: Mapping[str, Any]) -> Step:
    """A message that waits for its moment; whom it reaches is settled then."""
    ref = f"/deliveries?cause_prefix=message/{letter['id']}"
    return Step(at=letter["send_at"], what="planned", text=f"“{letter['title']}” will be told.", ref=ref)


def person_sentence(name: str, entries: Sequence[Entry], cut: bool, coming: int, zone: tzinfo) -> str:
    """How much of what there was reached them; `coming` is on no delivery yet."""
    counts = {state: sum(one.delivery.state == state for one in entries) for state in _PARTS}
    counts["pending"] += coming
    if not entries:
        return f"{name} was told nothing yet, and {_coming(coming)}."
    parts = [_PARTS[state].format(_things(count)) for state, count in counts.items() if count]
    since = f"Of the newest {len(entries)}: " if cut else ""
    first = f" The first was written at {moment(entries[-1].delivery.created_at, zone)}."
    return f"{since}{name} {_and(parts)}.{first}"


def end_of_chain(name: str, cause: str, steps: Sequence[Step]) -> str:
    """Why nothing under a cause came to a person."""
    if not steps:
        return f"{name} was not told: nothing on record has a cause that begins with {cause}."
    last = in_order(steps)[-1]
    return f"{name} was not told. The last that is on record: {last.text}"


_PARTS = {
    "sent": "was told {}",
    "failed": "could not be told {}",
    "unknown": "may have been told {}",
    "skipped": "was not told {}, on purpose",
    "pending": "will be told {}",
}


def _coming(count: int) -> str:
    return _PARTS["pending"].format(_things(count)) if count else "nothing is on its way"


def _things(count: int) -> str:
    return "1 thing" if count == 1 else f"{count:,} things"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
