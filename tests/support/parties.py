"""Words for tests of events over HTTP: make one, subscribe people, let time pass, work what is due, see who was told.

No workflow engine runs here: what is told at once is told by the action that its activity calls.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from soonish.clock import show_instant
from soonish.due import drain
from soonish.events.actions.handed import Events
from soonish.events.actions.telling import tell_page
from soonish.events.model.times import next_whole
from tests.support.http import Answer, Client
from tests.support.site import House, Site
from tests.support.telling import address, person

KINDS: Final = (
    "events.reminder", "events.snooze", "events.announce", "events.live", "events.replan", "delivery.send",
    "delivery.withdraw",
)  # fmt: skip
MOMENTS: Final = {
    "event": ("start_date", "end_date", "effective_end_date", "planned_at", "published_at"),
    "subscription": ("asked_at", "activated_at"),
    "snooze": ("at",),
    "message": ("send_at", "expires_at"),
    "broadcast": ("send_at", "first_change_at"),
    "delivery": ("due_at", "next_at", "expires_at"),
    "due.due": ("due_at", "wake_at", "expires_at"),
}


@dataclass
class Parties:
    """The product of a site, asked with the key of one workspace that may write."""

    site: Site
    house: House
    names: dict[int, str] = field(default_factory=dict)

    @property
    def api(self) -> Client:
        return self.house.write

    @property
    def events(self) -> Events:
        assert self.site.process
        return self.site.process.events

    async def now(self) -> datetime:
        [row] = await self.house.rows("SELECT now() AS now")
        return row["now"]  # type: ignore[no-any-return]

    async def at(self, seconds: float) -> str:
        """The whole second that lies so far ahead."""
        return show_instant(next_whole(await self.now()) + timedelta(seconds=seconds))

    async def guest(self, name: str, **more: Any) -> int:
        """Somebody with a console address."""
        person_id = await person(self.house, name)
        await address(self.house, person_id, **more)
        self.names[person_id] = name
        return person_id

    async def event(self, start: float = 3_000, end: float | None = None, **more: Any) -> dict[str, Any]:
        """An event that starts and ends in so many seconds; left alone, it is too near for its usual reminders."""
        times = {"start_date": await self.at(start), "end_date": None if end is None else await self.at(end)}
        answer = await self.api.post("/v1/events", {"name": "Party", **times, **more})
        assert answer.status == 201, answer.body
        return answer.json  # type: ignore[no-any-return]

    async def subscribe(self, event: dict[str, Any], person_id: int, **more: Any) -> dict[str, Any]:
        body = {"person_id": person_id, "welcome": False, **more}
        answer = await self.api.post(f"/v1/events/{event['id']}/subscriptions", body)
        assert answer.status == 201, answer.body
        return answer.json  # type: ignore[no-any-return]

    async def change(self, event: dict[str, Any], **more: Any) -> Answer:
        return await self.api.patch(f"/v1/events/{event['id']}", more)

    async def later(self, seconds: float) -> None:
        """So much time passes for all that is planned, and what is due by then is worked."""
        await self.pass_time(seconds)
        await self.work()

    async def pass_time(self, seconds: float) -> None:
        span = timedelta(seconds=seconds)
        for table, columns in MOMENTS.items():
            shifted = ", ".join(f"{name} = {name} - $1::interval" for name in columns)
            await self.house.run(f"UPDATE {table} SET {shifted}", span)
        await self.house.run(
            """UPDATE due.due SET payload = jsonb_set(payload, '{start_date}', to_jsonb(to_char(
                 (payload ->> 'start_date')::timestamptz AT TIME ZONE 'UTC' - $1::interval,
                 'YYYY-MM-DD"T"HH24:MI:SS"Z"')))
               WHERE payload ? 'start_date'""",
            span,
        )
        for table in ("delivery", "message", "fact"):  # the causes of reminders tell the start
            await self.house.run(
                f"""UPDATE {table} SET cause = '~' || regexp_replace(cause, '[0-9]+$',
                      (substring(cause FROM '[0-9]+$')::bigint - extract(epoch FROM $1::interval)::bigint)::text)
                    WHERE cause ~ '^event([.]fact)?/[0-9]+/reminder(_due)?/'""",
                span,
            )
            await self.house.run(f"UPDATE {table} SET cause = substr(cause, 2) WHERE cause LIKE '~%'")

    async def work(self, *kinds: str) -> None:
        assert self.site.process
        every = self.site.process.kinds
        await drain(self.house.db.loops, [every[name] for name in kinds or KINDS])

    async def tell(self) -> None:
        """Tell what is queued, in its order, as the workflow would."""
        rows = await self.house.rows(
            "SELECT event_id, id FROM broadcast WHERE state IN ('queued', 'telling') ORDER BY id"
        )
        for row in rows:
            over = False
            while not over:
                async with self.house.db.transaction(self.house.id) as tx:
                    over = await tell_page(tx, self.events, row["event_id"], row["id"], None)
        await self.work()

    async def told(self) -> list[tuple[str, str]]:
        """Who was told what, by the ledger: name and title of all that was sent."""
        rows = await self.house.rows(
            """SELECT d.person_id, m.title FROM delivery d JOIN message m ON m.id = d.message_id
               WHERE d.state = 'sent' ORDER BY d.id"""
        )
        return [(self.names[row["person_id"]], row["title"]) for row in rows]

    async def bodies(self) -> list[str]:
        return [row["body"] for row in await self.house.rows("SELECT body FROM message ORDER BY id")]

    async def items(self, kind: str = "events.reminder") -> list[str]:
        """The keys of its live items."""
        rows = await self.house.rows("SELECT key FROM due.due WHERE kind = $1 ORDER BY due_at, key", kind)
        return [row["key"] for row in rows]

    async def ends(self, kind: str = "events.reminder") -> list[tuple[str, str, str | None]]:
        """What became of its items."""
        rows = await self.house.rows(
            "SELECT key, fate, reason FROM due.due_history WHERE kind = $1 ORDER BY finished_at, id", kind
        )
        return [(row["key"], row["fate"], row["reason"]) for row in rows]

    async def facts(self, kind: str) -> list[dict[str, Any]]:
        answer = await self.house.read.get(f"/v1/facts?type={kind}")
        return [one["data"] for one in reversed(answer.json["items"])]

    async def signals(self, event: dict[str, Any]) -> list[str]:
        rows = await self.house.rows("SELECT name FROM event_signal WHERE event_id = $1 ORDER BY id", event["id"])
        return [row["name"] for row in rows]

    async def reminders(self, event: dict[str, Any], subscription: dict[str, Any]) -> dict[int, tuple[str, str | None]]:
        """The state and reason of each reminder of a subscription."""
        shown = (await self.api.get(f"/v1/events/{event['id']}/subscriptions/{subscription['id']}")).json
        return {one["offset_seconds"]: (one["state"], one["reason"]) for one in shown["reminders"]}
