"""The health of a process: its heartbeat, the keys that it lacks, and the pulse by which live pages learn of work."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from soonish.access.actions.closed import ClosedWorkspaces
from soonish.access.actions.start import hmac_key
from soonish.app.parts import due_loop
from soonish.db.pool import Database
from soonish.due import Lane, Put
from soonish.errors import Unavailable
from soonish.ops.actions.health import Health
from soonish.ops.actions.process import Process
from soonish.ops.actions.pulse import Pulse
from soonish.vault import Vault
from tests.ops.conftest import KIND, SECRETS, Tenant, new_vault
from tests.support.due import turn
from tests.support.http import events
from tests.support.site import Site, site
from tests.support.things import until

MEBIBYTE = 2**20


async def names(db: Database) -> set[str]:
    return {row["name"] for row in await db.loops.fetch("SELECT name FROM process")}


def health_of(db: Database, vault: Vault, **more: object) -> Health:
    return Health(db, data_dir=None, role="up", version="0.1", vault=vault, secrets=SECRETS, **more)  # type: ignore[arg-type]


async def test_a_process_is_seen_while_it_lives_and_takes_its_row_along(db: Database, vault: Vault) -> None:
    async with health_of(db, vault):
        await until(lambda: _count(db, 1))
        [row] = await db.loops.fetch("SELECT role, version, seen_at - started_at AS span FROM process")
        assert (row["role"], row["version"]) == ("up", "0.1")
    assert await names(db) == set()


async def _count(db: Database, count: int) -> bool:
    return len(await names(db)) == count


async def test_a_heartbeat_moves_the_moment_at_which_it_was_seen(db: Database) -> None:
    process = Process(db, "work", "0.1")
    await process.beat(())
    await db.loops.execute("UPDATE process SET seen_at = now() - interval '1 hour'")
    await process.beat(())
    assert await db.loops.fetchval("SELECT now() - seen_at < interval '1 minute' FROM process")


async def test_a_start_removes_the_rows_of_those_that_died_on_its_machine_alone(db: Database) -> None:
    process = Process(db, "work", "0.1")
    ended = await asyncio.create_subprocess_exec("true")
    await ended.wait()
    host, lives = process.host, os.getppid()
    rows = {f"{host}:{ended.pid}:1", f"{host}:{lives}:1", f"elsewhere:{ended.pid}:1", f"{host}:{os.getpid()}:1"}
    await db.loops.execute(
        "INSERT INTO process (name, role, version) SELECT n, 'work', '1' FROM unnest($1::text[]) n", [*rows]
    )
    await process.enter()
    assert await names(db) == {f"{host}:{lives}:1", f"elsewhere:{ended.pid}:1"}


async def test_a_process_that_is_silent_for_half_a_minute_is_told_to_the_operator(product: Site) -> None:
    await product.db.loops.execute(
        """INSERT INTO process (name, role, version, lanes, seen_at)
           VALUES ('there:1:1', 'work', '1',
                   '{"bulk": {"running": 0, "last_claim_s": 0}}', now() - interval '31 s'),
                  ('there:2:1', 'work', '1',
                   '{"people": {"running": 0, "last_claim_s": 2}}', now() - interval '20 s')"""
    )
    told = (await product.main.admin.get("/v1/ops/health")).json
    silent = {one["name"]: one["silent"] for one in told["processes"] if one["name"].startswith("there")}
    assert silent == {"there:1:1": True, "there:2:1": False}
    assert any("there:1:1" in trouble for trouble in told["troubles"])
    assert told["lanes"]["bulk"]["last_claim_s"] is None, "who is silent works nothing"
    assert 22 <= told["lanes"]["people"]["last_claim_s"] < 60, "since it was seen, and what it said then"


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The application of the product."""
    async with site(database_url, tmp_path) as opened:
        yield opened


async def test_a_key_that_is_gone_is_named_before_anybody_needs_it(db: Database) -> None:
    await hmac_key(db, new_vault("k1"))
    health = health_of(db, new_vault("k2"))
    await health.look_at_keys()
    check = (await health.check()).checks["keys"]
    assert check.status == "degraded"
    assert "k1" in check.detail
    whole = health_of(db, new_vault("k2", "k1"))
    await whole.look_at_keys()
    assert (await whole.check()).checks["keys"].status == "ok"


