"""People over HTTP: made, changed, found and erased."""

import asyncio
from typing import Any

import pytest

from tests.support.http import Client
from tests.support.site import House, Site

BEN = {
    "external_id": "hr-17",
    "name": "Ben",
    "email": "Ben@Example.ORG",
    "timezone": "Europe/Berlin",
    "locale": "de",
    "date_of_birth": "1990-02-28",
    "quiet_hours": {"start": "22:00", "end": "07:00", "critical": "send"},
    "paused_until": None,
}


async def make(client: Client, **fields: Any) -> Any:
    answer = await client.post("/v1/people", {"name": "Ben", **fields})
    assert answer.status == 201, answer.body
    return answer.json


async def record_of(house: House, entity: str) -> list[tuple[str, dict[str, Any]]]:
    """What the record says about something, the oldest first."""
    lines = await house.admin.every(f"/v1/ops/audit?entity={entity}")
    return [(line["verb"], line["changes"]) for line in reversed(lines)]


# --- making


async def test_a_person_is_made_as_was_said(product: Site) -> None:
    answer = await product.main.write.post("/v1/people", BEN)
    made = answer.json
    assert (answer.status, answer.headers["location"]) == (201, f"/v1/people/{made['id']}")
    assert answer.headers["etag"] == '"1"'
    said = {**BEN, "email": "Ben@example.org", "first_name": None, "last_name": None}
    assert {name: made[name] for name in said} == said
    assert (await product.main.read.get(f"/v1/people/{made['id']}")).json == made


async def test_zone_and_language_are_the_workspaces_unless_they_are_named(product: Site) -> None:
    made = await make(product.acme.write)
    assert (made["timezone"], made["locale"], made["version"]) == ("Europe/Berlin", "de", 1)
    assert (await make(product.acme.write, timezone="US/Pacific"))["timezone"] == "US/Pacific"


async def test_first_and_last_name_make_the_name_where_none_is_given(product: Site) -> None:
    body = {"first_name": "Ana", "last_name": "Silva"}
    made = (await product.main.write.post("/v1/people", body)).json
    assert (made["name"], made["first_name"]) == ("Ana Silva", "Ana")
    named = await make(product.main.write, name="Anita", **body)
    assert named["name"] == "Anita"


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": None}, {"name": "required"}),
        ({"name": ""}, {"name": "length"}),
        ({"name": "x" * 202}, {"name": "length"}),
        ({"name": "a\nb"}, {"name": "control_character"}),
        ({"first_name": "Ana"}, {"last_name": "required"}),
        ({"timezone": None}, {"timezone": "type"}),
        ({"timezone": "Mars/Base"}, {"timezone": "unknown_zone"}),
        ({"locale": "deutsch"}, {"locale": "unknown_locale"}),
        ({"email": "ben"}, {"email": "pattern"}),
        ({"email": "b" * 60 + "@" + ".".join(["x" * 60] * 3) + ".example.org"}, {"email": "length"}),
        ({"date_of_birth": "1990-02-28"}, {"timezone": "required"}),
        ({"date_of_birth": "1990-02-30", "timezone": "UTC"}, {"date_of_birth": "type"}),
        ({"date_of_birth": "1899-12-31", "timezone": "UTC"}, {"date_of_birth": "range"}),
        ({"date_of_birth": "2199-01-01", "timezone": "UTC"}, {"date_of_birth": "in_future"}),
        ({"quiet_hours": {"start": "22:00"}}, {"quiet_hours.end": "required"}),
        ({"quiet_hours": {"start": "22:00", "end": "22:00"}}, {"quiet_hours.end": "range"}),
        ({"quiet_hours": {"start": "22", "end": "7:00"}}, {"quiet_hours.start": "type", "quiet_hours.end": "type"}),
        ({"paused_until": "2026-12-01T18:00:00"}, {"paused_until": "naive_time"}),
        ({"nonsense": 1}, {"nonsense": "unknown_field"}),
    ],
)
async def test_what_cannot_be_is_named_field_by_field(
    product: Site, fields: dict[str, Any], wrong: dict[str, str]
) -> None:
    answer = await product.main.write.post("/v1/people", {"name": "Ben", **fields})
    assert (answer.status, answer.fields) == (422, wrong)
    assert await product.main.rows("SELECT FROM person") == []


async def test_three_bad_fields_are_named_at_once_and_nothing_is_kept(product: Site) -> None:
    body = {"name": "", "date_of_birth": "2023-02-30", "timezone": "Mars/Base"}
    answer = await product.main.write.post("/v1/people", body)
    assert answer.fields.keys() == body.keys()
    assert await product.main.rows("SELECT FROM person UNION ALL SELECT FROM due.due") == []


