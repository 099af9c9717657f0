"""Reminders by either engine: each its own, at its moment, once; whatever moves, leaves or stops meanwhile."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from soonish.clock import parse_instant
from soonish.events.model.signals import schedule_id
from tests.support.due import until
from tests.support.lives import Lives, another, lives
from tests.support.parties import Parties
from tests.support.temporal import Server

ENGINES = ("due", "temporal")


@pytest.fixture(params=ENGINES)
async def life(request: Any, database_url: str, tmp_path: Path, temporal: Server) -> AsyncIterator[Lives]:
    """The product at work with each of the engines."""
    async with lives(database_url, tmp_path, temporal, reminder_engine=request.param) as found:
        yield found


def parties_of(life: Lives) -> Parties:
    return Parties(life.product, life.house)


async def reminders(life: Lives, event: dict[str, Any]) -> list[tuple[int, int, str | None]]:
    """Who is on record for which offset, and why not told, in the order of the ledger."""
    rows = await life.house.rows(
        """SELECT d.person_id, split_part(d.cause, '/', 4)::int AS lead, d.reason FROM delivery d
           WHERE d.cause LIKE $1 ORDER BY d.id""",
        f"event/{event['id']}/reminder/%",
    )
    return [tuple(row) for row in rows]


async def told(life: Lives, event: dict[str, Any], count: int) -> list[tuple[int, int, str | None]]:
    """The same, as soon as there are so many."""

    async def enough() -> list[Any] | None:
        found = await reminders(life, event)
        return found if len(found) >= count else None

    found: list[tuple[int, int, str | None]] = await until(enough, 40)
    return found


async def clock_at(life: Lives, at: datetime) -> None:
    await until(lambda: life.value("SELECT clock_timestamp() >= $1", at), 60)


async def schedules(life: Lives, event: dict[str, Any]) -> list[tuple[int, int]]:
    """Which subscriptions have which schedules on the server."""
    rows = await life.house.rows("SELECT subscription_id, offset_seconds FROM reminder_schedule ORDER BY 1, 2 DESC")
    assert life.process.engine
    engine = life.process.engine
    return [tuple(row) for row in rows if await engine.is_planned(schedule_id(event["id"], *row))]


async def test_each_gets_their_own_at_its_moment_and_who_left_gets_nothing(life: Lives) -> None:
    parties = parties_of(life)
    ann, ben, cid, dan, eve = [await parties.guest(name) for name in ("Ann", "Ben", "Cid", "Dan", "Eve")]
    event = await parties.event(3_600, reminder_offsets=[3], timezone="America/New_York")
    subscriptions = [
        await parties.subscribe(event, person, **({} if wish is None else {"reminder_offsets": wish}))
        for person, wish in ((ann, [4]), (ben, [2]), (cid, []), (dan, None), (eve, [4]))
    ]
    by_temporal = event["reminder_engine"] == "temporal"
    await life.all_handled(event["id"])
    if by_temporal:
        wanted = [(one["id"], lead) for one, lead in zip(subscriptions, (4, 2, None, 3, 4), strict=True) if lead]
        assert await schedules(life, event) == sorted(wanted)
    left = subscriptions[-1]["id"]
    await parties.api.delete(f"/v1/events/{event['id']}/subscriptions/{left}")
    await life.all_handled(event["id"])
    if by_temporal:
        assert life.process.engine
        assert not await life.process.engine.is_planned(schedule_id(event["id"], left, 4))

    start = await parties.at(9)
    elsewhere = parse_instant(start).astimezone(timezone(timedelta(hours=-5))).isoformat()
    assert (await parties.change(event, start_date=elsewhere, notify=False)).status == 200
    assert await told(life, event, 3) == [(ann, 4, None), (dan, 3, None), (ben, 2, None)]
    await clock_at(life, parse_instant(start) + timedelta(seconds=1))
    assert len(await reminders(life, event)) == 3
    early = await life.value(
        "SELECT count(*) FROM delivery WHERE cause LIKE 'event/%/reminder/%' AND created_at < due_at"
    )
    assert early == 0
    assert [fact["offset_seconds"] for fact in await parties.facts("event.reminder_due")] == [4, 3, 2]
    rows = await life.house.rows("SELECT level, hold, expires_at FROM message WHERE cause LIKE 'event/%/reminder/%'")
    assert {tuple(row) for row in rows} == {("warning", "quiet", parse_instant(start))}

    await parties.api.post(f"/v1/events/{event['id']}/cancel", {"notify": False})
    assert await life.result(event["id"]) == "cancelled"
    assert await life.value("SELECT count(*) FROM reminder_schedule") == 0
    for one in subscriptions if by_temporal else ():
        assert life.process.engine
        for lead in (2, 3, 4):
            assert not await life.process.engine.is_planned(schedule_id(event["id"], one["id"], lead))


async def test_a_moved_event_reminds_once_for_its_last_start_and_never_of_a_moment_that_was_past(life: Lives) -> None:
    parties = parties_of(life)
    ann = await parties.guest("Ann")
    later, sooner, past = [await parties.event(start, reminder_offsets=[5]) for start in (40, 3_600, 3_600)]
    kept = [await parties.subscribe(event, ann) for event in (later, sooner, past)]
    for event in (later, sooner, past):
        await life.all_handled(event["id"])
    await parties.change(later, start_date=await parties.at(4_000), notify=False)
    await parties.change(past, start_date=await parties.at(3), notify=False)
    start = await parties.at(9)
    await parties.change(sooner, start_date=start, notify=False)
    assert await told(life, sooner, 1) == [(ann, 5, None)]
    await clock_at(life, parse_instant(start))
    assert await reminders(life, sooner) == [(ann, 5, None)]
    assert await reminders(life, later) == await reminders(life, past) == []
    assert await parties.reminders(past, kept[2]) == {5: ("past", None)}
    assert await parties.reminders(later, kept[0]) == {5: ("planned", None)}


async def test_what_became_due_while_nobody_worked_is_told_as_the_nearest_alone_or_not_at_all(
    database_url: str, tmp_path: Path, temporal: Server, reminder_engine: str
) -> None:
    settings = {"reminder_engine": reminder_engine, "events_merge_after": "1s"}
    async with lives(database_url, tmp_path, temporal, "serve", **settings) as life:
        parties = parties_of(life)
        ann = await parties.guest("Ann")
        async with another(life):
            near, begun = [await parties.event(start, reminder_offsets=[1_000]) for start in (3_600, 3_600)]
            kept = [await parties.subscribe(event, ann) for event in (near, begun)]
            for event in (near, begun):
                await life.all_handled(event["id"])
            await parties.change(near, start_date=await parties.at(64), reminder_offsets=[60, 59], notify=False)
            started = await parties.at(6)
            await parties.change(begun, start_date=started, reminder_offsets=[2], notify=False)
            for event in (near, begun):
                await life.all_handled(event["id"])
        await clock_at(life, parse_instant(started) + timedelta(seconds=1))
        await clock_at(
            life, await life.value("SELECT start_date - interval '57 s' FROM event WHERE id = $1", near["id"])
        )
        async with another(life):
            assert sorted(await told(life, near, 2), key=lambda one: -one[1]) == [(ann, 60, "merged"), (ann, 59, None)]
            await parties.api.post(f"/v1/events/{begun['id']}/cancel", {"notify": False})
            await life.until("SELECT closed_at FROM event WHERE id = $1", begun["id"])
            assert await reminders(life, begun) == []
        assert await parties.reminders(near, kept[0]) == {60: ("skipped", "merged"), 59: ("sent", None)}


@pytest.fixture(params=ENGINES)
def reminder_engine(request: Any) -> str:
    return str(request.param)


async def test_a_worker_with_the_other_engine_plans_anew_and_each_reminder_comes_once(
    database_url: str, tmp_path: Path, temporal: Server
) -> None:
    async with lives(database_url, tmp_path, temporal, "serve") as life:
        parties = parties_of(life)
        ann = await parties.guest("Ann")
        event = await parties.event(3_600, reminder_offsets=[4, 2])
        await parties.subscribe(event, ann)
        planned = "SELECT count(*) FROM due.due WHERE kind = 'events.reminder'"
        kept = "SELECT count(*) FROM reminder_schedule"
        async with another(life):
            await life.all_handled(event["id"])
        assert (await life.value(planned), await life.value(kept)) == (2, 0)
        async with another(life, reminder_engine="temporal"):
            await life.until(f"SELECT ({planned}) = 0 AND ({kept}) = 2")
        assert await life.value("SELECT reminder_engine FROM event") == "temporal"
        async with another(life, reminder_engine="due"):
            await life.until(f"SELECT ({planned}) = 2 AND ({kept}) = 0")
            await parties.change(event, start_date=await parties.at(8), notify=False)
            assert await told(life, event, 2) == [(ann, 4, None), (ann, 2, None)]
