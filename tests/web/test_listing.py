"""Lists in parts: each row on exactly one of them, whatever comes and goes meanwhile; and cursors that were forged."""

import base64
import json
from typing import Any
from urllib.parse import quote

from tests.support.site import Site


async def fill(shop: Site, count: int) -> list[int]:
    rows = await shop.acme.rows(
        "INSERT INTO thing (workspace_id, name) SELECT $1, 'n' || n FROM generate_series(1, $2) n RETURNING id",
        shop.acme.id,
        count,
    )
    return [row["id"] for row in rows]


def cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


async def test_an_empty_list_is_a_list(shop: Site) -> None:
    assert (await shop.acme.read.get("/v1/things")).json == {"items": [], "next": None}


async def test_a_part_holds_fifty_the_newest_first(shop: Site) -> None:
    ids = await fill(shop, 51)
    answer = (await shop.acme.read.get("/v1/things")).json
    assert [item["id"] for item in answer["items"]] == ids[:0:-1]
    rest = (await shop.acme.read.get(f"/v1/things?after={answer['next']}")).json
    assert ([item["id"] for item in rest["items"]], rest["next"]) == (ids[:1], None)


async def test_a_part_that_is_just_full_is_the_last(shop: Site) -> None:
    await fill(shop, 4)
    assert (await shop.acme.read.get("/v1/things?limit=4")).json["next"] is None
    assert len((await shop.acme.read.get("/v1/things?limit=3")).json["items"]) == 3


async def test_a_limit_is_from_one_to_two_hundred(shop: Site) -> None:
    codes = {"0": "range", "201": "range", "-1": "range", "1.0": "type", "x": "type", "": "type", "9" * 20: "type"}
    found = {limit: (await shop.acme.read.get(f"/v1/things?limit={limit}")).fields["limit"] for limit in codes}
    assert found == codes
    await fill(shop, 201)
    assert len((await shop.acme.read.get("/v1/things?limit=200")).json["items"]) == 200


async def test_rows_that_exist_all_along_are_on_exactly_one_part(shop: Site) -> None:
    """Between two parts, rows come, and the very row that the cursor names goes."""
    ids = await fill(shop, 40)
    seen: list[int] = []
    path: str | None = "/v1/things?limit=7"
    while path:
        answer = (await shop.acme.read.get(path)).json
        seen += [item["id"] for item in answer["items"]]
        await shop.acme.run("DELETE FROM thing WHERE id = $1", seen[-1])
        await fill(shop, 3)
        path = answer["next"] and f"/v1/things?limit=7&after={answer['next']}"
    assert seen == ids[::-1]


async def test_filters_hold_on_every_part(shop: Site) -> None:
    await fill(shop, 5)
    await shop.acme.run("UPDATE thing SET name = 'x' WHERE id % 2 = 0")
    found = await shop.acme.read.every("/v1/things?limit=1&name=x")
    assert [item["name"] for item in found] == ["x"] * len(found)
    assert len(found) in (2, 3)


async def test_forged_cursors_are_refused_by_name(product: Site) -> None:
    garbage = ["x", "%%", "[1]", "a" * 999, "MQ", "__4"]  # the last two say: 1, and no UTF-8
    forged: dict[str, list[list[Any]]] = {
        "/v1/api-keys": [["1"], [1, 2], [], [None], [2**63], [1.5], [True]],
        "/v1/ops/past": [[1], ["2026-12-01T00:00:00", 1], ["soon", 1], ["2026-12-01T00:00:00Z", "1"]],
    }
    for path, positions in forged.items():
        for one in [*garbage, *(cursor(*parts) for parts in positions)]:
            answer = await product.acme.admin.get(f"{path}?after={quote(one)}")
            assert (answer.status, one) == (400, one)
            assert answer.code == "bad_cursor"
    assert (await product.acme.admin.get(f"/v1/api-keys?after={'a' * 1001}")).fields == {"after": "length"}


async def test_cursors_at_the_edges_of_time_are_only_empty(product: Site) -> None:
    for at in (
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-14:00",
    ):
        for path in ("/v1/ops/past", "/v1/ops/due"):
            answer = await product.acme.read.get(f"{path}?after={cursor(at, 2**63 - 1)}")
            assert answer.status in (200, 400), (path, at, answer.body)


async def test_a_cursor_of_another_workspace_shows_nothing_of_it(shop: Site) -> None:
    await fill(shop, 5)
    theirs = (await shop.acme.read.get("/v1/things?limit=2")).json["next"]
    assert (await shop.main.read.get(f"/v1/things?after={theirs}")).json == {"items": [], "next": None}