async def test_an_external_id_and_a_mail_address_belong_to_one_person(product: Site) -> None:
    await make(product.main.write, external_id="a", email="ben@example.org")
    again = await product.main.write.post("/v1/people", {"name": "Ben", "external_id": "a"})
    assert again.refused == (409, "external_id_taken")
    again = await product.main.write.post("/v1/people", {"name": "Ben", "email": "BEN@EXAMPLE.org"})
    assert again.refused == (409, "email_taken")
    await make(product.acme.write, external_id="a", email="ben@example.org")


async def test_of_many_who_want_one_mail_address_at_once_one_gets_it(product: Site) -> None:
    body = {"name": "Ben", "email": "ben@example.org"}
    answers = await asyncio.gather(*(product.main.write.post("/v1/people", body) for _ in range(8)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 7
    assert {answer.code for answer in answers if answer.status == 409} == {"email_taken"}


async def test_the_record_tells_that_and_not_who(product: Site) -> None:
    made = await make(product.main.write, **BEN)
    path = f"/v1/people/{made['id']}"
    await product.main.write.patch(path, {"name": "Benno", "email": "b@example.org", "timezone": "Asia/Tokyo"})
    assert (await product.main.write.delete(path)).status == 204
    zones = {"from": "Europe/Berlin", "to": "Asia/Tokyo"}
    assert await record_of(product.main, f"person/{made['id']}") == [
        ("make", {}),
        ("change", {"name": {}, "email": {}, "timezone": zones}),
        ("remove", {}),
    ]


# --- changing


async def test_a_change_touches_what_is_named_and_null_clears(product: Site) -> None:
    made = await make(product.main.write, **BEN)
    answer = await product.main.write.patch(
        f"/v1/people/{made['id']}", {"quiet_hours": None, "email": None, "locale": "en"}
    )
    after = answer.json
    assert (answer.status, after["version"], answer.headers["etag"]) == (200, 2, '"2"')
    assert (after["quiet_hours"], after["email"], after["locale"]) == (None, None, "en")
    kept = ("name", "external_id", "timezone", "date_of_birth", "created_at")
    assert {name: after[name] for name in kept} == {name: made[name] for name in kept}


async def test_a_change_that_changes_nothing_keeps_the_version_and_the_record(product: Site) -> None:
    made = await make(product.main.write, **BEN)
    path = f"/v1/people/{made['id']}"
    for body in ({}, {"name": "Ben"}, {"email": "Ben@EXAMPLE.org", "quiet_hours": BEN["quiet_hours"]}):
        assert (await product.main.write.patch(path, body)).json == made
    assert await record_of(product.main, f"person/{made['id']}") == [("make", {})]


async def test_a_change_of_what_somebody_else_changed_is_stale(product: Site) -> None:
    made = await make(product.main.write)
    path = f"/v1/people/{made['id']}"
    assert (await product.main.write.patch(path, {"name": "Benno"}, If_Match='"1"')).status == 200
    stale = await product.main.write.patch(path, {"name": "Bo"}, If_Match='"1"')
    assert (stale.refused, stale.headers["etag"]) == ((412, "stale"), '"2"')
    assert (await product.main.write.delete(path, If_Match='"1"')).refused == (412, "stale")
    assert (await product.main.read.get(path)).json["name"] == "Benno"


async def test_a_name_follows_first_and_last_name_until_it_is_chosen(product: Site) -> None:
    made = (await product.main.write.post("/v1/people", {"first_name": "Ana", "last_name": "Silva"})).json
    path = f"/v1/people/{made['id']}"
    write = product.main.write
    assert (await write.patch(path, {"last_name": "Santos"})).json["name"] == "Ana Santos"
    assert (await write.patch(path, {"name": "Anita"})).json["name"] == "Anita"
    assert (await write.patch(path, {"last_name": "Silva"})).json["name"] == "Anita"
    assert (await write.patch(path, {"name": None})).json["name"] == "Ana Silva"
    assert (await write.patch(path, {"first_name": None})).fields == {"first_name": "required"}
    cleared = (await write.patch(path, {"first_name": None, "last_name": None})).json
    assert (cleared["name"], cleared["first_name"]) == ("Ana Silva", None)
    assert (await write.patch(path, {"name": None})).fields == {"name": "required"}


async def test_a_mail_address_of_somebody_else_is_refused_in_a_change_too(product: Site) -> None:
    await make(product.main.write, external_id="a", email="ana@example.org")
    made = await make(product.main.write)
    path = f"/v1/people/{made['id']}"
    assert (await product.main.write.patch(path, {"email": "ANA@example.org"})).refused == (409, "email_taken")
    assert (await product.main.write.patch(path, {"external_id": "a"})).refused == (409, "external_id_taken")


# --- by external id


async def test_the_person_of_an_external_id_is_made_and_then_changed(product: Site) -> None:
    path = "/v1/people/external/hr%2017"
    first = await product.main.write.ask("PUT", path, {"name": "Ben", "email": "ben@example.org"})
    assert (first.status, first.headers["location"]) == (201, f"/v1/people/{first.json['id']}")
    assert first.json["external_id"] == "hr 17"
    second = await product.main.write.ask("PUT", path, {"name": "Benno"})
    assert (second.status, second.json["version"], second.json["email"]) == (200, 2, "ben@example.org")
    assert "location" not in second.headers
    same = await product.main.write.ask("PUT", path, {"name": "Benno"}, If_Match='"2"')
    assert (same.status, same.json["version"]) == (200, 2)
    assert (await product.main.write.ask("PUT", path, {"name": "B"}, If_Match='"1"')).refused == (412, "stale")
    new = await product.main.write.ask("PUT", "/v1/people/external/new", {"name": "B"}, If_Match='"1"')
    assert new.refused == (412, "stale")
    assert (await product.main.write.ask("PUT", "/v1/people/external/x", {})).fields == {"name": "required"}
    long = f"/v1/people/external/{'x' * 201}"
    assert (await product.main.write.ask("PUT", long, {"name": "Ben"})).fields == {"external_id": "length"}


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("hr%2F17", "hr/17"), ("%2f", "/"), ("a%2F%2Fb%2F", "a//b/"), ("a%252Fb", "a%2Fb"),
        ("..%2F..%2Fapi-keys", "../../api-keys"), ("e%CC%81%2F1", "é/1"),
    ],
)  # fmt: skip
async def test_an_external_id_may_hold_slashes_which_are_written_in_percents(
    product: Site, path: str, meant: str
) -> None:
    write = product.main.write
    made = await write.ask("PUT", f"/v1/people/external/{path}", {"name": "Ben"})
    assert (made.status, made.json["external_id"]) == (201, meant)
    again = await write.ask("PUT", f"/v1/people/external/{path}", {"name": "Benno"})
    assert (again.status, again.json["id"]) == (200, made.json["id"])
    assert (await write.post("/v1/people/batch", {"people": [{"external_id": meant, "name": "B"}]})).json["items"][0][
        "id"
    ] == made.json["id"]


