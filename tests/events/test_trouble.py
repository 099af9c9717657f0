"""What fails in a life: it waits for its round, lets the cancellation and the end pass, and is done in the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from soonish import failpoints
from soonish.errors import Unavailable
from soonish.events.actions import telling
from soonish.events.activities.reminders import Reminders
from soonish.events.activities.within import Within
from soonish.events.model.signals import schedule_id
from soonish.temporal.plans import Once
from tests.support.due import until
from tests.support.lives import Lives, lives
from tests.support.parties import Parties
from tests.support.temporal import Server


@contextmanager
def failing(name: str, passes: int) -> Iterator[list[int]]:
    """A point in the code fails so often; answers how often it was passed."""
    seen: list[int] = []

    def fail() -> None:
        seen.append(len(seen))
        if len(seen) <= passes:
            raise RuntimeError("this point fails for a while")

    with failpoints.listen(name, fail):
        yield seen


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soonish.events.actions.telling.PAGE", 1)


@pytest.mark.usefixtures("small_pages")
async def test_a_broadcast_that_fails_stays_first_and_is_told_once_in_a_later_round(life: Lives) -> None:
    ben = await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    await life.all_handled(event_id)
    with failing("events.page_told", 4) as passes:  # more often than one round has attempts
        await life.announce(event_id, "First")
        await life.announce(event_id, "Second")
        await life.all_handled(event_id)
    assert len(passes) >= 2
    assert await life.told(event_id) == ["First", "Second"]
    assert [outcome for _, outcome in await life.outcomes(event_id)] == ["done", "told", "told"]


@pytest.mark.usefixtures("small_pages")
async def test_a_cancellation_waits_for_no_round(
    database_url: str, tmp_path: Path, temporal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lives(database_url, tmp_path, temporal, events_round="10m") as life:
        ben = await life.person("Ben")
        event_id = await life.event()
        await life.subscribe(event_id, ben)
        await life.signal(event_id, "send_manual_notification", broadcast_id=await stuck(life, event_id, monkeypatch))
        await life.until("SELECT count(*) > 0 FROM event_signal WHERE sent_at IS NOT NULL AND handled_at IS NULL")
        await life.cancel(event_id)
        assert await life.result(event_id) == "cancelled"
        assert await life.told(event_id) == ["Cancelled"]


@pytest.mark.usefixtures("small_pages")
async def test_the_end_waits_for_no_round_and_what_was_asked_before_it_is_told_all_the_same(
    life: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    ben = await life.person("Ben")
    event_id = await life.event(start=1, end=4)
    await life.subscribe(event_id, ben)
    broadcast_id = await stuck(life, event_id, monkeypatch)
    await life.signal(event_id, "send_manual_notification", broadcast_id=broadcast_id)
    await life.until("SELECT state = 'completed' FROM event WHERE id = $1", event_id)
    assert await life.value("SELECT closed_at FROM event WHERE id = $1", event_id) is None
    stuck_ones.clear()
    assert await life.result(event_id) == "completed"
    assert await life.told(event_id) == ["Stuck"]


stuck_ones: set[int] = set()


async def stuck(life: Lives, event_id: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """A broadcast whose telling fails until `stuck_ones` is cleared, as if its part of the database were away."""
    broadcast_id = await life.broadcast(event_id, "Stuck")
    stuck_ones.add(broadcast_id)
    tell = telling.tell_page

    async def tell_page(tx: Any, events: Any, event: int, broadcast: int, seq: int | None) -> bool:
        if broadcast in stuck_ones:
            raise Unavailable("this broadcast cannot be told for a while")
        return await tell(tx, events, event, broadcast, seq)

    monkeypatch.setattr(telling, "tell_page", tell_page)
    return broadcast_id


async def test_a_schedule_that_cannot_be_made_stops_no_other_and_is_made_in_a_later_round(
    database_url: str, tmp_path: Path, temporal: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with lives(database_url, tmp_path, temporal, reminder_engine="temporal") as life:
        parties = Parties(life.product, life.house)
        engine = life.process.engine
        refused: list[str] = []
        assert engine
        plan = engine.plan_once

        async def plan_once(name: str, once: Once) -> None:
            if name.endswith("-reminder-60s") and len(refused) < 3:
                refused.append(name)
                raise Unavailable("this schedule cannot be made for a while")
            await plan(name, once)

        monkeypatch.setattr(engine, "plan_once", plan_once)
        event = await parties.event(3_600, reminder_offsets=[120, 60])
        one = await parties.subscribe(event, await parties.guest("Ann"))
        await life.all_handled(event["id"])
        names = [schedule_id(event["id"], one["id"], lead) for lead in (120, 60)]
        assert await engine.is_planned(names[0])
        await until(lambda: engine.is_planned(names[1]), 30)
        assert len(refused) == 3


async def test_a_moment_that_passed_before_its_schedule_was_made_is_told_at_once(
    database_url: str, tmp_path: Path, temporal: Server
) -> None:
    async with lives(database_url, tmp_path, temporal, reminder_engine="temporal") as life:
        parties = Parties(life.product, life.house)
        ann = await parties.guest("Ann")
        event = await parties.event(3_600, reminder_offsets=[60])
        one = await parties.subscribe(event, ann)
        await life.all_handled(event["id"])
        async with life.stopped():
            await parties.change(event, start_date=await parties.at(62), notify=False)
            await life.until("SELECT start_date - interval '59 s' <= clock_timestamp() FROM event")
        await life.until(
            "SELECT count(*) = 1 FROM delivery WHERE cause LIKE 'event/%/reminder/60/%' AND state = 'sent'"
        )
        assert await parties.reminders(event, one) == {60: ("sent", None)}
        assert await parties.told() == [("Ann", "Reminder: Party")]


async def test_a_workflow_that_keeps_schedules_is_looked_for_before_the_end_too(
    database_url: str, tmp_path: Path, temporal: Server
) -> None:
    async with lives(database_url, tmp_path, temporal, reminder_engine="temporal", events_watch="1s") as life:
        event = await Parties(life.product, life.house).event(3_600)
        await life.all_handled(event["id"])
        await life.workflow(event["id"]).terminate()
        await life.ran(event["id"], "TERMINATED", "RUNNING")


async def test_how_long_what_is_told_is_of_use(life: Lives) -> None:
    event_id = await life.event(start=1, end=7_200)
    soon = await life.event(start=1, end=60)
    for one in (event_id, soon):
        await life.subscribe(one, await life.person())
        await life.announce(one)
        await life.all_handled(one)
    await life.cancel(soon)
    assert await life.result(soon) == "cancelled"
    rows = await life.house.rows(
        """SELECT m.expires_at = e.effective_end_date AS at_its_end, m.expires_at - b.telling_at AS life,
             m.calendar IS NOT NULL
           FROM broadcast b JOIN event e ON e.id = b.event_id
           JOIN message m ON m.cause = 'event/' || e.id || '/broadcast/' || b.id ORDER BY b.id"""
    )
    first, second, last = (tuple(row) for row in rows)
    assert (first[0], first[2]) == (True, False)
    assert second == (False, timedelta(hours=1), False)
    assert last == (False, timedelta(hours=72), True)


async def test_a_reminder_says_why_it_told_nobody(life: Lives) -> None:
    parties = Parties(life.product, life.house)
    event = await parties.event(3_600, reminder_offsets=[60])
    one = await parties.subscribe(event, await parties.guest("Ann"))
    mute = await parties.subscribe(event, await parties.guest("Ben"), selectors=[])
    gone = await parties.subscribe(event, await parties.guest("Cid"))
    await parties.api.delete(f"/v1/events/{event['id']}/subscriptions/{gone['id']}")
    engine = life.process.engine
    assert engine
    reminders = Reminders(Within(life.process.db), life.process.events, engine)

    async def remind(*args: Any) -> str:
        said: str = await ActivityEnvironment().run(reminders.send_reminder_notification, *args)
        return said

    async def said(subscription: int, lead: int = 60, of: int = event["id"]) -> str:
        start: datetime = await life.value("SELECT start_date FROM event WHERE id = $1", event["id"])
        return await remind(of, subscription, lead, (start - timedelta(seconds=lead)).isoformat())

    assert await remind(event["id"], one["id"], 60, (await life.now()).isoformat()) == "moved"
    await begin_in(life, "59 s")
    await life.house.run("UPDATE event SET planned_at = now() - interval '1 h'")
    await life.house.run("UPDATE subscription SET asked_at = now() - interval '1 h'")
    assert [await said(one["id"]), await said(one["id"])] == ["success", "already_told"]
    assert await said(mute["id"]) == "no_targets"
    assert await said(gone["id"]) == "not_wanted"
    assert await said(one["id"], 61) == "not_wanted"
    assert await said(one["id"], of=1) == "event_not_found"
    assert await said(987_654_321) == "subscription_not_found"
    await life.house.run("UPDATE subscription SET asked_at = now()")
    assert await said(one["id"]) == "asked_late"
    await begin_in(life, "-2 h")
    assert await said(one["id"]) == "too_late"
    await begin_in(life, "-30 s")
    assert await said(one["id"]) == "started"
    await life.house.run("UPDATE event SET state = 'cancelled'")
    assert await said(one["id"]) == "not_active"


async def begin_in(life: Lives, span: str) -> None:
    await life.house.run(
        "UPDATE event SET start_date = date_trunc('second', now()) + $1::text::interval, end_date = NULL", span
    )


async def test_a_reminder_workflow_is_started_by_hand_in_vain(life: Lives) -> None:
    parties = Parties(life.product, life.house)
    event = await parties.event(3_600, reminder_offsets=[60])
    one = await parties.subscribe(event, await parties.guest("Ann"))
    assert life.process.engine
    for name, args, word in (
        ("by hand", (event["id"], one["id"], 60), "moved"),
        ("of nothing", (1, one["id"], 60), "event_not_found"),
    ):
        workflow_id = f"{name} {event['id']}"
        await life.process.engine.start_once("ReminderWorkflow", workflow_id, args)
        assert await life.client.get_workflow_handle(workflow_id).result() == word
    assert await parties.told() == []
