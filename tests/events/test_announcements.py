"""What is told at once, over HTTP: announcements now and later, changes gathered into one, figures and recipients."""

from typing import Any

from soonish.events.actions.telling import tell_page
from tests.support.parties import Parties
from tests.support.telling import address, deliveries, end, person


async def test_an_announcement_reaches_those_it_names(parties: Parties) -> None:
    people = [await parties.guest(name) for name in ("Ann", "Ben", "Cid")]
    event, other = await parties.event(), await parties.event()
    ann, _, cid = [await parties.subscribe(event, one) for one in people]
    foreign = await parties.subscribe(other, people[0])
    path = f"/v1/events/{event['id']}/announcements"
    said: dict[str, Any] = {"title": "Bring cake", "body": "Or\n\tbread"}
    wrong = await parties.api.post(path, {**said, "subscription_ids": [ann["id"], foreign["id"], 4711]})
    assert wrong.fields == {
        "subscription_ids.1": "unknown_subscription", "subscription_ids.2": "unknown_subscription",
    }  # fmt: skip
    assert await parties.signals(event) == ["start"]
    some = await parties.api.post(path, {**said, "subscription_ids": [cid["id"], ann["id"], ann["id"]]})
    assert some.status == 201
    assert some.headers["location"] == f"/v1/events/{event['id']}/broadcasts/{some.json['id']}"
    nobody = await parties.api.post(path, {**said, "subscription_ids": []})
    critical = await parties.api.post(path, {**said, "title": "Fire", "notification_level": "critical"})
    await parties.tell()
    told = [("Ann", "Bring cake"), ("Cid", "Bring cake"), ("Ann", "Fire"), ("Ben", "Fire"), ("Cid", "Fire")]
    assert sorted(await parties.told()) == sorted(told)
    shown = (await parties.api.get(f"/v1/events/{event['id']}/broadcasts")).json["items"]
    assert [(one["id"], one["state"]) for one in shown] == [
        (one.json["id"], "told") for one in (critical, nobody, some)
    ]  # fmt: skip
    path = f"/v1/events/{event['id']}/broadcasts/{nobody.json['id']}"
    assert (await parties.api.get(path)).json["stats"]["total"] == 0
    assert await parties.signals(event) == ["start", *["send_manual_notification"] * 3]


WRONG: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"title": ""}, {"title": "length"}),
    ({"title": "x" * 201, "body": ""}, {"title": "length", "body": "length"}),
    ({"title": "a\r\nBcc: all"}, {"title": "control_character"}),
    ({"notification_level": "loud"}, {"notification_level": "one_of"}),
    ({"send_at": "2020-01-01T00:00:00Z"}, {"send_at": "in_past"}),
    ({"send_at": "2100-01-01T00:00:00Z"}, {"send_at": "after_end"}),
    ({"subscription_ids": [0]}, {"subscription_ids.0": "range"}),
]


async def test_what_an_announcement_cannot_be_is_named(parties: Parties) -> None:
    event = await parties.event()
    path = f"/v1/events/{event['id']}/announcements"
    for wrong, fields in WRONG:
        for where in (path, f"{path}/preview"):
            answer = await parties.api.post(where, {"title": "Hi", "body": "there"} | wrong)
            assert (answer.status, answer.fields) == (422, fields)
    assert (await parties.api.get(f"/v1/events/{event['id']}/broadcasts")).json["items"] == []


async def test_a_preview_counts_whom_it_would_reach_and_tells_nobody(parties: Parties) -> None:
    ann, ben, cid = [await parties.guest(name) for name in ("Ann", "Ben", "Cid")]
    await address(parties.house, ann, "desk")
    event = await parties.event()
    await parties.subscribe(event, ann)
    muted = await parties.subscribe(event, ben, selectors=[])
    await parties.subscribe(event, cid, selectors=[{"tag": "fax"}])
    path = f"/v1/events/{event['id']}/announcements/preview"
    said: dict[str, Any] = {"title": "Hi", "body": "there"}
    assert (await parties.api.post(path, said)).json == {"total": 3, "targets": 2, "no_targets": 2}
    some = await parties.api.post(path, {**said, "subscription_ids": [muted["id"]]})
    assert some.json == {"total": 1, "targets": 0, "no_targets": 1}
    await parties.tell()
    assert await parties.told() == []


async def test_an_announcement_waits_for_its_moment_with_its_last_words(parties: Parties) -> None:
    event = await parties.event()
    await parties.subscribe(event, await parties.guest("Ann"), reminder_offsets=[])
    path = f"/v1/events/{event['id']}"
    said = {"title": "Doors open", "body": "Now", "send_at": await parties.at(600)}
    kept = (await parties.api.post(f"{path}/announcements", said)).json
    gone = (await parties.api.post(f"{path}/announcements", said)).json
    assert (kept["state"], kept["send_at"]) == ("scheduled", said["send_at"])
    changed = await parties.api.patch(f"{path}/broadcasts/{kept['id']}", {"title": "Doors are open", "body": "Come in"})
    assert (changed.json["title"], changed.json["send_at"]) == ("Doors are open", said["send_at"])
    late = await parties.api.patch(f"{path}/broadcasts/{kept['id']}", {"send_at": "2100-01-01T00:00:00Z"})
    assert late.fields == {"send_at": "after_end"}
    assert [(await parties.api.delete(f"{path}/broadcasts/{gone['id']}")).status for _ in range(2)] == [204, 204]
    await parties.later(590)
    await parties.tell()
    assert await parties.told() == []
    await parties.later(15)
    await parties.tell()
    assert await parties.told() == [("Ann", "Doors are open")]
    assert (await parties.api.patch(f"{path}/broadcasts/{kept['id']}", {"title": "x"})).code == "already_queued"
    assert (await parties.api.delete(f"{path}/broadcasts/{kept['id']}")).code == "already_queued"
    shown = (await parties.api.get(f"{path}/broadcasts/{gone['id']}")).json
    assert (shown["state"], shown["reason"]) == ("withdrawn", "by_organizer")
    assert (await parties.api.get(f"{path}/broadcasts/4711")).status == 404


