"""Subscriptions over HTTP: come, change, go and come back; many at once; who is erased leaves all."""

from typing import Any

from tests.support.parties import Parties
from tests.support.telling import person


async def test_somebody_comes_leaves_and_comes_back_under_the_same_id(parties: Parties) -> None:
    ann = await parties.guest("Ann")
    event = await parties.event(3_000, location="Yard", link="https://example.org/party")
    path = f"/v1/events/{event['id']}/subscriptions"
    made = await parties.api.post(path, {"person_id": ann, "reminder_offsets": [60, 120, 60]})
    assert made.status == 201
    one = made.json
    assert made.headers["location"] == f"{path}/{one['id']}"
    assert (one["reminder_offsets"], one["effective_offsets"], one["version"]) == ([120, 60], [120, 60], 1)
    assert [(each["offset_seconds"], each["state"]) for each in one["reminders"]] == [(120, "planned"), (60, "planned")]
    again = await parties.api.post(path, {"person_id": ann})
    assert (again.refused, again.json["subscription_id"]) == ((409, "already_subscribed"), one["id"])
    await parties.work()
    assert await parties.told() == [("Ann", "Subscribed: Party")]
    [letter] = await parties.house.rows("SELECT calendar, link FROM message")
    assert letter["calendar"].startswith("BEGIN:VCALENDAR")
    assert letter["link"] == "https://example.org/party"
    await parties.api.delete(f"{path}/{one['id']}")
    back = (await parties.api.post(path, {"person_id": ann, "welcome": True})).json
    assert (back["id"], back["activations"], back["reminder_offsets"]) == (one["id"], 2, None)
    assert back["effective_offsets"] == [86_400, 3_600]
    await parties.work()
    assert len(await parties.told()) == 2
    added, removed = await parties.facts("event.subscriber_added"), await parties.facts("event.subscriber_removed")
    assert [(fact["subscription_id"], fact["source"]) for fact in added] == [(one["id"], "api")] * 2
    assert [(fact["person_id"], fact["removed_by"]) for fact in removed] == [(ann, "organizer")]
    causes = [row["cause"] for row in await parties.house.rows("SELECT cause FROM message ORDER BY id")]
    assert causes == [f"event/{event['id']}/welcome/{one['id']}/{n}" for n in (1, 2)]


