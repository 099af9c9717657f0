"""Operations over HTTP: what is due, what became of it, dead items, health."""

import asyncio

from soonish.due import Kind, Lane, Late, Put, put
from tests.ops.conftest import KIND, at, dead, due, keys, work
from tests.support.due import Gate, Handler
from tests.support.site import Site

# --- what is due


async def test_due_items_are_listed_soonest_first_in_parts(product: Site) -> None:
    await product.acme.put(*(Put(KIND, str(n), at(n)) for n in (3, 1, 5, 2, 4)))
    assert await keys(product.acme, "?limit=2") == list("12345")
    [first] = (await product.acme.read.get("/v1/ops/due?limit=1")).json["items"]
    assert (first["kind"], first["key"], first["lane"], first["state"], first["tries"]) == (
        KIND,
        "1",
        "control",
        "waiting",
        0,
    )
    assert (first["label"], first["link"], first["lease_until"]) == ("Shop: reminder 1", None, None)
    assert 3000 < first["wait_s"] <= 3600
    assert "payload" not in first


async def test_items_that_share_a_moment_are_each_on_one_part(product: Site) -> None:
    moment = at(1)
    await product.acme.put(*(Put(KIND, f"{n:02}", moment) for n in range(20)))
    assert sorted(await keys(product.acme, "?limit=3")) == [f"{n:02}" for n in range(20)]


async def test_due_items_are_filtered_by_kind_key_lane_state_and_moment(product: Site) -> None:
    await product.acme.put(
        Put(KIND, "a/1", at(1)),
        Put(KIND, "a/2", at(3)),
        Put("shop.other", "b_1", at(2), lane=Lane.BULK),
        Put(KIND, "late", at(-1)),
        Put("shop.paused", "p", at(1)),
    )
    await product.acme.admin.post("/v1/ops/pauses", {"kind": "shop.paused"})
    await work(product)
    await product.acme.run("UPDATE due.due SET last_error = 'no luck' WHERE key = 'a/2'")
    before = at(1.5).isoformat().replace("+00:00", "Z")
    found = {
        query: sorted(await keys(product.acme, query))
        for query in (
            "?kind=shop.other", "?key_prefix=a/", "?key_prefix=b_", "?key_prefix=%25", "?lane=bulk", "?state=overdue",
            "?state=waiting", "?state=retrying", "?state=paused", "?state=leased", f"?before={before}",
            f"?kind={KIND}&state=waiting&key_prefix=a",
        )
    }  # fmt: skip
    assert list(found.values()) == [
        ["b_1"], ["a/1", "a/2"], ["b_1"], [], ["b_1"], ["late"],
        ["a/1", "b_1"], ["a/2"], ["p"], [], ["a/1", "late", "p"],
        ["a/1"],
    ]  # fmt: skip


async def test_filters_that_make_no_sense_are_refused_all_at_once(product: Site) -> None:
    query = "kind=Shop&key_prefix=&lane=fast&state=gone&before=soon&system=maybe&limit=0"
    answer = await product.acme.read.get(f"/v1/ops/due?{query}")
    assert answer.fields.keys() >= {"kind", "lane", "state", "before", "system", "limit"}


async def test_one_item_is_shown_with_what_its_handler_gets(product: Site) -> None:
    await product.acme.put(Put(KIND, "a", at(1), {"thing": 7}))
    [item] = await due(product.acme)
    shown = (await product.acme.read.get(f"/v1/ops/due/{item['id']}")).json
    assert shown["payload"] == {"thing": 7}
    assert {name: value for name, value in shown.items() if name not in ("payload", "wait_s")}.items() <= item.items()


async def test_an_item_is_pulled_forward_and_keeps_its_promise(product: Site) -> None:
    await product.acme.put(Put(KIND, "a", at(1)))
    [item] = await due(product.acme)
    pulled = await product.acme.write.post(f"/v1/ops/due/{item['id']}/now")
    assert (pulled.status, pulled.json["due_at"], pulled.json["wait_s"] <= 0) == (200, item["due_at"], True)
    handler = Handler()
    await work(product, Kind(KIND, handler))
    assert handler.keys == ["a"]
    assert (await product.acme.write.post(f"/v1/ops/due/{item['id']}/now")).refused == (404, "not_found")


