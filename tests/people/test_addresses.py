"""Addresses over HTTP: added, changed, enabled, removed; their targets are taken and never given back."""

import asyncio
from typing import Any

import pytest

from soonish.errors import Invalid
from soonish.people.actions.targets import check_selectors, find_targets
from tests.support.http import Answer, Client
from tests.support.site import House, Site

TOKEN = "ntfys://secret-token@push.example.org/ben"


async def person(house: House, name: str = "Ben") -> int:
    return int((await house.write.post("/v1/people", {"name": name})).json["id"])


async def add(client: Client, person_id: int, **fields: Any) -> Answer:
    body = {"kind": "apprise", "label": "phone", "target": TOKEN, **fields}
    return await client.post(f"/v1/people/{person_id}/addresses", body)


async def added(client: Client, person_id: int, **fields: Any) -> Any:
    answer = await add(client, person_id, **fields)
    assert answer.status == 201, answer.body
    return answer.json


# --- adding


async def test_an_address_shows_what_speaks_there_and_hides_where_it_leads(product: Site) -> None:
    ben = await person(product.main)
    answer = await add(product.main.write, ben, tags=["phone", "urgent", "phone"])
    made = answer.json
    assert (answer.status, answer.headers["location"]) == (201, f"/v1/addresses/{made['id']}")
    shown = {name: made[name] for name in ("person_id", "kind", "label", "scheme", "target_hint", "tags")}
    assert shown == {
        "person_id": ben,
        "kind": "apprise",
        "label": "phone",
        "scheme": "ntfys",
        "target_hint": "ntfys://***",
        "tags": ["phone", "urgent"],
    }
    assert (made["active"], made["health"], made["version"]) == (True, "ok", 1)
    assert (await product.main.read.get(f"/v1/addresses/{made['id']}")).json == made
    assert await product.main.read.every(f"/v1/people/{ben}/addresses") == [made]
    assert b"secret-token" not in answer.body


async def test_a_target_lies_sealed_and_opens_for_who_delivers(product: Site) -> None:
    made = await added(product.main.write, await person(product.main))
    [row] = await product.main.rows("SELECT a::text AS text, target, host, target_print FROM address a")
    assert "secret-token" not in row["text"]
    assert b"secret-token" not in row["target"] + row["target_print"]
    assert row["host"] == "push.example.org"
    assert product.process
    async with product.db.transaction(1) as tx:
        found = await find_targets(tx, product.process.vault, 1, [made["id"], 999])
    assert found == {made["id"]: TOKEN}


async def test_the_console_needs_no_target_and_a_person_has_it_once(product: Site) -> None:
    ben = await person(product.main)
    made = await added(product.main.write, ben, kind="console", label="here", target=None)
    assert (made["scheme"], made["health"]) == ("console", "ok")
    again = await add(product.main.write, ben, kind="console", label="there", target=None)
    assert again.refused == (409, "duplicate_address")
    other = await add(product.main.write, ben, kind="console", label="there", target="x")
    assert other.fields == {"target": "unknown_field"}


async def test_a_target_and_a_label_stand_once_with_a_person(product: Site) -> None:
    ben, ana = await person(product.main), await person(product.main, "Ana")
    await added(product.main.write, ben)
    assert (await add(product.main.write, ben, label="other")).refused == (409, "duplicate_address")
    assert (await add(product.main.write, ben, target="ntfy://b.example/x")).refused == (409, "label_taken")
    await added(product.main.write, ana)
    assert len(await product.main.rows("SELECT DISTINCT target_print FROM address")) == 1
    cem = await person(product.acme)
    await added(product.acme.write, cem)
    ours, theirs = [await house.rows("SELECT target_print FROM address") for house in (product.main, product.acme)]
    assert ours[0] != theirs[0], "a print tells nothing beyond its workspace"