async def test_who_leaves_gets_nothing_that_was_on_its_way(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event(reminder_offsets=[])
    gone = await parties.subscribe(event, ann, welcome=True)
    await parties.subscribe(event, ben, welcome=True)
    path = f"/v1/events/{event['id']}/subscriptions/{gone['id']}"
    await parties.api.post(f"{path}/snoozes", {"in_seconds": 60})
    await parties.api.delete(path)
    await parties.later(70)
    assert await parties.told() == [("Ben", "Subscribed: Party")]
    rows = await parties.house.rows("SELECT reason FROM delivery WHERE person_id = $1", ann)
    assert [row["reason"] for row in rows] == ["unsubscribed"]
    [snooze] = (await parties.api.get(f"{path}/snoozes")).json["items"]
    assert (snooze["state"], snooze["reason"]) == ("dropped", "unsubscribed")


async def test_a_subscription_changes_what_is_named(parties: Parties) -> None:
    event = await parties.event()
    one = await parties.subscribe(event, await parties.guest("Ann"), reminder_offsets=[600])
    path = f"/v1/events/{event['id']}/subscriptions/{one['id']}"
    [before] = await parties.house.rows("SELECT asked_at FROM subscription")
    same = await parties.api.patch(path, {"reminder_offsets": [600], "selectors": None})
    assert same.json["version"] == 1
    muted = await parties.api.patch(path, {"selectors": []}, if_match='"1"')
    assert (muted.json["version"], muted.json["selectors"], muted.json["reminder_offsets"]) == (2, [], [600])
    [after] = await parties.house.rows("SELECT asked_at FROM subscription")
    assert after["asked_at"] == before["asked_at"]
    assert (await parties.api.patch(path, {"selectors": []}, if_match='"1"')).status == 412
    assert (await parties.api.patch(path, {"reminder_offsets": [60]})).json["effective_offsets"] == [60]
    [last] = await parties.house.rows("SELECT asked_at FROM subscription")
    assert last["asked_at"] > before["asked_at"]
    assert f"{event['id']}/60" in await parties.items()
    tagged = await parties.api.patch(path, {"selectors": [{"tag": "phone"}, {"address_id": 4711}]})
    assert tagged.fields == {"selectors.1.address_id": "foreign_selector"}


async def test_many_come_at_once_or_nobody_does(parties: Parties) -> None:
    people = [await person(parties.house, f"Guest {n}") for n in range(3)]
    event = await parties.event()
    path = f"/v1/events/{event['id']}/subscriptions/batch"
    wrong: list[dict[str, Any]] = [{"person_id": people[0]}, {"person_id": 4711}, {"person_id": people[1], "x": 1}]
    assert (await parties.api.post(path, {"items": wrong})).fields == {"items.2.x": "unknown_field"}
    assert (await parties.api.post(path, {"items": wrong[:2]})).fields == {"items.1.person_id": "unknown_person"}
    assert (await parties.api.get(f"/v1/events/{event['id']}")).json["subscribers"] == 0
    twice = [{"person_id": one} for one in (*people[:2], people[0])]
    assert (await parties.api.post(path, {"items": twice})).json == {"added": 2, "already": 1}
    every = {"items": [{"person_id": one} for one in people], "welcome": True}
    assert (await parties.api.post(path, every)).json == {"added": 1, "already": 2}
    rows = await parties.house.rows("SELECT person_id FROM delivery")
    assert [row["person_id"] for row in rows] == [people[2]]


async def test_subscriptions_are_listed_and_searched(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event()
    first, second = await parties.subscribe(event, ann), await parties.subscribe(event, ben)
    path = f"/v1/events/{event['id']}/subscriptions"
    await parties.api.delete(f"{path}/{second['id']}")

    async def found(query: str) -> list[int]:
        return [one["id"] for one in await parties.house.read.every(path + query)]

    assert await found("?limit=1") == [first["id"], second["id"]]
    assert await found("?state=active") == await found("?q=nn") == await found(f"?person_id={ann}") == [first["id"]]
    assert await found("?state=removed") == [second["id"]]
    assert (await parties.api.get(f"{path}/4711")).status == 404


async def test_who_is_erased_leaves_every_event(parties: Parties) -> None:
    ann = await parties.guest("Ann")
    events = [await parties.event(), await parties.event()]
    for event in events:
        await parties.subscribe(event, ann)
    exported = (await parties.house.admin.get(f"/v1/people/{ann}/export")).json
    assert [one["event_id"] for one in exported["subscriptions"]] == [event["id"] for event in events]
    assert (await parties.api.delete(f"/v1/people/{ann}")).status == 204
    for event in events:
        [one] = (await parties.api.get(f"/v1/events/{event['id']}/subscriptions")).json["items"]
        assert (one["state"], one["removed_by"]) == ("removed", "erased")
    assert [fact["removed_by"] for fact in await parties.facts("event.subscriber_removed")] == ["erased", "erased"]
    back = await parties.api.post(f"/v1/events/{events[0]['id']}/subscriptions", {"person_id": ann})
    assert back.fields == {"person_id": "unknown_person"}


async def test_a_snooze_has_one_moment_within_reason(parties: Parties) -> None:
    event = await parties.event()
    one = await parties.subscribe(event, await parties.guest("Ann"))
    path = f"/v1/events/{event['id']}/subscriptions/{one['id']}/snoozes"
    both = {"at": await parties.at(60), "in_seconds": 1}
    for wish in (both, {}, {"in_seconds": 0}, {"in_seconds": 2_592_001}):
        assert (await parties.api.post(path, wish)).status == 422
    assert (await parties.api.get(path)).json["items"] == []


async def test_a_snooze_reaches_one_person_once_wherever_the_event_moves(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    event = await parties.event(3_600, 7_200, reminder_offsets=[])
    one = await parties.subscribe(event, ann)
    await parties.subscribe(event, ben)
    path = f"/v1/events/{event['id']}/subscriptions/{one['id']}/snoozes"
    kept = (await parties.api.post(path, {"in_seconds": 120})).json
    gone = (await parties.api.post(path, {"at": await parties.at(60)})).json
    assert [(await parties.api.delete(f"{path}/{gone['id']}")).status for _ in range(2)] == [204, 204]
    assert (await parties.api.delete(f"{path}/4711")).status == 404
    assert (await parties.api.post(path, {"at": await parties.at(-5)})).fields == {"at": "in_past"}
    assert (await parties.api.post(path, {"at": await parties.at(7_300)})).fields == {"at": "after_end"}
    await parties.change(event, start_date=await parties.at(5_400), notify=False)
    await parties.later(125)
    await parties.later(60)
    assert await parties.told() == [("Ann", "Reminder: Party")]
    assert [(row["id"], row["state"], row["reason"]) for row in (await parties.api.get(path)).json["items"]] == [
        (gone["id"], "dropped", "removed"), (kept["id"], "told", None),
    ]  # fmt: skip
    assert (await parties.bodies())[0].startswith("Party starts in 1 hour ")


async def test_a_snooze_that_comes_too_late_or_after_the_end_says_so(parties: Parties) -> None:
    event = await parties.event(8 * 3_600, 9 * 3_600, reminder_offsets=[])
    one = await parties.subscribe(event, await parties.guest("Ann"))
    path = f"/v1/events/{event['id']}/subscriptions/{one['id']}/snoozes"
    await parties.api.post(path, {"in_seconds": 60})
    await parties.later(60 + 3_700)
    await parties.api.post(path, {"in_seconds": 5 * 3_600})
    await parties.later(9 * 3_600)
    assert await parties.told() == []
    rows = (await parties.api.get(path)).json["items"]
    assert [row["reason"] for row in rows] == ["event_closed", "too_late"]


async def test_a_subscription_has_twenty_snoozes_at_most(parties: Parties) -> None:
    event = await parties.event()
    one = await parties.subscribe(event, await parties.guest("Ann"))
    path = f"/v1/events/{event['id']}/subscriptions/{one['id']}/snoozes"
    answers = [await parties.api.post(path, {"in_seconds": 60 + n}) for n in range(21)]
    assert [one.status for one in answers] == [201] * 20 + [409]
    assert answers[-1].code == "too_many"
    assert len(await parties.items("events.snooze")) == 20