async def test_an_item_is_cancelled_and_never_happens(product: Site) -> None:
    await product.acme.put(Put(KIND, "a"))
    [item] = await due(product.acme)
    cancelled = (await product.acme.write.post(f"/v1/ops/due/{item['id']}/cancel")).json
    assert (cancelled["fate"], cancelled["late_ms"]) == ("cancelled", None)
    assert cancelled["reason"].startswith("cancelled by key:")
    handler = Handler()
    await work(product, Kind(KIND, handler))
    assert handler.seen == []
    assert (await product.acme.write.post(f"/v1/ops/due/{item['id']}/cancel")).refused == (404, "not_found")


async def test_an_item_that_somebody_works_on_is_leased_unless_forced(product: Site) -> None:
    await product.acme.put(Put(KIND, "a"))
    gate = Gate()
    working = asyncio.create_task(work(product, Kind(KIND, gate)))
    await gate.entered.wait()
    [item] = await due(product.acme, "?state=leased")
    assert (item["tries"], item["lease_until"] is not None) == (1, True)
    path, writer = f"/v1/ops/due/{item['id']}", product.acme.write
    for answer in (
        await writer.post(f"{path}/now"),
        await writer.post(f"{path}/cancel"),
        await writer.post(f"{path}/cancel", {"force": False}),
    ):
        assert answer.refused == (409, "leased")
    assert (await writer.post(f"{path}/cancel", {"force": True})).json["fate"] == "cancelled"
    gate.opened.set()
    await working
    past = (await product.acme.read.get("/v1/ops/past")).json["items"]
    assert [(one["id"], one["fate"]) for one in past] == [(item["id"], "cancelled")], "its holder's end changed nothing"


async def test_nobody_cancels_what_keeps_the_system_in_order_not_even_by_force(product: Site) -> None:
    async with product.db.transaction(0) as tx:
        await put(tx, [Put("system.housekeeping", "daily", at(1))])
    [item] = await product.main.admin.every("/v1/ops/due")
    for body in ({}, {"force": True}):
        answer = await product.main.admin.post(f"/v1/ops/due/{item['id']}/cancel", body)
        assert answer.refused == (409, "system_item")
        assert "pause it instead" in answer.json["detail"]
    assert len(await product.main.admin.every("/v1/ops/due")) == 1


# --- what became of it


async def test_the_past_is_listed_newest_first_in_parts_and_filtered(product: Site) -> None:
    assert product.process
    await product.acme.put(Put(KIND, "done", at(-1)))
    await work(product, Kind(KIND, Handler(), late=Late.send()))
    await dead(product, "d/1", "d/2", kind="shop.poison")
    await product.acme.put(Put(KIND, "cancelled", at(1)))
    [item] = await due(product.acme)
    await product.acme.write.post(f"/v1/ops/due/{item['id']}/cancel")
    every = await product.acme.read.every("/v1/ops/past?limit=1")
    assert [one["key"] for one in every][0::3] == ["cancelled", "done"]
    assert [one["fate"] for one in every] == ["cancelled", "dead", "dead", "done"]
    moments = [one["finished_at"] for one in every]
    assert moments == sorted(moments, reverse=True)
    assert 3_500_000 < every[-1]["late_ms"] < 3_700_000
    until_, since = every[0]["finished_at"], every[2]["finished_at"]
    counts = {
        "fate=dead": 2, "fate=done": 1, "fate=expired": 0, "kind=shop.poison": 2, "key_prefix=d": 3, "key_prefix=d/": 2,
        f"until={until_}": 3, f"since={since}": len([one for one in every if one["finished_at"] >= since]),
        "fate=dead&key_prefix=d/2": 1, "since=2099-01-01T00:00:00Z": 0, "until=2001-01-01T00:00:00Z": 0,
    }  # fmt: skip
    assert {query: len(await product.acme.read.every(f"/v1/ops/past?{query}")) for query in counts} == counts


async def test_the_first_and_the_last_moment_of_all_break_nothing(product: Site) -> None:
    for moment in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"):
        for query in (f"until={moment}", f"since={moment}"):
            assert (await product.acme.read.get(f"/v1/ops/past?{query}")).status == 200
        assert (await product.acme.read.get(f"/v1/ops/due?before={moment}")).status == 200


