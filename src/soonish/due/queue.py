"""Put, move, cancel and look at due items, inside the caller's transaction.

Knows the tables, nothing of loops or handlers. No function here opens a transaction but `pause` and `resume`, which
take a pool because they work in chunks.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from soonish.db.sql import Statements, load
from soonish.due.model import (
    KEY_LENGTH,
    LANES,
    NO_PAYLOAD,
    PAYLOAD_BYTES,
    SETTLED,
    Again,
    Done,
    Item,
    Kind,
    Lane,
    Put,
    Replanned,
    Settled,
    Written,
    check_kind,
    prefix_end,
    storable,
)
from soonish.errors import LeaseLost

CHUNK = 1_000
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


async def put(
    tx: Any,
    items: Iterable[Put],
    *,
    only_new: bool = False,
    workspace_id: int | None = None,
    schema: str = "due",
) -> Written:
    """Write items; a live (kind, key) moves, or is left alone with `only_new` or when nothing differs.

    In (kind, key) order, so that two puts cannot deadlock; of two wishes for one (kind, key) the later counts.
    """
    latest = {(item.kind, item.key): item for item in items}
    wishes = [latest[name] for name in sorted(latest)]
    new = moved = 0
    for start in range(0, len(wishes), CHUNK):
        chunk = wishes[start : start + CHUNK]
        row = await _sql(schema).put.row(tx, only_new=only_new, workspace_id=workspace_id, **_columns(chunk))
        new, moved = new + row["new"], moved + row["moved"]
    return Written(new, moved, len(wishes) - new - moved)


async def cancel(
    tx: Any,
    kind: str,
    keys: Sequence[str] = (),
    *,
    prefix: str | None = None,
    reason: str = "cancelled",
    schema: str = "due",
) -> int:
    """End live items, leased or not; answers how many there were."""
    span = _span(prefix)
    return await _sql(schema).cancel.run(tx, kind=kind, keys=list(keys), reason=reason, **span)


async def replan(
    tx: Any,
    kind: str,
    prefix: str,
    wanted: Iterable[Put],
    *,
    reason: str = "replanned",
    workspace_id: int | None = None,
    schema: str = "due",
) -> Replanned:
    """Make the live items under the prefix equal to `wanted`; none whose moment is over is put."""
    wishes = {wish.key: wish for wish in wanted}
    if strange := [key for key, wish in wishes.items() if wish.kind != kind or not key.startswith(prefix)]:
        raise ValueError(f"{strange[0]!r} is not under {kind} {prefix!r}")
    if timeless := [key for key, wish in wishes.items() if wish.at is None]:
        raise ValueError(f"{timeless[0]!r} has no moment; a plan needs one for each key")
    moments = [wish.at for wish in wishes.values()]
    row = await _sql(schema).surplus.row(tx, kind=kind, keys=list(wishes), ats=moments, reason=reason, **_span(prefix))
    over = set(row["passed"]) | set(row["running"])
    ahead = [wish for key, wish in wishes.items() if key not in over]
    written = await put(tx, ahead, workspace_id=workspace_id, schema=schema)
    return Replanned(written._replace(same=written.same + len(row["running"])), row["cancelled"], sorted(row["passed"]))


async def done_in(tx: Any, item: Item, *, schema: str = "due") -> Done:
    """Finish the item inside the handler's own transaction; a lost lease rolls that transaction back."""
    if not await _sql(schema).done_in.run(tx, id=item.id, fence=item.attempts):
        raise LeaseLost(f"due item {item.id} went to somebody else")
    return SETTLED


async def again_in(
    tx: Any,
    item: Item,
    fate: Again,
    *,
    kind: Kind | None = None,
    payload: Mapping[str, Any] | None = None,
    schema: str = "due",
) -> Done:
    """Put the item back inside the handler's own transaction, with a new payload if it keeps its place there.

    With an error it was a try, and its `kind` must be named: a spent budget ends it, dead, else it waits as ever.
    """
    sql, mine = _sql(schema), {"id": item.id, "fence": item.attempts}
    error = None if fate.error is None else storable(fate.error)
    if error is not None and kind is None:
        raise ValueError("an error counts against a budget: name the kind of the item")
    if error is not None and kind and kind.spent(item.tries):
        row = await sql.dead_in.row(tx, **mine, error=error)
    else:
        text = None if payload is None else _text(payload)
        wait = _wait_in(item, fate, kind)
        row = await sql.again_in.row(
            tx, **mine, at=fate.at, wait=wait, spared=0 if error else 1, error=error, payload=text
        )
    if row is None:
        raise LeaseLost(f"due item {item.id} went to somebody else")
    return SETTLED


def _wait_in(item: Item, fate: Again, kind: Kind | None) -> float:
    if fate.after is None and fate.at is None and fate.error is not None and kind:
        return kind.wait(item.tries)
    return seconds(fate.after or 0)


