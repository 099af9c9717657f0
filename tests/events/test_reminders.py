"""Reminders by due items: who gets which, when, once; what moves, merges, comes too late, and what is on record."""

from typing import Any

import pytest

from soonish import failpoints
from soonish.clock import parse_instant
from soonish.due import Put
from tests.support.http import Answer
from tests.support.parties import Parties
from tests.support.telling import address, person


async def _many(parties: Parties, event: dict[str, Any], count: int) -> Answer:
    """So many people without an address, subscribed at once."""
    rows = await parties.house.rows(
        """INSERT INTO person (workspace_id, name, timezone, locale)
           SELECT $1, 'Guest ' || n, 'UTC', 'en' FROM generate_series(1, $2::int) n RETURNING id""",
        parties.house.id,
        count,
    )
    ids = [row["id"] for row in rows]
    for start in range(0, count, 1_000):
        items = [{"person_id": one} for one in ids[start : start + 1_000]]
        answer = await parties.api.post(f"/v1/events/{event['id']}/subscriptions/batch", {"items": items})
    return answer


async def test_each_gets_their_own_offsets_at_their_moment(parties: Parties) -> None:
    ann, ben, cid, dan = [await parties.guest(name) for name in ("Ann", "Ben", "Cid", "Dan")]
    event = await parties.event(1_000, location="Yard", reminder_offsets=[600])
    await parties.subscribe(event, ann, reminder_offsets=[800])
    await parties.subscribe(event, ben, reminder_offsets=[400])
    await parties.subscribe(event, cid, reminder_offsets=[])
    await parties.subscribe(event, dan)
    listed = (await parties.api.get(f"/v1/events/{event['id']}/reminders")).json["items"]
    assert [(one["offset_seconds"], one["audience"], one["state"]) for one in listed] == [
        (800, 1, "planned"), (600, 1, "planned"), (400, 1, "planned"),
    ]  # fmt: skip
    await parties.later(190)
    assert await parties.told() == []
    for seconds in (15, 200, 200):
        await parties.later(seconds)
    assert await parties.told() == [(name, "Reminder: Party") for name in ("Ann", "Dan", "Ben")]
    assert (await parties.bodies())[0].startswith("Party starts in 13 minutes 20 seconds.\n\nLocation: Yard\nTime: ")
    facts = await parties.facts("event.reminder_due")
    assert [fact["offset_seconds"] for fact in facts] == [800, 600, 400]
    assert await parties.ends() == [(f"{event['id']}/{offset}", "done", None) for offset in (800, 600, 400)]
    rows = await parties.house.rows("SELECT level, hold, expires_at FROM message")
    assert {(row["level"], row["hold"]) for row in rows} == {("warning", "quiet")}
    [start] = await parties.house.rows("SELECT start_date FROM event")
    assert max(row["expires_at"] for row in rows) == start["start_date"]