# --- dead items


async def test_dead_items_live_again_by_their_ids(product: Site) -> None:
    first, second = await dead(product, "a", "b")
    answer = await product.acme.write.post("/v1/ops/dead/retry", {"ids": [first, 999_999]})
    assert (answer.status, answer.json) == (200, {"revived": 1, "superseded": 0})
    handler = Handler()
    await work(product, Kind(KIND, handler))
    assert handler.keys == ["a"]
    again = await product.acme.write.post("/v1/ops/dead/retry", {"ids": [first, second]})
    assert again.json == {"revived": 1, "superseded": 0}, "one that lives again is not dead any more"


async def test_dead_items_of_a_kind_live_again_and_live_ones_are_in_their_way(product: Site) -> None:
    await dead(product, "a", "b", "c")
    await dead(product, "x", kind="shop.poison")
    await product.acme.put(Put(KIND, "b", at(1)))
    nothing = {"kind": KIND, "until": "2001-01-01T00:00:00Z"}
    assert (await product.acme.write.post("/v1/ops/dead/retry", nothing)).json == {"revived": 0, "superseded": 0}
    answer = await product.acme.write.post("/v1/ops/dead/retry", {"kind": KIND, "since": "2001-01-01T00:00:00Z"})
    assert answer.json == {"revived": 2, "superseded": 1}
    assert sorted(await keys(product.acme)) == ["a", "b", "c"]


async def test_dead_items_are_named_in_one_way(product: Site) -> None:
    writer = product.acme.write
    assert (await writer.post("/v1/ops/dead/retry", {})).fields == {"kind": "required"}
    both = {"ids": [1], "kind": KIND, "since": "2001-01-01T00:00:00Z"}
    assert (await writer.post("/v1/ops/dead/retry", both)).fields == {"kind": "unknown_field", "since": "unknown_field"}
    wrong = {"ids": [0, "x", 2**63], "kind": "Shop"}
    assert (await writer.post("/v1/ops/dead/retry", wrong)).fields == {
        "ids.0": "range",
        "ids.1": "type",
        "ids.2": "range",
        "kind": "pattern",
    }
    assert (await writer.post("/v1/ops/dead/retry", {"ids": []})).fields == {"ids": "length"}


async def test_the_operator_retries_dead_items_of_the_system_by_id_and_by_kind_as_ones_own(product: Site) -> None:
    operator, poison = product.main.admin, Kind("system.thing", Handler(RuntimeError("no luck")), tries=1)
    async with product.db.transaction(0) as tx:
        await put(tx, [Put("system.thing", name) for name in "abc"])
    await product.main.put(Put("system.thing", "mine"))
    await work(product, poison)
    ids = {one["key"]: one["id"] for one in await operator.every("/v1/ops/past?fate=dead&limit=2")}
    assert sorted(ids) == ["a", "b", "c", "mine"]
    for body, revived in (
        ({"ids": [ids["a"]], "system": False}, 0),
        ({"ids": [ids["a"], ids["mine"]]}, 2),
        ({"kind": "system.thing", "system": False}, 0),
        ({"kind": "system.thing"}, 2),
    ):
        answer = await operator.post("/v1/ops/dead/retry", body)
        assert answer.json == {"revived": revived, "superseded": 0}, body


# --- health and the record


async def test_health_is_of_the_workspace_and_lanes_and_processes_are_the_operators(product: Site) -> None:
    await dead(product, "a")
    await product.acme.put(Put(KIND, "late", at(-1)), Put("nobody.knows", "x", at(-1)))
    await product.acme.run("UPDATE due.due SET wake_at = now() - interval '1 hour' WHERE key = 'late'")
    assert product.process
    await product.process.health.beat()
    mine = (await product.acme.read.get("/v1/ops/health")).json
    assert (mine["dead"], mine["dead_24h"], mine["overdue"]) == (1, 1, 2)
    assert 3_500 < mine["oldest_overdue_s"] < 3_700
    assert mine["unknown_kinds"] == {KIND: 1, "nobody.knows": 1}
    assert (mine["lanes"], mine["processes"], mine["recovery"]) == (None, None, None)
    assert mine["status"] == "down"
    assert mine["troubles"]
    operators = (await product.main.admin.get("/v1/ops/health")).json
    assert (operators["dead"], operators["overdue"]) == (0, 0)
    assert set(operators["lanes"]) == {"control", "people", "bulk"}
    assert operators["lanes"]["control"]["overdue"] == 2
    assert [process["role"] for process in operators["processes"]] == ["serve"]
    assert operators["tzdata"]
    assert operators["version"]