async def settle(tx: Any, fates: Sequence[Settled], *, schema: str = "due") -> set[int]:
    """Write the fates of many items inside their handlers' common transaction; answers the ids of those that were lost.

    Whoever settled answers SETTLED. What the transaction writes for a lost one beside must not stay.
    """
    done = [fate.item for fate in fates if fate.fate == "done"]
    rest = [fate for fate in fates if fate.fate != "done"]
    row = await _sql(schema).settle.row(
        tx,
        done_ids=[item.id for item in done],
        done_fences=[item.attempts for item in done],
        rest_ids=[fate.item.id for fate in rest],
        rest_fences=[fate.item.attempts for fate in rest],
        rest_ats=[fate.at for fate in rest],
        rest_waits=[fate.after for fate in rest],
        rest_errors=[None if fate.error is None else storable(fate.error) for fate in rest],
        rest_dead=[fate.fate == "dead" for fate in rest],
        rest_reasons=[fate.reason for fate in rest],
        rest_payloads=[None if fate.payload is None else _text(fate.payload) for fate in rest],
    )
    return {fate.item.id for fate in fates} - set(row["written"])


async def peek(
    tx: Any,
    *,
    kind: str | None = None,
    prefix: str | None = None,
    lane: Lane | None = None,
    state: str | None = None,
    before: datetime | None = None,
    after: tuple[datetime, int] | None = None,
    limit: int = 50,
    schema: str = "due",
) -> list[Any]:
    """Live items, soonest first. States: waiting, retrying, overdue, leased, paused."""
    lanes = [lane, lane + 10] if lane is not None else [0, 1, 2, 10, 11, 12]
    at, after_id = after or (None, -1)
    return await _sql(schema).peek.rows(
        tx, lanes=lanes, kind=kind, state=state, before=before, after_at=at, after_id=after_id, k=limit, **_span(prefix)
    )


async def find(tx: Any, due_id: int, *, schema: str = "due") -> Any:
    """The live item of that id, or None."""
    return await _sql(schema).find.row(tx, id=due_id)


async def leased(tx: Any, kind: str, keys: Sequence[str], *, schema: str = "due") -> set[str]:
    """Which of these live items somebody is working on."""
    return {row["key"] for row in await _sql(schema).leased.rows(tx, kind=kind, keys=list(keys))}


async def pull(tx: Any, due_id: int, *, schema: str = "due") -> bool:
    """Look at a waiting item now; False where it is gone or being worked on."""
    return await _sql(schema).pull.row(tx, id=due_id) is not None


async def pull_keys(tx: Any, kind: str, keys: Sequence[str], *, schema: str = "due") -> int:
    """Look at these waiting items now; answers how many."""
    return await _sql(schema).pull_keys.value(tx, kind=kind, keys=list(keys)) or 0


async def put_off(tx: Any, kind: str, waits: Mapping[str, float], *, schema: str = "due") -> int:
    """Look at these waiting items later, each by its own seconds; their promise stays. Answers how many."""
    return await _sql(schema).put_off.run(tx, kind=kind, keys=list(waits), waits=list(waits.values()))


async def cancel_id(tx: Any, due_id: int, *, force: bool = False, reason: str, schema: str = "due") -> bool:
    """End one live item; one that is being worked on only by force."""
    return bool(await _sql(schema).cancel_ids.run(tx, ids=[due_id], force=force, reason=reason))


async def past(
    tx: Any,
    *,
    kind: str | None = None,
    prefix: str | None = None,
    fate: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[datetime, int] | None = None,
    revived: bool = True,
    limit: int = 50,
    schema: str = "due",
) -> list[Any]:
    """What became of items, newest first; without `revived` only those dead that were not retried."""
    at, after_id = after or (None, 2**63 - 1)
    statement = _sql(schema).history if fate in (None, "done") else _sql(schema).undone
    return await statement.rows(
        tx,
        kind=kind,
        fate=fate,
        since=since,
        until=until,
        after_at=at,
        after_id=after_id,
        revived=revived,
        k=limit,
        **_span(prefix),
    )


async def dead(tx: Any, *, kind: str | None = None, limit: int = 50, schema: str = "due") -> list[Any]:
    """Items whose budget is spent and that were not retried, newest first."""
    return await past(tx, kind=kind, fate="dead", revived=False, limit=limit, schema=schema)


async def retry(
    tx: Any,
    ids: Sequence[int] | None = None,
    *,
    kind: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    kinds: Mapping[str, Kind] | None = None,
    limit: int = 10_000,
    schema: str = "due",
) -> tuple[int, int]:
    """Let dead items live again with a new budget; answers how many did, and how many were superseded by a live one."""
    if ids is None and kind is None:
        raise ValueError("name the dead items by id or by kind")
    rows = await _sql(schema).revive.rows(
        tx, ids=None if ids is None else list(ids), kind=kind, since=since, until=until, k=limit
    )
    risen = [row for row in rows if row["kind"] is not None]
    for name, declared in (kinds or {}).items():
        if declared.on_revive and (mine := [row for row in risen if row["kind"] == name]):
            await declared.on_revive(tx, mine)
    return len(risen), rows[0]["found"] - len(risen)


