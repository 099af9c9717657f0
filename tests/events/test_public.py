"""What is behind the links of events: pages for everybody, ways out and back, calendar files; without script."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from soonish.access.actions.audit import system_caller
from soonish.events.actions.cancelling import cancel_event
from soonish.events.actions.events import change_event, rotate_link
from soonish.events.model.events import Event
from soonish.web.reading import IfMatch
from tests.events.test_calendar import only, read
from tests.support.desk import text_of
from tests.support.guests import PUBLIC, Guests, guests, path_in, soon

HTML = {"accept": "text/html"}


@pytest.fixture
async def party(database_url: str, tmp_path: Path) -> AsyncIterator[Guests]:
    async with guests(database_url, tmp_path) as found:
        yield found


async def subscription(party: Guests) -> dict[str, Any]:
    [row] = await party.house.rows("SELECT * FROM subscription")
    return dict(row)


async def change(party: Guests, event: Event, **wish: Any) -> Event:
    caller = system_caller(party.house.id)
    async with party.house.db.transaction(party.house.id) as tx:
        return (await change_event(tx, party.events, caller, event.id, wish, IfMatch(None))).event


async def cancel(party: Guests, event: Event, message: str | None = None) -> Event:
    async with party.house.db.transaction(party.house.id) as tx:
        return await cancel_event(tx, party.events, system_caller(party.house.id), event.id, message=message)


async def tell(party: Guests, event: Event) -> int:
    """A message to all who are subscribed, as a broadcast reaches them; answers how many mails there are more."""
    from soonish.delivery.model.letters import Message, Recipient
    from soonish.events.model.links import merge_of

    before = len(party.mails())
    rows = await party.house.rows("SELECT * FROM subscription WHERE event_id = $1 AND state = 'active'", event.id)
    async with party.house.db.transaction(party.house.id) as tx:
        people = [Recipient(row["person_id"], None, merge_of(event, row["id"])) for row in rows]
        cause = f"event/{event.id}/broadcast/{before}"
        await party.events.outbox.tell(tx, cause, Message(title="News", body="..."), people)
    await party.work()
    return len(party.mails()) - before


# --- the page of an event


async def test_the_page_says_what_when_and_where_and_names_nobody(party: Guests) -> None:
    start = soon(days=400).replace(year=2027, month=7, day=1, hour=16, minute=0, second=0)
    event = await party.event(start_date=start, end_date=start + timedelta(hours=3))
    await party.joined(event, name="Somebody")
    found = await party.look(await party.page(event), **HTML)
    words = text_of(found.body)
    assert found.status == 200
    for part in (
        "Garden party",
        "Yard",
        "Bring a coat.",
        "Thu 1 Jul 2027, 18:00 CEST (UTC+02:00)",
        "Your mail address",
    ):
        assert part in words
    assert "Thu 1 Jul 2027, 21:00 CEST" in words
    assert "Somebody" not in words
    assert "ben" not in words.lower()
    assert b"<script>" not in found.body


@pytest.mark.parametrize(
    ("change_to", "said", "box"),
    [
        ("state = 'live', start_date = now() - interval '1 minute'", "Going on", True),
        ("state = 'completed'", "Over", False),
        ("start_date = now() - interval '2 days', effective_end_date = now() - interval '1 day'", "Over", False),
        ("state = 'cancelled', cancel_message = 'Flu.', cancelled_at = now()", "Cancelled", False),
    ],
)
async def test_the_page_says_in_words_how_it_stands(party: Guests, change_to: str, said: str, box: bool) -> None:
    event = await party.event()
    await party.house.run(f"UPDATE event SET {change_to}")
    found = await party.look(await party.page(event), **HTML)
    assert said in text_of(found.body)
    assert ("Your mail address" in text_of(found.body)) is box
    assert ("Flu." in text_of(found.body)) is ("cancel" in change_to)


async def test_drafts_private_events_and_old_links_are_not_there(party: Guests) -> None:
    draft = await party.event(state="draft")
    private = await party.event(is_public=False)
    rotated = await party.event()
    old = await party.page(rotated)
    async with party.house.db.transaction(party.house.id) as tx:
        new = await rotate_link(tx, system_caller(party.house.id), rotated.id)
    for path in (await party.page(draft), await party.page(private), old):
        assert (await party.look(path)).refused == (404, "not_found")
        assert (await party.look(f"{path}/event.ics")).refused == (404, "not_found")
        assert (await party.json(f"{path}/subscribe", {"email": "b@example.org"})).refused == (404, "not_found")
    assert (await party.look(await party.page(new), **HTML)).status == 200


async def test_what_is_wrong_comes_back_with_what_was_typed(party: Guests) -> None:
    path = await party.page(await party.event())
    wrong = await party.ask(path, email="no mailbox", name="Ben & Jo", reminder_offsets=["7200", "x"], minutes="1.5")
    assert wrong.status == 422
    assert b'value="no mailbox"' in wrong.body
    assert b'value="Ben &amp; Jo"' in wrong.body
    assert "is no mail address" in text_of(wrong.body)
    refused = await party.json(f"{path}/subscribe", {"email": "x", "reminder_offsets": [-1, 99_999_999], "more": 1})
    assert refused.status == 422
    assert {error["field"] for error in refused.json["errors"]} == {
        "email", "reminder_offsets.0", "reminder_offsets.1", "more",
    }  # fmt: skip
    many = await party.ask(path, reminder_offsets=",".join(map(str, range(21))))
    assert (many.status, "At most 20 reminders" in text_of(many.body)) == (422, True)
    assert (await party.site.anyone.post(f"{path}/subscribe", b"", accept="application/json")).refused[0] == 400
    assert await party.house.rows("SELECT FROM subscription_request") == []


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({}, None),
        ({"reminder_offsets": "default"}, None),
        ({"reminder_offsets": ""}, []),
        ({"reminder_offsets": "60,3600,60"}, [3_600, 60]),
        ({"reminder_offsets": ["", "86400", "0"], "minutes": "90, 15"}, [86_400, 5_400, 900, 0]),
        ({"reminder_offsets": ["", "default", "60"]}, None),
    ],
)
async def test_reminders_are_given_as_boxes_lists_and_minutes(
    party: Guests, fields: dict[str, Any], kept: list[int] | None
) -> None:
    assert (await party.ask(await party.page(await party.event()), **fields)).status == 202
    [row] = await party.house.rows("SELECT reminder_offsets FROM subscription_request")
    assert row["reminder_offsets"] == kept


async def test_hostile_text_is_shown_as_text(party: Guests) -> None:
    evil = '<img src=x onerror=alert(1)>"&'
    event = await party.event(name=evil, location=evil, description=evil, link="https://x.org/?a=%3C")
    manage = await party.joined(event)
    for path in (await party.page(event), manage, path_in(party.mails()[-1], "unsubscribe")):
        found = await party.look(path, **HTML)
        assert found.status == 200
        assert b"<img src" not in found.body
    assert b"&lt;img src=x" in found.body
    assert [mail["subject"] for mail in party.mails()] == [f"Please confirm: {evil}", f"Subscribed: {evil}"]


# --- leaving


async def test_a_program_leaves_by_one_click_and_looking_leaves_nothing(party: Guests) -> None:
    """Scenario 15, its first half."""
    event = await party.event()
    await party.joined(event)
    path = path_in(party.mails()[-1], "unsubscribe")
    assert "Unsubscribe" in text_of((await party.look(path, **HTML)).body)
    assert (await subscription(party))["state"] == "active"
    assert await tell(party, event) == 1
    for body, kind in ((b"List-Unsubscribe=One-Click", "application/x-www-form-urlencoded"), (b"\xff{", "text/odd")):
        done = await party.site.anyone.ask("POST", path, body, content_type=kind)
        assert (done.status, "location" in done.headers, "set-cookie" in done.headers) == (200, False, False)
    left = await subscription(party)
    assert (left["state"], left["removed_by"]) == ("removed", "one_click")
    assert await tell(party, event) == 0


async def test_leaving_works_as_long_as_the_link_is_genuine(party: Guests) -> None:
    event = await party.event()
    await party.joined(event)
    path = path_in(party.mails()[-1], "unsubscribe")
    await cancel(party, event)
    assert (await party.form(path)).status == 200
    assert (await subscription(party))["removed_by"] == "person"
    await party.house.run("DELETE FROM event")
    gone = await party.form(path)
    assert (gone.status, "not here any more" in text_of(gone.body)) == (200, True)
    assert (await party.json(path, {})).json == {
        "event": "", "state": "removed", "subscription_id": None, "reminder_offsets": None, "effective_offsets": [],
        "snoozes": [], "manage_url": None,
    }  # fmt: skip
    assert (await party.form("/p/unsubscribe/nonsense")).status == 404


async def test_what_is_pending_is_withdrawn_when_somebody_leaves(party: Guests) -> None:
    event = await party.event()
    await party.ask(await party.page(event))
    await party.work()
    assert (await party.json(path_in(party.mails()[0], "join"), {})).status == 200
    [pending] = await party.house.rows("SELECT * FROM delivery WHERE state = 'pending'")
    manage = (await party.links()).manage(party.house.id, (await subscription(party))["id"])
    assert (await party.json(manage, {"action": "unsubscribe"})).json["state"] == "removed"
    [row] = await party.house.rows("SELECT * FROM delivery WHERE id = $1", pending["id"])
    assert (row["state"], row["reason"]) == ("skipped", "unsubscribed")
    await party.work()
    assert len(party.mails()) == 1


# --- managing


async def test_the_page_of_a_subscription_brings_it_back_and_sets_its_reminders(party: Guests) -> None:
    """Scenario 15, its second half."""
    event = await party.event()
    path = await party.joined(event)
    before = await subscription(party)
    await party.form(path_in(party.mails()[-1], "unsubscribe"))
    page = await party.look(path, **HTML)
    assert "Come back" in text_of(page.body)
    back = await party.form(path, action="subscribe")
    assert "You are back" in text_of(back.body)
    after = await subscription(party)
    assert (after["id"], after["state"], after["activations"]) == (before["id"], "active", 2)
    assert after["selectors"] == before["selectors"]
    saved = await party.form(path, action="reminders", reminder_offsets="3")
    assert "Saved." in text_of(saved.body)
    assert (await subscription(party))["reminder_offsets"] == [3]
    [item] = await party.house.rows("SELECT * FROM due.due WHERE kind = 'events.reminder' AND key LIKE '%/3'")
    assert item["due_at"] == event.start_date - timedelta(seconds=3)
    assert await tell(party, event) == 1


async def test_a_program_manages_by_json(party: Guests) -> None:
    path = await party.joined(await party.event())
    own = await party.json(path, {"action": "reminders", "reminder_offsets": [60, 600, 60]})
    assert own.json["reminder_offsets"] == own.json["effective_offsets"] == [600, 60]
    none = await party.json(path, {"action": "reminders", "reminder_offsets": []})
    assert (none.json["reminder_offsets"], none.json["effective_offsets"]) == ([], [])
    inherited = await party.json(path, {"action": "reminders", "reminder_offsets": None})
    assert inherited.json["effective_offsets"] == [86_400, 3_600]
    snoozed = await party.json(path, {"action": "snooze", "in_seconds": 600})
    [snooze] = snoozed.json["snoozes"]
    assert snooze["state"] == "planned"
    assert snoozed.json["manage_url"] == PUBLIC + path
    for body, field in (
        ({"action": "reminders"}, "reminder_offsets"),
        ({"action": "snooze"}, "in_seconds"),
        ({"action": "snooze", "in_seconds": 0}, "in_seconds"),
        ({"action": "dance"}, "action"),
        ({}, "action"),
    ):
        refused = await party.json(path, body)
        assert (refused.status, [error["field"] for error in refused.json["errors"]]) == (422, [field])
    late = await party.json(path, {"action": "snooze", "in_seconds": 2_592_000})
    assert late.refused == (422, "after_end")


async def test_after_the_end_nothing_changes_but_leaving(party: Guests) -> None:
    path = await party.joined(await party.event())
    await party.house.run(
        "UPDATE event SET start_date = now() - interval '2 days', effective_end_date = now() - interval '1 day'"
    )
    for body in ({"action": "reminders", "reminder_offsets": []}, {"action": "snooze", "in_seconds": 9}):
        assert (await party.json(path, body)).refused == (409, "event_closed")
    assert (await party.json(path, {"action": "unsubscribe"})).json["state"] == "removed"
    assert (await party.json(path, {"action": "subscribe"})).refused == (409, "event_closed")
    assert "Nothing more" in text_of((await party.look(path, **HTML)).body)


async def test_a_link_of_one_purpose_opens_nothing_else(party: Guests) -> None:
    path = await party.joined(await party.event())
    token, other = path.rpartition("/")[2], path_in(party.mails()[-1], "unsubscribe").rpartition("/")[2]
    for wrong in (f"/p/subscription/{other}", f"/p/unsubscribe/{token}", f"/p/event/{token}", f"/p/join/{token}"):
        assert (await party.look(wrong)).refused == (404, "not_found")
    assert (await party.look(f"/p/calendar/{token}.ics")).refused == (404, "not_found")


async def test_a_form_of_another_site_does_nothing(party: Guests) -> None:
    path = await party.joined(await party.event())
    answer = await party.site.anyone.form(path, "action=unsubscribe", sec_fetch_site="cross-site", **HTML)
    assert answer.status == 403
    assert (await subscription(party))["state"] == "active"


# --- calendar files


async def test_the_file_of_an_event_keeps_its_id_and_counts_its_changes(party: Guests) -> None:
    """Scenario 18, its first half."""
    event = await party.event()
    path = f"{await party.page(event)}/event.ics"
    first = await party.look(path)
    assert first.headers["content-type"] == "text/calendar; charset=utf-8"
    assert (only(first.body.decode())["SEQUENCE"], str(read(first.body.decode())["METHOD"])) == (0, "PUBLISH")
    assert (await party.look(path, if_none_match=first.headers["etag"])).status == 304
    await change(party, event, location="Hall")
    second = await party.look(path, if_none_match=first.headers["etag"])
    assert second.status == 200
    assert only(second.body.decode())["SEQUENCE"] == 1
    await cancel(party, event)
    third = (await party.look(path)).body.decode()
    assert (only(third)["SEQUENCE"], str(only(third)["STATUS"]), str(read(third)["METHOD"])) == (
        2,
        "CANCELLED",
        "CANCEL",
    )
    assert {str(only(text)["UID"]) for text in (first.body.decode(), second.body.decode(), third)} == {
        f"{event.uid}@soonish"
    }


async def test_a_calendar_holds_the_events_of_one_person_and_ends_with_its_link(party: Guests) -> None:
    """Scenario 18, its second half."""
    mine, gone, other = [await party.event(name=name) for name in ("Mine", "Gone", "Other")]
    for event in (mine, gone):
        await party.joined(event)
    await party.joined(other, "ann@example.org")
    await cancel(party, gone)
    await party.event(name="Nobody's")
    person_id = (await party.house.rows("SELECT id FROM person WHERE email = 'ben@example.org'"))[0]["id"]
    api, path = party.house.write, f"/v1/people/{person_id}/event-feed"
    assert (await api.get(path)).refused == (404, "not_found")
    made = await api.post(path)
    assert (made.status, (await api.get(path)).json) == (201, made.json)
    link = made.json["url"].removeprefix(PUBLIC)
    found = await party.look(link)
    events = read(found.body.decode()).walk("VEVENT")
    assert [(str(one["SUMMARY"]), str(one["STATUS"])) for one in events] == [
        ("Mine", "CONFIRMED"), ("Gone", "CANCELLED"),
    ]  # fmt: skip
    assert (await party.look(link, if_none_match=found.headers["etag"])).status == 304
    await party.house.run("UPDATE event SET cancelled_at = now() - interval '31 days' WHERE name = 'Gone'")
    await party.house.run("UPDATE event SET start_date = now() - interval '91 days' WHERE name = 'Mine'")
    assert read((await party.look(link)).body.decode()).walk("VEVENT") == []
    again = (await api.post(path)).json["url"].removeprefix(PUBLIC)
    assert (await party.look(link)).refused == (404, "not_found")
    assert (await party.look(again)).status == 200
    for _ in range(2):
        assert (await api.delete(path)).status == 204
    third = (await api.post(path)).json["url"].removeprefix(PUBLIC)
    assert len({link, again, third}) == 3
    assert [(await party.look(one)).status for one in (link, again, third)] == [404, 404, 200]
    assert (await party.look(third.removesuffix(".ics"))).status == 404


async def test_a_calendar_link_is_for_those_who_may_write_in_that_workspace(party: Guests) -> None:
    person_id = (await party.house.write.post("/v1/people", {"name": "Ben"})).json["id"]
    path = f"/v1/people/{person_id}/event-feed"
    assert (await party.house.read.post(path)).refused == (403, "forbidden")
    assert (await party.site.main.write.post(path)).refused == (404, "not_found")
    link = (await party.house.write.post(path)).json["url"].removeprefix(PUBLIC)
    assert (await party.house.write.delete(f"/v1/people/{person_id}")).status == 204
    assert (await party.look(link)).refused == (404, "not_found")
