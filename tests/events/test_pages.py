"""The pages of events by their forms: what they show, what they change, and what they refuse."""

import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.desk import Desk, text_of
from tests.support.guests import guests, soon

LOCAL = "%Y-%m-%dT%H:%M"


@pytest.fixture
async def desk(database_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with guests(database_url, tmp_path) as party:
        yield Desk(party, await party.house.browser("admin", accept="text/html"))


def fields(start: datetime, **more: Any) -> dict[str, Any]:
    """An event as the form sends it, in UTC."""
    return {
        "name": "Garden party", "start_date": start.strftime(f"{LOCAL}:%S"), "end_date": "", "timezone": "UTC",
        "location": "Yard", "link": "", "organizer_id": "", "description": "", "show_time_in": "event",
        "reminder_offsets": ["", "default"], "minutes": "", "state": "scheduled",
    } | more  # fmt: skip


async def person(desk: Desk, name: str = "Ben") -> int:
    made = await desk.party.house.write.post("/v1/people", {"name": name})
    body = {"kind": "console", "label": "console"}
    assert (await desk.party.house.write.post(f"/v1/people/{made.json['id']}/addresses", body)).status == 201
    return int(made.json["id"])


async def api(desk: Desk, path: str) -> Any:
    answer = await desk.party.house.write.get(path)
    assert answer.status == 200
    return answer.json


# --- making


async def test_a_new_event_shows_its_reminders_before_it_is_made(desk: Desk) -> None:
    start = soon(hours=5)
    form = fields(start, reminder_offsets=["", "86400", "3600"], minutes="90")
    shown = await desk.send("/events/new/preview", **form)
    words = text_of(shown.body)
    assert shown.status == 200
    assert "1 day before" in words.partition("Then people are reminded")[2]
    assert "past: nobody is reminded then" in words
    assert "1 hour 30 minutes before" in words
    assert b'value="Garden party"' in shown.body
    assert (await api(desk, "/v1/events"))["items"] == []
    none = await desk.send("/events/new/preview", **fields(start, reminder_offsets=""))
    assert "Nobody is reminded" in text_of(none.body)


async def test_an_event_is_made_by_the_clock_of_its_zone(desk: Desk) -> None:
    ben = await person(desk)
    form = fields(soon(days=1), start_date="2027-07-01T19:00", end_date="2027-07-01T22:00", timezone="Europe/Lisbon")
    form |= {"organizer_id": f"Ben (#{ben})", "is_public": "true", "reminder_offsets": ["", "3600"], "minutes": "15"}
    where, told = await desk.said("/events/new", **form)
    assert told.startswith("Garden party is on")
    [event] = (await api(desk, "/v1/events"))["items"]
    assert where == f"/events/{event['id']}"
    assert (event["start_date"], event["end_date"]) == ("2027-07-01T18:00:00Z", "2027-07-01T21:00:00Z")
    assert (event["organizer_id"], event["is_public"], event["reminder_offsets"]) == (ben, True, [3_600, 900])
    words = await desk.look(where)
    for part in (
        "scheduled",
        "Thu 1 Jul 2027, 19:00 WEST (UTC+01:00)",
        "Yard",
        "Ben",
        "1 hour before",
        "15 minutes before",
    ):
        assert part in words


async def test_what_is_wrong_comes_back_with_what_was_typed(desk: Desk) -> None:
    wrong = fields(soon(hours=1), name="", link="ftp://x", timezone="Mars/Base", organizer_id="who", minutes="x")
    answer = await desk.send("/events/new", **wrong)
    words = text_of(answer.body)
    assert answer.status == 422
    assert "5 fields need a change" in words
    assert b'value="ftp://x"' in answer.body
    early = await desk.send("/events/new", **fields(soon(days=-2)))
    assert (early.status, "This is past" in text_of(early.body)) == (422, True)
    assert (await api(desk, "/v1/events"))["items"] == []


async def test_a_draft_is_published_and_removed(desk: Desk) -> None:
    where, told = await desk.said("/events/new", **fields(soon(hours=1), state="draft", name="Barbecue"))
    assert "Nobody hears of it until you publish it" in told
    assert "It is a draft" in await desk.look(where)
    assert "Barbecue" in await desk.look("/events?when=drafts")
    assert "Barbecue" not in await desk.look("/events")
    await desk.said(f"{where}/publish")
    assert "Barbecue" in await desk.look("/events")
    again = await desk.send(f"{where}/publish")
    assert again.status == 409
    second, _ = await desk.said("/events/new", **fields(soon(hours=1), state="draft"))
    assert (await desk.said(f"{second}/delete"))[0] == "/events"
    assert (await desk.browser.get(second)).status == 404


# --- the list


async def test_the_list_says_what_comes_next_and_finds_by_name_and_place(desk: Desk) -> None:
    ben = await person(desk)
    events = [
        await desk.party.event(name=f"Event {n}", start_date=soon(hours=9 - n), location="Hall") for n in range(3)
    ]
    await desk.party.house.write.post(f"/v1/events/{events[0].id}/subscriptions", {"person_id": ben})
    words = await desk.look("/events")
    assert words.index("Event 2") < words.index("Event 1") < words.index("Event 0")
    assert "in 8 h" in words or "in 7 h" in words
    assert "No event like that" in await desk.look("/events?q=100%25")
    assert "Event 1" in await desk.look("/events?q=hall")
    await desk.party.house.run(
        "UPDATE event SET start_date = now() - interval '3 h', effective_end_date = now() - interval '1 h'"
        " WHERE name <> 'Event 0'"
    )
    assert "Event 1" not in await desk.look("/events")
    past = await desk.look("/events?when=past")
    assert "Event 2" in past
    assert "Event 0" not in past


async def test_long_lists_go_on_in_both_directions(desk: Desk) -> None:
    for n in range(3):
        await desk.party.event(name=f"Event {n}", start_date=soon(hours=1 + n))
    seen: list[str] = []
    for when, change in (("coming", None), ("past", "UPDATE event SET state = 'completed'")):
        if change:
            await desk.party.house.run(change)
        path: str | None = f"/events?when={when}&limit=1"
        while path:
            page = (await desk.browser.get(path)).body.decode()
            seen += re.findall(r'class="title" href="[^"]*">(Event \d)', page)
            more = re.search(r'rel="next" href="([^"]*)"', page)
            path = more[1].replace("&amp;", "&") + "&limit=1" if more else None
    assert seen == ["Event 0", "Event 1", "Event 2", "Event 2", "Event 1", "Event 0"]


# --- changing


async def edit_fields(desk: Desk, event_id: int) -> dict[str, Any]:
    """What the form of an event shows, as it is sent back."""
    body = (await desk.browser.get(f"/events/{event_id}/edit")).body.decode()
    found = dict(re.findall(r'<input id="f-events-\d+-edit-(\w+)"[^>]*?value="([^"]*)"', body))
    version = re.search(r'name="version" value="(\d+)"', body)
    assert version
    shown = fields(soon(hours=1)) | {name: value.replace("&#39;", "'") for name, value in found.items()}
    return shown | {"version": version[1], "is_public": "true"}


async def test_a_change_shows_its_message_and_is_told_with_a_note(desk: Desk) -> None:
    event = await desk.party.event()
    ben = await person(desk)
    await desk.party.house.write.post(f"/v1/events/{event.id}/subscriptions", {"person_id": ben})
    form = await edit_fields(desk, event.id) | {"location": "Hall", "note": "It will rain.", "notify": "true"}
    form |= {"description": event.description}
    shown = text_of((await desk.send(f"/events/{event.id}/preview", **form)).body)
    assert "Event Update: Garden party" in shown
    assert "• Location: Hall (was Yard) It will rain." in shown
    same = text_of((await desk.send(f"/events/{event.id}/preview", **form | {"location": "Yard"})).body)
    assert "nobody is told" in same
    _, told = await desk.said(f"/events/{event.id}/edit", **form)
    assert told == "Saved. 1 subscriber hears of it now."
    [broadcast] = (await api(desk, f"/v1/events/{event.id}/broadcasts"))["items"]
    assert broadcast["body"].endswith("• Location: Hall (was Yard)\n\nIt will rain.")
    stale = await desk.send(f"/events/{event.id}/edit", **form | {"location": "Roof"})
    assert (stale.status, b'value="Roof"' in stale.body) == (412, True)
    quiet = await edit_fields(desk, event.id) | {"description": event.description, "location": "Roof"}
    assert (await desk.said(f"/events/{event.id}/edit", **quiet))[1].endswith("nobody is told.")
    history = await desk.look(f"/events/{event.id}/history")
    for part in ("Place: Hall was Yard", "It will rain.", "told", "Place: Roof was Hall", "not told"):
        assert part in history


async def test_a_start_in_the_hour_that_comes_twice_stays_when_something_else_is_saved(desk: Desk) -> None:
    start = datetime.fromisoformat("2027-10-31T01:30:00+00:00")  # 02:30 in Berlin, for the second time
    event = await desk.party.event(start_date=start)
    form = await edit_fields(desk, event.id) | {"name": "Late", "description": event.description}
    await desk.said(f"/events/{event.id}/edit", **form)
    after = await api(desk, f"/v1/events/{event.id}")
    assert (after["name"], after["start_date"]) == ("Late", "2027-10-31T01:30:00Z")


async def test_cancelling_asks_tells_and_is_final(desk: Desk) -> None:
    event = await desk.party.event()
    ben = await person(desk)
    await desk.party.house.write.post(f"/v1/events/{event.id}/subscriptions", {"person_id": ben})
    assert "Tell 1 subscriber" in await desk.look(f"/events/{event.id}")
    where, told = await desk.said(f"/events/{event.id}/cancel", message="Flu.", notify="true")
    assert (where, "Its subscribers are told now" in told) == (f"/events/{event.id}/messages", True)
    page = await desk.look(where)
    assert "It is cancelled. Flu." in page
    assert "Event Cancelled: Garden party" in page
    assert (await desk.send(f"/events/{event.id}/edit", **fields(soon(hours=1), version=9))).status in (409, 412)


async def test_the_public_page_gets_a_new_link(desk: Desk) -> None:
    event = await desk.party.event()
    before = (await api(desk, f"/v1/events/{event.id}"))["public_url"]
    assert before.encode() in (await desk.browser.get(f"/events/{event.id}")).body
    await desk.said(f"/events/{event.id}/rotate-link")
    assert (await api(desk, f"/v1/events/{event.id}"))["public_url"] != before


# --- subscribers


async def test_subscribers_are_added_found_and_removed(desk: Desk) -> None:
    event, people = await desk.party.event(), [await person(desk, name) for name in ("Ann", "Ben")]
    base = f"/events/{event.id}"
    _, told = await desk.said(
        f"{base}/subscribers", person_id=f"Ann (#{people[0]})", reminder_offsets="default", welcome="true"
    )
    assert "hear of changes from now on" in told
    await desk.said(f"{base}/subscribers", person_id=str(people[1]), reminder_offsets=["", "60"], minutes="2")
    words = await desk.look(base)
    assert "2 minutes before, 1 minute before their own" in words
    found = (await desk.browser.get(f"{base}?q=ben")).body
    assert (b">Ben</a>" in found, b">Ann</a>" in found) == (True, False)
    again = await desk.send(f"{base}/subscribers", person_id=str(people[1]))
    assert (again.status, "is subscribed already" in text_of(again.body)) == (409, True)
    missing = await desk.send(f"{base}/subscribers", person_id="999")
    assert (missing.status, "There is no person 999" in text_of(missing.body)) == (422, True)
    first = (await api(desk, f"/v1/events/{event.id}/subscriptions"))["items"][0]
    await desk.said(f"{base}/subscriptions/{first['id']}/remove")
    left = await desk.look(f"{base}?state=removed")
    assert "removed here" in left


async def test_the_table_of_subscribers_holds_no_formulas(desk: Desk) -> None:
    event = await desk.party.event()
    ids = [await person(desk, name) for name in ('=HYPERLINK("http://x")', "+1", "-2", "@x", 'Ann "A", B')]
    for one in ids:
        await desk.party.house.write.post(
            f"/v1/events/{event.id}/subscriptions", {"person_id": one, "reminder_offsets": [60, 30]}
        )
    for found in (
        await desk.browser.get(f"/events/{event.id}/subscribers.csv"),
        await desk.party.house.write.get(f"/v1/events/{event.id}/subscriptions.csv"),
    ):
        lines = found.body.decode().split("\r\n")
        assert found.headers["content-type"] == "text/csv; charset=utf-8"
        assert lines[0].startswith("subscription_id,person_id,name,email,state")
        assert [line.split(",")[2][:2] for line in lines[1:5]] == ["\"'", "'+", "'-", "'@"]
        assert '"Ann ""A"", B"' in lines[5]
        assert ",60 30,60 30," in lines[5]
    assert (await desk.party.house.read.get(f"/v1/events/{event.id}/subscriptions.csv")).refused == (403, "forbidden")
    assert (await desk.party.site.main.write.get(f"/v1/events/{event.id}/subscriptions.csv")).status == 404


async def test_the_page_of_a_subscription_says_when_and_where_and_changes_it(desk: Desk) -> None:
    event, ben = await desk.party.event(), await person(desk)
    made = (await desk.party.house.write.post(f"/v1/events/{event.id}/subscriptions", {"person_id": ben})).json
    path = f"/events/{event.id}/subscriptions/{made['id']}"
    words = await desk.look(path)
    assert "1 day before, 1 hour before: the workspace's default." in words
    assert "past" in words
    address = (await api(desk, f"/v1/people/{ben}/addresses"))["items"][0]["id"]
    form = {"version": 1, "reminder_offsets": ["", "900"], "where": "some", "addresses": address, "tags": "Phone"}
    await desk.said(path, **form)
    after = await api(desk, f"/v1{path}")
    assert (after["reminder_offsets"], after["selectors"]) == ([900], [{"address_id": address}, {"tag": "phone"}])
    assert "the subscription's own" in await desk.look(path)
    stale = await desk.send(path, **form)
    assert stale.status == 412
    await desk.said(path, **form | {"version": 2, "where": "muted"})
    assert (await api(desk, f"/v1{path}"))["selectors"] == []
    foreign = await desk.send(path, **form | {"version": 3, "addresses": 999})
    assert foreign.status == 422
    _, told = await desk.said(f"{path}/snoozes", in_seconds="600", at="")
    assert told.startswith("They are reminded again")
    at = (event.start_date - timedelta(minutes=5)).strftime(LOCAL)
    await desk.party.house.run("UPDATE event SET timezone = 'UTC'")
    await desk.said(f"{path}/snoozes", in_seconds="3600", at=at)
    found = (await api(desk, f"/v1{path}/snoozes"))["items"]
    assert len(found) == 2
    for one in found:
        await desk.said(f"{path}/snoozes/{one['id']}/remove")
    assert {one["state"] for one in (await api(desk, f"/v1{path}/snoozes"))["items"]} == {"dropped"}


# --- messages, reminders


async def test_words_go_to_subscribers_now_or_later_and_can_be_withdrawn(desk: Desk) -> None:
    event, ben = await desk.party.event(), await person(desk)
    await desk.party.house.run("UPDATE event SET timezone = 'UTC'")
    await desk.party.house.write.post(f"/v1/events/{event.id}/subscriptions", {"person_id": ben})
    base = f"/events/{event.id}/messages"
    assert "Goes to 1 subscriber, 1 address in all" in await desk.look(base)
    _, told = await desk.said(base, title="Doors", body="Open now.", subscription_ids="", send_at="")
    assert told == "1 subscriber hears it now."
    later = soon(minutes=30)
    where, told = await desk.said(base, title="Later", body="Soon.", send_at=later.strftime(f"{LOCAL}:%S"))
    assert "1 subscriber hears it " in told
    scheduled = (await api(desk, f"/v1/events/{event.id}/broadcasts"))["items"][0]
    page = f"{where}/{scheduled['id']}"
    _, told = await desk.said(
        page, title="Later!", body="Soon.", send_at=(later + timedelta(minutes=5)).strftime(LOCAL)
    )
    assert told.startswith("Saved. It goes out")
    assert "Nobody was told yet" in await desk.look(page)
    await desk.said(f"{page}/withdraw")
    assert "by organizer" in await desk.look(base)
    gone = await desk.send(page, title="x", body="y", send_at=later.strftime(LOCAL))
    assert gone.status == 409
    wrong = await desk.send(base, title="", body="", subscription_ids="x", send_at="never")
    assert (wrong.status, "4 fields need a change" in text_of(wrong.body)) == (422, True)
    foreign = await desk.send(base, title="a", body="b", subscription_ids="999")
    assert (foreign.status, "no active subscription 999" in text_of(foreign.body)) == (422, True)


async def test_the_reminders_of_an_event_are_listed_by_their_moment(desk: Desk) -> None:
    event, people = await desk.party.event(), [await person(desk, name) for name in ("Ann", "Ben")]
    assert "Nobody is reminded" in await desk.look(f"/events/{event.id}/reminders")
    for one, offsets in zip(people, (None, [600]), strict=True):
        body = {"person_id": one, "reminder_offsets": offsets}
        assert (await desk.party.house.write.post(f"/v1/events/{event.id}/subscriptions", body)).status == 201
    words = await desk.look(f"/events/{event.id}/reminders")
    assert words.index("1 day before") < words.index("1 hour before") < words.index("10 minutes before")


# --- settings, roles


async def test_the_defaults_of_a_workspace_are_changed_by_admins(desk: Desk) -> None:
    assert "1 day before, 1 hour before" in await desk.look("/settings/events")
    body = (await desk.browser.get("/settings/events")).body.decode()
    version = re.search(r'name="version" value="(\d+)"', body)
    assert version
    form = {"version": version[1], "reminder_offsets": ["", "900"], "duration_minutes": "90", "coalesce_s": "30"}
    _, told = await desk.said("/settings/events", **form)
    assert told.startswith("Saved.")
    words = await desk.look("/settings/events")
    for part in ("15 minutes before", "it ends after 1 hour 30 minutes", "are gathered for 30 seconds"):
        assert part in words
    assert (await api(desk, "/v1/event-defaults"))["default_duration_s"] == 5_400
    wrong = await desk.send("/settings/events", **form | {"coalesce_s": "90000"})
    assert wrong.status == 422


async def test_who_may_only_look_sees_no_forms(desk: Desk) -> None:
    event, ben = await desk.party.event(), await person(desk)
    made = (await desk.party.house.write.post(f"/v1/events/{event.id}/subscriptions", {"person_id": ben})).json
    reader = Desk(desk.party, await desk.party.house.browser("read", accept="text/html"))
    base = f"/events/{event.id}"
    paths = ["/events", base, f"{base}/messages", f"{base}/reminders", f"{base}/history", "/settings/events"]
    for path in [*paths, f"{base}/subscriptions/{made['id']}"]:
        found = (await reader.browser.get(path)).body
        assert b'method="post" action="/events' not in found
        assert b"/p/subscription/" not in found
    for path in ("/events/new", f"{base}/edit", f"{base}/subscribers.csv"):
        assert (await reader.browser.get(path)).status == 403
    assert (await reader.send(f"{base}/cancel")).status == 403
    other = await desk.party.site.main.browser("admin", accept="text/html")
    for path in (base, f"{base}/messages", f"{base}/reminders", f"{base}/history", f"{base}/edit"):
        assert (await other.get(path)).status == 404


async def test_hostile_names_are_shown_as_text_on_every_page(desk: Desk) -> None:
    evil = "<script>alert(1)</script>"
    event = await desk.party.event(name=evil, location=evil, description=evil, timezone="UTC")
    made = await desk.party.house.write.post("/v1/people", {"name": evil})
    body = {"person_id": made.json["id"]}
    one = (await desk.party.house.write.post(f"/v1/events/{event.id}/subscriptions", body)).json
    base = f"/events/{event.id}"
    await desk.said(f"{base}/messages", title=evil, body=evil)
    await desk.party.house.write.patch(f"/v1/events/{event.id}", {"location": f"{evil}2", "note": evil})
    told = (await api(desk, f"/v1/events/{event.id}/broadcasts"))["items"][0]["id"]
    paths = ("", "/messages", f"/messages/{told}", "/reminders", "/history", "/edit", f"/subscriptions/{one['id']}")
    for path in ("/events", *(f"{base}{each}" for each in paths)):
        found = await desk.browser.get(path)
        assert (found.status, evil.encode() in found.body) == (200, False), path
