"""What is asked for becomes rows and due items, once a cause, and nothing is sent."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soonish.db.pool import Database
from soonish.delivery import outbox as outbox_module
from soonish.delivery.model.letters import Message, Recipient
from soonish.delivery.outbox import Fact
from soonish.due import Lane
from tests.support.ledger import Ledger

DOORS = Message(title="Doors open", body="Hello {{name}}")


@pytest.fixture
async def ledger(db: Database) -> Ledger:
    return await Ledger.of(db, bulk_audience=3)


async def tell(ledger: Ledger, *people: Recipient, cause: str = "message/1", message: Message = DOORS) -> Any:
    async with ledger.db.transaction(1) as tx:
        return await ledger.outbox.tell(tx, cause, message, people)


async def state(ledger: Ledger, **changed: Any) -> Any:
    fact = {"cause": "game/1/fact", "type": "game.reminder_due", "subject": "game/1", "data": {"game_id": 1}} | changed
    async with ledger.db.transaction(1) as tx:
        return await ledger.outbox.state(tx, Fact(**fact))


def reasons(deliveries: list[dict[str, Any]]) -> list[tuple[int, int | None, str, str | None]]:
    return [(one["person_id"], one["address_id"], one["state"], one["reason"]) for one in deliveries]


# --- people


async def test_every_active_address_gets_a_delivery_and_a_due_item_at_the_moment(ledger: Ledger) -> None:
    ben = await ledger.person()
    phone, mail = await ledger.address(ben, "phone"), await ledger.address(ben, "mail")
    await ledger.address(ben, "old", active=False)
    at = datetime(2031, 5, 6, 7, 8, tzinfo=UTC)
    told = await tell(ledger, Recipient(ben), message=Message(title="a", body="b", send_at=at))
    assert (told.pending, told.skipped) == (2, 0)
    assert reasons(await ledger.deliveries()) == [(ben, phone, "pending", None), (ben, mail, "pending", None)]
    items = await ledger.due()
    assert [item["key"] for item in items] == [str(one["id"]) for one in await ledger.deliveries()]
    assert {(item["due_at"], item["lane"]) for item in items} == {(at, Lane.PEOPLE)}


async def test_the_same_cause_again_adds_only_targets_that_are_not_there(ledger: Ledger) -> None:
    ben, ann = await ledger.person("Ben"), await ledger.person("Ann")
    await ledger.address(ben)
    await tell(ledger, Recipient(ben))
    again = await tell(ledger, Recipient(ben))
    assert (again.pending, again.skipped) == (0, 0)
    await ledger.address(ann)
    more = await tell(ledger, Recipient(ben), Recipient(ann))
    assert more == (again.message_id, 1, 0)
    assert len(await ledger.deliveries()) == 2
    assert len(await ledger.rows("SELECT FROM message")) == 1


@pytest.mark.parametrize(
    ("selectors", "labels"),
    [
        (None, ["a", "b", "c"]),
        ([{"tag": "x"}], ["a", "b"]),
        ([{"tag": "x"}, {"tag": "y"}], ["a", "b", "c"]),
        ([{"address_id": 1}, {"tag": "x"}], ["a", "b"]),
        ([{"address_id": 3}], ["c"]),
    ],
)
async def test_selectors_choose_addresses_each_once(ledger: Ledger, selectors: Any, labels: list[str]) -> None:
    ben = await ledger.person()
    for label, tags in (("a", ["x"]), ("b", ["x", "y"]), ("c", ["y"])):
        await ledger.address(ben, label, tags=tags)
    await tell(ledger, Recipient(ben, selectors))
    chosen = await ledger.rows("SELECT a.label FROM delivery d JOIN address a ON a.id = d.address_id ORDER BY a.label")
    assert [row["label"] for row in chosen] == labels


async def test_who_cannot_be_told_has_a_row_that_says_why(ledger: Ledger) -> None:
    none, muted, other, silent, told = [await ledger.person(name) for name in "abcde"]
    for person in (muted, other, told):
        await ledger.address(person, tags=["x"])
    await ledger.address(silent, active=False)
    result = await tell(
        ledger, Recipient(none), Recipient(muted, ()), Recipient(other, [{"tag": "y"}]), Recipient(silent),
        Recipient(told, reason="stale"), Recipient(999),
    )  # fmt: skip
    assert (result.pending, result.skipped) == (0, 6)
    assert [(one["person_id"], one["reason"]) for one in await ledger.deliveries()] == [
        (none, "no_address"), (muted, "muted"), (other, "no_match"), (silent, "no_address"), (told, "stale"),
        (999, "person_gone"),
    ]  # fmt: skip
    assert all(one["ended_at"] and one["address_id"] is None for one in await ledger.deliveries())
    assert await ledger.due() == []


async def test_an_address_of_somebody_else_is_ignored_and_noted(ledger: Ledger) -> None:
    ben, ann = await ledger.person("Ben"), await ledger.person("Ann")
    mine, hers = await ledger.address(ben), await ledger.address(ann)
    await tell(ledger, Recipient(ben, [{"address_id": mine}, {"address_id": hers}], {"game": "chess"}))
    [delivery] = await ledger.deliveries()
    assert (delivery["person_id"], delivery["address_id"]) == (ben, mine)
    assert delivery["merge"] == f'{{"game": "chess", "ignored": [{hers}]}}'


async def test_a_large_audience_goes_by_the_bulk_lane(ledger: Ledger) -> None:
    people = [await ledger.person(str(n)) for n in range(4)]
    for person in people:
        await ledger.address(person)
    await tell(ledger, *(Recipient(person) for person in people))
    assert {item["lane"] for item in await ledger.due()} == {Lane.BULK}


async def test_nothing_of_a_transaction_that_fails_is_told(ledger: Ledger) -> None:
    ben = await ledger.person()
    await ledger.address(ben)
    with pytest.raises(KeyError):
        async with ledger.db.transaction(1) as tx:
            await ledger.outbox.tell(tx, "message/1", DOORS, [Recipient(ben)])
            raise KeyError
    assert (await ledger.deliveries(), await ledger.due()) == ([], [])


async def test_a_mail_to_what_is_no_address_keeps_its_mailbox_sealed(ledger: Ledger) -> None:
    for _ in range(2):
        async with ledger.db.transaction(1) as tx:
            await ledger.outbox.post(tx, "confirm/1", "ben@example.org", DOORS)
    [delivery] = await ledger.deliveries()
    assert (delivery["channel"], delivery["person_id"], delivery["state"]) == ("email", None, "pending")
    assert b"example" not in delivery["mailbox"]
    place = (1, "delivery", "mailbox", delivery["id"])
    assert ledger.vault.unseal(delivery["mailbox"], place) == b"ben@example.org"
    assert [item["key"] for item in await ledger.due()] == [str(delivery["id"])]


# --- machines


@pytest.mark.parametrize(
    ("types", "hears"),
    [
        (["game.reminder_due"], True),
        (["game.*"], True),
        (["*"], True),
        (["games.*", "game.reminder"], False),
        (["person.created", "game.*"], True),
    ],
)
async def test_a_fact_goes_to_the_endpoints_that_hear_its_type(ledger: Ledger, types: list[str], hears: bool) -> None:
    endpoint = await ledger.endpoint(fact_types=types)
    stated = await state(ledger)
    assert stated.fact_id
    assert [one["endpoint_id"] for one in await ledger.deliveries()] == [endpoint] * hears
    assert len(await ledger.due()) == stated.deliveries == hears


async def test_a_fact_is_stated_once_a_cause(ledger: Ledger) -> None:
    await ledger.endpoint()
    first = await state(ledger)
    assert await state(ledger, data={"game_id": 2}) == (None, 0)
    assert first.deliveries == len(await ledger.deliveries()) == 1


async def test_endpoints_that_are_off_are_skipped_on_record(ledger: Ledger) -> None:
    await ledger.endpoint(active=False)
    await ledger.endpoint(health="disabled")
    await state(ledger)
    assert [one["reason"] for one in await ledger.deliveries()] == ["endpoint_inactive", "endpoint_disabled"]
    assert await ledger.due() == []


async def test_named_endpoints_get_the_fact_whatever_they_hear(ledger: Ledger) -> None:
    chosen, _ = await ledger.endpoint(fact_types=["a.b"]), await ledger.endpoint()
    await state(ledger, endpoint_ids=[chosen])
    assert [one["endpoint_id"] for one in await ledger.deliveries()] == [chosen]


async def test_many_facts_are_stated_at_once(ledger: Ledger) -> None:
    await ledger.endpoint()
    facts = [Fact(cause=f"a/{n}", type="a.b", subject=f"a/{n}", data={"n": n}) for n in range(50)]
    async with ledger.db.transaction(1) as tx:
        stated = await ledger.outbox.state_all(tx, facts)
    assert [one.deliveries for one in stated] == [1] * 50
    assert len({one.fact_id for one in stated}) == 50


# --- withdrawal


async def test_what_is_withdrawn_is_never_sent_and_says_why(ledger: Ledger) -> None:
    ben, ann = await ledger.person("Ben"), await ledger.person("Ann")
    for person in (ben, ann):
        await ledger.address(person)
    for cause in ("event/1/a", "event/10/a"):
        await tell(ledger, Recipient(ben), Recipient(ann), cause=cause)
    async with ledger.db.transaction(1) as tx:
        assert await ledger.outbox.withdraw(tx, "event/1/", "cancelled", person_id=ben) == 1
        assert await ledger.outbox.withdraw(tx, "event/1/", "cancelled", of="endpoints") == 0
    told = [(one["cause"], one["person_id"], one["state"], one["reason"]) for one in await ledger.deliveries()]
    assert told == [
        ("event/1/a", ben, "skipped", "cancelled"), ("event/1/a", ann, "pending", None),
        ("event/10/a", ben, "pending", None), ("event/10/a", ann, "pending", None),
    ]  # fmt: skip
    assert len(await ledger.due()) == 3


async def test_two_long_withdrawals_of_other_targets_do_not_take_the_place_of_each_other(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "STRETCH", 1)
    ben = await ledger.person()
    for label in ("a", "b"):
        await ledger.address(ben, label)
        await ledger.endpoint(name=label)
    await tell(ledger, Recipient(ben), cause="event/1/a")
    await state(ledger, cause="event/1/b")
    async with ledger.db.transaction(1) as tx:
        for of in ("people", "endpoints"):
            await ledger.outbox.withdraw(tx, "event/1/", "cancelled", of=of)
    rest = await ledger.rows("SELECT * FROM due.due WHERE kind = 'delivery.withdraw' ORDER BY key")
    assert [one["key"] for one in rest] == ["event/1/:all:endpoints", "event/1/:all:people"]


async def test_what_failed_under_a_cause_goes_again_with_a_new_deadline_and_under_its_ids(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "STRETCH", 2)
    ben = await ledger.person()
    for label in ("a", "b", "c", "d", "gone"):
        await ledger.address(ben, label)
    for cause in ("occasion/1/greeting", "occasion/10/greeting"):
        await tell(ledger, Recipient(ben), cause=cause)
    await state(ledger, cause="occasion/1/fact")
    await ledger.endpoint()
    await state(ledger, cause="occasion/1/more")
    await ledger.run("DELETE FROM due.due")
    await ledger.run(
        "UPDATE delivery SET state = 'failed', reason = 'exhausted', steps = 7, tries = 7, ended_at = now()"
    )
    await ledger.run("UPDATE delivery SET state = 'sent' WHERE id = 1")
    await ledger.run("UPDATE delivery SET state = 'unknown', doubts = 2 WHERE id = 2")
    await ledger.run("DELETE FROM address WHERE label = 'gone'")
    before = {one["id"]: one["wire_id"] for one in await ledger.deliveries()}
    until = datetime(2031, 5, 6, tzinfo=UTC)
    async with ledger.db.transaction(1) as tx:
        assert await ledger.outbox.retry(tx, "occasion/1/", deliver_until=until, of="people") == 3
    found = await ledger.deliveries()
    assert [one["id"] for one in found if one["state"] == "pending"] == [2, 3, 4]
    assert {(one["expires_at"], one["steps"], one["doubts"], one["tries"]) for one in found[1:4]} == {(until, 0, 0, 7)}
    assert {one["id"]: one["wire_id"] for one in found} == before
    assert sorted(item["key"] for item in await ledger.due()) == ["2", "3", "4"]
    async with ledger.db.transaction(1) as tx:
        assert await ledger.outbox.retry(tx, "occasion/1/") == 1, "the machine; those that go already stay"


async def test_a_long_withdrawal_goes_on_by_itself_and_spares_what_is_told_afterwards(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "STRETCH", 2)
    people = [await ledger.person(str(n)) for n in range(3)]
    for person in people:
        await ledger.address(person)
    await tell(ledger, *(Recipient(person) for person in people), cause="event/1/a")
    async with ledger.db.transaction(1) as tx:
        assert await ledger.outbox.withdraw(tx, "event/1/", "cancelled") == 2
    await tell(ledger, Recipient(people[0]), cause="event/1/b")
    [rest] = await ledger.rows("SELECT * FROM due.due WHERE kind = 'delivery.withdraw'")
    assert rest["key"] == "event/1/:all"
    assert rest["due_at"] <= datetime.now(UTC) + timedelta(minutes=1)


async def test_a_long_withdrawal_of_one_sort_does_not_end_that_of_the_other(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "STRETCH", 2)
    for n in range(3):
        await ledger.address(await ledger.person(str(n)))
        await ledger.endpoint(name=f"crm {n}")
    await tell(ledger, *(Recipient(n) for n in (1, 2, 3)), cause="event/1/a")
    async with ledger.db.transaction(1) as tx:
        await ledger.outbox.state(tx, Fact(cause="event/1/b", type="a.b", subject="", data={}))
        for sort in ("people", "endpoints"):
            assert await ledger.outbox.withdraw(tx, "event/1/", "cancelled", of=sort) == 2
    rests = await ledger.rows("SELECT payload::json->>'of' AS sort FROM due.due WHERE kind = 'delivery.withdraw'")
    assert sorted(row["sort"] for row in rests) == ["endpoints", "people"]
