"""Events over HTTP: made, found, changed, published, cancelled; what is refused, and that nothing is written then."""

from datetime import timedelta
from typing import Any

from soonish.clock import parse_instant, show_instant
from tests.support.parties import Parties
from tests.support.telling import person


async def test_a_new_event_shows_what_it_is_and_plans_what_follows(parties: Parties) -> None:
    organizer = await parties.guest("Ann")
    start = await parties.at(2 * 86_400)
    made = await parties.api.post(
        "/v1/events",
        {
            "name": "  Garden party ", "start_date": start.replace("Z", ".75+00:00"), "timezone": "Europe/Berlin",
            "location": "Yard", "organizer_id": organizer, "is_public": True, "reminder_offsets": [60, 3600, 60],
        },
    )  # fmt: skip
    assert made.status == 201
    event = made.json
    assert made.headers["location"] == f"/v1/events/{event['id']}"
    assert made.headers["etag"] == '"1"'
    assert (event["name"], event["start_date"], event["state"]) == ("Garden party", start, "scheduled")
    assert event["effective_end_date"] == show_instant(parse_instant(start) + timedelta(days=1))
    assert event["reminder_offsets"] == event["effective_offsets"] == [3600, 60]
    assert event["public_url"].startswith("http://127.0.0.1:")
    assert event["workflow_id"] == f"event-{event['id']}"
    assert (event["subscribers"], event["sequence"], event["version"]) == (0, 0, 1)
    assert (await parties.api.get(f"/v1/events/{event['id']}")).json == event
    assert await parties.items() == [f"{event['id']}/3600", f"{event['id']}/60"]
    assert await parties.items("events.live") == await parties.items("events.watch") == [str(event["id"])]
    assert await parties.signals(event) == ["start"]
    [fact] = await parties.facts("event.created")
    assert fact["organizer_id"] == organizer
    assert fact["event"]["name"] == "Garden party"


WRONG: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"name": ""}, {"name": "length"}),
    ({"name": "a\nb"}, {"name": "control_character"}),
    ({"name": "x" * 256, "location": "y" * 501}, {"name": "length", "location": "length"}),
    ({"link": "javascript:alert(1)"}, {"link": "pattern"}),
    ({"timezone": "Mars/Base"}, {"timezone": "unknown_zone"}),
    ({"start_date": None}, {"start_date": "type"}),
    ({"start_date": "2026-12-04T19:00:00"}, {"start_date": "naive_time"}),
    ({"start_date": "2020-01-01T00:00:00Z"}, {"start_date": "in_past"}),
    ({"start_date": "2126-01-01T00:00:00Z"}, {"start_date": "too_far"}),
    ({"end_date": "2020-01-01T00:00:00Z"}, {"end_date": "end_before_start"}),
    ({"end_date": "2126-01-01T00:00:00Z"}, {"end_date": "too_far"}),
    ({"reminder_offsets": [-1]}, {"reminder_offsets.0": "range"}),
    ({"reminder_offsets": [31_622_401]}, {"reminder_offsets.0": "range"}),
    ({"reminder_offsets": list(range(21))}, {"reminder_offsets": "length"}),
    ({"organizer_id": 4711}, {"organizer_id": "unknown_person"}),
    ({"state": "live"}, {"state": "one_of"}),
    ({"color": "red"}, {"color": "unknown_field"}),
]


async def test_what_an_event_cannot_be_is_named_and_nothing_is_written(parties: Parties) -> None:
    event = await parties.event()
    for wrong, fields in WRONG:
        answer = await parties.api.post("/v1/events", {"name": "Party", "start_date": await parties.at(3600)} | wrong)
        assert (answer.status, answer.fields) == (422, fields)
        if "state" not in wrong:
            assert (await parties.change(event, **wrong)).fields == fields
    [row] = await parties.house.rows("SELECT version FROM event")
    assert row["version"] == 1
    assert await parties.signals(event) == ["start"]


async def test_an_event_may_have_begun_an_hour_ago_but_not_be_over(parties: Parties) -> None:
    begun = await parties.event(-1_800)
    await parties.work()
    assert (await parties.api.get(f"/v1/events/{begun['id']}")).json["state"] == "live"
    body = {"name": "Over", "start_date": await parties.at(-1_800), "end_date": await parties.at(-60)}
    assert (await parties.api.post("/v1/events", body)).fields == {"end_date": "in_past"}
    await parties.house.admin.patch("/v1/event-defaults", {"default_duration_s": 60})
    assert (await parties.api.post("/v1/events", {**body, "end_date": None})).fields == {"start_date": "in_past"}


