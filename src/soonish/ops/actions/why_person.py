"""Why a person was told what they were told, and not the rest: from the ledger, newest last.

With a prefix of a cause it answers why they did not hear of that: by the row that was skipped, or by the step at which
the chain ended.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from soonish import clock
from soonish.db.pool import Database, Tx
from soonish.delivery.actions import ledger
from soonish.delivery.model.ledger import Entry, Wanted
from soonish.errors import NotFound
from soonish.ops.actions.handed import Ops
from soonish.ops.actions.why import asked_steps, entity_of, lines_of, story_of
from soonish.ops.model.why import About, Step, Why, in_order
from soonish.ops.model.why_person import end_of_chain, of_coming, of_letter, of_line, person_sentence
from soonish.web.auth import Caller

MOST: Final = 200  # deliveries


async def why_person(
    db: Database,
    ops: Ops,
    caller: Caller,
    person_id: int,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    cause_prefix: str | None = None,
) -> Why:
    """What was told, what was not and why, and what is due next."""
    wanted = Wanted(person_id=person_id, since=since, until=until, cause_prefix=cause_prefix)
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        known, name = await ledger.name_of(tx, person_id)
        entries = await _entries(tx, wanted)
        if not known and not entries:
            raise NotFound(f"There is no person {person_id} here")
        ahead = [of_coming(one) for one in await ledger.letters_ahead(tx, person_id) if _fits(one, cause_prefix)]
        ahead += [step for tell in ops.ahead for step in await tell(tx, person_id, since, until)]
        chain = await _chain(tx, ops, name, cause_prefix, person_id) if cause_prefix and not entries else []
    if cause_prefix and not entries:
        chain = in_order([*chain, *asked_steps(await lines_of(db, caller, [entity_of(cause_prefix)]))])
        return Why(sentence=end_of_chain(name, cause_prefix, chain), steps=in_order([*chain, *ahead]))
    sentence = person_sentence(name, entries, len(entries) == MOST, len(ahead), clock.zone(caller.timezone))
    return Why(sentence=sentence, steps=in_order([*map(of_line, entries), *ahead]))


def _fits(letter: Mapping[str, Any], cause_prefix: str | None) -> bool:
    return cause_prefix is None or f"message/{letter['id']}".startswith(cause_prefix)


async def _entries(tx: Tx, wanted: Wanted) -> Sequence[Entry]:
    """The newest that fit; each look is bounded, and of one person there are not many looks."""
    found: list[Entry] = []
    before: int | None = None
    while True:
        part = await ledger.list_in(tx, wanted, before=before, limit=MOST - len(found))
        found += part.entries
        before = part.before
        if before is None or len(found) == MOST:
            return found


async def _chain(tx: Tx, ops: Ops, name: str, prefix: str, person_id: int) -> list[Step]:
    """What happened under a cause of which a person heard nothing."""
    letters: Sequence[Mapping[str, Any]] = await ledger.letters_of(tx, prefix)
    story = await story_of(tx, ops, About(name=prefix, person_id=person_id))
    return [*story.steps, *(step for letter in letters for step in of_letter(letter, name))]
