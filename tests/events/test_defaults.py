"""What holds where an event says nothing: shown, changed, and carried to the events that inherit it."""

from datetime import timedelta
from pathlib import Path

from soonish.clock import parse_instant, show_instant
from soonish.events.actions.replanning import PAGE, ask_to_convert
from tests.support.parties import Parties
from tests.support.site import site


async def test_defaults_are_the_operators_until_a_workspace_says_otherwise(parties: Parties) -> None:
    shown = await parties.house.read.get("/v1/event-defaults")
    unsaid = {"reminder_offsets": None, "default_duration_s": None, "coalesce_s": None}
    assert {name: shown.json[name] for name in unsaid} == unsaid
    changed = await parties.house.admin.patch(
        "/v1/event-defaults", {"reminder_offsets": [60, 600, 60], "default_duration_s": 7_200}, if_match='"1"'
    )
    assert (changed.json["reminder_offsets"], changed.json["version"]) == ([600, 60], 2)
    same = await parties.house.admin.patch("/v1/event-defaults", {"reminder_offsets": [600, 60]})
    assert same.json["version"] == 2
    assert (await parties.house.admin.patch("/v1/event-defaults", {"coalesce_s": 1}, if_match='"1"')).status == 412
    event = await parties.event(3_600)
    assert event["effective_offsets"] == [600, 60]
    assert event["effective_end_date"] == _plus(event["start_date"], 7_200)
    other = await parties.site.acme.admin.get("/v1/event-defaults")
    assert other.json["reminder_offsets"] is None


async def test_a_default_has_the_limits_of_what_it_stands_for(parties: Parties) -> None:
    wrong = {"reminder_offsets": [-1], "default_duration_s": 31_622_401, "coalesce_s": 86_401}
    answer = await parties.house.admin.patch("/v1/event-defaults", wrong)
    fields = {"reminder_offsets.0": "range", "default_duration_s": "range", "coalesce_s": "range"}
    assert (answer.status, answer.fields) == (422, fields)
    assert (await parties.house.admin.patch("/v1/event-defaults", {"default_duration_s": 0})).status == 422


async def test_a_changed_default_reaches_the_events_that_inherit(parties: Parties) -> None:
    inherits = await parties.event(3_000, reminder_offsets=None)
    own = await parties.event(3_000, reminder_offsets=[900])
    subscription = await parties.subscribe(inherits, await parties.guest("Ann"))
    await parties.subscribe(inherits, await parties.guest("Ben"), reminder_offsets=[1_200])
    await parties.house.admin.patch("/v1/event-defaults", {"reminder_offsets": [3_200, 600]})
    await parties.work()
    assert sorted(await parties.items()) == sorted(
        [f"{inherits['id']}/1200", f"{inherits['id']}/600", f"{own['id']}/900"]
    )
    assert await parties.reminders(inherits, subscription) == {3_200: ("past", None), 600: ("planned", None)}
    assert (await parties.api.get(f"/v1/events/{inherits['id']}")).json["version"] == 1
    await parties.later(2_500)
    assert sorted(await parties.told()) == [("Ann", "Reminder: Party"), ("Ben", "Reminder: Party")]


async def test_many_events_are_planned_anew_by_pages(parties: Parties) -> None:
    await parties.event(3_000)
    await parties.house.run(
        """INSERT INTO event (workspace_id, name, timezone, start_date, effective_end_date, state, reminder_engine)
           SELECT e.workspace_id, 'Copy', 'UTC', e.start_date, e.effective_end_date, 'scheduled', 'due'
           FROM event e, generate_series(1, $1::int)""",
        PAGE + 4,
    )
    await parties.house.admin.patch("/v1/event-defaults", {"reminder_offsets": [600]})
    await parties.work()
    assert len(await parties.items()) == PAGE + 5
    assert [end[1] for end in await parties.ends("events.replan")] == ["done"]


async def test_the_other_engine_takes_over_what_is_open(database_url: str, tmp_path: Path) -> None:
    async with site(database_url, tmp_path) as first:
        parties = Parties(first, first.main)
        event, over = await parties.event(3_000, reminder_offsets=[600]), await parties.event(3_000)
        await parties.api.post(f"/v1/events/{over['id']}/cancel")
        assert parties.events.terms.reminder_engine == "due"
        await ask_to_convert(parties.house.db, parties.events.terms)
        assert await parties.items("events.replan") == []
        await parties.house.run("UPDATE event SET reminder_engine = 'temporal'")
        await parties.house.run("DELETE FROM due.due WHERE kind = 'events.reminder'")
        for _ in range(2):
            await ask_to_convert(parties.house.db, parties.events.terms)
        assert await parties.items("events.replan") == [str(parties.house.id)]
        await parties.work()
        assert await parties.items() == [f"{event['id']}/600"]
        assert (await parties.api.get(f"/v1/events/{event['id']}")).json["reminder_engine"] == "due"
        assert await parties.signals(event) == ["start", "event_updated"]
        assert await parties.signals(over) == ["start", "cancel_event"]


def _plus(at: str, seconds: int) -> str:
    return show_instant(parse_instant(at) + timedelta(seconds=seconds))