async def test_what_is_wrong_with_an_external_id_in_a_path_is_told_as_of_a_field(product: Site) -> None:
    for path, code in (
        ("x" * 201, "length"),
        ("%20", "length"),
        ("a%00b", "control_character"),
        ("a%0Ab", "control_character"),
    ):
        answer = await product.main.write.ask("PUT", f"/v1/people/external/{path}", {"name": "Ben"})
        assert (answer.status, answer.fields) == (422, {"external_id": code}), path


async def test_no_other_part_of_a_path_takes_a_slash(product: Site) -> None:
    made = await make(product.main.write)
    for path in (
        "/v1/people%2F1",
        f"/v1/people/{made['id']}%2F",
        "/v1/ops/pauses/a%2Fb",
        "/static/x/..%2Fx",
        "/login/a%2Fb",
    ):
        assert (await product.main.admin.get(path)).status == 404, path


async def test_many_who_put_one_external_id_at_once_make_one_person(product: Site) -> None:
    path = "/v1/people/external/hr-17"
    names = [f"Ben {n}" for n in range(8)]
    answers = await asyncio.gather(*(product.main.write.ask("PUT", path, {"name": name}) for name in names))
    assert sorted(answer.status for answer in answers) == [200] * 7 + [201]
    assert len({answer.json["id"] for answer in answers}) == 1
    assert sorted(answer.json["version"] for answer in answers) == list(range(1, 9))


# --- finding


async def test_people_are_found_by_a_part_of_name_or_mail_and_by_the_beginning_of_the_external_id(
    product: Site,
) -> None:
    for name, email, external_id in (
        ("Ana Müller", "ana@example.org", "hr-1"),
        ("Ben", "ben@muster.example", "hr-2"),
        ("100%", None, "crm_1"),
    ):
        await make(product.main.write, name=name, email=email, external_id=external_id)

    async def found(query: str) -> list[str]:
        return [one["name"] for one in await product.main.read.every(f"/v1/people?{query}")]

    assert await found("") == ["100%", "Ben", "Ana Müller"]
    assert await found("q=m%C3%9C") == ["Ana Müller"]
    assert await found("q=muster") == ["Ben"]
    assert await found("q=hr-") == ["Ben", "Ana Müller"]
    assert await found("q=r-") == []
    assert await found("q=%25") == ["100%"]
    assert await found("q=_") == []
    assert await found("external_id=hr-2") == ["Ben"]
    assert await found("email=ANA@example.org") == ["Ana Müller"]
    assert await found("q=ana&external_id=hr-2") == []