async def test_a_change_is_compared_and_told_once(parties: Parties) -> None:
    event = await parties.event(location="Yard", description="Bring cake")
    same = await parties.change(event, location=" Yard ", name="Party", notify=True, note="Nothing")
    assert (same.json["version"], same.json["broadcast_id"]) == (1, None)
    changed = (await parties.change(event, location="Hall", description="", note="It will rain.")).json
    assert (changed["version"], changed["sequence"]) == (2, 1)
    [fact] = await parties.facts("event.updated")
    assert fact["changes"] == {"location": {"old": "Yard", "new": "Hall"}, "description": {"changed": True}}
    assert (fact["told"], fact["broadcast_id"], fact["note"]) == (True, changed["broadcast_id"], "It will rain.")
    [change] = (await parties.api.get(f"/v1/events/{event['id']}/changes")).json["items"]
    assert change["changes"]["description"] == {"old": "Bring cake", "new": ""}
    assert (change["told"], change["broadcast_id"], change["version"]) == (True, changed["broadcast_id"], 2)
    broadcast = (await parties.api.get(f"/v1/events/{event['id']}/broadcasts/{changed['broadcast_id']}")).json
    assert (broadcast["state"], broadcast["kind"], broadcast["notification_level"]) == ("queued", "updated", "warning")
    assert "Location: Hall (was Yard)" in broadcast["body"]
    assert broadcast["body"].endswith("It will rain.")
    assert await parties.signals(event) == ["start", "event_updated"]


async def test_a_quiet_change_is_a_fact_and_no_message(parties: Parties) -> None:
    event = await parties.event()
    quiet = (await parties.change(event, location="Hall", notify=False)).json
    assert (quiet["broadcast_id"], quiet["sequence"]) == (None, 1)
    unseen = (await parties.change(event, is_public=True)).json
    assert (unseen["broadcast_id"], unseen["sequence"], unseen["version"]) == (None, 1, 3)
    assert [fact["told"] for fact in await parties.facts("event.updated")] == [False, False]
    assert (await parties.api.get(f"/v1/events/{event['id']}/broadcasts")).json["items"] == []
    assert len((await parties.api.get(f"/v1/events/{event['id']}/changes")).json["items"]) == 1
    assert await parties.signals(event) == ["start", "event_updated"]


async def test_a_version_that_is_old_changes_nothing(parties: Parties) -> None:
    event = await parties.event()
    await parties.change(event, location="Hall", notify=False)
    path = f"/v1/events/{event['id']}"
    stale = await parties.api.patch(path, {"location": "Barn"}, if_match='"1"')
    assert stale.refused == (412, "stale")
    assert stale.headers["etag"] == '"2"'
    assert (await parties.api.delete(path, if_match='"1"')).status == 412
    assert (await parties.api.get(path)).json["location"] == "Hall"
    assert (await parties.api.patch(path, {"location": "Barn"}, if_match='"2"')).status == 200


