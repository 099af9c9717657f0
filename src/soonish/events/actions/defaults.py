"""What holds for the events of a workspace: read, held while events are written, changed.

A changed default is carried to the events that inherit it by an item that is due now.
"""

from collections.abc import Mapping
from typing import Any

from soonish.access.actions.audit import record
from soonish.db.pool import Database, Tx
from soonish.due import Put, put
from soonish.events.actions.handed import Events
from soonish.events.actions.rows import SQL
from soonish.events.model.defaults import UNSAID, Defaults, EventDefaults, defaults_of, holding
from soonish.events.model.items import REPLAN
from soonish.events.model.terms import Terms
from soonish.people.actions.people import Match
from soonish.web.auth import Caller


async def defaults_in(tx: Tx, terms: Terms) -> Defaults:
    """What holds now."""
    row = await SQL.defaults.row(tx)
    return holding(None if row is None else defaults_of(row), terms)


async def hold_defaults(tx: Tx, terms: Terms) -> Defaults:
    """The same, and it stays so until this transaction ends: before any lock of an event."""
    row = await SQL.defaults_for_share.row(tx)
    if row is None:
        await SQL.begin_defaults.run(tx)
        row = await SQL.defaults_for_share.row(tx)
    return holding(defaults_of(row), terms)


async def show_defaults(db: Database, caller: Caller) -> EventDefaults:
    """What the workspace decided."""
    async with db.transaction(caller.workspace_id, readonly=True) as tx:
        row = await SQL.defaults.row(tx)
    return UNSAID if row is None else defaults_of(row)


async def change_defaults(
    tx: Tx, events: Events, caller: Caller, wish: Mapping[str, Any], if_match: Match
) -> EventDefaults:
    """Change what the wish names; null = as the operator decided."""
    await SQL.begin_defaults.run(tx)
    before = defaults_of(await SQL.defaults_for_update.row(tx))
    if_match.check(before.version)
    if all(getattr(before, name) == value for name, value in wish.items()):
        return before
    names = ("reminder_offsets", "default_duration_s", "coalesce_s")
    row = await SQL.change_defaults.row(tx, **{name: wish.get(name, getattr(before, name)) for name in names})
    after = defaults_of(row)
    if holding(before, events.terms).reminder_offsets != holding(after, events.terms).reminder_offsets:
        await put(tx, [Put(REPLAN, str(caller.workspace_id), payload={"default": True})])
    await record(tx, caller, "change", "event_defaults", {"fields": sorted(wish)})
    return after
