"""Facts over the API: their types, one's own, the list, one with its envelope, and the stream of them."""

import asyncio
import json
import random
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from soonish.access.actions.keys import new_key
from soonish.delivery.model.facts import KERNEL, TEST
from soonish.delivery.outbox import Fact
from soonish.web.hub import CHECK_EVERY, LOOK_EVERY
from tests.support.http import Client, Sent, events
from tests.support.site import House, Site
from tests.support.things import until

STREAM = "/v1/facts/stream"


async def state(house: House, type_: str = "custom.sale", **more: Any) -> Any:
    answer = await house.write.post("/v1/facts", {"type": type_, "data": {"n": 1}, **more})
    assert answer.status == 202, answer.body
    return answer.json


async def endpoint(house: House, *types: str, active: bool = True) -> int:
    """An endpoint as a row: what it is made of is not asked here."""
    [row] = await house.rows(
        """INSERT INTO endpoint (workspace_id, name, kind, config, fact_types, active)
           VALUES ($1, 'crm', 'webhook', '{"url": "https://crm.example.org/in"}', $2, $3) RETURNING id""",
        house.id, list(types), active,
    )  # fmt: skip
    return int(row["id"])


async def deliveries(house: House) -> list[tuple[int, str, str | None]]:
    rows = await house.rows("SELECT endpoint_id, state, reason FROM delivery ORDER BY id")
    return [tuple(row) for row in rows]


# --- types


async def test_the_types_of_facts_are_listed_with_ladder_schema_and_example(product: Site) -> None:
    answer = await product.acme.read.get("/v1/fact-types")
    assert answer.status == 200
    listed = {one["name"]: one for one in answer.json["items"]}
    assert {one.name for one in KERNEL} <= set(listed)
    assert listed[TEST] == {
        "name": "soonish.test",
        "ladder": "short",
        "schema": {"type": "object", "properties": {"endpoint_id": {"type": "integer"}}, "required": ["endpoint_id"]},
        "example": {"endpoint_id": 3},
    }


# --- one's own


async def test_a_fact_of_ones_own_goes_to_those_who_hear_its_type(product: Site) -> None:
    acme = product.acme
    exact, family, all_, other, muted = [
        await endpoint(acme, "custom.sale"),
        await endpoint(acme, "person.created", "custom.*"),
        await endpoint(acme, "*"),
        await endpoint(acme, "person.*", "custom.sales"),
        await endpoint(acme, "*", active=False),
    ]
    stated = await state(acme, subject="shop/1", data={"sum": 12.5, "to": "Zoë"})
    assert stated["deliveries"] == 4
    assert await deliveries(acme) == [
        (exact, "pending", None), (family, "pending", None), (all_, "pending", None),
        (muted, "skipped", "endpoint_inactive"),
    ]  # fmt: skip
    assert other not in {one for one, _, _ in await deliveries(acme)}
    found = (await acme.read.get(f"/v1/facts/{stated['id']}")).json
    assert (found["type"], found["subject"], found["data"]) == ("custom.sale", "shop/1", {"sum": 12.5, "to": "Zoë"})
    assert found["deliveries"] == {"total": 4, "sent": 0, "pending": 3, "failed": 0, "unknown": 0, "skipped": 1}


async def test_a_fact_can_be_told_to_some_endpoints_whatever_they_hear(product: Site) -> None:
    acme = product.acme
    deaf, all_ = await endpoint(acme, "person.created"), await endpoint(acme, "*")
    assert (await state(acme, endpoint_ids=[deaf]))["deliveries"] == 1
    assert await deliveries(acme) == [(deaf, "pending", None)]
    foreign = await endpoint(product.main, "*")
    answer = await acme.write.post(
        "/v1/facts", {"type": "custom.sale", "data": {}, "endpoint_ids": [all_, foreign, 2**62]}
    )
    assert answer.status == 422
    assert answer.fields == {"endpoint_ids.1": "one_of", "endpoint_ids.2": "one_of"}


async def test_only_custom_types_may_be_stated_and_all_that_is_wrong_is_named_at_once(product: Site) -> None:
    write = product.acme.write
    answer = await write.post("/v1/facts", {"type": "person.created", "data": [], "subject": "a\nb", "x": 1})
    assert answer.fields == {"type": "pattern", "data": "type", "subject": "control_character", "x": "unknown_field"}
    for wrong in ("custom", "custom.", "custom.A", "custom.a.b.c", "custom." + "x" * 64):
        assert (await write.post("/v1/facts", {"type": wrong, "data": {}})).status == 422
    assert await product.acme.rows("SELECT FROM fact") == []


