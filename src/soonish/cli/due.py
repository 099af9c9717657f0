"""`soonish due`: what will happen, what died, and what is paused. Speaks HTTP only."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from soonish.cli import show
from soonish.cli.server import server
from soonish.client import Soonish
from soonish.errors import NotFound

EVERY = 1.0  # seconds between two looks of `watch`
LIVE = ("in", "due_at", "lane", "kind", "key", "tries", "last error")
ENDED = ("finished", "due_at", "fate", "kind", "key", "id", "reason", "last error")
_WAITS = {"leased": "now", "paused": "paused"}
NOTHING = "Nothing is due. What you plan will stand here: an event, a reminder, a message with a time."


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which items: those that live, or with `fate` those that ended."""

    kind: str | None = None
    lane: str | None = None
    state: str | None = None
    ended: bool = False
    fate: str | None = None
    system: bool = False
    limit: int = 50

    @property
    def columns(self) -> Sequence[str]:
        return ENDED if self.ended else LIVE

    async def fetch(self, soonish: Soonish) -> list[dict[str, Any]]:
        """At most `limit` items, in pages of 200."""
        path, query = self._query()
        items: list[dict[str, Any]] = []
        async for item in soonish.list(path, **query, limit=min(self.limit, 200)):
            items.append(item)
            if len(items) == self.limit:
                break
        return items

    def row(self, item: Mapping[str, Any]) -> Sequence[str]:
        return ended_row(item) if self.ended else live_row(item)

    def _query(self) -> tuple[str, dict[str, Any]]:
        query = {"kind": self.kind, "system": self.system or None}
        if self.ended:
            return "/v1/ops/past", query | {"fate": self.fate}
        return "/v1/ops/due", query | {"lane": self.lane, "state": self.state}


async def table(wanted: Wanted, *, as_json: bool) -> None:
    async with server() as soonish:
        items = await wanted.fetch(soonish)
    if as_json:
        show.as_json(items)
    elif items:
        show.table(wanted.columns, map(wanted.row, items))
    else:
        show.say("Nothing of this ended." if wanted.ended else NOTHING)


async def watch(wanted: Wanted) -> None:
    """Look every second until Ctrl-C: one table that changes on a terminal, one table a change in a pipe."""
    async with server() as soonish:
        if show.on_terminal():
            await _watch_on_terminal(soonish, wanted)
        shown = None
        while True:
            items = await wanted.fetch(soonish)
            if items != shown:
                show.table(wanted.columns, map(wanted.row, items))
            shown = items
            await asyncio.sleep(EVERY)


async def retry(ids: Sequence[int]) -> None:
    async with server() as soonish:
        answer = await soonish.post("/v1/ops/dead/retry", {"ids": list(ids)})
    show.line("revived", str(answer["revived"]))
    show.line("superseded", str(answer["superseded"]))
    if not any(answer.values()):
        raise NotFound("None of these is dead; see `soonish due --dead`")


async def pause(kind: str, reason: str | None, *, everywhere: bool) -> None:
    async with server() as soonish:
        await soonish.post("/v1/ops/pauses", {"kind": kind, "reason": reason, "everywhere": everywhere})
    show.line("paused", kind)


async def resume(kind: str) -> None:
    """End every pause of this kind, also one that holds everywhere, as after a restore."""
    async with server() as soonish:
        paused = await soonish.get("/v1/ops/pauses")
        places = [pause["everywhere"] for pause in paused["items"] if pause["kind"] == kind]
        if not places:
            raise NotFound(f"{kind} is not paused; paused are: {_named(paused['items'])}")
        for everywhere in places:
            await soonish.delete(f"/v1/ops/pauses/{kind}", everywhere=everywhere)
    show.line("resumed", kind)


def _named(pauses: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({pause["kind"] for pause in pauses})) or "none"


async def _watch_on_terminal(soonish: Soonish, wanted: Wanted) -> None:
    from rich.live import Live

    with Live(auto_refresh=False, screen=True) as live:
        while True:
            items = await wanted.fetch(soonish)
            rows = [[show.clean(cell) for cell in wanted.row(item)] for item in items]
            live.update(show.rich_table(wanted.columns, rows) if rows else NOTHING, refresh=True)
            await asyncio.sleep(EVERY)


def live_row(item: Mapping[str, Any]) -> Sequence[str]:
    wait = _WAITS.get(item["state"]) or in_words(item["wait_s"])
    error = item["last_error"] or ""
    return wait, item["due_at"], item["lane"], item["kind"], item["key"], str(item["tries"]), error


def ended_row(item: Mapping[str, Any]) -> Sequence[str]:
    head = item["finished_at"], item["due_at"], item["fate"], item["kind"], item["key"], str(item["id"])
    return *head, item["reason"] or "", item["last_error"] or ""


def in_words(seconds: float) -> str:
    """`12 s`, `3 min`, `2 h 05 min`, `4 d 3 h`; overdue ones with a minus."""
    sign, whole = ("-" if seconds <= -0.5 else ""), abs(round(seconds))
    if whole < 120:
        return f"{sign}{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if hours == 0:
        return f"{sign}{minutes} min"
    return f"{sign}{hours} h {minutes % 60:02} min" if days < 2 else f"{sign}{days} d {hours % 24} h"
