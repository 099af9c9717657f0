"""Many people at once: good rows are kept, bad ones say why, and the same import can be sent again."""

import asyncio
from typing import Any

import pytest

from tests.support.site import Site


async def send(product: Site, *rows: Any) -> list[Any]:
    answer = await product.main.write.post("/v1/people/batch", {"people": list(rows)})
    assert answer.status == 200, answer.body
    return list(answer.json["items"])


def told(items: list[Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(one["status"], [(error["field"], error["code"]) for error in one["errors"]]) for one in items]


async def test_good_rows_are_kept_and_each_bad_one_says_what_is_wrong(product: Site) -> None:
    items = await send(
        product,
        {"name": "Ana", "external_id": "1", "email": "ana@example.org"},
        {"name": "", "timezone": "Mars/Base"},
        "nobody",
        {"first_name": "Ben"},
        {"name": "Cem", "nonsense": 1},
        {"name": "Dee", "quiet_hours": {"start": "22:00", "end": "07:00"}},
    )
    assert told(items) == [
        ("created", []),
        ("refused", [("name", "length"), ("timezone", "unknown_zone")]),
        ("refused", [("", "type")]),
        ("refused", [("last_name", "required")]),
        ("refused", [("nonsense", "unknown_field")]),
        ("created", []),
    ]
    assert [one["index"] for one in items] == list(range(6))
    people = await product.main.read.every("/v1/people")
    assert [(one["id"], one["name"]) for one in people] == [(items[5]["id"], "Dee"), (items[0]["id"], "Ana")]
    assert people[0]["quiet_hours"] == {"start": "22:00", "end": "07:00", "critical": "send"}


async def test_the_same_import_again_makes_nobody_twice(product: Site) -> None:
    rows = [{"name": f"P{n}", "external_id": f"hr-{n}", "email": f"p{n}@example.org"} for n in range(20)]
    first = await send(product, *rows)
    assert {one["status"] for one in first} == {"created"}
    again = await send(product, *rows)
    assert [(one["id"], one["status"]) for one in again] == [(one["id"], "same") for one in first]
    third = await send(product, *rows[:19], {"name": "New", "external_id": "hr-19"})
    assert [one["status"] for one in third] == ["same"] * 19 + ["changed"]
    changed = (await product.main.read.get(f"/v1/people/{first[19]['id']}")).json
    assert (changed["name"], changed["email"], changed["version"]) == ("New", "p19@example.org", 2)


async def test_what_somebody_has_is_refused_row_by_row(product: Site) -> None:
    await send(product, {"name": "Ana", "external_id": "1", "email": "ana@example.org"})
    items = await send(
        product,
        {"name": "Other", "email": "ANA@example.org"},
        {"name": "Ben", "external_id": "2", "email": "ben@example.org"},
        {"name": "Twice", "external_id": "2"},
        {"name": "Too", "email": "Ben@example.org"},
        {"external_id": "1", "name": "Anna"},
        {"external_id": "1", "name": "Annika"},
        {"external_id": "1", "email": "ben@example.org"},
    )
    assert told(items) == [
        ("refused", [("email", "email_taken")]),
        ("created", []),
        ("refused", [("external_id", "external_id_taken")]),
        ("refused", [("email", "email_taken")]),
        ("changed", []),
        ("refused", [("external_id", "external_id_taken")]),
        ("refused", [("external_id", "external_id_taken")]),
    ]
    assert [one["name"] for one in await product.main.read.every("/v1/people")] == ["Ben", "Anna"]


async def test_two_imports_of_the_same_people_at_once_make_each_once(product: Site) -> None:
    rows = [{"name": f"P{n}", "external_id": f"hr-{n}"} for n in range(200)]
    both = await asyncio.gather(send(product, *rows), send(product, *rows[::-1]))
    assert len(await product.main.rows("SELECT FROM person")) == 200
    kept = [one for items in both for one in items if one["status"] == "created"]
    assert len(kept) == 200
    rest = [one for items in both for one in items if one["status"] != "created"]
    assert {one["status"] for one in rest} <= {"same", "refused"}
    assert {error["code"] for one in rest for error in one["errors"]} <= {"external_id_taken"}


async def test_an_import_is_one_line_of_the_record(product: Site) -> None:
    await send(product, {"name": "Ana", "external_id": "1"}, {"name": "Ben", "external_id": "2"})
    await send(product, {"name": "Anna", "external_id": "1"}, {"name": "Cem"}, {"name": ""})
    await send(product, {"name": "Anna", "external_id": "1"})
    lines = await product.main.admin.every("/v1/ops/audit?entity=people")
    assert [(line["verb"], line["changes"]) for line in lines[::-1]] == [
        ("import", {"created": 2, "changed": 0}),
        ("import", {"created": 1, "changed": 1}),
    ]


@pytest.mark.parametrize("count", [0, 1001])
async def test_an_import_has_1_to_1000_rows(product: Site, count: int) -> None:
    answer = await product.main.write.post("/v1/people/batch", {"people": [{"name": "Ana"}] * count})
    assert answer.fields == {"people": "length"}


async def test_a_thousand_people_are_one_request(product: Site) -> None:
    items = await send(product, *({"name": f"P{n}", "external_id": str(n)} for n in range(1000)))
    assert {one["status"] for one in items} == {"created"}
    rows = await product.main.rows("SELECT external_id FROM person ORDER BY id")
    assert [row["external_id"] for row in rows] == [str(n) for n in range(1000)]