async def test_a_fact_that_is_too_large_is_refused_by_what_the_database_would_keep(product: Site) -> None:
    for data in ({"a": "x" * 17_000}, {"a": [1e300] * 100}):
        answer = await product.acme.write.post("/v1/facts", {"type": "custom.sale", "data": data})
        assert answer.fields == {"data": "length"}
    await state(product.acme, data={"a": "x" * 16_000})


async def test_stating_is_on_record_with_who_asked_and_by_which_request(product: Site) -> None:
    request = "0b9f6f4e-5c2b-4a55-9a6c-0f8f3f3a4e21"
    answer = await product.acme.write.post("/v1/facts", {"type": "custom.sale", "data": {}}, x_request_id=request)
    [line] = (await product.acme.admin.get(f"/v1/ops/audit?entity=fact/{answer.json['id']}")).json["items"]
    assert (line["verb"], line["request_id"]) == ("state", request)
    [row] = await product.acme.rows("SELECT because FROM fact")
    assert json.loads(row["because"]) == {"actor": line["actor"], "request_id": request}


async def test_one_idempotency_key_states_one_fact(product: Site) -> None:
    body = {"type": "custom.sale", "data": {}}
    first, second = [await product.acme.write.post("/v1/facts", body, idempotency_key="k") for _ in range(2)]
    assert first.json == second.json
    assert second.headers["idempotent-replay"] == "true"
    assert len(await product.acme.rows("SELECT FROM fact")) == 1


# --- the list


async def test_facts_are_listed_newest_first_by_type_family_subject_and_time(product: Site) -> None:
    acme = product.acme
    ids = [
        (await state(acme, name, subject=f"shop/{n % 2}"))["id"]
        for n, name in enumerate(["custom.a", "custom.b.x"] * 3)
    ]

    async def found(query: str) -> list[int]:
        return [one["id"] for one in await acme.read.every(f"/v1/facts?{query}")]

    assert await found("limit=2") == ids[::-1]
    assert await found("type=custom.a&limit=1") == ids[4::-2]
    assert await found("type=custom.*") == ids[::-1]
    assert await found("type=person.*") == []
    assert await found("subject=shop/1") == ids[5::-2]
    middle = (await acme.read.get(f"/v1/facts/{ids[3]}")).json["occurred_at"]
    assert await found(f"since={middle}") == ids[:2:-1]
    assert await found(f"until={middle}") == ids[2::-1]
    for wrong in ("Custom", "custom", "custom.b.*"):
        assert (await acme.read.get(f"/v1/facts?type={wrong}")).fields == {"type": "pattern"}


async def test_a_fact_shows_the_envelope_that_its_receivers_get(product: Site) -> None:
    stated = await state(product.acme, subject="shop/7", data={"b": 1, "a": [1.5, None]})
    found = (await product.acme.read.get(f"/v1/facts/{stated['id']}")).json
    sent = found["envelope"]
    [row] = await product.acme.rows("SELECT uid FROM installation")
    assert sent["source"] == f"urn:soonish:{row['uid']}:acme"
    assert (sent["id"], sent["type"], sent["data"]) == (found["wire_id"], "custom.sale", {"a": [1.5, None], "b": 1})
    assert (sent["subject"], sent["cause"], "dueat" in sent) == ("shop/7", found["cause"], False)


async def test_nothing_of_it_is_seen_from_another_workspace(product: Site) -> None:
    stated = await state(product.acme)
    assert (await product.main.admin.get(f"/v1/facts/{stated['id']}")).refused == (404, "not_found")
    assert (await product.main.admin.get("/v1/facts")).json["items"] == []


# --- the stream


async def follow(client: Client, count: int, **headers: str) -> list[Sent]:
    async with events(client, STREAM, **headers) as stream:
        return await stream.rows(count)


async def test_the_stream_tells_each_fact_as_its_envelope_under_its_type(product: Site) -> None:
    await state(product.acme, "custom.a", subject="shop/1")
    async with events(product.acme.read, STREAM) as stream:
        [first] = await stream.rows(1)
        await state(product.acme, "custom.b")
        [second] = await stream.rows(1)
    assert (first.type, first.json["type"], first.json["subject"]) == ("custom.a", "custom.a", "shop/1")
    assert second.type == "custom.b"
    [again] = await follow(product.acme.read, 1, last_event_id=first.id or "")
    assert again == second


async def test_twenty_writers_in_mixed_order_and_a_follower_that_comes_back_fifty_times_sees_each_once(
    product: Site,
) -> None:
    follower = asyncio.create_task(follow_in_parts(product.acme.read, 200, parts=50))
    await asyncio.gather(*(write_slowly(product, writer, 10) for writer in range(20)))
    rows = await follower
    assert len(rows) == 200
    assert {row.json["cause"] for row in rows} == {f"test/{writer}/{n}" for writer in range(20) for n in range(10)}


