"""Every refusal is a problem of one form: with its code, with what to do, and with nothing of the inside."""

import uuid
from typing import Any

import pytest

from soonish.errors import FieldError, Invalid, SoonishError, Unavailable
from soonish.ops.actions.health import Health
from soonish.web.problems import CODES, PLAIN, refusal
from tests.support.http import Answer
from tests.support.postgres import PostgresServer
from tests.support.site import Site, site
from tests.support.things import things

WRONG: dict[str, tuple[Any, str]] = {
    "name": ("x" * 21, "length"),
    "note": ("a\x07", "control_character"),
    "slug": ("A1", "pattern"),
    "level": ("mid", "one_of"),
    "at": ("2026-12-01T18:00:00", "naive_time"),
    "until": ("soon", "type"),
    "timezone": ("Mars/Base", "unknown_zone"),
    "locale": ("german", "unknown_locale"),
    "day": ("2026-2-1", "type"),
    "hour": ("25:00", "type"),
    "ref": ("x", "type"),
    "active": ("yes", "type"),
    "size": ({"width": 0, "height": "tall", "depth": 1}, ""),
    "tags": (["fits", "too long", 3], ""),
    "config": ([], "type"),
    "colour": ("red", "unknown_field"),
}


async def refused(shop: Site, **body: Any) -> Answer:
    return await shop.acme.write.post("/v1/things", {"name": "a"} | body)


async def test_all_bad_fields_are_named_at_once_and_nothing_is_stored(shop: Site) -> None:
    answer = await refused(shop, **{name: value for name, (value, _) in WRONG.items()})
    named = {name: code for name, (_, code) in WRONG.items() if code}
    inner = {"size.width": "range", "size.height": "type", "size.depth": "unknown_field"}
    assert answer.fields == named | inner | {"tags.1": "length", "tags.2": "type"}
    assert answer.refused == (422, "invalid")
    assert answer.json["detail"] == f"{len(answer.fields)} fields need a change."
    assert all(error["message"] for error in answer.json["errors"])
    assert await shop.acme.rows("SELECT FROM thing") == []


async def test_body_and_query_are_refused_together(shop: Site) -> None:
    answer = await shop.acme.write.post("/v1/things?x=1", {"note": 1})
    assert answer.fields == {"x": "unknown_parameter", "name": "required", "note": "type"}


async def test_rules_between_fields_are_asked_when_each_is_good(shop: Site) -> None:
    span = {"at": "2026-12-01T18:00:00Z", "until": "2026-12-01T17:00:00Z"}
    assert (await refused(shop, **span)).fields == {"until": "range"}
    assert (await refused(shop, **span, level="mid")).fields == {"level": "one_of"}


async def test_a_list_of_things_names_the_place_of_each_error(shop: Site) -> None:
    answer = await shop.acme.write.post("/v1/things/batch", {"things": [{"name": "a"}, {"name": ""}, {"size": 1}]})
    assert answer.fields == {"things.1.name": "length", "things.2.name": "required", "things.2.size": "type"}
    assert (await shop.acme.write.post("/v1/things/batch", {"things": []})).fields == {"things": "length"}
    assert (await shop.acme.write.post("/v1/things/batch", {"things": "a"})).fields == {"things": "type"}


async def test_one_named_code_of_all_errors_is_the_code_of_the_whole(shop: Site) -> None:
    assert (await refused(shop, timezone="Mars/Base")).code == "unknown_zone"
    assert (await refused(shop, timezone="Mars/Base", locale="german")).code == "invalid"
    assert (await refused(shop, timezone="Mars/Base", name="")).code == "invalid"
    assert (await refused(shop, name="")).code == "invalid", "a plain code says no more than invalid"


async def test_a_body_of_many_errors_is_not_answered_with_a_greater_one(shop: Site) -> None:
    answer = await refused(shop, **{f"x{n}" * 50: 1 for n in range(1_000)})
    assert len(answer.json["errors"]) == 200
    assert len(answer.body) < 200_000


async def test_names_of_strangers_are_safe_to_repeat(shop: Site) -> None:
    [field] = (await refused(shop, **{"a\x1b\u2028" + "b" * 500: 1})).fields
    assert field == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}" + "b" * 97


async def test_a_problem_has_its_type_its_request_and_what_to_do(shop: Site) -> None:
    request = str(uuid.uuid4())
    answer = await shop.acme.read.get("/v1/things/7", X_Request_Id=request)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json == {
        "type": "urn:soonish:problem:not_found",
        "title": "Not found",
        "status": 404,
        "code": "not_found",
        "detail": "There is no thing 7",
        "instance": f"urn:soonish:request:{request}",
    }


