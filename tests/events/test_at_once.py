"""Two at once, or the same twice: the lock of the event decides, and nothing is lost, doubled or told too late."""

import asyncio

from soonish import failpoints
from soonish.access.actions.audit import system_caller
from soonish.due import drain
from soonish.events.actions.rows import lock_event
from soonish.events.actions.subscriptions import subscribe
from tests.support.due import until
from tests.support.parties import Parties


async def test_after_a_cancel_has_answered_nobody_joins(parties: Parties) -> None:
    event = await parties.event()
    people = [await parties.guest(f"Guest {n}") for n in range(12)]
    path = f"/v1/events/{event['id']}"

    async def join(person_id: int) -> int:
        answer = await parties.api.post(f"{path}/subscriptions", {"person_id": person_id, "welcome": False})
        return answer.status

    joining = [asyncio.create_task(join(one)) for one in people[:6]]
    assert (await parties.api.post(f"{path}/cancel", {})).status == 200
    assert [await join(one) for one in people[6:]] == [409] * 6
    assert set(await asyncio.gather(*joining)) <= {201, 409}
    rows = await parties.house.rows("SELECT count(*) FROM subscription")
    assert rows[0]["count"] == sum([task.result() == 201 for task in joining])


async def test_changes_at_once_have_one_order_and_each_is_told(parties: Parties) -> None:
    event = await parties.event(location="0")
    await parties.subscribe(event, await parties.guest("Ann"), reminder_offsets=[])
    answers = await asyncio.gather(*(parties.change(event, location=f"Place {n}") for n in range(8)))
    assert sorted(answer.json["version"] for answer in answers) == list(range(2, 10))
    changes = reversed((await parties.api.get(f"/v1/events/{event['id']}/changes")).json["items"])
    steps = [(one["changes"]["location"]["old"], one["changes"]["location"]["new"]) for one in changes]
    assert [old for old, _ in steps] == ["0", *(new for _, new in steps[:-1])]
    signals = await parties.house.rows("SELECT payload ->> 'location' AS place FROM event_signal ORDER BY id")
    assert [row["place"] for row in signals][1:] == [new for _, new in steps]
    await parties.tell()
    assert len(await parties.told()) == 8


async def test_the_same_wish_sent_twice_makes_one_event(parties: Parties) -> None:
    body = {"name": "Party", "start_date": await parties.at(3_600)}
    answers = [await parties.api.post("/v1/events", body, idempotency_key="once") for _ in range(2)]
    assert answers[0].json == answers[1].json
    event = answers[0].json
    ann = await parties.guest("Ann")
    path = f"/v1/events/{event['id']}"
    said = {"title": "Hi", "body": "there"}
    twice = [await parties.api.post(f"{path}/announcements", said, idempotency_key="said") for _ in range(2)]
    assert twice[0].json["id"] == twice[1].json["id"]
    joined = await asyncio.gather(*(parties.api.post(f"{path}/subscriptions", {"person_id": ann}) for _ in range(3)))
    assert sorted(answer.status for answer in joined) == [201, 409, 409]
    assert await parties.signals(event) == ["start", "send_manual_notification"]
    assert len(await parties.facts("event.subscriber_added")) == 1


async def test_a_change_that_meets_a_firing_reminder_waits_or_wins(parties: Parties) -> None:
    event = await parties.event(600, reminder_offsets=[300])
    await parties.subscribe(event, await parties.guest("Ann"))
    await parties.pass_time(305)
    assert parties.site.process
    kind = parties.site.process.kinds["events.reminder"]
    fired = asyncio.Event()
    with failpoints.listen("events.reminder_told", fired.set):
        async with parties.house.db.transaction(parties.house.id) as tx:
            await lock_event(tx, event["id"])
            firing = asyncio.create_task(drain(parties.house.db.loops, [kind]))
            moving = asyncio.create_task(parties.change(event, start_date=await parties.at(900), notify=False))
            assert not fired.is_set()
        await firing
        moved = await moving
    await parties.work()
    assert moved.status == 200
    rows = await parties.house.rows("SELECT state, reason FROM delivery")
    assert [(row["state"], row["reason"]) for row in rows] in ([], [("skipped", "moved")], [("sent", None)])
    assert await parties.items() == [f"{event['id']}/300"]
    before = len(await parties.told())
    await parties.later(605)
    assert len(await parties.told()) == before + 1


async def test_who_is_just_subscribing_when_a_reminder_fires_is_waited_for(parties: Parties) -> None:
    event = await parties.event(600, reminder_offsets=[300])
    ann = await parties.guest("Ann")
    await parties.pass_time(305)
    caller, db = system_caller(parties.house.id), parties.house.db
    async with db.transaction(parties.house.id) as tx:
        await subscribe(tx, parties.events, caller, event["id"], ann, welcome=False)
        await tx.execute("UPDATE subscription SET asked_at = asked_at - interval '1 h'")  # a moment before the moment
        firing = asyncio.create_task(parties.work("events.reminder"))
        await until(lambda: db.loops.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))
        assert not firing.done()
    await firing
    await parties.work()
    assert await parties.told() == [("Ann", "Reminder: Party")]


async def test_new_offsets_that_come_at_once_get_one_item_each(parties: Parties) -> None:
    event = await parties.event(reminder_offsets=[])
    people = [await parties.guest(f"Guest {n}") for n in range(8)]
    await asyncio.gather(
        *(parties.subscribe(event, one, reminder_offsets=[600, 60 + n % 2]) for n, one in enumerate(people))
    )
    assert await parties.items() == [f"{event['id']}/{offset}" for offset in (600, 61, 60)]
