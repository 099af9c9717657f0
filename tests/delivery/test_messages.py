"""Messages over the API: to whom, when, what became of them counted in people, and how they are cancelled."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soonish.delivery.actions.messages import people_of
from soonish.delivery.model.letters import Message
from soonish.due import Put
from tests.support.http import Answer
from tests.support.site import House, Site

NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)


def at(hours: float) -> str:
    return (NOW + hours * HOUR).isoformat()


async def person(house: House, name: str, *tags: str, **more: Any) -> int:
    """A person with a console address for each tag."""
    made = await house.write.post("/v1/people", {"name": name, **more})
    assert made.status == 201, made.body
    for tag in tags:
        await address(house, made.json["id"], tag)
    return int(made.json["id"])


async def address(house: House, person_id: int, tag: str) -> int:
    """An address as a row: what it reaches is not asked here."""
    [row] = await house.rows(
        """INSERT INTO address (workspace_id, person_id, kind, label, scheme, target_hint, target_print, tags)
           VALUES ($1, $2, 'console', $3, 'console', '', $4, ARRAY[$3]) RETURNING id""",
        house.id, person_id, tag, f"{person_id} {tag}".encode(),
    )  # fmt: skip
    return int(row["id"])


async def say(house: House, to: Any, **more: Any) -> Answer:
    return await house.write.post("/v1/messages", {"to": to, "title": "Doors open", "body": "Hello {{name}}", **more})


async def put(house: House, to: Any, **more: Any) -> int:
    answer = await say(house, to, **more)
    assert answer.status == 202, answer.body
    return int(answer.json["id"])


async def tell(product: Site, house: House, message_id: int, page: int = 2) -> None:
    """What its due item does when its moment has come."""
    [row] = await house.rows("SELECT * FROM message WHERE id = $1", message_id)
    outbox, to, after = product.app.state.delivery.outbox, json.loads(row["to_people"]), 0
    async with product.db.transaction(house.id) as tx:
        while people := await people_of(tx, to, after, page):
            letter = Message(title=row["title"], body=row["body"], send_at=row["send_at"])
            await outbox.tell(tx, row["cause"], letter, people)
            after = people[-1].person_id
        await tx.execute("DELETE FROM due.due WHERE kind = 'delivery.message' AND key = $1", str(message_id))


async def shown(house: House, message_id: int) -> Any:
    return (await house.read.get(f"/v1/messages/{message_id}")).json


async def items(house: House) -> list[Any]:
    return list(await house.read.every("/v1/ops/due?kind=delivery.message"))


async def told(house: House) -> list[tuple[int, str, str | None]]:
    rows = await house.rows("SELECT person_id, state, reason FROM delivery ORDER BY person_id, id")
    return [tuple(row) for row in rows]


# --- put


async def test_a_message_waits_as_one_due_item_at_its_moment(product: Site) -> None:
    acme = product.acme
    ben = await person(acme, "Ben")
    message_id = await put(acme, {"person_ids": [ben, ben]}, send_at=at(2), expires_at=at(4), level="warning")
    found = await shown(acme, message_id)
    assert (found["cause"], found["to"], found["selectors"]) == (f"message/{message_id}", {"person_ids": [ben]}, None)
    assert (found["level"], found["hold"], found["link"], found["told_at"]) == ("warning", "quiet", None, None)
    assert set(found["summary"].values()) == {0}
    [item] = await items(acme)
    assert (item["key"], item["lane"]) == (str(message_id), "control")
    assert datetime.fromisoformat(item["due_at"]) == NOW + 2 * HOUR
    assert item["expires_at"] is None, "who is told too late is on record"
    assert datetime.fromisoformat(found["expires_at"]) == NOW + 4 * HOUR
    assert await told(acme) == []


async def test_without_moments_a_message_is_due_now_and_of_use_for_a_day(product: Site) -> None:
    message_id = await put(product.acme, {"tag": "phone"})
    found = await shown(product.acme, message_id)
    span = datetime.fromisoformat(found["expires_at"]) - datetime.fromisoformat(found["send_at"])
    assert span == timedelta(hours=24)
    [row] = await product.acme.rows("SELECT send_at <= clock_timestamp() AS due FROM message")
    assert row["due"]


async def test_a_moment_that_has_passed_is_due_at_once_and_stays_the_promise(product: Site) -> None:
    await put(product.acme, {"tag": "phone"}, send_at=at(-1))
    [item] = await items(product.acme)
    assert datetime.fromisoformat(item["due_at"]) == NOW - HOUR


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"send_at": at(24 * 366 * 5.1)}, {"send_at": "range"}),
        ({"send_at": at(2), "expires_at": at(1)}, {"expires_at": "range"}),
        ({"expires_at": at(-1)}, {"expires_at": "range"}),
        ({"send_at": at(-30)}, {"expires_at": "range"}),
        ({"send_at": "2026-12-01T18:00:00"}, {"send_at": "naive_time"}),
        ({"title": "", "body": "", "level": "loud", "hold": "x"},
         {"title": "length", "body": "length", "level": "one_of", "hold": "one_of"}),
        ({"title": "x" * 201, "body": "x" * 10_001}, {"title": "length", "body": "length"}),
        ({"link": "javascript:alert(1)"}, {"link": "pattern"}),
        ({"selectors": [{"tag": "a"}] * 21}, {"selectors": "length"}),
        ({"selectors": [{}, {"tag": "A B"}, {"tag": "a", "address_id": 1}]},
         {"selectors.0": "required", "selectors.1.tag": "pattern", "selectors.2": "required"}),
    ],
)  # fmt: skip
async def test_what_makes_no_sense_is_refused_and_nothing_is_put(
    product: Site, more: dict[str, Any], wrong: dict[str, str]
) -> None:
    assert (await say(product.acme, {"tag": "phone"}, **more)).fields == wrong
    assert await items(product.acme) == []
    assert await product.acme.rows("SELECT FROM message") == []


async def test_one_way_to_name_people_is_needed_and_all_who_are_unknown_are_named(product: Site) -> None:
    acme, ben = product.acme, await person(product.acme, "Ben", external_id="hr-17")
    stranger = await person(product.main, "Ada")
    for to in ({}, {"person_ids": [ben], "tag": "phone"}, {"person_ids": None}):
        assert (await say(acme, to)).fields == {"to": "required"}
    answer = await say(acme, {"person_ids": [ben, stranger, 2**62]})
    assert answer.fields == {"to.person_ids.1": "unknown_person", "to.person_ids.2": "unknown_person"}
    assert answer.refused == (422, "unknown_person")
    assert (await say(acme, {"external_ids": ["hr-17", "hr-18"]})).fields == {"to.external_ids.1": "unknown_person"}
    message_id = await put(acme, {"external_ids": ["hr-17"]})
    assert (await shown(acme, message_id))["to"] == {"person_ids": [ben]}
    assert (await say(acme, {"person_ids": []})).fields == {"to.person_ids": "length"}


async def test_an_address_can_be_chosen_for_one_person_and_only_tags_for_several(product: Site) -> None:
    acme, ben, ada = product.acme, await person(product.acme, "Ben"), await person(product.acme, "Ada")
    own, foreign = await address(acme, ben, "phone"), await address(acme, ada, "phone")
    one = {"person_ids": [ben]}
    assert (await say(acme, one, selectors=[{"address_id": own}, {"tag": "phone"}])).status == 202
    answer = await say(acme, one, selectors=[{"tag": "x"}, {"address_id": foreign}])
    assert answer.fields == {"selectors.1.address_id": "foreign_selector"}
    for to in ({"person_ids": [ben, ada]}, {"tag": "phone"}):
        answer = await say(acme, to, selectors=[{"address_id": own}])
        assert answer.refused == (422, "foreign_selector")
    assert (await say(acme, {"person_ids": [ben, ada]}, selectors=[{"tag": "phone"}])).status == 202


async def test_one_idempotency_key_puts_one_message(product: Site) -> None:
    body = {"to": {"tag": "phone"}, "title": "a", "body": "b"}
    first, second = [await product.acme.write.post("/v1/messages", body, idempotency_key="k") for _ in range(2)]
    assert first.json == second.json
    assert len(await items(product.acme)) == 1


async def test_putting_is_on_record_without_what_was_said(product: Site) -> None:
    message_id = await put(product.acme, {"tag": "phone"}, body="Ben is ill")
    [line] = (await product.acme.admin.get(f"/v1/ops/audit?entity=message/{message_id}")).json["items"]
    assert line["verb"] == "put"
    assert "Ben" not in json.dumps(line["changes"])


# --- to whom


async def test_a_tag_means_those_who_have_it_when_the_message_is_told(product: Site) -> None:
    acme = product.acme
    early, both = await person(acme, "Ben", "phone"), await person(acme, "Ada", "mail", "phone")
    await person(acme, "Cleo", "mail")
    message_id = await put(acme, {"tag": "phone"}, selectors=[{"tag": "phone"}], send_at=at(1))
    late, off = await person(acme, "Dan", "phone"), await person(acme, "Eve", "phone")
    await acme.run("UPDATE address SET active = false WHERE person_id = $1", off)
    await tell(product, acme, message_id)
    assert await told(acme) == [(one, "pending", None) for one in (early, both, late)]


async def test_people_are_resolved_in_pages_none_twice_and_none_missed(product: Site) -> None:
    acme = product.acme
    ids = [await person(acme, f"P{n}", "a") for n in range(7)]
    for to in ({"tag": "a"}, {"person_ids": ids[::-1]}):
        found: list[int] = []
        async with product.db.transaction(acme.id) as tx:
            while page := await people_of(tx, to, found[-1] if found else 0, 3):
                found += [one.person_id for one in page]
        assert found == ids


# --- what became of it


async def put_and_tell(product: Site, people: Sequence[int]) -> int:
    message_id = await put(product.acme, {"person_ids": list(people)})
    await tell(product, product.acme, message_id)
    return message_id


async def test_the_summary_counts_people_by_the_best_of_their_addresses(product: Site) -> None:
    acme = product.acme
    states = {
        "delivered": ("sent", "failed", "pending"), "pending": ("pending", "failed", "unknown"),
        "failed": ("failed", "unknown", "skipped"), "unknown": ("unknown", "skipped", "skipped"),
        "skipped": ("skipped", "skipped", "skipped"),
    }  # fmt: skip
    people = {name: await person(acme, name, "a", "b", "c") for name in states}
    silent = await person(acme, "silent")
    message_id = await put_and_tell(product, [*people.values(), silent])
    for name, wanted in states.items():
        rows = await acme.rows("SELECT id FROM delivery WHERE person_id = $1 ORDER BY id", people[name])
        for row, state in zip(rows, wanted, strict=True):
            await acme.run("UPDATE delivery SET state = $2 WHERE id = $1", row["id"], state)
    assert (await shown(acme, message_id))["summary"] == {
        "total": 6, "delivered": 1, "pending": 1, "failed": 1, "unknown": 1, "skipped": 2,
    }  # fmt: skip


async def test_messages_are_listed_newest_first_page_by_page(product: Site) -> None:
    ids = [await put(product.acme, {"tag": "a"}, send_at=at(1)) for _ in range(3)]
    assert [one["id"] for one in await product.acme.read.every("/v1/messages?limit=2")] == ids[::-1]
    assert await product.main.read.every("/v1/messages") == []


# --- cancelled


async def test_cancelled_before_its_moment_a_message_is_told_to_nobody(product: Site) -> None:
    acme, ben = product.acme, await person(product.acme, "Ben", "phone")
    message_id = await put(acme, {"person_ids": [ben]}, send_at=at(1))
    answer = await acme.write.post(f"/v1/messages/{message_id}/cancel")
    assert (answer.status, answer.json["cancelled_at"] is not None) == (200, True)
    assert await items(acme) == []
    again = await acme.write.post(f"/v1/messages/{message_id}/cancel")
    assert again.refused == (409, "already_finished")


async def test_cancelled_afterwards_only_what_is_pending_is_skipped_and_no_other_message(product: Site) -> None:
    acme = product.acme
    people = [await person(acme, name, "phone") for name in ("Ben", "Ada")]
    message_id = await put_and_tell(product, people)
    await acme.run("UPDATE message SET cause = 'message/1' WHERE id = $1", message_id)
    other = await put_and_tell(product, people)
    await acme.run("UPDATE message SET cause = 'message/12' WHERE id = $1", other)
    await acme.run("UPDATE delivery SET state = 'sent' WHERE message_id = $1 AND person_id = $2", message_id, people[0])
    answer = await acme.write.post(f"/v1/messages/{message_id}/cancel")
    assert answer.json["summary"] == {
        "total": 2, "delivered": 1, "pending": 0, "failed": 0, "unknown": 0, "skipped": 1,
    }  # fmt: skip
    assert (await shown(acme, other))["summary"]["pending"] == 2
    [skipped] = await acme.rows("SELECT id, reason FROM delivery WHERE state = 'skipped'")
    assert skipped["reason"] == "cancelled"
    [gone] = await acme.rows("SELECT key, fate FROM due.due_undone WHERE kind = 'delivery.send'")
    assert (gone["key"], gone["fate"]) == (str(skipped["id"]), "cancelled")


async def cancelled(house: House, kind: str) -> Any:
    """Somebody cancels the one due item of this kind, by hand."""
    [item] = await house.read.every(f"/v1/ops/due?kind={kind}")
    return await house.write.post(f"/v1/ops/due/{item['id']}/cancel")


async def test_what_a_due_item_was_for_is_over_when_somebody_cancels_that(product: Site) -> None:
    acme, ben = product.acme, await person(product.acme, "Ben", "phone")
    message_id = await put(acme, {"person_ids": [ben]}, send_at=at(1))
    assert (await cancelled(acme, "delivery.message")).status == 200
    assert (await shown(acme, message_id))["cancelled_at"] is not None
    other = await put_and_tell(product, [ben])
    assert (await cancelled(acme, "delivery.send")).status == 200
    assert (await shown(acme, other))["summary"]["skipped"] == 1
    assert await told(acme) == [(ben, "skipped", "cancelled")]
    [delivery] = await acme.read.every("/v1/deliveries")
    assert (await acme.write.post(f"/v1/deliveries/{delivery['id']}/retry")).status == 202


async def test_what_was_promised_already_cannot_be_cancelled_by_hand(product: Site) -> None:
    acme = product.acme
    await acme.put(Put("people.erase", "7"), Put("delivery.withdraw", "message/1:all", payload={"prefix": "message/1"}))
    for kind in ("people.erase", "delivery.withdraw"):
        assert (await cancelled(acme, kind)).refused == (409, "system_item")
        assert len(await acme.read.every(f"/v1/ops/due?kind={kind}")) == 1


async def test_a_message_that_everybody_got_cannot_be_cancelled(product: Site) -> None:
    acme = product.acme
    message_id = await put_and_tell(product, [await person(acme, "Ben", "phone")])
    await acme.run("UPDATE message SET told_at = now()")
    await acme.run("UPDATE delivery SET state = 'sent'")
    assert (await acme.write.post(f"/v1/messages/{message_id}/cancel")).refused == (409, "already_finished")


async def test_nothing_of_another_workspaces_message_can_be_seen_or_cancelled(product: Site) -> None:
    message_id = await put(product.acme, {"tag": "a"})
    admin = product.main.admin
    assert (await admin.get(f"/v1/messages/{message_id}")).refused == (404, "not_found")
    assert (await admin.post(f"/v1/messages/{message_id}/cancel")).refused == (404, "not_found")
