"""The order of checks: size, key, rate, role, path, body, existence, If-Match, rules. The first that fails answers."""

from pathlib import Path

from tests.support.http import Client
from tests.support.site import Site
from tests.support.things import things

NOBODY = "sk_" + "a" * 43
LARGE = b"x" * (1024 * 1024 + 1)
BAD = {"name": "", "nme": 1}


async def refused(client: Client, path: str, body: object, *, match: str = '"9"', method: str = "PATCH") -> object:
    return (await client.ask(method, path, body, If_Match=match)).refused


async def test_size_key_role_path_body_existence_if_match_rules(shop: Site) -> None:
    mine = (await shop.acme.write.post("/v1/things", {"name": "a"})).headers["location"]
    assert await refused(shop.anyone.by(NOBODY), mine, LARGE) == (413, "too_large")
    assert await refused(shop.anyone.by(NOBODY), mine, BAD) == (401, "unauthorized")
    assert await refused(shop.acme.read, "/v1/things/x", BAD) == (403, "forbidden")
    assert await refused(shop.acme.write, "/v1/things/x", BAD) == (404, "not_found")
    assert await refused(shop.acme.write, "/v1/things/999", BAD) == (422, "invalid")
    assert await refused(shop.acme.write, "/v1/things/999", {"name": "taken"}) == (404, "not_found")
    assert await refused(shop.acme.write, mine, {"name": "taken"}) == (412, "stale")
    assert await refused(shop.acme.write, mine, {"name": "taken"}, match='"1"') == (409, "name_taken")


async def test_the_rate_is_counted_after_the_key_and_before_the_role(database_url: str, tmp_path: Path) -> None:
    async with things(database_url, tmp_path, rate_api="0.001") as shop:
        assert await refused(shop.acme.read, "/v1/things/1", BAD) == (403, "forbidden")
        assert await refused(shop.acme.read, "/v1/things/1", BAD) == (429, "rate_limited")
        for _ in range(2):
            assert await refused(shop.anyone.by(NOBODY), "/v1/things/1", BAD) == (401, "unauthorized")


async def test_a_role_too_low_is_told_whether_or_not_the_thing_exists(shop: Site) -> None:
    mine = (await shop.acme.write.post("/v1/things", {"name": "a"})).headers["location"]
    answers = [await shop.acme.read.delete(path) for path in (mine, "/v1/things/999", "/v1/things/x")]
    assert {answer.refused for answer in answers} == {(403, "forbidden")}
    assert len({answer.json["detail"] for answer in answers}) == 1


async def test_what_is_not_yours_is_not_found_and_says_the_same_as_what_is_not_there(shop: Site) -> None:
    theirs = (await shop.main.write.post("/v1/things", {"name": "a"})).headers["location"]
    for method, body in (("GET", {}), ("PATCH", {"name": "b"}), ("DELETE", {})):
        answer = await shop.acme.write.ask(method, theirs, body)
        nothing = await shop.acme.write.ask(method, "/v1/things/999", body)
        assert answer.refused == nothing.refused == (404, "not_found")
        assert answer.json["detail"].replace(theirs.rpartition("/")[2], "N") == nothing.json["detail"].replace(
            "999", "N"
        )
    assert (await shop.main.write.get(theirs)).status == 200


async def test_without_a_key_nobody_learns_which_paths_there_are(product: Site) -> None:
    for path in ("/v1/me", "/v1/nothing", "/v1/api-keys/x", "/v1/"):
        for method in ("GET", "PUT", "OPTIONS", "BREW"):
            assert (await product.anyone.ask(method, path)).refused == (401, "unauthorized"), (method, path)


async def test_a_second_slash_is_no_way_around_the_door(product: Site) -> None:
    for path in ("//v1/me", "/v1//me", "/%76%31/me", "/v1/me/", "/V1/me"):
        assert (await product.anyone.get(path)).status in (401, 404), path