async def test_people_are_found_by_the_tag_of_an_active_address(product: Site) -> None:
    made = [await make(product.main.write, name=name) for name in ("Ana", "Ben", "Cem")]
    for person, active in zip(made[:2], (True, False), strict=True):
        body = {"kind": "console", "label": "here", "tags": ["urgent"], "active": active}
        assert (await product.main.write.post(f"/v1/people/{person['id']}/addresses", body)).status == 201
    found = await product.main.read.every("/v1/people?tag=urgent")
    assert [one["name"] for one in found] == ["Ana"]


async def test_a_list_is_shown_in_parts_without_gap_or_repeat(product: Site) -> None:
    ids = [(await make(product.main.write))["id"] for _ in range(7)]
    listed = await product.main.read.every("/v1/people?limit=3")
    assert [one["id"] for one in listed] == ids[::-1]


# --- erasing


async def test_whoever_is_erased_is_gone_from_every_answer_at_once(product: Site) -> None:
    made = await make(product.main.write, **BEN)
    path, write = f"/v1/people/{made['id']}", product.main.write
    address = (await write.post(f"{path}/addresses", {"kind": "console", "label": "here"})).json
    assert (await write.delete(path, If_Match='"1"')).status == 204
    for method, asked, body in (
        ("GET", path, {}),
        ("PATCH", path, {"name": "Ben"}),
        ("DELETE", path, {}),
        ("GET", f"{path}/addresses", {}),
        ("POST", f"{path}/addresses", {"kind": "console", "label": "here"}),
        ("GET", f"{path}/export", {}),
        ("GET", f"/v1/addresses/{address['id']}", {}),
    ):
        answer = await (product.main.admin.get(asked) if method == "GET" else write.ask(method, asked, body))
        assert answer.refused == (404, "not_found"), (method, asked)
    assert await write.every("/v1/people") == []
    row = (await product.main.rows("SELECT p::text AS text FROM person p"))[0]["text"]
    assert not [word for word in ("Ben", "hr-17", "example", "1990-02") if word in row]
    again = await write.ask("PUT", "/v1/people/external/hr-17", {"name": "Ben", "email": "ben@example.org"})
    assert (again.status, again.json["id"] != made["id"]) == (201, True)


async def test_an_item_is_due_that_erases_what_others_keep(product: Site) -> None:
    made = await make(product.main.write)
    await product.main.write.delete(f"/v1/people/{made['id']}")
    [item] = await product.main.read.every("/v1/ops/due")
    assert (item["kind"], item["key"], item["lane"]) == ("people.erase", str(made["id"]), "bulk")
    assert item["label"] == f"Erase what is kept about person {made['id']}"


async def test_the_export_holds_everything_but_where_addresses_lead(product: Site) -> None:
    made = await make(product.main.write, **BEN)
    path = f"/v1/people/{made['id']}"
    body = {"kind": "apprise", "label": "phone", "target": "ntfys://secret-token@push.example.org/ben"}
    address = (await product.main.write.post(f"{path}/addresses", body)).json
    assert (await product.main.write.get(f"{path}/export")).refused == (403, "forbidden")
    answer = await product.main.admin.get(f"{path}/export")
    assert (answer.json["person"], answer.json["addresses"]) == (made, [address])
    assert [line["verb"] for line in answer.json["record"]] == ["make", "add"]
    assert b"secret-token" not in answer.body


# --- the wall


async def test_people_of_another_workspace_are_not_there(product: Site) -> None:
    made = await make(product.acme.write, external_id="a")
    path = f"/v1/people/{made['id']}"
    admin = product.main.admin
    assert await admin.every("/v1/people") == []
    for method, asked, body in (
        ("GET", path, None),
        ("GET", f"{path}/export", None),
        ("GET", f"{path}/addresses", None),
        ("PATCH", path, {"name": "Mine"}),
        ("DELETE", path, {}),
        ("POST", f"{path}/addresses", {"kind": "console", "label": "here"}),
    ):
        answer = await (admin.get(asked) if method == "GET" else admin.ask(method, asked, body))
        assert answer.refused == (404, "not_found"), (method, asked)
    assert (await product.acme.read.get(path)).json == made