async def test_of_many_who_add_one_target_at_once_one_does(product: Site) -> None:
    ben = await person(product.main)
    answers = await asyncio.gather(*(add(product.main.write, ben, label=f"phone {n}") for n in range(6)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 5
    assert {answer.code for answer in answers if answer.status == 409} == {"duplicate_address"}


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"target": None}, {"target": "required"}),
        ({"target": "ntfy"}, {"target": "apprise_url"}),
        ({"target": "ntfy://a ntfy://b"}, {"target": "apprise_url"}),
        ({"target": "ntfy://" + "x" * 2000}, {"target": "length"}),
        ({"kind": "fax"}, {"kind": "one_of"}),
        ({"label": ""}, {"label": "length"}),
        ({"label": "x" * 61}, {"label": "length"}),
        ({"tags": ["Urgent"]}, {"tags.0": "pattern"}),
        ({"tags": [f"t{n}" for n in range(21)]}, {"tags": "length"}),
        ({"nonsense": 1}, {"nonsense": "unknown_field"}),
    ],
)
async def test_what_cannot_be_is_named_field_by_field(
    product: Site, fields: dict[str, Any], wrong: dict[str, str]
) -> None:
    answer = await add(product.main.write, await person(product.main), **fields)
    assert (answer.status, answer.fields) == (422, wrong)
    assert "secret-token" not in answer.body.decode()


async def test_mail_needs_a_server_that_sends_it(product: Site) -> None:
    ben = await person(product.main)
    answer = await add(product.main.write, ben, kind="email", target="ben@example.org")
    assert answer.refused == (409, "smtp_missing")
    kinds = {one["kind"]: one["available"] for one in await product.main.read.every("/v1/address-kinds")}
    assert kinds == {"console": True, "email": False, "apprise": True}


async def test_a_mail_address_waits_until_its_owner_agrees_unless_the_workspace_trusts(mailing: Site) -> None:
    ben, write = await person(mailing.main), mailing.main.write
    made = await added(write, ben, kind="email", label="mail", target=" Ben@BÜCHER.example ")
    assert (made["health"], made["verified_at"], made["scheme"]) == ("unverified", None, "email")
    assert made["target_hint"] == "B***@xn--bcher-kva.example"
    again = await add(write, ben, kind="email", label="again", target="ben@bücher.example")
    assert again.refused == (409, "duplicate_address")
    wrong = await add(write, ben, kind="email", label="wrong", target="ben@")
    assert wrong.fields == {"target": "pattern"}
    await mailing.main.admin.patch("/v1/workspace", {"email_trust": "trusted"})
    trusted = await added(write, ben, kind="email", label="other", target="b@example.org")
    assert (trusted["health"], trusted["verified_at"] is not None) == ("ok", True)


# --- changing


async def test_label_tags_and_being_active_change_alone(product: Site) -> None:
    made = await added(product.main.write, await person(product.main))
    path = f"/v1/addresses/{made['id']}"
    after = (await product.main.write.patch(path, {"label": "old phone", "tags": ["slow"], "active": False})).json
    assert (after["label"], after["tags"], after["active"], after["version"]) == ("old phone", ["slow"], False, 2)
    same = (await product.main.write.patch(path, {"label": "old phone", "tags": ["slow", "slow"]})).json
    assert same == after
    assert (await product.main.write.patch(path, {"label": "x"}, If_Match='"1"')).refused == (412, "stale")
    assert (await product.main.write.patch(path, {"kind": "email"})).fields == {"kind": "unknown_field"}


async def test_a_new_target_begins_anew(product: Site) -> None:
    made = await added(product.main.write, await person(product.main))
    path = f"/v1/addresses/{made['id']}"
    await product.main.run(
        """UPDATE address SET health = 'disabled', disabled_reason = 'http_404', fails = 7, refusals = 5, misses = 2,
             last_error = 'http_404', last_failed_at = now(), circuit_until = now(), circuit_step = 3"""
    )
    same = (await product.main.write.patch(path, {"target": TOKEN})).json
    assert (same["version"], same["health"]) == (1, "disabled"), "the same target is no change"
    after = (await product.main.write.patch(path, {"target": "json://other.example"})).json
    assert (after["health"], after["disabled_reason"], after["fails"], after["last_error"]) == ("ok", None, 0, None)
    assert (after["scheme"], after["target_hint"], after["version"]) == ("json", "json://***", 2)
    [row] = await product.main.rows("SELECT refusals, misses, circuit_step, circuit_until FROM address")
    assert tuple(row) == (0, 0, 0, None)
    assert product.process
    async with product.db.transaction(1) as tx:
        found = await find_targets(tx, product.process.vault, 1, [made["id"]])
    assert found == {made["id"]: "json://other.example"}


async def test_a_change_does_not_make_two_addresses_one(product: Site) -> None:
    ben = await person(product.main)
    await added(product.main.write, ben)
    made = await added(product.main.write, ben, label="other", target="json://other.example")
    path = f"/v1/addresses/{made['id']}"
    assert (await product.main.write.patch(path, {"target": TOKEN})).refused == (409, "duplicate_address")
    assert (await product.main.write.patch(path, {"label": "phone"})).refused == (409, "label_taken")


