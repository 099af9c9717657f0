"""Whole lives of events, asked for over HTTP: who was told what, in which order, and how each ended."""

from soonish.clock import parse_instant
from tests.support.lives import Lives
from tests.support.parties import Parties


def parties_of(life: Lives) -> Parties:
    return Parties(life.product, life.house)


async def test_from_its_creation_to_its_end(life: Lives) -> None:
    parties = parties_of(life)
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event(2, 600, organizer_id=ann, reminder_offsets=[])
    await parties.subscribe(event, ben)
    path = f"/v1/events/{event['id']}"
    await life.until("SELECT state = 'live' FROM event WHERE id = $1", event["id"])
    changed = await parties.change(event, location="Hall", note="It rains.")
    assert changed.json["broadcast_id"]
    await parties.change(event, end_date=await parties.at(4), notify=False)
    assert await life.result(event["id"]) == "completed"
    await life.until("SELECT count(*) = 2 FROM delivery WHERE state = 'sent' AND cause LIKE 'event/%'")
    assert sorted(await parties.told()) == [("Ann", "Event Created: Party"), ("Ben", "Event Update: Party")]
    shown = (await parties.api.get(path)).json
    assert (shown["state"], shown["workflow_id"]) == ("completed", f"event-{event['id']}")
    assert parse_instant(shown["completed_at"]) >= parse_instant(shown["effective_end_date"])
    for kind in ("event.created", "event.completed"):
        assert len(await parties.facts(kind)) == 1
    assert [fact["told"] for fact in await parties.facts("event.updated")] == [True, False]
    refused = await parties.change(event, location="Yard")
    assert (refused.status, refused.json["code"]) == (409, "event_closed")
    assert (await parties.api.delete(path)).status == 204


async def test_a_cancellation_is_the_last_that_is_heard(life: Lives) -> None:
    parties = parties_of(life)
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event(7_200)
    for person in (ann, ben):
        await parties.subscribe(event, person)
    path = f"/v1/events/{event['id']}"
    said = await parties.api.post(f"{path}/announcements", {"title": "Bring cake", "body": "Or bread."})
    assert said.status == 201
    later = {"title": "Never", "body": "Said.", "send_at": await parties.at(1_000)}
    waiting = (await parties.api.post(f"{path}/announcements", later)).json["id"]
    await life.all_handled(event["id"])
    sent = "SELECT count(*) = $1 FROM delivery WHERE state = 'sent' AND cause LIKE 'event/%'"
    await life.until(sent, 2)
    for _ in range(2):
        answer = await parties.api.post(f"{path}/cancel", {"message": "The yard is flooded."})
        assert (answer.status, answer.json["state"]) == (200, "cancelled")
    assert await life.result(event["id"]) == "cancelled"
    await life.until(sent, 4)
    titles = [title for _, title in await parties.told()]
    assert sorted(titles) == ["Bring cake"] * 2 + ["Event Cancelled: Party"] * 2
    levels = await life.house.rows("SELECT level, body FROM message WHERE title LIKE 'Event Cancelled%'")
    assert [row["level"] for row in levels] == ["critical"]
    assert levels[0]["body"].endswith("\n\nThe yard is flooded.")
    withdrawn = (await parties.api.get(f"{path}/broadcasts/{waiting}")).json
    assert (withdrawn["state"], withdrawn["reason"]) == ("withdrawn", "event_cancelled")
    assert await parties.items() == []
    for refused in (
        await parties.change(event, location="Hall"),
        await parties.api.post(f"{path}/announcements", {"title": "No", "body": "More"}),
        await parties.api.post(f"{path}/subscriptions", {"person_id": await parties.guest("Cid")}),
    ):
        assert (refused.status, refused.json["code"]) == (409, "event_closed")
    assert (await parties.api.get(path)).json["closed_at"]


async def test_requests_are_answered_while_temporal_is_away_and_carried_out_afterwards(life: Lives) -> None:
    parties = parties_of(life)
    ben = await parties.guest("Ben")
    async with life.stopped():
        event, other = await parties.event(7_200), await parties.event(7_200)
        for one in (event, other):
            await parties.subscribe(one, ben)
        for place in ("Hall", "Barn"):
            assert (await parties.change(event, location=place)).status == 200
        said = await parties.api.post(f"/v1/events/{event['id']}/announcements", {"title": "Cake", "body": "Bring it."})
        assert said.status == 201
        assert (await parties.api.post(f"/v1/events/{other['id']}/cancel", {})).status == 200
    assert await life.result(other["id"]) == "cancelled"
    await life.all_handled(event["id"])
    rows = await life.house.rows(
        "SELECT title, body FROM message WHERE cause LIKE $1 ORDER BY id", f"event/{event['id']}/%"
    )
    assert [row["title"] for row in rows] == ["Event Update: Party", "Event Update: Party", "Cake"]
    assert ["(was Hall)" in row["body"] for row in rows] == [False, True, False]
    assert await life.told(other["id"]) == ["Event Cancelled: Party"]


async def test_a_draft_has_no_workflow_until_it_is_published(life: Lives) -> None:
    parties = parties_of(life)
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event(7_200, state="draft", organizer_id=ann)
    await parties.subscribe(event, ben)
    assert life.process.engine
    assert await life.process.engine.describe(event["workflow_id"]) is None
    assert (await parties.api.post(f"/v1/events/{event['id']}/publish")).status == 200
    await life.all_handled(event["id"])
    assert await life.told(event["id"]) == ["Event Created: Party"]
    running = await life.process.engine.describe(event["workflow_id"])
    assert running
    assert running.status == "running"