async def test_who_left_before_the_moment_hears_nothing(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event(600, reminder_offsets=[300])
    gone = await parties.subscribe(event, ann)
    await parties.subscribe(event, ben)
    path = f"/v1/events/{event['id']}/subscriptions/{gone['id']}"
    assert [(await parties.api.delete(path)).status for _ in range(2)] == [204, 204]
    await parties.later(305)
    assert await parties.told() == [("Ben", "Reminder: Party")]
    shown = (await parties.api.get(path)).json
    assert (shown["state"], shown["removed_by"], shown["reminders"][0]["state"]) == ("removed", "organizer", "past")


@pytest.mark.parametrize(("to", "state", "count"), [(1_200, "sent", 1), (400, "sent", 1), (200, "past", 0)])
async def test_a_moved_event_reminds_once_for_its_new_start(parties: Parties, to: int, state: str, count: int) -> None:
    event = await parties.event(600, reminder_offsets=[300])
    subscription = await parties.subscribe(event, await parties.guest("Ann"))
    moved = await parties.change(event, start_date=await parties.at(to), notify=False)
    assert moved.status == 200
    assert len(await parties.items()) == count
    await parties.later(to - 305)
    assert await parties.told() == []
    await parties.later(10)
    assert len(await parties.told()) == count
    await parties.later(400)
    assert len(await parties.told()) == count
    assert (await parties.reminders(event, subscription))[300][0] == state


async def test_a_reminder_on_its_way_is_withdrawn_when_the_event_moves(parties: Parties) -> None:
    event = await parties.event(600, reminder_offsets=[300])
    await parties.subscribe(event, await parties.guest("Ann"))
    await parties.pass_time(305)
    await parties.work("events.reminder")
    await parties.change(event, start_date=await parties.at(900), notify=False)
    await parties.work()
    [row] = await parties.house.rows("SELECT state, reason FROM delivery")
    assert (row["state"], row["reason"]) == ("skipped", "moved")
    await parties.later(605)
    assert await parties.told() == [("Ann", "Reminder: Party")]


async def test_of_several_that_are_overdue_only_the_nearest_comes(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event(1_000)
    both = await parties.subscribe(event, ann, reminder_offsets=[800, 600])
    await parties.subscribe(event, ben, reminder_offsets=[800])
    await parties.later(500)
    assert sorted(await parties.told()) == [("Ann", "Reminder: Party"), ("Ben", "Reminder: Party")]
    assert await parties.reminders(event, both) == {800: ("skipped", "merged"), 600: ("sent", None)}
    assert "Party starts in 8 minutes." in (await parties.bodies())[-1]


async def test_what_was_merged_for_everybody_is_no_fact(parties: Parties) -> None:
    event = await parties.event(1_000, reminder_offsets=[800, 600])
    await parties.subscribe(event, await parties.guest("Ann"))
    await parties.later(500)
    assert [fact["offset_seconds"] for fact in await parties.facts("event.reminder_due")] == [600]
    assert sorted(await parties.ends()) == [
        (f"{event['id']}/600", "done", None), (f"{event['id']}/800", "dropped", "nobody"),
    ]  # fmt: skip


@pytest.mark.parametrize(("start", "offset", "passed"), [(10_000, 6_000, 4_000 + 3_601), (600, 300, 601)])
async def test_what_comes_too_late_is_missed(parties: Parties, start: int, offset: int, passed: int) -> None:
    event = await parties.event(start, reminder_offsets=[offset])
    subscription = await parties.subscribe(event, await parties.guest("Ann"))
    await parties.later(passed)
    assert await parties.told() == []
    assert await parties.reminders(event, subscription) == {offset: ("missed", None)}
    assert await parties.facts("event.reminder_due") == []


async def test_a_reminder_at_the_start_comes_within_five_minutes(parties: Parties) -> None:
    event = await parties.event(100, reminder_offsets=[0])
    await parties.subscribe(event, await parties.guest("Ann"))
    await parties.later(250)
    assert await parties.told() == [("Ann", "Reminder: Party")]
    late = await parties.event(100, reminder_offsets=[0])
    subscription = await parties.subscribe(late, await parties.guest("Ben"))
    await parties.later(405)
    assert len(await parties.told()) == 1
    assert await parties.reminders(late, subscription) == {0: ("missed", None)}


async def test_what_was_past_when_it_was_wished_is_never_sent(parties: Parties) -> None:
    ann = await parties.guest("Ann")
    event = await parties.event(300, reminder_offsets=[600])
    subscription = await parties.subscribe(event, ann, reminder_offsets=[500, 100])
    assert await parties.items() == [f"{event['id']}/100"]
    assert await parties.reminders(event, subscription) == {500: ("past", None), 100: ("planned", None)}
    path = f"/v1/events/{event['id']}/subscriptions/{subscription['id']}"
    assert (await parties.api.patch(path, {"reminder_offsets": None})).json["effective_offsets"] == [600]
    await parties.later(205)
    assert await parties.told() == []
    assert await parties.ends() == [(f"{event['id']}/100", "dropped", "nobody")]


async def test_changed_offsets_of_the_event_are_planned_anew(parties: Parties) -> None:
    event = await parties.event(1_000, reminder_offsets=[600])
    await parties.subscribe(event, await parties.guest("Ann"))
    await parties.subscribe(event, await parties.guest("Ben"), reminder_offsets=[700])
    assert await parties.items() == [f"{event['id']}/700", f"{event['id']}/600"]
    changed = (await parties.change(event, reminder_offsets=[500, 700])).json
    assert (changed["broadcast_id"], changed["version"]) == (None, 2)
    assert await parties.items() == [f"{event['id']}/700", f"{event['id']}/500"]
    assert await parties.signals(event) == ["start"]
    await parties.change(event, reminder_offsets=[])
    assert await parties.items() == [f"{event['id']}/700"]


async def test_items_do_not_grow_with_the_audience(parties: Parties) -> None:
    event = await parties.event(3 * 86_400)
    added = await _many(parties, event, 5_000)
    assert added.json == {"added": 1_000, "already": 0}

    async def shown() -> list[str]:
        found = await parties.house.read.every(f"/v1/ops/due?kind=events.reminder&key_prefix={event['id']}/")
        return [one["key"] for one in found]

    assert len(await shown()) == 2
    await parties.change(event, start_date=await parties.at(4 * 86_400), notify=False)
    assert len(await shown()) == 2
    await parties.subscribe(event, await parties.guest("Ann"), reminder_offsets=[60])
    assert len(await shown()) == 3
    announced = await parties.api.post(f"/v1/events/{event['id']}/announcements", {"title": "Hi", "body": "all"})
    await parties.tell()
    path = f"/v1/events/{event['id']}/broadcasts/{announced.json['id']}"
    assert (await parties.api.get(path)).json["stats"] == {
        "total": 5_001, "delivered": 1, "failed": 0, "unknown": 0, "pending": 0, "skipped": 5_000, "no_targets": 5_000,
    }  # fmt: skip
    recipients = await parties.house.read.every(f"{path}/recipients?limit=200&status=delivered")
    assert [one["person_id"] for one in recipients] == list(parties.names)


async def test_a_great_audience_is_told_by_pages_and_a_repeated_page_tells_nobody_twice(parties: Parties) -> None:
    event = await parties.event(600, reminder_offsets=[300])
    await _many(parties, event, 5_003)
    await parties.pass_time(301)
    passes = []

    def fall() -> None:
        passes.append(1)
        if len(passes) == 2:
            raise RuntimeError("power cut")

    with failpoints.listen("events.reminder_told", fall):
        await parties.work("events.reminder")
        await parties.pass_time(1)
        await parties.work("events.reminder")
    [row] = await parties.house.rows("SELECT count(*) AS rows, count(DISTINCT person_id) AS people FROM delivery")
    assert (row["rows"], row["people"]) == (5_003, 5_003)
    assert len(await parties.facts("event.reminder_due")) == 1
    assert await parties.ends() == [(f"{event['id']}/300", "done", None)]


async def test_an_item_that_fires_for_what_is_no_more_is_dropped_with_its_reason(parties: Parties) -> None:
    event = await parties.event(600, reminder_offsets=[])
    planned = {"start_date": event["start_date"], "offset_seconds": 300}
    other = {**planned, "start_date": await parties.at(900)}
    now = await parties.now()
    cancelled = await parties.event(600, reminder_offsets=[])
    await parties.api.post(f"/v1/events/{cancelled['id']}/cancel")
    start = parse_instant(event["start_date"])
    await parties.house.put(
        Put("events.reminder", "4711/300", now, planned),
        Put("events.reminder", f"{event['id']}/300", now, other),
        Put("events.reminder", f"{event['id']}/60", now, {**planned, "offset_seconds": 60}),
        Put("events.reminder", f"{cancelled['id']}/300", now, {**planned, "start_date": cancelled["start_date"]}),
        Put("events.snooze", "4711", now),
        Put("events.announce", "4711", now),
        Put("events.live", "4711", now, {"start_date": event["start_date"]}),
        Put("events.live", str(cancelled["id"]), now, {"start_date": cancelled["start_date"]}),
        Put("events.live", str(event["id"]), now, {"start_date": other["start_date"]}),
    )
    await parties.work()
    assert sorted(await parties.ends()) == [
        (f"{event['id']}/300", "dropped", "moved"),
        (f"{cancelled['id']}/300", "dropped", "not_active"),
        ("4711/300", "dropped", "event_not_found"),
    ]
    [waiting] = await parties.house.rows("SELECT wake_at FROM due.due WHERE kind = 'events.reminder'")
    assert (start - waiting["wake_at"]).total_seconds() == 60
    assert [end[1:] for end in await parties.ends("events.snooze")] == [("dropped", "gone")]
    assert [end[1:] for end in await parties.ends("events.announce")] == [("dropped", "gone")]
    reasons = sorted(end[1:] for end in await parties.ends("events.live") if end[1] == "dropped")
    assert reasons == [("dropped", "event_not_found"), ("dropped", "moved"), ("dropped", "not_active")]


async def test_the_501st_offset_of_an_event_is_refused_and_unwanted_ones_make_room(parties: Parties) -> None:
    event = await parties.event(86_400 * 2, reminder_offsets=[])
    people = [await person(parties.house, f"Guest {n}") for n in range(26)]
    wanted = [list(range(20 * n + 1, 20 * n + 21)) for n in range(25)]
    items = [{"person_id": one, "reminder_offsets": mine} for one, mine in zip(people, wanted, strict=False)]
    await parties.api.post(f"/v1/events/{event['id']}/subscriptions/batch", {"items": items})
    assert len(await parties.items()) == 500
    path = f"/v1/events/{event['id']}/subscriptions"
    refused = await parties.api.post(path, {"person_id": people[-1], "reminder_offsets": [7, 1_000]})
    assert refused.fields == {"reminder_offsets": "too_many_offsets"}
    [row] = await parties.house.rows("SELECT count(*) FROM subscription")
    assert row["count"] == 25
    [first] = (await parties.api.get(f"{path}?person_id={people[0]}")).json["items"]
    await parties.api.delete(f"{path}/{first['id']}")
    taken = await parties.api.post(path, {"person_id": people[-1], "reminder_offsets": [30, 1_000]})
    assert taken.status == 201


async def test_an_offset_counts_seconds_before_the_instant_whatever_the_clocks_say(parties: Parties) -> None:
    await parties.guest("Ann")
    body = {
        "name": "Dawn", "start_date": "2027-03-14T05:30:00-05:00", "timezone": "America/New_York",
        "reminder_offsets": [86_400, 14_400],
    }  # fmt: skip
    event = (await parties.api.post("/v1/events", body)).json
    assert event["start_date"] == "2027-03-14T10:30:00Z"
    rows = await parties.house.rows("SELECT key, due_at FROM due.due WHERE kind = 'events.reminder' ORDER BY due_at")
    start = parse_instant("2027-03-14T10:30:00Z")
    assert [(start - row["due_at"]).total_seconds() for row in rows] == [86_400, 14_400]


async def test_who_has_no_way_to_be_told_is_on_record_and_the_others_are_told(parties: Parties) -> None:
    ann = await parties.guest("Ann")
    ben, cid = await person(parties.house, "Ben"), await parties.guest("Cid")
    event = await parties.event(600, reminder_offsets=[300])
    await parties.subscribe(event, ann)
    silent = await parties.subscribe(event, ben)
    muted = await parties.subscribe(event, cid, selectors=[])
    await parties.later(305)
    assert await parties.told() == [("Ann", "Reminder: Party")]
    assert await parties.reminders(event, silent) == {300: ("skipped", "no_address")}
    assert await parties.reminders(event, muted) == {300: ("skipped", "muted")}


async def test_selectors_choose_addresses_each_once(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann", tags=["phone"]), await parties.guest("Ben")
    [phone] = await parties.house.rows("SELECT id FROM address WHERE person_id = $1", ann)
    await address(parties.house, ann, "desk")
    event = await parties.event(600, reminder_offsets=[300])
    path = f"/v1/events/{event['id']}/subscriptions"
    foreign = await parties.api.post(path, {"person_id": ben, "selectors": [{"address_id": phone["id"]}]})
    assert foreign.fields == {"selectors.0.address_id": "foreign_selector"}
    assert (await parties.api.post(path, {"person_id": ben, "selectors": [{}]})).status == 422
    await parties.subscribe(event, ann, selectors=[{"address_id": phone["id"]}, {"tag": "phone"}])
    lost = await parties.subscribe(event, ben, selectors=[{"tag": "fax"}])
    await parties.later(305)
    assert await parties.told() == [("Ann", "Reminder: Party")]
    assert await parties.reminders(event, lost) == {300: ("skipped", "no_match")}


async def test_why_names_the_subscription_the_offset_and_whose_wish_it_is(parties: Parties) -> None:
    ann, ben, cid = [await parties.guest(name) for name in ("Ann", "Ben", "Cid")]
    event = await parties.event(600, reminder_offsets=[300])
    one = await parties.subscribe(event, ann)
    await parties.subscribe(event, ben, reminder_offsets=[60])
    await parties.later(305)
    [row] = await parties.house.rows("SELECT id, cause FROM delivery WHERE person_id = $1", ann)
    why = (await parties.house.read.get(f"/v1/why/delivery/{row['id']}")).json
    assert f"subscription {one['id']} to “Party” asks to be reminded 300 seconds before the start" in why["sentence"]
    assert "which is the event's" in why["sentence"]
    told = "\n".join(step["text"] for step in why["steps"])
    assert "Promised 300 seconds before the start" in told
    assert f"Subscription {one['id']} to “Party” was begun by the API." in told
    for person_id, reason in ((ben, "does not ask for this offset"), (cid, "never subscribed")):
        chain = (await parties.house.read.get(f"/v1/why/person/{person_id}?cause_prefix={row['cause']}")).json
        assert any(reason in step["text"] for step in chain["steps"])
    [item] = (await parties.house.read.get("/v1/ops/due?kind=events.reminder")).json["items"]
    assert (item["label"], item["link"]) == ("Remind of “Party”, which starts in 1 minute", f"/events/{event['id']}")
    coming = (await parties.house.read.get(f"/v1/why/person/{ben}")).json
    assert any("A reminder 60 seconds before the start of “Party”" in step["text"] for step in coming["steps"])
    waiting = (await parties.house.read.get(f"/v1/why/due/{item['id']}")).json
    assert "Party" in waiting["sentence"]


async def test_why_tells_of_broadcasts_and_all_else_of_an_event(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event(reminder_offsets=[])
    one = await parties.subscribe(event, ann, welcome=True)
    gone = await parties.subscribe(event, ben)
    path = f"/v1/events/{event['id']}"
    await parties.api.post(f"{path}/subscriptions/{one['id']}/snoozes", {"in_seconds": 60})
    changed = (await parties.change(event, location="Hall", name="Feast")).json["broadcast_id"]
    await parties.api.post(f"{path}/announcements", {"title": "Hi", "body": "you", "subscription_ids": [one["id"]]})
    await parties.tell()
    await parties.api.delete(f"{path}/subscriptions/{gone['id']}")
    await parties.later(65)
    rows = await parties.house.rows("SELECT id, cause FROM delivery WHERE person_id = $1 ORDER BY id", ann)
    stories = [(await parties.house.read.get(f"/v1/why/delivery/{row['id']}")).json for row in rows]
    because = [story["sentence"].partition("because ")[2] for story in stories]
    assert because == [
        "they were subscribed to “Feast”.",
        f"subscription {one['id']} to “Feast” hears of a change.",
        f"subscription {one['id']} to “Feast” hears of an announcement.",
        "it was asked for on the subscription to “Feast”.",
    ]
    assert any("Changed: location, name." in step["text"] for step in stories[1]["steps"])
    prefix = rows[2]["cause"]
    chain = (await parties.house.read.get(f"/v1/why/person/{ben}?cause_prefix={prefix}")).json
    told = "\n".join(step["text"] for step in chain["steps"])
    assert "for chosen subscriptions, and not for this one" in told
    assert "ended: the organizer removed it" in told
    assert changed
    [item] = await parties.house.rows("SELECT id FROM due.due_past WHERE kind = 'events.snooze'")
    snoozed = (await parties.house.read.get(f"/v1/why/due/{item['id']}")).json
    assert any("“Reminder: Feast” was sent" in step["text"] for step in snoozed["steps"])
