"""What a request may say, and how: JSON, ids, instants, zones, texts, sizes. What cannot be read is refused by name."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.support.http import Answer
from tests.support.site import Site
from tests.support.things import until

MIB = 1024 * 1024
MALFORMED = {
    "nothing": b"",
    "half": b'{"name": "a"',
    "two values": b'{"name": "a"} {}',
    "a comma too many": b'{"name": "a",}',
    "another quote": b"{'name': 'a'}",
    "a byte order mark": b'\xef\xbb\xbf{"name": "a"}',
    "no UTF-8": b'{"name": "\xff"}',
    "NaN": b'{"name": "a", "config": {"x": NaN}}',
    "infinity": b'{"name": "a", "config": {"x": -Infinity}}',
    "a number beyond all": b'{"name": "a", "config": {"x": 1e999}}',
    "an integer beyond all": b'{"name": "a", "config": {"x": ' + b"9" * 5000 + b"}}",
    "NUL in a text": b'{"name": "a\\u0000"}',
    "NUL in a name": b'{"name": "a", "config": {"\\u0000": 1}}',
    "NUL as a byte": b'{"name": "a\x00"}',
    "half a surrogate pair": b'{"name": "\\ud800"}',
    "deeper than 32": b'{"name": "a", "config": {"x": ' + b"[" * 31 + b"]" * 31 + b"}}",
    "very deep": b"[" * 200_000,
}


async def made(shop: Site, **body: Any) -> Answer:
    return await shop.acme.write.post("/v1/things", {"name": "a"} | body)


async def test_what_is_no_strict_json_is_bad_json_and_makes_nothing(shop: Site) -> None:
    found = {name: (await shop.acme.write.post("/v1/things", body)).refused for name, body in MALFORMED.items()}
    assert found == dict.fromkeys(MALFORMED, (400, "bad_json"))
    assert await shop.acme.rows("SELECT FROM thing") == []


async def test_json_may_be_thirty_two_deep(shop: Site) -> None:
    body = b'{"name": "a", "config": {"x": ' + b"[" * 30 + b"]" * 30 + b"}}"
    assert (await shop.acme.write.post("/v1/things", body)).status == 201


async def test_of_two_fields_of_one_name_the_last_counts(shop: Site) -> None:
    answer = await shop.acme.write.post("/v1/things", b'{"name": "a", "name": "b"}')
    assert answer.json["name"] == "b"


async def test_only_json_in_utf_8_is_taken(shop: Site) -> None:
    types = (
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "application/json; charset=latin-1",
    )
    for content_type in types:
        answer = await shop.acme.write.post("/v1/things", b'{"name": "a"}', content_type=content_type)
        assert answer.refused == (415, "unsupported_media_type"), content_type
    for content_type in ("application/json", 'Application/JSON; charset="UTF-8"'):
        assert (await shop.acme.write.post("/v1/things", b'{"name": "a"}', content_type=content_type)).status == 201


async def test_a_body_is_needed_where_there_is_something_to_say_and_only_there(shop: Site) -> None:
    thing = (await made(shop)).json
    assert (await shop.acme.write.post("/v1/things")).refused == (415, "unsupported_media_type")
    poke = f"/v1/things/{thing['id']}/poke"
    assert [(await shop.acme.write.post(poke, *body)).status for body in ((), ({},), ({"x": 1},))] == [202, 202, 422]


async def test_a_path_id_that_is_none_is_not_found(shop: Site) -> None:
    await made(shop)
    for wrong in (
        "x",
        "0",
        "-1",
        "+1",
        "01",
        "1.0",
        "1e0",
        "1_0",
        "%31%30",
        "%D9%A1",
        "0x1",
        "9" * 19,
        "9" * 5000,
        "%00",
    ):
        answer = await shop.acme.read.get(f"/v1/things/{wrong}")
        assert answer.refused == (404, "not_found"), wrong
    assert (await shop.acme.read.get("/v1/things/1")).status == 200


async def test_unknown_fields_and_parameters_are_refused_by_name(shop: Site) -> None:
    assert (await made(shop, nme="b", size={"width": 1, "depth": 2})).fields == {
        "nme": "unknown_field",
        "size.depth": "unknown_field",
    }
    read = shop.acme.read
    assert (await read.get("/v1/things?nme=a")).fields == {"nme": "unknown_parameter"}
    assert (await read.get("/v1/things/1?deep=1&x=")).fields == {"deep": "unknown_parameter", "x": "unknown_parameter"}
    assert (await shop.acme.write.post("/v1/things?force=1", {})).fields == {
        "force": "unknown_parameter",
        "name": "required",
    }


async def test_a_parameter_is_given_once_unless_it_is_a_list(shop: Site) -> None:
    assert (await shop.acme.read.get("/v1/things?limit=1&limit=2")).fields == {"limit": "type"}
    assert (await shop.acme.read.get("/v1/things?ids=1&ids=x&ids=3")).fields == {"ids.1": "type"}
    assert (await shop.acme.read.get("/v1/things?ids=1&ids=3")).status == 200


async def test_parameters_that_are_no_text_are_refused(shop: Site) -> None:
    for query, code in (("name=%ff", "type"), ("name=%ed%a0%80", "type"), ("name=%00", "control_character")):
        answer = await shop.acme.read.get(f"/v1/things?{query}")
        assert (answer.status, *answer.fields.values()) == (422, code), query
    assert (await shop.acme.read.get("/v1/things?" + "&".join(["ids=1"] * 1001))).fields == {"": "length"}


async def test_instants_need_an_offset_and_a_real_day(shop: Site) -> None:
    codes = {
        "2026-12-01T18:00:00": "naive_time",
        "2026-12-01": "type",
        "2026-02-30T18:00:00Z": "type",
        "2026-12-01T24:30:00Z": "type",
        "0001-01-01T00:00:00+14:00": "type",
        "9999-12-31T23:59:59-14:00": "type",
        "tomorrow": "type",
        "2" * 100: "type",
    }
    found = {text: (await made(shop, at=text)).fields.get("at") for text in codes}
    assert found == codes
    assert (await made(shop, at=1764612000)).fields == {"at": "type"}
    assert (await made(shop, at="2026-12-01T18:00:00+02:00")).status == 201


async def test_answers_are_in_utc_with_microseconds_only_where_there_are_any(product: Site) -> None:
    for given, shown in (
        ("2099-12-01T18:00:00+02:00", "2099-12-01T16:00:00Z"),
        ("2099-12-01T18:00:00.5-00:30", "2099-12-01T18:30:00.500000Z"),
    ):
        key = {"name": "Robot", "role": "read", "expires_at": given}
        answer = await product.acme.admin.post("/v1/api-keys", key)
        assert answer.json["expires_at"] == shown
        [listed] = [one for one in await product.acme.admin.every("/v1/api-keys") if one["id"] == answer.json["id"]]
        assert listed["expires_at"] == shown


async def test_zones_are_names_of_the_list_and_aliases_stay_as_given(product: Site) -> None:
    admin = product.acme.admin
    for wrong in ("localtime", "Factory", "posixrules", "europe/berlin", "UTC+2", "../etc/passwd", "Mars/Base"):
        answer = await admin.patch("/v1/workspace", {"timezone": wrong})
        assert answer.refused == (422, "unknown_zone"), wrong
    assert (await admin.patch("/v1/workspace", {"timezone": "Asia/Calcutta"})).json["timezone"] == "Asia/Calcutta"


async def test_text_is_trimmed_and_normalized_and_keeps_to_its_lines(shop: Site) -> None:
    answer = await made(shop, name="  Bärbel\u0301 ".replace("ä", "a\u0308"), note="\n one\n\ttwo \n")
    assert (answer.json["name"], answer.json["note"]) == ("Bärbe\u013a", "one\n\ttwo")
    for name, note in (("a\nb", "ok"), ("a\u2028b", "ok"), ("a", "a\rb"), ("a", "a\x1b[31m")):
        assert list((await made(shop, name=name, note=note)).fields.values()) == ["control_character"]
    assert (await made(shop, name="   ")).fields == {"name": "length"}
    assert (await made(shop, name="e\u0301" * 20)).status == 201, "its length is that of what is kept"


async def test_a_mebibyte_fits_and_a_byte_more_does_not(shop: Site) -> None:
    padded = b'{"name": "a"}'.ljust(MIB)
    assert (await shop.acme.write.post("/v1/things", padded)).status == 201
    assert (await shop.acme.write.post("/v1/things", padded + b" ")).refused == (413, "too_large")


async def test_what_says_it_is_too_large_is_refused_before_a_byte_of_it_is_sent(shop: Site) -> None:
    answer = await shop.acme.write.raw("POST /v1/things", "content-length: 99999999999")
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_chunks_without_a_length_are_counted(shop: Site) -> None:
    async def chunks(count: int) -> AsyncIterator[bytes]:
        yield b'{"name": "a"}'
        for _ in range(count):
            yield b" " * (MIB // 16)

    assert (await shop.acme.write.post("/v1/things", chunks(15))).status == 201
    assert (await shop.acme.write.post("/v1/things", chunks(17))).refused == (413, "too_large")


async def test_clients_that_send_slowly_hold_nothing_that_others_need(shop: Site) -> None:
    head = shop.acme.write.head("POST /v1/things", "content-type: application/json", "content-length: 50")
    writers = []
    for _ in range(30):
        _, writer = await shop.anyone.connect()
        writer.write(head + b'{"name": ')
        writers.append(writer)
    answers = await asyncio.gather(*(made(shop, name=str(n)) for n in range(20)))
    assert {answer.status for answer in answers} == {201}
    for writer in writers:
        writer.close()


async def test_a_client_that_goes_away_in_the_middle_of_its_body_makes_nothing(shop: Site) -> None:
    _, writer = await shop.anyone.connect()
    head = shop.acme.write.head("POST /v1/things", "content-type: application/json", "content-length: 50")
    writer.write(head + b'{"name": "gone"}')
    await writer.drain()
    writer.close()
    await made(shop, name="after")
    assert [row["name"] for row in await shop.acme.rows("SELECT name FROM thing")] == ["after"]


async def test_a_change_goes_on_when_its_client_has_gone_away(shop: Site) -> None:
    """What was asked for whole is done whole: the client may ask again with its key."""
    gate = await shop.db.connect()
    await gate.execute("SELECT pg_advisory_lock(4711)")
    task = asyncio.create_task(made(shop, name="slow"))
    await until(lambda: _waits(gate))
    task.cancel()
    await gate.execute("SELECT pg_advisory_unlock(4711)")
    await until(lambda: _is_there(shop))
    await gate.close()


async def _waits(gate: Any) -> bool:
    return bool(await gate.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))


async def _is_there(shop: Site) -> bool:
    return bool(await shop.acme.rows("SELECT FROM thing WHERE name = 'slow'"))