async def test_what_is_late_is_told_beside_what_nobody_knows_and_each_counted_once(product: Site) -> None:
    await product.acme.put(Put("nobody.knows", "x", at(-1)), Put("system.park", "late", at(-1)))
    await product.acme.run("UPDATE due.due SET wake_at = now() - interval '10 minutes' WHERE key = 'late'")
    await product.acme.run("UPDATE due.due SET wake_at = now() - interval '3 hours' WHERE key = 'x'")
    told = (await product.acme.read.get("/v1/ops/health")).json
    assert (told["overdue"], told["oldest_overdue_s"] > 10_000) == (2, True)
    texts = " ".join(told["troubles"])
    assert "1 due item of nobody.knows, a kind that is not known here." in texts
    assert "1 item overdue, the oldest for 10 min." in texts


async def test_each_change_of_an_operator_is_on_record_once(product: Site) -> None:
    [first] = await dead(product, "a")
    writer, admin = product.acme.write, product.acme.admin
    await product.acme.put(Put(KIND, "b", at(1)), Put(KIND, "c", at(1)))
    forward, away = [item["id"] for item in await due(product.acme)]
    await writer.post(f"/v1/ops/due/{forward}/now")
    await writer.post(f"/v1/ops/due/{away}/cancel")
    for _ in range(2):  # the second time nothing is dead any more
        await writer.post("/v1/ops/dead/retry", {"ids": [first]})
    await writer.post("/v1/ops/dead/retry", {"kind": "nothing.here"})
    await admin.post("/v1/ops/pauses", {"kind": KIND, "reason": "why"})
    await admin.delete(f"/v1/ops/pauses/{KIND}")
    lines = list(reversed((await admin.get("/v1/ops/audit")).json["items"]))
    assert [(line["verb"], line["entity"]) for line in lines] == [
        ("pull_forward", f"due/{forward}"),
        ("cancel", f"due/{away}"),
        ("retry", f"due/{first}"),
        ("pause", f"pause/{KIND}"),
        ("resume", f"pause/{KIND}"),
    ]
    assert lines[3]["changes"] == {"reason": "why", "everywhere": False}


async def test_the_systems_own_items_are_worked_on_by_the_operator_and_stay_the_systems(product: Site) -> None:
    async with product.db.transaction(0) as tx:
        await put(tx, [Put("shop.thing", "one", at(1))])
    operator = product.main.admin
    await product.main.put(Put(KIND, "mine", at(2)))
    assert [one["key"] for one in await operator.every("/v1/ops/due?limit=1")] == ["one", "mine"]
    assert [one["key"] for one in await operator.every("/v1/ops/due?system=false")] == ["mine"]
    assert await keys(product.acme) == []
    [item] = (await operator.get("/v1/ops/due?system=true")).json["items"]
    assert (await product.acme.admin.get(f"/v1/ops/due/{item['id']}")).refused == (404, "not_found")
    assert (await product.acme.admin.post(f"/v1/ops/due/{item['id']}/cancel")).refused == (404, "not_found")
    assert (await operator.get(f"/v1/ops/due/{item['id']}")).status == 200
    assert (await operator.post(f"/v1/ops/due/{item['id']}/now")).status == 200
    assert (await operator.post(f"/v1/ops/due/{item['id']}/cancel")).json["fate"] == "cancelled"
    for query, ended in (("?system=true", ["one"]), ("?system=false", []), ("", ["one"])):
        assert [one["key"] for one in await operator.every(f"/v1/ops/past{query}")] == ended, query
    lines = (await operator.get("/v1/ops/audit")).json["items"]
    assert [line["verb"] for line in lines[:2]] == ["cancel", "pull_forward"]