async def test_of_a_draft_nobody_hears_until_it_is_published(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    draft = await parties.event(3_600, state="draft", is_public=True, reminder_offsets=[60])
    await parties.subscribe(draft, ann, welcome=True)
    await parties.subscribe(draft, ben, reminder_offsets=[30])
    await parties.change(draft, name="Feast")
    assert draft["public_url"] is None
    assert await parties.signals(draft) == []
    assert [await parties.items(kind) for kind in ("events.reminder", "events.live", "events.watch")] == [[], [], []]
    assert await parties.house.rows("SELECT FROM delivery") == await parties.house.rows("SELECT FROM fact") == []
    for verb, body in (("cancel", {}), ("announcements", {"title": "Hi", "body": "there"})):
        assert (await parties.api.post(f"/v1/events/{draft['id']}/{verb}", body)).refused == (409, "not_published")
    published = await parties.api.post(f"/v1/events/{draft['id']}/publish")
    assert (published.json["state"], published.json["version"], published.json["subscribers"]) == ("scheduled", 3, 2)
    assert await parties.items() == [f"{draft['id']}/60", f"{draft['id']}/30"]
    assert await parties.signals(draft) == ["start"]
    again = await parties.api.post(f"/v1/events/{draft['id']}/publish")
    assert again.refused == (409, "already_published")
    await parties.later(3_545)
    await parties.later(30)
    assert await parties.told() == [("Ann", "Reminder: Feast"), ("Ben", "Reminder: Feast")]


async def test_a_draft_goes_and_an_open_event_does_not(parties: Parties) -> None:
    draft, event = await parties.event(state="draft"), await parties.event()
    assert (await parties.api.delete(f"/v1/events/{draft['id']}")).status == 204
    assert (await parties.api.get(f"/v1/events/{draft['id']}")).status == 404
    assert (await parties.api.delete(f"/v1/events/{event['id']}")).refused == (409, "not_closed")
    await parties.api.post(f"/v1/events/{event['id']}/cancel")
    await parties.house.run("UPDATE event SET closed_at = now()")
    assert (await parties.api.delete(f"/v1/events/{event['id']}")).status == 204
    assert [await parties.items(kind) for kind in ("events.signal", "events.watch", "events.live")] == [[], [], []]


async def test_a_cancelled_event_is_closed_and_a_second_cancel_is_silent(parties: Parties) -> None:
    ann = await parties.guest("Ann")
    event = await parties.event(3_600, reminder_offsets=[60])
    subscription = await parties.subscribe(event, ann)
    path = f"/v1/events/{event['id']}"
    await parties.api.post(f"{path}/subscriptions/{subscription['id']}/snoozes", {"in_seconds": 600})
    planned = await parties.api.post(
        f"{path}/announcements", {"title": "Soon", "body": "!", "send_at": await parties.at(60)}
    )
    await parties.change(event, location="Hall")
    cancelled = await parties.api.post(f"{path}/cancel", {"message": "The yard is flooded."})
    assert cancelled.status == 200
    assert (cancelled.json["state"], cancelled.json["cancel_message"]) == ("cancelled", "The yard is flooded.")
    version = cancelled.json["version"]
    again = await parties.api.post(f"{path}/cancel", {"message": "Really."})
    assert (again.status, again.json["version"], again.json["cancel_message"]) == (200, version, "The yard is flooded.")
    assert [await parties.items(one) for one in ("events.reminder", "events.live", "events.announce")] == [[], [], []]
    assert await parties.items("events.snooze") == []
    assert await parties.signals(event) == ["start", "event_updated", "cancel_event"]
    assert len(await parties.facts("event.cancelled")) == 1
    broadcasts = (await parties.api.get(f"{path}/broadcasts")).json["items"]
    assert [(one["kind"], one["state"], one["reason"]) for one in broadcasts] == [
        ("cancelled", "queued", None),
        ("updated", "withdrawn", "event_cancelled"),
        ("announcement", "withdrawn", "event_cancelled"),
    ]
    await parties.tell()
    assert await parties.told() == [("Ann", "Event Cancelled: Party")]
    refused = [
        await parties.change(event, location="Barn"),
        await parties.api.post(f"{path}/announcements", {"title": "Hi", "body": "there"}),
        await parties.api.post(f"{path}/subscriptions", {"person_id": await parties.guest("Ben")}),
        await parties.api.patch(f"{path}/subscriptions/{subscription['id']}", {"reminder_offsets": [1]}),
        await parties.api.post(f"{path}/subscriptions/{subscription['id']}/snoozes", {"in_seconds": 1}),
        await parties.api.post(f"{path}/rotate-link"),
    ]
    assert [one.refused for one in refused] == [(409, "event_closed")] * 6
    assert (await parties.api.patch(f"{path}/broadcasts/{planned.json['id']}", {"title": "x"})).status == 409
    assert await parties.reminders(event, subscription) == {60: ("past", None)}


async def test_from_its_end_on_only_leaving_is_allowed(parties: Parties) -> None:
    event = await parties.event(60, 120)
    subscription = await parties.subscribe(event, await parties.guest("Ann"))
    await parties.pass_time(130)
    assert (await parties.change(event, location="Hall")).refused == (409, "event_closed")
    assert (await parties.api.post(f"/v1/events/{event['id']}/cancel")).refused == (409, "event_closed")
    assert (await parties.api.delete(f"/v1/events/{event['id']}/subscriptions/{subscription['id']}")).status == 204


async def test_an_event_is_live_from_its_start_and_scheduled_again_when_it_moves(parties: Parties) -> None:
    event = await parties.event(60)
    await parties.later(61)
    live = (await parties.api.get(f"/v1/events/{event['id']}")).json
    assert (live["state"], live["version"], live["live_at"] is not None) == ("live", 2, True)
    moved = (await parties.change(event, start_date=await parties.at(600))).json
    assert (moved["state"], moved["live_at"]) == ("scheduled", None)
    assert await parties.items("events.live") == [str(event["id"])]
    await parties.later(601)
    assert (await parties.api.get(f"/v1/events/{event['id']}")).json["state"] == "live"


async def test_events_are_found_by_state_start_words_and_people(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    late = await parties.event(7_200, name="Late show", organizer_id=ann)
    early = await parties.event(3_600, name="Early 50% bird", location="Barn")
    draft = await parties.event(5_400, name="Draft", state="draft")
    await parties.subscribe(early, ben)

    async def found(query: str) -> list[int]:
        return [one["id"] for one in await parties.house.read.every(f"/v1/events{query}")]

    assert await found("") == [early["id"], draft["id"], late["id"]]
    assert await found("?limit=1") == [early["id"], draft["id"], late["id"]]
    assert await found("?state=draft") == [draft["id"]]
    assert await found("?state=draft&state=scheduled") == [early["id"], draft["id"], late["id"]]
    assert await found(f"?from={draft['start_date']}&to={late['start_date']}") == [draft["id"]]
    assert await found("?q=50%25") == await found("?q=barn") == [early["id"]]
    assert await found(f"?organizer_id={ann}") == [late["id"]]
    assert await found(f"?person_id={ben}") == [early["id"]]
    assert (await parties.api.get("/v1/events?state=over")).fields == {"state.0": "one_of"}


async def test_a_public_link_can_be_replaced(parties: Parties) -> None:
    event = await parties.event(is_public=True)
    renewed = await parties.api.post(f"/v1/events/{event['id']}/rotate-link")
    assert renewed.status == 200
    assert renewed.json["public_url"] not in (None, event["public_url"])


async def test_another_workspace_sees_nothing_of_an_event(parties: Parties) -> None:
    event = await parties.event()
    subscription = await parties.subscribe(event, await parties.guest("Ann"))
    theirs, acme = parties.site.acme.admin, await person(parties.site.acme, "Zoe")
    path = f"/v1/events/{event['id']}"
    announcement = {"title": "Hi", "body": "there"}
    answers = [
        await theirs.get(path),
        await theirs.patch(path, {"name": "Mine"}),
        await theirs.delete(path),
        await theirs.post(f"{path}/cancel"),
        await theirs.post(f"{path}/publish"),
        await theirs.post(f"{path}/rotate-link"),
        await theirs.get(f"{path}/changes"),
        await theirs.get(f"{path}/reminders"),
        await theirs.get(f"{path}/broadcasts"),
        await theirs.post(f"{path}/announcements", announcement),
        await theirs.post(f"{path}/announcements/preview", announcement),
        await theirs.get(f"{path}/subscriptions"),
        await theirs.post(f"{path}/subscriptions", {"person_id": acme}),
        await theirs.get(f"{path}/subscriptions/{subscription['id']}"),
        await theirs.patch(f"{path}/subscriptions/{subscription['id']}", {"reminder_offsets": []}),
        await theirs.delete(f"{path}/subscriptions/{subscription['id']}"),
        await theirs.post(f"{path}/subscriptions/{subscription['id']}/snoozes", {"in_seconds": 5}),
    ]
    assert [one.status for one in answers] == [404] * len(answers)
    assert (await theirs.get("/v1/events")).json["items"] == []
    foreign = await parties.api.post(f"{path}/subscriptions", {"person_id": acme})
    assert foreign.fields == {"person_id": "unknown_person"}
    assert (await parties.change(event, organizer_id=acme)).fields == {"organizer_id": "unknown_person"}


async def test_only_those_who_may_write_change_anything(parties: Parties) -> None:
    event = await parties.event()
    subscription = await parties.subscribe(event, await parties.guest("Ann"))
    reader, path = parties.house.read, f"/v1/events/{event['id']}"
    assert (await reader.post("/v1/events", {"name": "x"})).status == 403
    assert (await reader.patch(path, {"name": "x"})).status == 403
    assert (await parties.api.patch("/v1/event-defaults", {"coalesce_s": 1})).status == 403
    one = f"{path}/subscriptions/{subscription['id']}"
    assert (await reader.get(one)).json["manage_url"] is None
    assert "/p/subscription/" in (await parties.api.get(one)).json["manage_url"]
