"""Messages and facts through the real program: at their moment, once, whatever dies; no neighbour waits for another."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from soonish.client import Soonish
from tests.support.receiver import Receiver, Reply
from tests.support.service import Service, embedded_url

PATIENCE = 150.0
QUICK: dict[str, Any] = {
    "SOONISH_LEASE": "2s",
    "SOONISH_EGRESS_ALLOW": "127.0.0.0/8",
    "SOONISH_LADDER_LONG": "0,200ms,400ms,800ms,1s,1s,1s,1s",
    "SOONISH_UNKNOWN_PAUSE": "500ms",
    "SOONISH_RATE_ADDRESS": "0",
    "SOONISH_RATE_HOST": "0",
}


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    fresh = Service(**QUICK)
    await asyncio.to_thread(fresh.start)
    yield fresh
    await asyncio.to_thread(fresh.remove)


async def endpoint(soonish: Soonish, url: str, **more: Any) -> int:
    body = {"name": "crm", "kind": "webhook", "fact_types": ["custom.*"], "config": {"url": url}} | more
    return int((await soonish.post("/v1/endpoints", body))["id"])


async def facts(soonish: Soonish, numbers: range, kind: str = "custom.thing") -> None:
    async def state(n: int) -> None:
        await soonish.post("/v1/facts", {"type": kind, "data": {"n": n}})

    for start in range(numbers.start, numbers.stop, 20):
        await asyncio.gather(*(state(n) for n in range(start, min(start + 20, numbers.stop))))


def numbers(receiver: Receiver) -> dict[int, set[str]]:
    """The wire ids under which each fact came."""
    found: dict[int, set[str]] = {}
    for arrival in receiver.arrivals:
        found.setdefault(json.loads(arrival.body)["data"]["n"], set()).add(arrival.id)
    return found


async def all_came(receiver: Receiver, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(numbers(receiver)) < count:
            await asyncio.sleep(0.05)


async def these_came(receiver: Receiver, wanted: Iterable[int]) -> None:
    """Others may have come, too: what was taken and could not be answered any more."""
    async with asyncio.timeout(PATIENCE):
        while not set(wanted) <= set(numbers(receiver)):
            await asyncio.sleep(0.05)


async def test_a_message_with_a_moment_comes_at_it_and_never_before(service: Service) -> None:
    async with service.client() as soonish:
        ben = (await soonish.post("/v1/people", {"name": "Ben"}))["id"]
        await soonish.post(f"/v1/people/{ben}/addresses", {"kind": "console", "label": "inbox"})
        at = datetime.now(UTC) + timedelta(seconds=2)
        body = {"to": {"person_ids": [ben]}, "title": "a", "body": "b", "send_at": at.isoformat()}
        await soonish.post("/v1/messages", body)
        async with asyncio.timeout(PATIENCE):
            while not (found := (await soonish.get("/v1/deliveries"))["items"]) or found[0]["state"] == "pending":
                await asyncio.sleep(0.05)
    [told] = found
    assert told["state"] == "sent"
    assert told["first_at"] >= told["due_at"]
    assert 0 <= told["late_ms"] < 20_000, "sooner than a loop looks by itself"


async def test_after_kill_9_with_five_hundred_due_all_arrive_and_repeats_bear_the_same_id(service: Service) -> None:
    killed = asyncio.Event()
    async with Receiver(*[Reply()] * 50, Reply(after=killed)) as receiver:
        async with service.client() as soonish:
            await endpoint(soonish, receiver.url, max_in_flight=20)
            await facts(soonish, range(500))
        await receiver.wait(60)
        await asyncio.to_thread(service.stop, signal.SIGKILL)
        assert len(numbers(receiver)) < 500
        killed.set()
        await asyncio.to_thread(service.start)
        await all_came(receiver, 500)
        assert all(len(ids) == 1 for ids in numbers(receiver).values())
        async with service.client() as soonish, asyncio.timeout(PATIENCE):
            while (await soonish.get("/v1/deliveries", state="pending", limit=1))["items"]:
                await asyncio.sleep(0.1)
            failed = await soonish.get("/v1/deliveries", state="failed", limit=1)
        assert failed["items"] == []


async def test_told_to_end_under_load_every_accepted_fact_arrives_once_after_a_restart(service: Service) -> None:
    async with Receiver(Reply(delay=0.02)) as receiver:
        async with service.client() as soonish:
            await endpoint(soonish, receiver.url, max_in_flight=20)
            await facts(soonish, range(200))
        await receiver.wait(20)
        code, seconds = await asyncio.to_thread(service.stop)
        assert (code, seconds < 10) == (0, True)
        await asyncio.to_thread(service.start)
        await all_came(receiver, 200)
    assert len(receiver.arrivals) == 200


@pytest.mark.parametrize(
    "point", ["delivery.before_send", "delivery.after_send", "delivery.recorded", "outbox.written"]
)
async def test_a_crash_at_a_point_of_a_delivery_loses_nothing_and_changes_no_id(point: str) -> None:
    service = Service(**QUICK)
    await asyncio.to_thread(service.start)
    try:
        async with Receiver() as receiver, service.client() as soonish:
            await endpoint(soonish, receiver.url)
            await facts(soonish, range(3))
            await all_came(receiver, 3)
            await asyncio.to_thread(service.stop)
            service.settings |= {"SOONISH_TESTING": "1", "SOONISH_FAILPOINTS": f"{point}=exit@3"}
            await asyncio.to_thread(service.start)
            accepted = await accepted_facts(soonish, range(3, 23))
            assert await asyncio.to_thread(service.end) == 137
            for name in ("SOONISH_TESTING", "SOONISH_FAILPOINTS"):
                service.settings.pop(name)
            await asyncio.to_thread(service.start)
            await these_came(receiver, accepted)
            assert all(len(ids) == 1 for ids in numbers(receiver).values())
    finally:
        await asyncio.to_thread(service.remove)


async def accepted_facts(soonish: Soonish, wanted: range) -> list[int]:
    """State facts until the server is gone; answers those that it took."""
    accepted = []
    for n in wanted:
        try:
            await soonish.post("/v1/facts", {"type": "custom.thing", "data": {"n": n}})
        except Exception:
            break
        accepted.append(n)
        await asyncio.sleep(0.02)
    return accepted


async def test_a_flood_to_a_slow_endpoint_keeps_no_other_workspace_waiting(service: Service) -> None:
    async with Receiver(Reply(delay=1.0)) as slow, Receiver() as quick, service.client() as soonish:
        await endpoint(soonish, slow.url)
        other = await soonish.post("/v1/workspaces", {"slug": "other", "name": "Other"})
        await flood(service, 20_000)
        await slow.wait(50)
        async with Soonish(service.url, other["api_key"]) as theirs:
            await endpoint(theirs, quick.url)
            began = asyncio.get_running_loop().time()
            await theirs.post("/v1/facts", {"type": "custom.thing", "data": {"n": 1}})
            await quick.wait(1)
            assert asyncio.get_running_loop().time() - began < 30, "the flood takes minutes"


async def flood(service: Service, count: int) -> None:
    """So many pending deliveries of the first workspace's endpoint, due now."""
    owner = await asyncpg.connect(embedded_url(service.folder))
    async with owner.transaction():
        await owner.execute("SELECT set_config('soonish.workspace', '1', true)")
        await owner.execute(
            """INSERT INTO fact (workspace_id, cause, type, subject, data)
               SELECT 1, 'flood/' || n, 'custom.flood', '', '{"n": 0}' FROM generate_series(1, $1::int) n""",
            count,
        )
        await owner.execute(
            """INSERT INTO delivery (workspace_id, cause, fact_id, endpoint_id, channel, due_at)
               SELECT 1, f.cause, f.id, (SELECT max(id) FROM endpoint), 'webhook', now() FROM fact f
               WHERE f.cause LIKE 'flood/%'"""
        )
        await owner.execute(
            """INSERT INTO due.due (workspace_id, kind, key, lane, due_at, wake_at)
               SELECT 1, 'delivery.send', d.id::text, 1, now(), now() FROM delivery d WHERE d.cause LIKE 'flood/%'"""
        )
    await owner.close()