async def pause(pool: Any, kind: str, *, workspace_id: int = 0, reason: str | None = None, schema: str = "due") -> int:
    """Park a kind's items (`*` = all) where they cost no claim anything; answers how many were parked now.

    Items put meanwhile, or being worked on, are parked when they are put or claimed next.
    """
    sql = _sql(schema)
    await sql.pause.value(pool, workspace_id=workspace_id, kind=kind, reason=reason)
    parked = 0
    while count := await sql.park.run(pool, workspace_id=workspace_id, kind=kind, k=10_000):
        parked += count
    return parked


async def resume(pool: Any, kind: str, *, workspace_id: int = 0, schema: str = "due") -> int:
    """Bring parked items back into their lanes; answers how many. A crash in between is made good by the next loop."""
    await _sql(schema).resume.value(pool, workspace_id=workspace_id, kind=kind)
    return await go_on_resuming(pool, schema=schema)


async def go_on_resuming(pool: Any, *, schema: str = "due") -> int:
    """Finish every resume that somebody began."""
    sql, freed = _sql(schema), 0
    for row in await sql.resuming.rows(pool):
        mine = {"workspace_id": row["workspace_id"], "kind": row["kind"]}
        while count := await sql.unpark.value(pool, k=10_000, **mine):
            freed += count
        await sql.resumed.run(pool, **mine)
    return freed


async def pauses(tx: Any, *, schema: str = "due") -> list[Any]:
    """What is paused now."""
    return await _sql(schema).pauses.rows(tx)


async def overdue(tx: Any, *, schema: str = "due") -> list[Any]:
    """By lane: how many items are overdue (100,000 at most), the oldest and the newest promise among them."""
    return await _sql(schema).overdue.rows(tx)


async def lanes(tx: Any, *, schema: str = "due") -> list[Any]:
    """By lane: overdue, running, and the age of the oldest overdue item."""
    return await _sql(schema).lanes.rows(tx)


async def unknown(tx: Any, kinds: Iterable[str], *, schema: str = "due") -> dict[str, int]:
    """Due items of kinds that are not among these, counted to 10,000."""
    return {row["kind"]: row["count"] for row in await _sql(schema).unknown.rows(tx, kinds=sorted(kinds))}


def seconds(span: float | timedelta) -> float:
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


def _sql(schema: str) -> Statements:
    return load(__file__, schema)


def _span(prefix: str | None) -> dict[str, Any]:
    return {"first": prefix, "past": None if prefix is None else prefix_end(prefix)}


def _columns(wishes: Sequence[Put]) -> dict[str, Any]:
    """The arguments of the put statement: a value where all are the same, an array where they differ."""
    kinds, keys, ats, payloads, lanes_, expiries = zip(*wishes, strict=True)
    for kind in set(kinds):
        check_kind(kind)
    if not all(1 <= len(key) <= KEY_LENGTH and "\x00" not in key for key in keys):
        raise ValueError(f"a key has 1 to {KEY_LENGTH} characters, none of them NUL")
    "".join(keys).encode()  # raises where one holds half a character
    if not all(at is None or at.tzinfo for at in (*ats, *expiries)):
        raise ValueError("an instant needs its offset; the clock of this machine must not decide")
    columns: dict[str, Any] = {"keys": keys}
    columns |= _either("kind", "kinds", kinds)
    columns |= _either("lane", "lanes", [_lane(kind, lane) for kind, lane in zip(kinds, lanes_, strict=True)])
    columns |= _either("due_at", "due_ats", ats)
    columns |= _either("payload", "payloads", [_text(payload) for payload in payloads])
    return columns | _either("expires_at", "expires_ats", expiries)


def _either(one: str, many: str, values: Sequence[Any]) -> dict[str, Any]:
    # Not by ==: two instants of one zone that differ in `fold` alone are equal, and an hour apart.
    first = values[0]
    if all(value is first for value in values):
        return {one: first, many: ()}
    return {one: None, many: values}


def _lane(kind: str, lane: Lane | None) -> int:
    return LANES.get(kind, Lane.CONTROL) if lane is None else lane


def _text(payload: Mapping[str, Any]) -> str:
    if payload is NO_PAYLOAD:
        return "{}"
    text = _encode(payload)
    if (len(text) if text.isascii() else len(text.encode())) > PAYLOAD_BYTES:
        raise ValueError(f"a payload has at most {PAYLOAD_BYTES} bytes; keep ids in it, and rows elsewhere")
    if "\\u0000" in text and _NUL.search(text):
        raise ValueError("a payload holds no NUL, which the table cannot keep")
    return text
