"""The life of an event by its workflow: begun, told, completed or cancelled, whatever is lost on the way."""

from datetime import timedelta
from pathlib import Path

import pytest

from soonish import failpoints
from soonish.events.actions.telling import tell_page
from tests.support.lives import Lives, another, lives, titles
from tests.support.temporal import Server


async def test_an_event_is_announced_to_its_organizer_alone_and_completes_at_its_end(life: Lives) -> None:
    organizer, ben = await life.person("Ann"), await life.person("Ben")
    event_id = await life.event(start=1, end=3, organizer_id=organizer)
    await life.subscribe(event_id, ben)
    assert await life.result(event_id) == "completed"
    assert await life.told(event_id) == ["Event Created: Party"]
    rows = await life.house.rows("SELECT person_id FROM delivery WHERE cause LIKE 'event/%'")
    assert [row["person_id"] for row in rows] == [organizer]
    [row] = await life.house.rows("SELECT * FROM event WHERE id = $1", event_id)
    assert row["state"] == "completed"
    assert row["effective_end_date"] <= row["completed_at"] <= row["closed_at"]
    assert await life.outcomes(event_id) == [("start", "done")]
    facts = await life.house.rows("SELECT type FROM fact WHERE cause = $1", f"event.fact/{event_id}/completed")
    assert [fact["type"] for fact in facts] == ["event.completed"]
    rows = await life.house.rows("SELECT fate FROM due.due_history WHERE kind = 'events.signal'")
    assert [row["fate"] for row in rows] in ([], ["done"])  # it looks again when nothing is waited for


async def test_an_end_that_moves_is_when_the_event_completes(life: Lives) -> None:
    later = await life.event(start=1, end=2)
    sooner = await life.event(start=1, end=600)
    await life.all_handled(later)
    await life.end_at(later, 5)
    await life.end_at(sooner, 2)
    assert await life.result(sooner) == "completed"
    assert await life.result(later) == "completed"
    for event_id in (later, sooner):
        [row] = await life.house.rows("SELECT effective_end_date, completed_at FROM event WHERE id = $1", event_id)
        assert row["completed_at"] >= row["effective_end_date"]


async def test_a_cancelled_event_is_told_once_and_nothing_else_of_it_is_sent(life: Lives) -> None:
    ann, ben = await life.person("Ann"), await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ann, ben)
    await life.house.run(
        """INSERT INTO message (workspace_id, cause, title, body, level, hold)
           VALUES ($1, $2, 'Reminder', 'Soon', 'info', 'quiet')""",
        life.house.id,
        f"event/{event_id}/reminder/1/1",
    )
    await life.house.run(
        """INSERT INTO delivery (workspace_id, cause, message_id, person_id, channel, state, due_at, next_at)
           SELECT $1, $2, m.id, $3, 'console', 'pending', now() + '1 h', now() + '1 h' FROM message m""",
        life.house.id,
        f"event/{event_id}/reminder/1/1",
        ben,
    )
    broadcast_id = await life.cancel(event_id)
    assert await life.result(event_id) == "cancelled"
    rows = await life.house.rows(
        "SELECT cause, state, reason, person_id FROM delivery WHERE cause LIKE 'event/%' ORDER BY cause, person_id"
    )
    cause = f"event/{event_id}/broadcast/{broadcast_id}"
    assert [(row["cause"], row["person_id"]) for row in rows if row["reason"] is None] == [(cause, ann), (cause, ben)]
    assert [(row["state"], row["reason"]) for row in rows if row["reason"]] == [("skipped", "event_cancelled")]
    [start, cancelled] = await life.outcomes(event_id)
    assert start[1] in ("done", "closed")  # where it is cancelled before it began, it need not begin
    assert cancelled == ("cancel_event", "told")
    assert await life.value("SELECT state FROM event WHERE id = $1", event_id) == "cancelled"


async def test_a_cancellation_that_tells_nobody_withdraws_what_is_pending_all_the_same(life: Lives) -> None:
    ben = await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    await life.all_handled(event_id)
    await life.cancel(event_id, notify=False)
    assert await life.result(event_id) == "cancelled"
    assert await life.told(event_id) == []


async def test_broadcasts_are_told_in_the_order_in_which_they_were_asked_for(life: Lives) -> None:
    ben = await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    for title in titles(5):
        await life.announce(event_id, title)
    await life.all_handled(event_id)
    assert await life.told(event_id) == titles(5)
    status = await life.status(event_id)
    assert (status["event_id"], status["is_cancelled"], status["queued"]) == (event_id, False, 0)
    assert (status["notification_count"], status["event_data"]["name"]) == (5, "Party")
    assert status["last_seq"] == await life.value("SELECT max(id) FROM event_signal WHERE event_id = $1", event_id)


