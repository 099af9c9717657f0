"""Looking at the ledger: every filter alone and together, waiting for an end, and letting things go again."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soonish.db.pool import Database
from soonish.delivery.actions import ledger
from soonish.delivery.model.ledger import Wanted
from soonish.web.auth import Caller, Role
from tests.support.site import House, Site
from tests.support.telling import address, end, endpoint, person, state, tell


async def found(house: House, query: str = "") -> list[int]:
    return [one["id"] for one in await house.read.every(f"/v1/deliveries{query}")]


@pytest.fixture
async def told(product: Site) -> dict[str, Any]:
    """Ben is told by phone and mail, Ann has no address, an endpoint hears of a fact; one failed, one is unknown."""
    acme = product.acme
    ben, ann = await person(acme), await person(acme, "Ann")
    phone, desk = await address(acme, ben), await address(acme, ben, "desk", "apprise", target=b"-")
    crm = await endpoint(acme)
    to_phone, to_desk, to_ann = await tell(product, acme, "message/12", ben, ann)
    [to_crm] = await state(product, acme, "game/17/fact/1", "game.reminder_due")
    await end(acme, to_phone, "sent", late_ms=4)
    await end(acme, to_desk, "failed", "http_503", late_ms=90_000)
    await end(acme, to_crm, "unknown", "timeout")
    names = ("ben", "ann", "phone", "desk", "crm", "to_phone", "to_desk", "to_ann", "to_crm")
    return dict(zip(names, (ben, ann, phone, desk, crm, to_phone, to_desk, to_ann, to_crm), strict=True))


async def test_a_delivery_is_shown_as_the_ledger_has_it(product: Site, told: dict[str, Any]) -> None:
    one = (await product.acme.read.get(f"/v1/deliveries/{told['to_desk']}")).json
    tried = one.pop("attempts")
    assert one["wire_id"].startswith("dlv_")
    assert len(one["wire_id"]) == 36
    expected = {
        "id": told["to_desk"], "cause": "message/12", "channel": "apprise", "person_id": told["ben"],
        "address_id": told["desk"], "endpoint_id": None, "fact_id": None, "state": "failed", "reason": "http_503",
        "partial": False, "late_ms": 90_000, "next_at": None, "tries": 1,
    }  # fmt: skip
    assert {name: one[name] for name in expected} == expected
    [try_] = tried
    assert (try_["n"], try_["outcome"], try_["code"], try_["status"], try_["answer"]) == (
        1,
        "failed",
        "http_503",
        503,
        "busy",
    )
    assert (try_["latency_ms"], try_["permanent"], try_["repeat"]) == (81, False, False)


async def test_every_filter_finds_what_fits_and_nothing_else(product: Site, told: dict[str, Any]) -> None:
    acme, t = product.acme, told
    [row] = await acme.rows("SELECT message_id, created_at FROM delivery WHERE id = $1", t["to_phone"])
    [fact] = await acme.rows("SELECT fact_id FROM delivery WHERE id = $1", t["to_crm"])
    people = [t["to_ann"], t["to_desk"], t["to_phone"]]
    wanted = {
        "": sorted([t["to_crm"], *people], reverse=True),
        "?state=failed": [t["to_desk"]],
        "?state=unknown": [t["to_crm"]],
        "?state=skipped": [t["to_ann"]],
        "?state=pending": [],
        "?reason=no_address": [t["to_ann"]],
        "?channel=console": [t["to_phone"]],
        "?channel=none": [t["to_ann"]],
        f"?person_id={t['ann']}": [t["to_ann"]],
        f"?address_id={t['desk']}": [t["to_desk"]],
        f"?endpoint_id={t['crm']}": [t["to_crm"]],
        f"?message_id={row['message_id']}": sorted(people, reverse=True),
        f"?fact_id={fact['fact_id']}": [t["to_crm"]],
        "?fact_type=game.reminder_due": [t["to_crm"]],
        "?fact_type=game.over": [],
        "?cause_prefix=message/": sorted(people, reverse=True),
        "?cause_prefix=message/2": [],
        "?late_over_ms=1000": [t["to_desk"]],
        "?late_over_ms=90000": [],
        f"?person_id={t['ben']}&state=sent&cause_prefix=message/12": [t["to_phone"]],
        f"?endpoint_id={t['crm']}&person_id={t['ben']}": [],
        f"?cause_prefix=message/&state=failed&address_id={t['desk']}": [t["to_desk"]],
        f"?since={_text(row['created_at'] + timedelta(hours=1))}": [],
        f"?until={_text(row['created_at'])}": [],
        f"?since={_text(row['created_at'])}&state=sent": [t["to_phone"]],
        "?since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59Z&state=sent": [t["to_phone"]],
    }
    assert {query: await found(acme, query) for query in wanted} == wanted


async def test_wrong_filters_are_named_all_at_once(product: Site) -> None:
    answer = await product.acme.read.get("/v1/deliveries?state=lost&person_id=0&late_over_ms=-1&since=now&who=ben")
    assert answer.fields == {
        "state": "one_of", "person_id": "range", "late_over_ms": "range", "since": "type", "who": "unknown_parameter",
    }  # fmt: skip


async def test_pages_of_the_list_have_each_delivery_once_while_others_are_told(product: Site) -> None:
    acme = product.acme
    ids = [await person(acme, f"P{n}") for n in range(5)]
    told = await tell(product, acme, "message/1", *ids)
    first = (await acme.read.get("/v1/deliveries?limit=2")).json
    await tell(product, acme, "message/2", *ids)
    rest = (await acme.read.get(f"/v1/deliveries?limit=200&after={first['next']}")).json
    assert [one["id"] for one in first["items"] + rest["items"]] == told[::-1]
    assert rest["next"] is None


async def test_where_few_fit_each_look_is_bounded_and_the_next_goes_on(
    product: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "REACH", 3)
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [only] = await tell(product, acme, "message/1", ben)
    await tell(product, acme, "message/2", *[await person(acme, f"P{n}") for n in range(7)])
    first = (await acme.read.get("/v1/deliveries?channel=console&limit=1")).json
    assert first["items"] == []
    assert first["next"]
    assert await found(acme, "?channel=console&limit=1") == [only]
    assert await found(acme, "?cause_prefix=message/&channel=console&limit=1") == [only]


async def test_a_delivery_of_another_workspace_is_not_there(product: Site, told: dict[str, Any]) -> None:
    path = f"/v1/deliveries/{told['to_phone']}"
    assert (await product.main.admin.get(path)).status == 404
    assert (await product.main.admin.get(f"{path}?wait=30")).status == 404
    assert (await product.main.admin.post(f"{path}/retry")).status == 404
    assert await found(product.main) == []
    assert (await product.main.admin.post("/v1/deliveries/retry", {})).json == {"count": 0}


# --- waiting


async def test_one_who_waits_hears_of_the_end_at_once(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [pending] = await tell(product, acme, "message/1", ben)
    waiting = asyncio.create_task(acme.read.get(f"/v1/deliveries/{pending}?wait=30"))
    async with asyncio.timeout(25):  # less than the wait itself
        await _followed(product, acme.id, pending)
        await end(acme, pending, "sent")
        answer = await waiting
    assert answer.json["state"] == "sent"
    assert len(answer.json["attempts"]) == 1


async def test_waiting_ends_by_itself_and_holds_no_connection(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [pending] = await tell(product, acme, "message/1", ben)
    waiters = [asyncio.create_task(acme.read.get(f"/v1/deliveries/{pending}?wait=2")) for _ in range(15)]
    await _followed(product, acme.id, pending)
    assert (await acme.read.get("/v1/me")).status == 200  # with ten connections in the pool
    assert {(await waiter).json["state"] for waiter in waiters} == {"pending"}


async def test_what_has_ended_answers_at_once_whatever_the_wait(product: Site, told: dict[str, Any]) -> None:
    async with asyncio.timeout(25):
        answer = await product.acme.read.get(f"/v1/deliveries/{told['to_ann']}?wait=30")
    assert answer.json["state"] == "skipped"
    assert (await product.acme.read.get(f"/v1/deliveries/{told['to_ann']}?wait=31")).fields == {"wait": "range"}


# --- going again


async def test_a_retry_opens_the_delivery_under_the_same_wire_id_and_puts_it(
    product: Site, told: dict[str, Any]
) -> None:
    acme, one = product.acme, told["to_desk"]
    before = (await acme.read.get(f"/v1/deliveries/{one}")).json
    await acme.run("UPDATE delivery SET steps = 7, expires_at = now() - interval '1 hour' WHERE id = $1", one)
    answer = await acme.write.post(f"/v1/deliveries/{one}/retry")
    assert answer.status == 202
    after = answer.json
    assert (after["state"], after["reason"], after["ended_at"], after["expires_at"]) == ("pending", None, None, None)
    assert (after["wire_id"], after["due_at"], after["tries"]) == (before["wire_id"], before["due_at"], 1)
    [row] = await acme.rows("SELECT steps FROM delivery WHERE id = $1", one)
    assert row["steps"] == 0
    [item] = await acme.rows("SELECT lane, wake_at <= now() AS now FROM due.due WHERE key = $1", str(one))
    assert (item["lane"], item["now"]) == (1, True)
    [line] = await acme.rows("SELECT verb, actor FROM audit WHERE entity = $1", f"delivery/{one}")
    assert line["verb"] == "retry"


async def test_a_retry_is_refused_where_there_is_nothing_to_do_again(product: Site, told: dict[str, Any]) -> None:
    acme, t = product.acme, told
    assert (await acme.write.post(f"/v1/deliveries/{t['to_phone']}/retry")).refused == (409, "already_sent")
    assert (await acme.write.post(f"/v1/deliveries/{t['to_ann']}/retry")).refused == (409, "target_gone")
    assert (await acme.write.post(f"/v1/deliveries/{t['to_desk']}/retry")).status == 202
    assert (await acme.write.post(f"/v1/deliveries/{t['to_desk']}/retry")).refused == (409, "still_pending")
    await acme.run("DELETE FROM endpoint WHERE id = $1", t["crm"])
    assert (await acme.write.post(f"/v1/deliveries/{t['to_crm']}/retry")).refused == (409, "target_gone")
    assert (await acme.write.post("/v1/deliveries/999999/retry")).status == 404


async def test_many_go_again_by_filters_and_what_was_skipped_only_by_name(product: Site, told: dict[str, Any]) -> None:
    acme, t = product.acme, told
    assert (await acme.write.post("/v1/deliveries/retry", {"cause_prefix": "game/"})).json == {"count": 1}
    assert await found(acme, "?state=pending") == [t["to_crm"]]
    assert (await acme.write.post("/v1/deliveries/retry", {})).json == {"count": 1}
    assert (await acme.write.post("/v1/deliveries/retry", {})).json == {"count": 0}
    await acme.run("UPDATE delivery SET state = 'skipped', reason = 'paused' WHERE id = $1", t["to_desk"])
    assert (await acme.write.post("/v1/deliveries/retry", {})).json == {"count": 0}
    assert (await acme.write.post("/v1/deliveries/retry", {"state": "skipped"})).json == {"count": 1}
    refused = await acme.write.post("/v1/deliveries/retry", {"state": "sent", "limit": 10_001})
    assert refused.fields == {"state": "one_of", "limit": "range"}


async def test_no_more_go_again_than_were_asked_for(product: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "STRETCH", 2)
    acme, ids = product.acme, []
    for n in range(7):
        ids.append(one := await person(acme, f"P{n}"))
        await address(acme, one)
    told = await tell(product, acme, "message/1", *ids)
    await acme.run("UPDATE delivery SET state = 'failed', reason = 'exhausted'")
    assert (await acme.write.post("/v1/deliveries/retry", {"limit": 3})).json == {"count": 3}
    assert await found(acme, "?state=pending") == sorted(told)[::-1][:3]
    assert (await acme.write.post("/v1/deliveries/retry", {"cause_prefix": "message/1"})).json == {"count": 4}


async def test_a_dead_item_that_lives_again_takes_its_delivery_along(product: Site, told: dict[str, Any]) -> None:
    acme, one = product.acme, told["to_desk"]
    async with acme.db.transaction(acme.id) as tx:
        await ledger.revive(tx, [{"key": str(one)}, {"key": str(told["to_phone"])}])
    states = {row["id"]: row["state"] for row in await acme.rows("SELECT id, state FROM delivery")}
    assert (states[one], states[told["to_phone"]]) == ("pending", "sent")


# --- plans


async def test_no_filter_walks_the_whole_ledger(product: Site) -> None:
    acme = product.acme
    await _crowd(acme, 30_000)
    caller = Caller(workspace_id=acme.id, role=Role.READ, actor="key:1", person_id=None, request_id="-")
    filters = [
        Wanted(), Wanted(state="failed"), Wanted(state="pending"), Wanted(reason="x"), Wanted(channel="email"),
        Wanted(person_id=7), Wanted(address_id=7), Wanted(endpoint_id=7), Wanted(message_id=7), Wanted(fact_id=7),
        Wanted(fact_type="a.b"), Wanted(cause_prefix="crowd/77"), Wanted(cause_prefix="crowd/"),
        Wanted(since=datetime.now(UTC)), Wanted(until=datetime(2020, 1, 1, tzinfo=UTC)), Wanted(late_over_ms=5),
    ]  # fmt: skip
    most = {wanted: await _most_rows(product.db, caller, wanted) for wanted in filters}
    assert {wanted: rows for wanted, rows in most.items() if rows > ledger.REACH + 1} == {}


async def _most_rows(db: Database, caller: Caller, wanted: Wanted) -> int:
    """How many rows the greediest scan of deliveries really read, for a list with this filter."""
    seen: list[int] = []
    real = ledger.SQL.ledger

    class Watched:
        async def rows(self, tx: Any, **values: Any) -> Any:
            told = await tx.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {real.text}", *real.args(values))
            seen.extend(_read(json.loads(told)[0]["Plan"]))
            return await real.rows(tx, **values)

    ledger.SQL._all["ledger"] = Watched()  # type: ignore[assignment]
    try:
        await ledger.list_deliveries(db, caller, wanted)
    finally:
        ledger.SQL._all["ledger"] = real
    return max(seen)


def _read(plan: dict[str, Any]) -> list[int]:
    own = []
    if plan.get("Relation Name") == "delivery":
        own = [round((plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"])]
    return own + [rows for child in plan.get("Plans", ()) for rows in _read(child)]


async def _crowd(house: House, count: int) -> None:
    await house.run(
        """INSERT INTO delivery (workspace_id, cause, message_id, person_id, address_id, channel, state, due_at,
                                 created_at)
           SELECT $1, 'crowd/' || n, n, n, n, 'console', 'sent', now(), now() - make_interval(secs => $2 - n)
           FROM generate_series(1, $2::int) n""",
        house.id,
        count,
    )
    owner = await house.db.connect()
    await owner.execute("ANALYZE delivery")
    await owner.close()


async def _followed(product: Site, workspace_id: int, delivery_id: int) -> None:
    """Until somebody waits for the delivery."""
    hub = product.app.state.hub
    while f"{workspace_id}:delivery/{delivery_id}" not in hub._followers:
        await asyncio.sleep(0.01)


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