async def test_an_announcement_that_meets_the_end_is_withdrawn(parties: Parties) -> None:
    event = await parties.event(600, 1_200)
    said = {"title": "Hi", "body": "there", "send_at": await parties.at(900)}
    waiting = (await parties.api.post(f"/v1/events/{event['id']}/announcements", said)).json
    await parties.pass_time(1_300)
    await parties.work()
    shown = (await parties.api.get(f"/v1/events/{event['id']}/broadcasts/{waiting['id']}")).json
    assert (shown["state"], shown["reason"]) == ("withdrawn", "event_closed")


async def test_changes_in_a_row_become_one_message(parties: Parties) -> None:
    await parties.house.admin.patch("/v1/event-defaults", {"coalesce_s": 60})
    event = await parties.event(location="Yard", description="Old")
    await parties.subscribe(event, await parties.guest("Ann"), reminder_offsets=[])
    first = (await parties.change(event, location="Hall", note="It rains.")).json["broadcast_id"]
    for fields in ({"location": "Barn"}, {"name": "Feast", "note": "And pours."}, {"description": "x"}):
        assert (await parties.change(event, **fields)).json["broadcast_id"] == first
    await parties.change(event, description="Old")
    assert await parties.signals(event) == ["start", *["event_updated"] * 5]
    await parties.tell()
    assert await parties.told() == []
    await parties.later(61)
    await parties.tell()
    assert await parties.told() == [("Ann", "Event Update: Feast")]
    [body] = await parties.bodies()
    assert body == (
        "Event details have been updated:\n• Name: Feast\n• Location: Barn (was Yard)\n\nIt rains.\n\nAnd pours."
    )
    assert (await parties.signals(event))[-1] == "event_updated"
    assert len(await parties.facts("event.updated")) == 5


async def test_what_was_changed_back_is_told_to_nobody(parties: Parties) -> None:
    await parties.house.admin.patch("/v1/event-defaults", {"coalesce_s": 60})
    event = await parties.event(location="Yard")
    await parties.subscribe(event, await parties.guest("Ann"), reminder_offsets=[])
    broadcast_id = (await parties.change(event, location="Hall")).json["broadcast_id"]
    await parties.change(event, location="Yard")
    await parties.later(61)
    shown = (await parties.api.get(f"/v1/events/{event['id']}/broadcasts/{broadcast_id}")).json
    assert (shown["state"], shown["reason"]) == ("withdrawn", "no_change")
    again = (await parties.change(event, location="Barn")).json["broadcast_id"]
    assert again != broadcast_id


async def test_changes_that_never_stop_are_told_after_a_while(parties: Parties) -> None:
    await parties.house.admin.patch("/v1/event-defaults", {"coalesce_s": 60})
    event = await parties.event()
    await parties.subscribe(event, await parties.guest("Ann"), reminder_offsets=[])
    for n in range(9):
        await parties.change(event, location=f"Place {n}")
        await parties.later(40)
    await parties.tell()
    assert len(await parties.told()) == 1


async def test_figures_count_subscriptions_and_recipients_name_each(parties: Parties) -> None:
    ann, ben = await parties.guest("Ann"), await parties.guest("Ben")
    await address(parties.house, ann, "desk")
    cid = await person(parties.house, "Cid")
    event = await parties.event()
    subscriptions = [await parties.subscribe(event, one) for one in (ann, ben, cid)]
    path = f"/v1/events/{event['id']}"
    made = (await parties.api.post(f"{path}/announcements", {"title": "Hi", "body": "there"})).json
    async with parties.house.db.transaction(parties.house.id) as tx:
        while not await tell_page(tx, parties.events, event["id"], made["id"], None):
            pass
    first, second, third, _ = await deliveries(parties.house, f"event/{event['id']}/broadcast/{made['id']}")
    await end(parties.house, first, "sent")
    await end(parties.house, second, "failed", "http_503")
    await end(parties.house, third, "failed", "http_404")
    path = f"{path}/broadcasts/{made['id']}"
    assert (await parties.api.get(path)).json["stats"] == {
        "total": 3, "delivered": 1, "failed": 1, "unknown": 0, "pending": 0, "skipped": 1, "no_targets": 1,
    }  # fmt: skip
    recipients = await parties.house.read.every(f"{path}/recipients?limit=2")
    assert [(one["subscription_id"], one["status"], one["reason"]) for one in recipients] == [
        (subscriptions[0]["id"], "delivered", None),
        (subscriptions[1]["id"], "failed", "http_404"),
        (subscriptions[2]["id"], "no_targets", "no_address"),
    ]
    assert (recipients[0]["tried"], recipients[0]["delivered"], recipients[0]["failed"]) == (2, 1, 1)
    assert recipients[0]["delivery_ids"] == [first, second]
    assert recipients[2]["tried"] == 0
    failed = await parties.house.read.every(f"{path}/recipients?status=failed")
    assert [one["person_id"] for one in failed] == [ben]