async def test_a_conflict_has_the_code_of_its_operation(shop: Site) -> None:
    assert (await refused(shop, name="taken")).refused == (409, "name_taken")


async def test_what_is_no_error_of_ours_tells_an_id_and_nothing_else(
    shop: Site, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await refused(shop, name="broken")
    assert answer.refused == (500, "internal")
    request = answer.headers["x-request-id"]
    assert answer.json["detail"].endswith(request)
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert any(request in record.getMessage() and record.exc_info for record in caplog.records)
    assert await shop.acme.rows("SELECT FROM thing") == []


async def test_an_unknown_path_and_an_unknown_method_say_so(product: Site) -> None:
    reader = product.acme.read
    assert (await reader.get("/v1/nothing")).refused == (404, "not_found")
    answer = await reader.ask("PUT", "/v1/workspace", {})
    assert answer.refused == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "PATCH", "OPTIONS"}
    for strange in ("TRACE", "CONNECTED", "get"):
        assert (await reader.ask(strange, "/v1/me")).status in (200, 405)


async def test_while_the_database_is_away_it_says_when_to_ask_again(
    own_postgres: PostgresServer, tmp_path: Any
) -> None:
    from soonish.db.migrate import migrate

    await migrate(url := await own_postgres.create("away"))
    async with things(url, tmp_path) as shop:
        assert (await refused(shop)).status == 201
        own_postgres.halt()
        for answer in (await refused(shop), await shop.acme.read.get("/v1/things"), await shop.main.admin.get("/v1/x")):
            assert (answer.refused, answer.headers["retry-after"]) == ((503, "unavailable"), "1")
        own_postgres.resume()
        assert (await refused(shop)).status == 201


async def test_without_space_writes_are_refused_and_reading_goes_on(
    database_url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(database_url, tmp_path) as product:
        assert product.process
        health: Health = product.process.health
        monkeypatch.setattr(health, "_free_of", lambda folder: 100 * 2**20)
        await health.look_at_disk()
        admin = product.acme.admin
        pause = {"kind": "shop.reminder"}
        for answer in (
            await admin.post("/v1/ops/pauses", pause),
            await admin.patch("/v1/workspace", {"name": "New"}),
            await admin.delete("/v1/api-keys/1"),
        ):
            assert answer.refused == (503, "storage_full")
            assert int(answer.headers["retry-after"]) >= 1
        assert (await admin.get("/v1/workspace")).json["name"] == "Acme"
        assert (await product.acme.read.post("/v1/ops/pauses", pause)).refused == (403, "forbidden")
        assert (await admin.post("/v1/ops/pauses", {})).refused == (422, "invalid")
        monkeypatch.setattr(health, "_free_of", lambda folder: 10 * 2**30)
        await health.look_at_disk()
        assert (await admin.post("/v1/ops/pauses", pause)).status == 201


async def test_a_database_that_says_it_is_full_stops_further_writes(product: Site) -> None:
    assert product.process
    for task in product.process.health._tasks:  # nobody looks whether there is space again, but this test
        task.cancel()
    await product.main.admin.get("/v1/me")
    con = await product.db.connect()
    await con.execute(
        """CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS
           $$BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END$$;
           CREATE TRIGGER no_space BEFORE INSERT ON audit EXECUTE FUNCTION no_space()"""
    )
    admin = product.acme.admin
    assert (await admin.post("/v1/ops/pauses", {"kind": "a.b"})).refused == (503, "storage_full")
    assert not product.process.health.may_claim()
    await con.execute("DROP TRIGGER no_space ON audit")
    await con.close()
    await product.process.health.look_at_disk()
    assert (await admin.post("/v1/ops/pauses", {"kind": "a.b"})).status == 201


def test_plain_codes_never_stand_for_the_whole() -> None:
    for code in PLAIN:
        found = refusal(Invalid("", FieldError("a", code, "...")), "x")
        assert found.code == "invalid"


def test_each_status_has_the_codes_of_the_contract() -> None:
    assert CODES[400] == ("bad_json", "bad_cursor", "bad_header")
    assert set(CODES) == {400, 401, 403, 404, 405, 409, 412, 413, 415, 422, 429, 500, 503}


def test_what_is_ours_but_inside_only_is_internal() -> None:
    assert refusal(SoonishError("inside"), "x").code == "internal"
    assert refusal(Unavailable("away", 7), "x").headers == ((b"retry-after", b"7"),)
