"""A POST with an Idempotency-Key has its effect once, and each repeat gets the answer of the first."""

import asyncio
from typing import Any

import pytest

from tests.support.http import Answer, Client
from tests.support.site import House, Site
from tests.support.things import until


async def make(client: Client, key: str = "k", path: str = "/v1/things", **body: Any) -> Answer:
    return await client.post(path, {"name": "a"} | body, Idempotency_Key=key)


async def count(house: House) -> int:
    return len(await house.rows("SELECT FROM thing"))


class Gate:
    """Holds every request that makes a `slow` thing, when its row is written and before it commits."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def __aenter__(self) -> "Gate":
        self.con = await self._site.db.connect()
        await self.con.execute("SELECT pg_advisory_lock(4711)")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.con.close()

    async def reached(self) -> None:
        await until(self._waiting)

    async def open(self) -> None:
        await self.con.execute("SELECT pg_advisory_unlock(4711)")

    async def kill(self) -> None:
        """End the connection of the one who waits, as the death of its process would."""
        await self.con.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        )

    async def _waiting(self) -> bool:
        return bool(
            await self.con.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        )


async def test_a_repeat_gets_the_same_status_headers_and_body_and_says_that_it_is_one(shop: Site) -> None:
    first, again = [await make(shop.acme.write) for _ in range(2)]
    assert (again.status, again.body) == (first.status, first.body) == (201, again.body)
    for name in ("location", "etag", "content-type"):
        assert again.headers[name] == first.headers[name]
    assert "idempotent-replay" not in first.headers
    assert again.headers["idempotent-replay"] == "true"
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert await count(shop.acme) == 1


async def test_of_twenty_clients_at_once_one_makes_it_and_the_rest_get_its_answer_or_a_conflict(shop: Site) -> None:
    answers = await asyncio.gather(*(make(shop.acme.write) for _ in range(20)))
    made = [answer for answer in answers if answer.status == 201]
    assert len([answer for answer in made if "idempotent-replay" not in answer.headers]) == 1
    assert len({answer.body for answer in made}) == 1
    for answer in answers:
        if answer.status != 201:
            assert (answer.refused, answer.headers["retry-after"]) == ((409, "idempotency_in_flight"), "1")
    assert await count(shop.acme) == 1
    assert (await make(shop.acme.write)).body == made[0].body


async def test_while_the_first_is_running_the_others_are_told_when_to_ask_again(shop: Site) -> None:
    async with Gate(shop) as gate:
        first = asyncio.create_task(make(shop.acme.write, name="slow"))
        await gate.reached()
        for body in ({"name": "slow"}, {"name": "other"}):
            answer = await make(shop.acme.write, **body)
            assert (answer.refused, answer.headers["retry-after"]) == ((409, "idempotency_in_flight"), "1")
        await gate.open()
        assert (await first).status == 201
        assert (await make(shop.acme.write, name="slow")).headers["idempotent-replay"] == "true"


async def test_a_crash_before_the_commit_leaves_neither_the_effect_nor_the_answer(shop: Site) -> None:
    async with Gate(shop) as gate:
        first = asyncio.create_task(make(shop.acme.write, name="slow"))
        await gate.reached()
        await gate.kill()
        assert (await first).refused == (503, "unavailable")
        await gate.open()
    assert await shop.acme.rows("SELECT FROM idempotency") == []
    again = await make(shop.acme.write, name="slow")
    assert (again.status, "idempotent-replay" in again.headers) == (201, False)
    assert await count(shop.acme) == 1


async def test_a_client_that_never_saw_the_answer_gets_it_by_asking_again(shop: Site) -> None:
    async with Gate(shop) as gate:
        first = asyncio.create_task(make(shop.acme.write, name="slow"))
        await gate.reached()
        first.cancel()
        await gate.open()
        await until(lambda: _stored(shop))
    again = await make(shop.acme.write, name="slow")
    assert again.headers["idempotent-replay"] == "true"
    assert await count(shop.acme) == 1


async def _stored(shop: Site) -> bool:
    return bool(await shop.acme.rows("SELECT FROM idempotency"))


async def test_a_key_belongs_to_one_request(shop: Site) -> None:
    writer = shop.acme.write
    thing = (await make(writer)).json["id"]
    others = [
        await make(writer, name="b"),
        await make(writer, path="/v1/things/batch"),
        await make(writer, path=f"/v1/things/{thing}/poke"),
        await writer.post("/v1/things", b'{"name":  "a"}', Idempotency_Key="k"),
    ]
    assert [answer.refused for answer in others[:1] + others[3:]] == [(422, "idempotency_mismatch")] * 2
    assert [answer.status for answer in others[1:3]] == [422, 422], "their bodies are wrong before any key counts"
    poked = await writer.post(f"/v1/things/{thing}/poke", Idempotency_Key="k")
    assert poked.refused == (422, "idempotency_mismatch")
    assert await count(shop.acme) == 1


async def test_a_key_belongs_to_one_actor_of_one_workspace(shop: Site) -> None:
    answers = [await make(client) for client in (shop.acme.write, shop.acme.admin, shop.main.write)]
    assert all("idempotent-replay" not in answer.headers for answer in answers)
    assert (await count(shop.acme), await count(shop.main)) == (2, 1)


async def test_only_what_succeeded_is_kept(shop: Site) -> None:
    for body in ({"name": "taken"}, {"name": ""}, {"name": "broken"}):
        assert (await make(shop.acme.write, **body)).status >= 400
    assert (await make(shop.acme.write)).status == 201


async def test_after_a_day_a_key_is_free_again(shop: Site) -> None:
    await make(shop.acme.write)
    await shop.acme.run("UPDATE idempotency SET created_at = now() - interval '23 hours 59 minutes'")
    assert "idempotent-replay" in (await make(shop.acme.write)).headers
    await shop.acme.run("UPDATE idempotency SET created_at = now() - interval '24 hours'")
    answer = await make(shop.acme.write, name="b")
    assert (answer.status, "idempotent-replay" in answer.headers) == (201, False)


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "schlüssel", "a\tb"])
async def test_a_key_is_up_to_two_hundred_visible_characters(shop: Site, key: str) -> None:
    answer = await make(shop.acme.write, key)
    assert answer.refused == (400, "bad_header")
    assert await count(shop.acme) == 0


async def test_two_keys_are_none_and_the_longest_is_good(shop: Site) -> None:
    lines = ("content-type: application/json", "idempotency-key: a", "idempotency-key: b", "content-length: 13")
    assert b"bad_header" in await shop.acme.write.raw("POST /v1/things", *lines, body=b'{"name": "a"}')
    assert (await make(shop.acme.write, "~" * 200)).status == 201


async def test_other_methods_do_not_look_at_a_key(shop: Site) -> None:
    thing = (await make(shop.acme.write)).headers["location"]
    for _ in range(2):
        answer = await shop.acme.write.patch(thing, {"note": "n"}, Idempotency_Key="k")
        assert (answer.status, "idempotent-replay" in answer.headers) == (200, False)


async def test_a_secret_in_an_answer_is_stored_sealed_and_given_again(product: Site) -> None:
    admin = product.acme.admin
    for path, body, name in (
        ("/v1/api-keys", {"name": "Robot", "role": "read"}, "key"),
        ("/v1/login-links", {"role": "read"}, "url"),
    ):
        first, again = [await admin.post(path, body, Idempotency_Key=name) for _ in range(2)]
        secret = first.json[name].rpartition("/")[2]
        assert again.json[name] == first.json[name]
        stored = await product.acme.rows("SELECT i.*, encode(i.body, 'escape') AS text FROM idempotency i")
        assert stored
        assert secret not in str([dict(row) for row in stored])