async def test_only_those_are_told_who_are_named_and_still_there(life: Lives) -> None:
    people = [await life.person(name) for name in ("Ann", "Ben", "Cleo")]
    event_id = await life.event()
    ann, ben, cleo = await life.subscribe(event_id, *people)
    await life.house.run("UPDATE subscription SET state = 'removed' WHERE id = $1", cleo)
    other = await life.event()
    [elsewhere] = await life.subscribe(other, people[0])
    some = await life.announce(event_id, "To some", subscription_ids=[ben, cleo, elsewhere])
    nobody = await life.announce(event_id, "To nobody", subscription_ids=[])
    everybody = await life.announce(event_id, "To all")
    await life.all_handled(event_id)
    rows = await life.house.rows("SELECT id, state, total FROM broadcast WHERE event_id = $1 ORDER BY id", event_id)
    assert [tuple(row) for row in rows] == [(some, "told", 1), (nobody, "told", 0), (everybody, "told", 2)]
    assert await life.told(event_id) == ["To some", "To all", "To all"]
    assert ann


async def test_whoever_comes_after_the_telling_began_is_not_told(life: Lives) -> None:
    ben, late = await life.person("Ben"), await life.person("Late")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    await life.subscribe(event_id, late, activated_at=await life.now() + timedelta(hours=1))
    await life.announce(event_id, "News")
    await life.all_handled(event_id)
    rows = await life.house.rows("SELECT person_id FROM delivery WHERE cause LIKE 'event/%'")
    assert [row["person_id"] for row in rows] == [ben]


