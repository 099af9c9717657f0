"""Pauses over HTTP: while a kind stands still nothing of it happens, and nothing of it is lost."""

from pathlib import Path

import pytest

from soonish.access.actions.closed import ClosedWorkspaces
from soonish.app.parts import due_loop
from soonish.due import Kind, Lane, Late, Put
from tests.ops.conftest import KIND, at, due, work
from tests.support.due import Handler
from tests.support.site import House, Site, site
from tests.support.things import until


async def test_while_a_kind_is_paused_nothing_goes_and_nothing_is_overdue_and_then_all_goes(product: Site) -> None:
    acme, handler = product.acme, Handler()
    await acme.put(*(Put(KIND, str(n), at(-1)) for n in range(5)))
    await acme.put(Put(KIND, "over", at(-1), expires_at=at(1)))
    assert (await acme.read.get("/v1/ops/health")).json["overdue"] == 6
    made = await acme.admin.post("/v1/ops/pauses", {"kind": KIND, "reason": "moving house"})
    assert (made.status, made.headers["location"]) == (201, f"/v1/ops/pauses/{KIND}")
    assert made.json == {"kind": KIND, "reason": "moving house", "everywhere": False}
    await acme.put(Put(KIND, "new", at(-1)))
    await work(product, Kind(KIND, handler, late=Late.send()))
    assert handler.seen == []
    health = (await acme.read.get("/v1/ops/health")).json
    assert (health["overdue"], health["pauses"]) == (0, [made.json])
    assert (await acme.read.get("/v1/ops/pauses")).json == {"items": [made.json], "next": None}
    assert {item["state"] for item in await due(acme)} == {"paused"}
    await acme.run("UPDATE due.due SET expires_at = now() WHERE key = 'over'")
    assert (await acme.admin.delete(f"/v1/ops/pauses/{KIND}")).status == 204
    await work(product, Kind(KIND, handler, late=Late.send()))
    assert sorted(handler.keys) == ["0", "1", "2", "3", "4", "new"], "what expired meanwhile does not go"
    assert (await acme.read.get("/v1/ops/pauses")).json["items"] == []
    assert (await acme.admin.delete(f"/v1/ops/pauses/{KIND}")).refused == (404, "not_found")
    assert (await acme.read.get(f"/v1/ops/pauses/{KIND}")).refused == (404, "not_found")


async def test_a_kind_that_is_paused_again_has_the_new_reason(product: Site) -> None:
    for reason in ("one", "two", None):
        answer = await product.acme.admin.post("/v1/ops/pauses", {"kind": "*", "reason": reason})
        assert answer.status == 201
    assert (await product.acme.read.get("/v1/ops/pauses")).json["items"] == [
        {"kind": "*", "reason": None, "everywhere": False}
    ]
    assert (await product.acme.admin.delete("/v1/ops/pauses/*")).status == 204


async def test_the_operator_pauses_everywhere_and_everybody_sees_it(product: Site) -> None:
    operator, handler = product.main.admin, Handler()
    await product.acme.put(Put(KIND, "theirs"))
    made = await operator.post("/v1/ops/pauses", {"kind": KIND, "everywhere": True})
    assert (made.status, made.headers["location"]) == (201, f"/v1/ops/pauses/{KIND}?everywhere=true")
    for reader in (operator, product.acme.read):
        assert (await reader.get(made.headers["location"])).json == made.json
        assert (await reader.get(f"/v1/ops/pauses/{KIND}")).refused == (404, "not_found")
    await work(product, Kind(KIND, handler))
    assert handler.seen == []
    [seen] = (await product.acme.read.get("/v1/ops/pauses")).json["items"]
    assert (seen["kind"], seen["everywhere"]) == (KIND, True)
    assert (await product.acme.admin.delete(f"/v1/ops/pauses/{KIND}")).refused == (404, "not_found")
    assert (await operator.delete(f"/v1/ops/pauses/{KIND}")).refused == (404, "not_found")
    assert (await operator.delete(f"/v1/ops/pauses/{KIND}?everywhere=true")).status == 204
    await work(product, Kind(KIND, handler))
    assert handler.keys == ["theirs"]


async def test_a_pause_of_one_workspace_stops_no_other(product: Site) -> None:
    handler = Handler()
    for house in (product.main, product.acme):
        await house.put(Put(KIND, str(house.id)))
    await product.acme.admin.post("/v1/ops/pauses", {"kind": KIND})
    await work(product, Kind(KIND, handler))
    assert handler.keys == [str(product.main.id)]


async def test_a_pause_is_felt_by_loops_that_run_and_a_resume_at_once(database_url: str, tmp_path: Path) -> None:
    kinds = {"testing": "1", "test_kinds": "tests.support.kinds:kinds"}
    async with site(database_url, tmp_path, **kinds) as product, ClosedWorkspaces(product.db) as closed:
        assert product.process
        acme, file = product.acme, tmp_path / "ledger"
        async with due_loop(product.process, frozenset(Lane), closed):
            await acme.admin.post("/v1/ops/pauses", {"kind": "test.note"})
            await until(lambda: _parked(acme))
            await acme.put(Put("test.note", "a", payload={"file": str(file)}))
            assert [item["state"] for item in await due(acme)] == ["paused"]
            await acme.admin.delete("/v1/ops/pauses/test.note")
            await until(file.exists, within=20)  # sooner than a loop looks by itself


async def _parked(house: House) -> bool:
    async with house.db.loops.acquire() as con:
        return not await con.fetchval("SELECT count(*) FROM due.due WHERE kind = 'system.park'")


@pytest.mark.parametrize(("kind", "everywhere"), [(KIND, False), ("*", False), (KIND, True), ("*", True)])
async def test_what_is_paused_cannot_be_pulled_forward_until_it_is_resumed(
    product: Site, kind: str, everywhere: bool
) -> None:
    await product.acme.put(Put(KIND, "a", at(1)))
    [item] = await due(product.acme)
    path, admin = f"/v1/ops/due/{item['id']}/now", (product.main if everywhere else product.acme).admin
    await admin.post("/v1/ops/pauses", {"kind": kind, "everywhere": everywhere})
    refused = await product.acme.write.post(path)
    assert refused.refused == (409, "paused"), "before the pause was carried out"
    assert f"`soonish due resume '{kind}'`" in refused.json["detail"]
    await work(product)
    assert (await product.acme.write.post(path)).refused == (409, "paused")
    await admin.delete(f"/v1/ops/pauses/{kind}?everywhere={str(everywhere).lower()}")
    assert (await product.acme.write.post(path)).json["wait_s"] <= 0
    handler = Handler()
    await work(product, Kind(KIND, handler))
    assert handler.keys == ["a"]