async def test_no_table_and_no_log_holds_a_target_a_secret_or_a_token(service: Service) -> None:
    async with Receiver(500, 200) as receiver, service.client() as soonish:
        ben = (await soonish.post("/v1/people", {"name": "Ben", "email": "ben@example.org"}))["id"]
        target = f"json://user:hunter2@127.0.0.1:{receiver.port}/tokenpath"
        body = {"kind": "apprise", "label": "phone", "target": target}
        await soonish.post(f"/v1/people/{ben}/addresses", body)
        url = receiver.url.replace("http://", "http://login:swordfish@")
        made = await soonish.post(
            "/v1/endpoints",
            {
                "name": "crm", "kind": "webhook", "fact_types": ["custom.*"],
                "config": {"url": url, "headers": {"X-Team": "opensesame"}},
            },
        )  # fmt: skip
        await soonish.post("/v1/messages", {"to": {"person_ids": [ben]}, "title": "a", "body": "b"})
        await facts(soonish, range(3))
        await all_came_somehow(receiver, 5)
        shown = str([await soonish.get(path) for path in ("/v1/endpoints", f"/v1/people/{ben}/addresses", "/v1/facts")])
    secrets = ["hunter2", "tokenpath", "swordfish", "opensesame", made["secret"].removeprefix("whsec_")]
    dump = await everything(service)
    for name, text in (("answers", shown), ("tables", dump), ("log", service.log)):
        assert [secret for secret in secrets if secret in text] == [], name
    assert "ben@example.org" not in service.log


async def all_came_somehow(receiver: Receiver, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(receiver.arrivals) < count:
            await asyncio.sleep(0.05)


async def everything(service: Service) -> str:
    """Every row of every table, as a dump would have it."""
    owner = await asyncpg.connect(embedded_url(service.folder))
    tables = await owner.fetch(
        """SELECT oid::regclass::text FROM pg_class
           WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, 'due'::regnamespace)"""
    )
    rows = [str([row[0] for row in await owner.fetch(f"SELECT t::text FROM {table[0]} t")]) for table in tables]
    await owner.close()
    return "\n".join(rows)