async def write_slowly(product: Site, writer: int, count: int) -> None:
    """Transactions that overlap: each takes its number, waits, and commits when others have overtaken it."""
    chance = random.Random(writer)
    outbox = product.app.state.delivery.outbox
    for n in range(count):
        async with product.db.transaction(product.acme.id) as tx:
            await outbox.state(tx, fact_of(f"test/{writer}/{n}"))
            await tx.execute("SELECT pg_sleep($1)", chance.choice((0, 0.002, 0.02)))


def fact_of(cause: str) -> Fact:
    return Fact(cause=cause, type="custom.sale", subject="", data={})


async def follow_in_parts(client: Client, count: int, parts: int) -> list[Sent]:
    found: list[Sent] = []
    for _ in range(parts):
        headers = {"last_event_id": found[-1].id or ""} if found else {}
        found += await follow(client, count // parts, **headers)
    return found


async def test_five_hundred_idle_streams_of_as_many_keys_make_at_most_five_queries_a_second(
    product: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, asked, streams = product.app.state.hub, Counter[str](), 500
    await state(product.acme)
    async with product.db.transaction(product.acme.id) as tx:
        made = [await new_key(tx, product.acme.id, f"k{n}", "read") for n in range(streams)]
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(events(product.anyone.by(one.key), STREAM)) for one in made]
        opened = [await one for one in opening]
        assert {(await one.rows(1))[0].type for one in opened} == {"custom.sale"}
        assert product.process
        for task in product.process.health._tasks:  # it asks by the clock, and not for the sake of streams
            task.cancel()
        _count_statements(monkeypatch, asked)
        await hub._look()  # the first one rings for every stream, for it does not know yet where they are
        hub._look_every, hub._check_every = LOOK_EVERY / 100, CHECK_EVERY / 100
        await until(
            lambda: times(asked, "fact_heads") >= 5, within=60
        )  # each stands in line behind those who were woken
        asked.clear()
        await until(lambda: times(asked, "fact_heads") >= 30, within=60)
        assert len(hub._all) == streams
        assert times(asked, "find_token") >= 2, "the keys were looked at"
        assert 3 * asked.total() <= 5 * LOOK_EVERY * times(asked, "fact_heads"), asked  # each with BEGIN and COMMIT


def times(asked: Counter[str], word: str) -> int:
    return sum(count for text, count in asked.items() if word in text)


def _count_statements(monkeypatch: pytest.MonkeyPatch, asked: Counter[str]) -> None:
    """Those of this process, by their text."""
    execute = asyncpg.Connection._execute

    async def counted(self: Any, query: str, *args: Any, **options: Any) -> Any:
        asked[query] += 1
        return await execute(self, query, *args, **options)

    monkeypatch.setattr(asyncpg.Connection, "_execute", counted)


async def test_a_cursor_of_a_fact_that_is_not_kept_any_more_begins_with_the_oldest_and_says_so(product: Site) -> None:
    first, *_ = [await state(product.acme, f"custom.{name}") for name in "abc"]
    [seen, *_] = await follow(product.acme.read, 3)
    await product.acme.run("DELETE FROM fact WHERE id = $1", first["id"])
    async with events(product.acme.read, f"{STREAM}?after={seen.id}") as stream:
        assert [one.type for one in [await stream.next(), await stream.next()] if one] == [None, "reset"]
        assert [row.type for row in await stream.rows(2)] == ["custom.b", "custom.c"]


async def test_a_cursor_that_this_stream_did_not_make_gets_its_own_answer(product: Site) -> None:
    for cursor in ("x", "1", "1-x", "-", "1-2-3", f"{2**64}-1", f"1-{2**63}", "\u0661-1"):
        answer = await product.acme.read.get(STREAM, last_event_id=cursor.encode().decode("latin-1"))
        assert answer.refused == (400, "bad_cursor"), cursor


async def test_the_safety_look_knows_the_newest_fact_of_each_workspace(product: Site) -> None:
    here, there = await state(product.acme), await state(product.main)
    assert await product.app.state.hub._heads() == {
        f"{product.acme.id}:facts": here["id"], f"{product.main.id}:facts": there["id"],
    }  # fmt: skip


async def test_facts_of_another_workspace_are_not_in_the_stream(product: Site) -> None:
    async with events(product.main.read, STREAM) as stream:
        await stream.next()
        await state(product.acme)
        mine = await state(product.main, "custom.mine")
        [row] = await stream.rows(1)
        assert row.id and row.id.endswith(f"-{mine['id']}")