async def test_a_large_audience_is_told_by_pages_each_once(life: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soonish.events.actions.telling.PAGE", 40)
    event_id = await life.event()
    await life.crowd(event_id, 100)
    pages = 0

    def count() -> None:
        nonlocal pages
        pages += 1

    with failpoints.listen("events.page_told", count):
        broadcast_id = await life.announce(event_id)
        await life.all_handled(event_id)
    assert pages == 2  # and a third one, which was the last
    assert await life.value("SELECT total FROM broadcast WHERE id = $1", broadcast_id) == 100
    counted = "SELECT count(*), count(DISTINCT person_id) FROM delivery WHERE cause = $1"
    assert tuple((await life.house.rows(counted, f"event/{event_id}/broadcast/{broadcast_id}"))[0]) == (100, 100)


async def test_a_cancellation_between_two_pages_ends_the_telling(life: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soonish.events.actions.telling.PAGE", 40)
    event_id = await life.event()
    await life.crowd(event_id, 100)
    await life.all_handled(event_id)
    broadcast_id = await life.broadcast(event_id)
    events = life.process.events
    async with life.house.db.transaction(life.house.id) as tx:
        assert not await tell_page(tx, events, event_id, broadcast_id, None)
    await life.cancel(event_id)
    assert await life.result(event_id) == "cancelled"
    async with life.house.db.transaction(life.house.id) as tx:
        assert await tell_page(tx, events, event_id, broadcast_id, None)
    [row] = await life.house.rows("SELECT state, reason, total FROM broadcast WHERE id = $1", broadcast_id)
    assert tuple(row) == ("withdrawn", "event_cancelled", 40)
    async with life.house.db.transaction(life.house.id) as tx:
        assert await tell_page(tx, events, event_id, broadcast_id, None)  # asked again nothing changes
    assert await life.value("SELECT count(*) FROM delivery WHERE cause LIKE $1", f"%/broadcast/{broadcast_id}") == 40


async def test_what_was_asked_while_temporal_was_away_is_done_in_order_when_it_is_back(life: Lives) -> None:
    ben = await life.person("Ben")
    async with life.stopped():
        event_id = await life.event()
        await life.subscribe(event_id, ben)
        for title in titles(3):
            await life.announce(event_id, title)
        other = await life.event()
        await life.subscribe(other, ben)
        await life.cancel(other)
    await life.all_handled(event_id)
    assert await life.told(event_id) == titles(3)
    assert await life.result(other) == "cancelled"
    assert await life.told(other) == ["Cancelled"]


async def test_a_workflow_that_was_terminated_is_begun_again_and_nothing_is_lost_or_told_twice(life: Lives) -> None:
    organizer, ben = await life.person("Ann"), await life.person("Ben")
    event_id = await life.event(organizer_id=organizer)
    await life.subscribe(event_id, ben)
    await life.announce(event_id, "Before")
    await life.all_handled(event_id)
    await life.workflow(event_id).terminate()
    lost = await life.announce(event_id, "Lost")
    await life.house.run("UPDATE event_signal SET sent_at = now() WHERE payload->>'broadcast_id' = $1", str(lost))
    await life.announce(event_id, "After")
    await life.all_handled(event_id)
    assert await life.told(event_id) == ["Event Created: Party", "Before", "Lost", "After"]
    await life.ran(event_id, "TERMINATED", "RUNNING")


async def test_an_event_whose_workflow_is_gone_completes_by_the_watch(life: Lives) -> None:
    event_id = await life.event(start=1, end=3)
    await life.all_handled(event_id)
    await life.workflow(event_id).terminate()
    assert await life.result(event_id) == "completed"


async def test_a_cancellation_inside_temporal_is_not_the_organizers(life: Lives) -> None:
    ben = await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    await life.all_handled(event_id)
    await life.workflow(event_id).cancel()
    await life.ran(event_id, "CANCELED")
    assert await life.value("SELECT state FROM event WHERE id = $1", event_id) == "scheduled"
    await life.announce(event_id, "Still on")
    await life.all_handled(event_id)
    assert await life.told(event_id) == ["Still on"]


async def test_a_long_life_goes_on_in_new_runs_and_its_first_steps_are_not_repeated(
    database_url: str, tmp_path: Path, temporal: Server
) -> None:
    async with lives(database_url, tmp_path, temporal, events_max_notifications="3") as life:
        organizer, ben = await life.person("Ann"), await life.person("Ben")
        event_id = await life.event(organizer_id=organizer)
        await life.subscribe(event_id, ben)
        for title in titles(8):
            await life.announce(event_id, title)
        await life.all_handled(event_id)
        assert await life.told(event_id) == ["Event Created: Party", *titles(8)]
        await life.ran(event_id, *["CONTINUED_AS_NEW"] * 3, "RUNNING")
        await life.cancel(event_id)
        assert await life.result(event_id) == "cancelled"


async def test_a_cancellation_as_the_last_that_a_run_may_tell_ends_the_event(
    database_url: str, tmp_path: Path, temporal: Server
) -> None:
    async with lives(database_url, tmp_path, temporal, events_max_notifications="2") as life:
        organizer, ben = await life.person("Ann"), await life.person("Ben")
        event_id = await life.event(organizer_id=organizer)
        await life.subscribe(event_id, ben)
        await life.all_handled(event_id)
        await life.cancel(event_id)
        assert await life.result(event_id) == "cancelled"
        await life.ran(event_id, "COMPLETED")
        assert await life.told(event_id) == ["Event Created: Party", "Cancelled"]


async def test_a_poison_signal_has_its_own_outcome_and_the_others_go_on(life: Lives) -> None:
    ben = await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    await life.signal(event_id, "send_manual_notification", broadcast_id=987_654_321)
    await life.announce(event_id, "News")
    await life.all_handled(event_id)
    outcomes = await life.outcomes(event_id)
    assert outcomes == [
        ("start", "done"),
        ("send_manual_notification", "failed: not_found"),
        ("send_manual_notification", "told"),
    ]


async def test_a_second_arrival_of_a_signal_changes_nothing(life: Lives) -> None:
    ben = await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    await life.announce(event_id, "News")
    await life.all_handled(event_id)
    seq = await life.value("SELECT max(id) FROM event_signal WHERE event_id = $1", event_id)
    payload = {"seq": seq, "broadcast_id": await life.value("SELECT max(id) FROM broadcast")}
    await life.workflow(event_id).signal("send_manual_notification", payload)
    await life.announce(event_id, "More")
    await life.all_handled(event_id)
    assert await life.told(event_id) == ["News", "More"]


async def test_a_number_that_is_too_low_makes_it_look_at_the_rows(life: Lives) -> None:
    """As after a restore of the database, whose numbers are given a second time."""
    ben = await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    await life.all_handled(event_id)
    await life.workflow(event_id).signal("participant_removed", {"seq": 1_000_000, "subscription_id": 1})
    await life.announce(event_id, "News")
    await life.all_handled(event_id)
    assert await life.told(event_id) == ["News"]
    assert (await life.status(event_id))["last_seq"] == 1_000_000


async def test_signals_by_hand_announce_and_cancel_as_by_http(life: Lives) -> None:
    ben = await life.person("Ben")
    event_id = await life.event()
    await life.subscribe(event_id, ben)
    await life.all_handled(event_id)
    hand = life.workflow(event_id)
    await hand.signal("participant_added", {"subscription_id": "nonsense"})
    await hand.signal("event_updated", {"name": "Other"})
    await hand.signal("send_manual_notification", {"title": "", "body": 7})
    await hand.signal(
        "send_manual_notification", {"title": "By hand", "body": "Hello", "notification_level": "warning"}
    )
    await life.until("SELECT id FROM broadcast WHERE event_id = $1 AND state = 'told'", event_id)
    assert await life.told(event_id) == ["By hand"]
    assert (await life.status(event_id))["event_data"]["name"] == "Party"
    await hand.signal("cancel_event")
    assert await life.result(event_id) == "cancelled"
    assert await life.value("SELECT state FROM event WHERE id = $1", event_id) == "cancelled"
    assert await life.told(event_id) == ["By hand", "Event Cancelled: Party"]


async def test_a_workflow_of_an_event_that_is_not_there_fails_for_good(life: Lives) -> None:
    assert life.process.engine
    await life.process.engine.start_once("EventWorkflow", "event-1", (1, {}))
    with pytest.raises(Exception, match="Workflow execution failed") as failed:
        await life.client.get_workflow_handle("event-1").result()
    assert str(failed.value.__cause__) == "EventNotFound: Event 1 not found"


async def test_two_processes_work_on_the_same_events(life: Lives) -> None:
    ben = await life.person("Ben")
    async with another(life):
        events = [await life.event() for _ in range(5)]
        for event_id in events:
            await life.subscribe(event_id, ben)
            await life.announce(event_id)
        for event_id in events:
            await life.all_handled(event_id)
            assert await life.told(event_id) == ["Hello"]