async def test_a_new_mailbox_must_agree_too(mailing: Site) -> None:
    made = await added(mailing.main.write, await person(mailing.main), kind="email", target="ben@example.org")
    await mailing.main.run("UPDATE address SET health = 'ok', verified_at = now()")
    after = (await mailing.main.write.patch(f"/v1/addresses/{made['id']}", {"target": "b@example.org"})).json
    assert (after["health"], after["verified_at"]) == ("unverified", None)


# --- enabling and removing


@pytest.mark.parametrize("health", ["failing", "disabled"])
async def test_an_address_in_trouble_is_enabled_again(product: Site, health: str) -> None:
    made = await added(product.main.write, await person(product.main))
    await product.main.run(
        "UPDATE address SET health = $1, disabled_reason = 'gone', fails = 5, circuit_until = now() + interval '1 h'",
        health,
    )
    path = f"/v1/addresses/{made['id']}/enable"
    after = (await product.main.write.post(path)).json
    assert (after["health"], after["disabled_reason"], after["fails"], after["circuit_until"]) == ("ok", None, 0, None)
    assert after["version"] == 2
    assert (await product.main.write.post(path)).json == after, "nothing is left to enable"


async def test_enabling_is_no_way_around_the_owners_word(mailing: Site) -> None:
    made = await added(mailing.main.write, await person(mailing.main), kind="email", target="ben@example.org")
    path = f"/v1/addresses/{made['id']}/enable"
    assert (await mailing.main.write.post(path)).json == made
    await mailing.main.run("UPDATE address SET health = 'disabled'")
    assert (await mailing.main.write.post(path)).json["health"] == "unverified"


async def test_removing_the_last_active_address_is_told(product: Site) -> None:
    ben, write = await person(product.main), product.main.write
    ids = [(await added(write, ben, label=f"a{n}", target=f"json://h{n}.example"))["id"] for n in range(3)]
    await write.patch(f"/v1/addresses/{ids[0]}", {"active": False})
    answers = [await write.delete(f"/v1/addresses/{one}") for one in ids[::-1]]
    assert [(answer.status, answer.json) for answer in answers] == [
        (200, {"silent": False}),
        (200, {"silent": True}),
        (200, {"silent": False}),
    ]
    assert (await write.delete(f"/v1/addresses/{ids[0]}")).refused == (404, "not_found")


async def test_addresses_of_another_workspace_are_not_there(product: Site) -> None:
    made = await added(product.acme.write, await person(product.acme))
    path, write = f"/v1/addresses/{made['id']}", product.main.write
    for answer in (
        await write.get(path),
        await write.patch(path, {"label": "mine"}),
        await write.delete(path),
        await write.post(f"{path}/enable"),
    ):
        assert answer.refused == (404, "not_found")


async def test_the_record_tells_of_addresses_and_not_where_they_lead(product: Site) -> None:
    ben = await person(product.main)
    made = await added(product.main.write, ben)
    path = f"/v1/addresses/{made['id']}"
    await product.main.write.patch(path, {"label": "x", "target": "json://other.example"})
    await product.main.write.delete(path)
    lines = await product.main.admin.every(f"/v1/ops/audit?entity=address/{made['id']}")
    assert [(line["verb"], line["changes"]) for line in lines[::-1]] == [
        ("add", {"person_id": ben, "kind": "apprise"}),
        ("change", {"label": {}, "target": {}}),
        ("remove", {"person_id": ben}),
    ]


# --- selectors


async def test_a_selector_names_an_address_of_that_person_or_a_tag(product: Site) -> None:
    ben, ana = await person(product.main), await person(product.main, "Ana")
    own, foreign = [(await added(product.main.write, one))["id"] for one in (ben, ana)]
    async with product.db.transaction(1) as tx:
        for good in (None, [], [{"tag": "x"}], [{"address_id": own}, {"tag": "x"}]):
            await check_selectors(tx, ben, good)
        with pytest.raises(Invalid) as caught:
            await check_selectors(tx, ben, [{"address_id": own}, {"address_id": foreign}, {"address_id": 999}], "to")
    assert [(one.field, one.code) for one in caught.value.errors] == [
        ("to.1.address_id", "foreign_selector"),
        ("to.2.address_id", "foreign_selector"),
    ]
