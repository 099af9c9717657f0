"""A mailbox subscribes itself: one mail, a button, and nobody learns who is known here."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from soonish.events.actions.joining import ask
from soonish.events.model.joining import Wish
from soonish.events.model.links import JOIN
from tests.support.guests import Guests, body_of, calendar_of, guests, path_in, soon

BEN = "ben@example.org"


@pytest.fixture
async def party(database_url: str, tmp_path: Path) -> AsyncIterator[Guests]:
    async with guests(database_url, tmp_path) as found:
        yield found


async def rows(party: Guests, statement: str, *values: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in await party.house.rows(statement, *values)]


async def subscriptions(party: Guests) -> list[dict[str, Any]]:
    return await rows(party, "SELECT * FROM subscription ORDER BY id")


async def test_a_mailbox_asks_looks_agrees_and_is_welcomed(party: Guests) -> None:
    """Scenario 14."""
    event = await party.event()
    path = await party.page(event)
    asked = await party.ask(path, name="Ben", reminder_offsets="1800,60")
    assert (asked.status, b"Look into your mailbox" in asked.body) == (202, True)
    assert party.mails() == []
    await party.work()
    [mail] = party.mails()
    assert (mail["subject"], mail["to"], mail["list-unsubscribe"]) == ("Please confirm: Garden party", BEN, None)
    assert "works for 1 day" in body_of(mail)
    link = path_in(mail, "join")
    for _ in range(2):
        looked = await party.look(link, accept="text/html")
        assert (looked.status, b"b***@example.org" in looked.body, b"<button" in looked.body) == (200, True, True)
    assert (await subscriptions(party), await rows(party, "SELECT FROM person")) == ([], [])
    answers = [await party.form(link) for _ in range(2)]
    assert [(one.status, b"You are subscribed" in one.body) for one in answers] == [(200, True)] * 2
    [made] = await subscriptions(party)
    assert (made["source"], made["reminder_offsets"], made["state"]) == ("public", [1800, 60], "active")
    await party.work()
    _, welcome = party.mails()
    assert welcome["subject"] == "Subscribed: Garden party"
    assert "BEGIN:VCALENDAR" in (calendar_of(welcome) or "")
    assert welcome["list-unsubscribe-post"] == "List-Unsubscribe=One-Click"
    assert path_in(welcome, "unsubscribe") in welcome["list-unsubscribe"]
    assert (await party.look(path_in(welcome, "subscription"))).status == 200
    assert path in body_of(welcome)


async def test_whoever_agrees_is_a_person_with_an_address_that_is_theirs(party: Guests) -> None:
    await party.joined(await party.event(timezone="Asia/Tokyo"), email="Ben.Bo@Example.org")
    [person] = await rows(party, "SELECT * FROM person")
    assert (person["name"], person["email"], person["timezone"]) == ("Ben.Bo", "Ben.Bo@example.org", "Asia/Tokyo")
    [address] = await rows(party, "SELECT * FROM address")
    assert (address["kind"], address["health"], address["verified_at"] is not None) == ("email", "ok", True)
    [made] = await subscriptions(party)
    assert made["selectors"] == f'[{{"address_id": {address["id"]}}}]'
    assert len(party.mails()) == 2
    lines = await rows(party, "SELECT verb, actor FROM audit WHERE actor = 'mail' ORDER BY id")
    assert {line["verb"] for line in lines} >= {"make", "add", "subscribe"}


async def test_who_is_known_already_is_found_again(party: Guests) -> None:
    write = party.house.write
    made = (await write.post("/v1/people", {"name": "Benjamin", "email": "BEN@example.org"})).json["id"]
    body = {"kind": "email", "label": "mail", "target": "ben@example.org"}
    address_id = (await write.post(f"/v1/people/{made}/addresses", body)).json["id"]
    assert (await write.get(f"/v1/addresses/{address_id}")).json["health"] == "unverified"
    await party.joined(await party.event())
    [person] = await rows(party, "SELECT * FROM person")
    assert (person["id"], person["name"]) == (made, "Benjamin")
    assert (await write.get(f"/v1/addresses/{address_id}")).json["health"] == "ok"
    [subscription] = await subscriptions(party)
    assert subscription["selectors"] == f'[{{"address_id": {address_id}}}]'


async def test_the_owner_of_a_mailbox_that_agreed_before_needs_no_mail_of_their_own(party: Guests) -> None:
    """Their person has no mail address; the address that they agreed to tells who they are."""
    await party.joined(await party.event(name="First"))
    await party.house.run("UPDATE person SET email = NULL")
    await party.joined(await party.event(name="Second"))
    assert len(await rows(party, "SELECT FROM person")) == 1
    assert len({one["person_id"] for one in await subscriptions(party)}) == 1


async def test_the_answer_is_the_same_for_new_known_and_subscribed_mailboxes(party: Guests) -> None:
    event = await party.event()
    path = await party.page(event)
    await party.house.write.post("/v1/people", {"name": "Known", "email": "known@example.org"})
    await party.joined(event, "in@example.org")
    answers = [await party.ask(path, email=f"{name}@example.org") for name in ("new", "known", "in")]
    assert {one.status for one in answers} == {202}
    assert len({one.body.partition(b"<main")[2] for one in answers}) == 1
    asked = [await party.json(f"{path}/subscribe", {"email": f"{name}@example.org"}) for name in ("new2", "known")]
    assert [one.status for one in asked] == [202, 202]
    assert asked[0].json == asked[1].json


async def test_a_subscribed_mailbox_gets_the_way_to_its_own_page(party: Guests) -> None:
    event = await party.event()
    manage = await party.joined(event)
    await party.house.run("UPDATE subscription_request SET mailed_at = mailed_at - interval '11 minutes'")
    await party.ask(await party.page(event))
    await party.work()
    mail = party.mails()[-1]
    assert mail["subject"] == "You are subscribed: Garden party"
    assert path_in(mail, "subscription") == manage
    assert mail["list-unsubscribe"]
    assert len(await subscriptions(party)) == 1


async def test_mails_to_one_mailbox_are_few(party: Guests) -> None:
    first, *others = [await party.event(name=f"Event {n}") for n in range(6)]
    for _ in range(2):
        assert (await party.ask(await party.page(first))).status == 202
        await party.work()
    assert len(party.mails()) == 1
    await party.house.run("UPDATE subscription_request SET mailed_at = mailed_at - interval '11 minutes'")
    assert (await party.ask(await party.page(first))).status == 202
    await party.work()
    assert len(party.mails()) == 2
    for event in others:
        assert (await party.ask(await party.page(event), email=BEN.upper())).status == 202
        await party.work()
    assert len(party.mails()) == 5
    await party.ask(await party.page(first), email="other@example.org")
    await party.work()
    assert len(party.mails("other@example.org")) == 1
    ends = await rows(party, "SELECT reason FROM due.due_history WHERE kind = 'events.join' AND fate = 'dropped'")
    assert sorted(one["reason"] for one in ends) == ["mailbox_limit", "mailbox_limit", "paused"]


async def test_requests_for_one_mailbox_at_the_same_moment_make_one_mail(party: Guests) -> None:
    path = await party.page(await party.event())
    await asyncio.gather(*[party.ask(path) for _ in range(8)])
    await party.work()
    assert len(party.mails()) == 1


async def test_too_many_for_one_event_in_an_hour_are_told_to_wait(database_url: str, tmp_path: Path) -> None:
    async with guests(database_url, tmp_path, events_join_per_event_hour="2") as party:
        path = await party.page(await party.event())
        answers = [await party.ask(path, email=f"a{n}@example.org") for n in range(3)]
        assert [one.status for one in answers] == [202, 202, 429]
        assert 3_500 < int(answers[2].headers["retry-after"]) <= 3_600
        assert (await party.ask(await party.page(await party.event()))).status == 202
        await party.house.run("UPDATE subscription_request SET created_at = created_at - interval '1 hour'")
        assert (await party.ask(path)).status == 202


async def test_what_is_closed_takes_nobody_in(party: Guests) -> None:
    event = await party.event()
    path = await party.page(event)
    await party.ask(path)
    await party.work()
    link = path_in(party.mails()[0], "join")
    await party.ask(path, email="late@example.org")
    await party.house.run("UPDATE event SET state = 'cancelled', cancelled_at = now()")
    await party.work()
    assert party.mails("late@example.org") == []
    assert (await party.json(link, {})).refused == (409, "event_closed")
    assert b"too late to subscribe" in (await party.look(link, accept="text/html")).body
    assert (await party.json(f"{path}/subscribe", {"email": BEN})).refused == (409, "event_closed")
    assert await subscriptions(party) == []


async def test_without_a_mail_server_there_is_no_box(party: Guests) -> None:
    event = await party.event()
    silent = replace_smtp(party)
    page = await party.look(await party.page(event), accept="text/html")
    assert b"Subscribe</button>" not in page.body
    refused = await party.json(f"{await party.page(event)}/subscribe", {"email": BEN})
    assert refused.refused == (409, "smtp_missing")
    party.site.app.state.events = silent


def replace_smtp(party: Guests) -> Any:
    """The same without mail; answers what was handed before."""
    from dataclasses import replace as other

    before = party.events
    party.site.app.state.events = other(before, smtp=False)
    return before


@pytest.mark.parametrize("link", ["expired", "forgotten", "deleted", "foreign", "nonsense"])
async def test_links_that_work_no_more_look_the_same(party: Guests, link: str) -> None:
    event = await party.event()
    await party.ask(await party.page(event))
    await party.work()
    path = path_in(party.mails()[0], "join")
    if link == "expired":
        await party.house.run("UPDATE subscription_request SET expires_at = now()")
    elif link == "forgotten":
        await party.house.run("UPDATE subscription_request SET email = NULL")
    elif link == "deleted":
        await party.house.run("DELETE FROM event")
    elif link == "foreign":
        path = (await party.links()).leave(party.house.id, 1).replace("unsubscribe", "join")
    else:
        path = "/p/join/nonsense"
    for answer in (await party.look(path), await party.json(path, {})):
        assert answer.refused == (404, "not_found")
    assert await subscriptions(party) == []


async def test_who_did_not_answer_is_forgotten_and_the_count_of_mails_stays_for_a_day(party: Guests) -> None:
    event = await party.event()
    await party.ask(await party.page(event), name="Ben")
    await party.work()
    [before] = await rows(party, "SELECT * FROM subscription_request")
    assert b"ben@example.org" not in before["email"]
    await party.house.run("UPDATE subscription_request SET expires_at = now()")
    await party.house.run("UPDATE due.due SET wake_at = now(), due_at = now() WHERE kind = 'events.forget'")
    await party.work()
    [kept] = await rows(party, "SELECT * FROM subscription_request")
    assert (kept["email"], kept["name"], kept["email_print"]) == (None, None, before["email_print"])
    await party.house.run("UPDATE subscription_request SET created_at = created_at - interval '1 day'")
    await party.house.run("UPDATE due.due SET wake_at = now() WHERE kind = 'events.forget'")
    await party.work()
    assert await rows(party, "SELECT FROM subscription_request") == []
    assert await rows(party, "SELECT FROM due.due WHERE kind IN ('events.join', 'events.forget')") == []


async def test_two_who_press_at_once_are_subscribed_once(party: Guests) -> None:
    one, two = await party.event(name="One"), await party.event(name="Two")
    for event in (one, two):
        await party.ask(await party.page(event))
    await party.work()
    links = [path_in(mail, "join") for mail in party.mails()]
    answers = await asyncio.gather(*[party.json(link, {}) for link in links * 3])
    assert {answer.status for answer in answers} == {200}
    assert len(await subscriptions(party)) == 2
    assert len(await rows(party, "SELECT FROM person")) == 1
    assert len(await rows(party, "SELECT FROM address")) == 1


async def test_a_crash_between_request_and_mail_loses_nothing_and_doubles_nothing(party: Guests) -> None:
    """The mail and the end of its item are one transaction: done twice, there is one."""
    event = await party.event()
    await party.ask(await party.page(event))
    assert party.site.process
    [item] = await rows(party, "SELECT * FROM due.due WHERE kind = 'events.join'")
    for _ in range(2):
        await party.work()
        await party.house.put(*[])
        await party.house.run(
            "INSERT INTO due.due (workspace_id, kind, key, lane, due_at, wake_at)"
            " VALUES ($1, 'events.join', $2, 0, now(), now()) ON CONFLICT DO NOTHING",
            party.house.id,
            item["key"],
        )
    await party.work()
    assert len(party.mails()) == 1


async def test_nothing_of_a_link_is_stored(party: Guests) -> None:
    manage = await party.joined(await party.event())
    tokens = [path.rpartition("/")[2] for mail in party.mails() for path in (body_of(mail).split())]
    tokens = [token for token in tokens if len(token) > 60] + [manage.rpartition("/")[2]]
    for table in ("message", "delivery", "attempt", "subscription_request", "subscription"):
        stored = " ".join(str(dict(row)) for row in await party.house.rows(f"SELECT t::text FROM {table} t"))
        assert [token for token in tokens if token in stored] == []


async def test_the_action_refuses_what_the_link_does_not_say(party: Guests) -> None:
    event = await party.event()
    token = (await party.page(event)).rpartition("/")[2]
    claim = (await party.events.hmac()).check("event_page", token, soon())
    assert claim and claim.ids == (event.id,)
    assert (await party.events.hmac()).check(JOIN, token, soon()) is None
    found = await ask(party.house.db, party.events, token, Wish(email=BEN), soon())
    assert found == replace(event, read_at=found.read_at)


async def test_who_is_erased_is_erased_here_too(party: Guests) -> None:
    await party.joined(await party.event())
    [person] = await rows(party, "SELECT id FROM person")
    assert (await party.house.write.delete(f"/v1/people/{person['id']}")).status == 204
    await party.work()
    assert await rows(party, "SELECT FROM subscription_request") == []
    [gone] = await subscriptions(party)
    assert (gone["state"], gone["removed_by"]) == ("removed", "erased")