async def test_below_two_hundred_mebibytes_nothing_new_begins_and_then_all_resumes(
    db: Database, vault: Vault, tmp_path: Path
) -> None:
    free = [200 * MEBIBYTE]
    health = Health(db, data_dir=tmp_path, role="up", version="0.1", vault=vault, free=lambda folder: free[0])
    for size, may in ((200, True), (199, False), (0, False), (200, True)):
        free[0] = size * MEBIBYTE
        await health.look_at_disk()
        assert health.may_claim() is may
        if may:
            health.refuse_writes()
        else:
            with pytest.raises(Unavailable) as refused:
                health.refuse_writes()
            assert refused.value.code == "storage_full"


async def test_a_database_that_had_no_space_is_asked_until_it_has(db: Database, vault: Vault) -> None:
    health = health_of(db, vault)
    health.storage_full()
    assert (await health.check()).status == "down"
    assert not health.may_claim()
    await health.look_at_disk()
    assert health.may_claim()


async def test_readiness_is_looked_at_once_a_second_however_many_ask(db: Database, vault: Vault, main: Tenant) -> None:
    health = health_of(db, vault)
    answers = await asyncio.gather(*(health.check() for _ in range(50)))
    assert len({id(answer) for answer in answers}) == 1


async def test_a_page_learns_of_work_that_rang_no_bell(database_url: str, tmp_path: Path) -> None:
    kinds = {"testing": "1", "test_kinds": "tests.support.kinds:kinds"}
    async with site(database_url, tmp_path, **kinds) as product, ClosedWorkspaces(product.db) as closed:
        assert product.process
        browsers = [await house.browser() for house in (product.acme, product.main)]
        mark = product.app.state.hub.mark
        async with (
            due_loop(product.process, frozenset(Lane), closed),
            events(browsers[0], f"/live?topics=due&since={mark}") as mine,
            events(browsers[1], f"/live?topics=due&since={mark}") as theirs,
        ):
            await product.acme.put(Put("test.note", "a", payload={"file": str(tmp_path / "ledger")}))
            [changed] = await mine.rows(1)
            assert changed.json == {"topics": ["due"]}
            await theirs.next()
            with pytest.raises(TimeoutError):
                await theirs.next(within=0.2)


async def test_the_log_counts_first_claims_that_are_very_late_apart_from_repeats_and_from_those_on_time(
    db: Database, main: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="soonish.due")
    pulse, hours = Pulse(db), timedelta(hours=2)
    await main.put(Put(KIND, "repeat", datetime.now(UTC) - hours))
    _, first = await turn(db.loops, kinds=[KIND])
    pulse.claimed("control", first)
    await db.loops.execute("UPDATE due.due SET lease_until = NULL")
    await main.put(Put(KIND, "fresh", datetime.now(UTC)))
    _, second = await turn(db.loops, kinds=[KIND])
    pulse.claimed("control", second)
    await main.put(*(Put(KIND, f"late {n}", datetime.now(UTC) - hours) for n in range(3)), Put(KIND, "another"))
    _, third = await turn(db.loops, kinds=[KIND])
    pulse.claimed("control", third)
    lines = [record.message for record in caplog.records if record.message.startswith("due.claimed")]
    assert [(line.count("items=3"), "late=true" in line) for line in lines] == [
        (0, True),  # the first claim of what is a repeat later
        (0, False), (0, False),
        (1, True), (0, False),
    ]  # fmt: skip


async def test_every_metric_of_the_contract_is_told(product: Site) -> None:
    text = (await product.anyone.get("/metrics")).body.decode()
    told = {line.split()[2].removeprefix("soonish_") for line in text.splitlines() if line.startswith("# TYPE")}
    assert told >= {
        "due_pending", "due_overdue", "due_oldest_overdue_seconds", "due_oldest_lease_seconds", "due_lateness_seconds",
        "due_last_claim_timestamp_seconds", "due_finished_total", "due_lease_expired_total", "due_lost_results_total",
        "due_wakes_total", "due_unknown_kind_items", "bell_reconnects_total", "http_requests_total",
        "http_request_seconds", "sse_streams", "child_restarts_total", "database_up", "temporal_up", "build_info",
    }  # fmt: skip
