"""Versions, and what a request may hang on them; and the headers that each status promises."""

import asyncio

from tests.support.http import Answer, Client
from tests.support.site import Site


async def make(shop: Site) -> str:
    return (await shop.acme.write.post("/v1/things", {"name": "a", "note": "n"})).headers["location"]


async def version(shop: Site, path: str) -> int:
    return (await shop.acme.read.get(path)).json["version"]  # type: ignore[no-any-return]


async def change(client: Client, path: str, match: str, **body: object) -> Answer:
    return await client.patch(path, body, If_Match=match)


async def test_the_version_is_in_the_body_and_in_the_etag(shop: Site) -> None:
    path = await make(shop)
    answers = [await shop.acme.read.get(path), await shop.acme.write.patch(path, {"name": "b"})]
    assert [(answer.json["version"], answer.headers["etag"]) for answer in answers] == [(1, '"1"'), (2, '"2"')]


async def test_who_saw_an_old_version_changes_nothing_and_learns_the_current_one(shop: Site) -> None:
    path = await make(shop)
    await shop.acme.write.patch(path, {"name": "b"})
    for answer in (
        await change(shop.acme.write, path, '"1"', name="c"),
        await shop.acme.write.delete(path, If_Match='"1"'),
    ):
        assert (answer.refused, answer.headers["etag"]) == ((412, "stale"), '"2"')
    assert (await shop.acme.read.get(path)).json["name"] == "b"


async def test_who_saw_the_current_version_one_of_several_or_any_may_change(shop: Site) -> None:
    path = await make(shop)
    for number, match in enumerate(('"1"', 'W/"2"', '"1", "3"', "*"), start=1):
        assert (await change(shop.acme.write, path, match, name=f"n{number}")).json["version"] == number + 1
    assert (await shop.acme.write.delete(path, If_Match='"5"')).status == 204


async def test_of_changes_of_one_version_at_once_one_wins(shop: Site) -> None:
    path = await make(shop)
    answers = await asyncio.gather(*(change(shop.acme.write, path, '"1"', name=str(n)) for n in range(10)))
    assert sorted(answer.status for answer in answers) == [200] + [412] * 9
    assert await version(shop, path) == 2


async def test_a_condition_that_cannot_be_read_is_refused(shop: Site) -> None:
    path = await make(shop)
    for match in ("1", "'1'", '"1', "", 'w/"1"', '"1" "2"', '"a\tb"'):
        assert (await change(shop.acme.write, path, match, name="b")).refused == (400, "bad_header"), match
    assert await version(shop, path) == 1


async def test_what_has_not_changed_is_not_sent_again(shop: Site) -> None:
    path = await make(shop)
    for match in ('"1"', 'W/"1"', '"9", "1"', "*"):
        answer = await shop.acme.read.get(path, If_None_Match=match)
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", '"1"')
    for match in ('"2"', '"11"', "1", "nonsense"):
        assert (await shop.acme.read.get(path, If_None_Match=match)).status == 200


async def test_a_change_is_answered_whole_also_to_who_knows_it(shop: Site) -> None:
    path = await make(shop)
    assert (await shop.acme.write.patch(path, {"note": "x"}, If_None_Match='"2"')).json["version"] == 2


async def test_a_patch_changes_only_what_it_names_and_null_clears(shop: Site) -> None:
    path = await make(shop)
    changed = (await shop.acme.write.patch(path, {"name": "b"})).json
    assert (changed["name"], changed["note"]) == ("b", "n")
    cleared = (await shop.acme.write.patch(path, {"note": None})).json
    assert (cleared["name"], cleared["note"]) == ("b", None)
    assert (await shop.acme.write.patch(path, {"name": None})).fields == {"name": "type"}


async def test_a_patch_without_a_change_keeps_the_version(shop: Site) -> None:
    path = await make(shop)
    for body in ({}, {"name": "a"}, {"name": " a ", "note": "n"}):
        assert (await shop.acme.write.patch(path, body)).json["version"] == 1


async def test_the_workspace_keeps_these_rules_too(product: Site) -> None:
    admin = product.acme.admin
    assert (await admin.patch("/v1/workspace", {"name": "New"}, If_Match='"1"')).json["version"] == 2
    assert (await admin.patch("/v1/workspace", {"name": "Old"}, If_Match='"1"')).refused == (412, "stale")
    before = len(await product.acme.rows("SELECT FROM audit"))
    assert (await admin.patch("/v1/workspace", {"name": "New"})).json["version"] == 2
    assert len(await product.acme.rows("SELECT FROM audit")) == before
    assert (await admin.get("/v1/workspace", If_None_Match='"2"')).status == 304


async def test_each_status_comes_with_what_it_promises(shop: Site) -> None:
    made = await shop.acme.write.post("/v1/things", {"name": "a"})
    assert (made.status, made.headers["location"]) == (201, f"/v1/things/{made.json['id']}")
    poked = await shop.acme.write.post(made.headers["location"] + "/poke")
    assert (poked.status, poked.json["id"]) == (202, made.json["id"])
    put = [await shop.acme.write.ask("PUT", "/v1/things/named/b") for _ in range(2)]
    assert [answer.status for answer in put] == [201, 200]
    gone = await shop.acme.write.delete(made.headers["location"])
    assert (gone.status, gone.body) == (204, b"")
    assert "content-type" not in gone.headers
    assert (await shop.acme.write.delete(made.headers["location"])).refused == (404, "not_found")


async def test_head_is_get_without_the_body_and_changes_nothing(shop: Site) -> None:
    path = await make(shop)
    for asked in (path, "/v1/things", "/healthz", "/v1/things/999", "/openapi.json"):
        get, head = await shop.acme.read.get(asked), await shop.acme.read.ask("HEAD", asked)
        assert (head.status, head.body) == (get.status, b"")
        names = {name: value for name, value in get.headers.items() if name not in ("Date", "X-Request-ID")}
        assert names.items() <= dict(head.headers).items(), asked
    assert (await shop.acme.read.ask("HEAD", "/v1/things/stream")).status == 200


async def test_options_says_what_a_path_knows(shop: Site) -> None:
    answer = await shop.acme.read.ask("OPTIONS", await make(shop))
    assert (answer.status, answer.body) == (204, b"")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"}
    assert (await shop.acme.read.ask("OPTIONS", "/v1/nothing")).refused == (404, "not_found")
