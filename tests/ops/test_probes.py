"""What machines ask of one process, without a key."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from soonish.app.parts import probe
from soonish.db.migrate import migrate
from tests.support.http import listening
from tests.support.postgres import PostgresServer
from tests.support.site import Site, site
from tests.support.things import until

TOKEN = "m" * 20


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    """The application of the product."""
    async with site(database_url, tmp_path) as opened:
        yield opened


async def test_a_process_that_serves_says_so(product: Site) -> None:
    answer = await product.anyone.get("/healthz")
    assert (answer.status, answer.json) == (200, {"status": "ok"})


async def test_readiness_tells_each_check_and_is_not_kept_by_caches(product: Site) -> None:
    await until(lambda: _is_ok(product))  # it began before its listener heard
    answer = await product.anyone.get("/readyz")
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    assert set(answer.json["checks"]) == {"database", "schema", "loops", "bell", "temporal", "keys", "disk"}
    assert all(check["detail"] for check in answer.json["checks"].values())


async def _is_ok(product: Site) -> bool:
    return bool((await product.anyone.get("/readyz")).json["status"] == "ok")


async def test_a_bell_that_is_not_heard_degrades_and_is_still_ready(product: Site) -> None:
    assert product.process
    assert product.process.health.listener
    await product.process.health.listener.stop()
    product.process.health._checked_at = -1
    answer = await product.anyone.get("/readyz")
    assert (answer.status, answer.json["status"], answer.json["checks"]["bell"]["status"]) == (
        200,
        "degraded",
        "degraded",
    )


async def test_without_its_database_a_process_serves_and_is_not_ready(
    own_postgres: PostgresServer, tmp_path: Path
) -> None:
    await migrate(url := await own_postgres.create("away"))
    async with site(url, tmp_path) as product:
        assert product.process
        own_postgres.halt()
        product.process.health._checked_at = -1
        down = await product.anyone.get("/readyz")
        assert (down.status, down.json["status"]) == (503, "down")
        assert down.json["checks"]["database"]["status"] == "down"
        assert (await product.anyone.get("/healthz")).status == 200
        metrics = (await product.anyone.get("/metrics")).body.decode()
        assert "soonish_database_up 0.0" in metrics
        own_postgres.resume()
        product.process.health._checked_at = -1
        assert (await product.anyone.get("/readyz")).status == 200


async def test_without_a_token_metrics_are_for_this_machine_alone(product: Site) -> None:
    answer = await product.anyone.get("/metrics")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=1.0.0; charset=utf-8")
    assert "soonish_database_up 1.0" in answer.body.decode()
    for header in ("X-Forwarded-For", "Forwarded"):
        refused = await product.anyone.by(None, **{header: "for=203.0.113.7"}).get("/metrics")
        assert refused.refused == (404, "not_found"), "somebody else asks through a proxy on this machine"


async def test_with_a_token_metrics_are_for_whoever_shows_it(database_url: str, tmp_path: Path) -> None:
    async with site(database_url, tmp_path, metrics_token=TOKEN) as product:
        for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": TOKEN}, {"Authorization": "Bearer é"}):
            answer = await product.anyone.get("/metrics", **wrong)
            assert answer.refused == (401, "unauthorized")
        told = await product.anyone.get("/metrics", Authorization=f"Bearer {TOKEN}", X_Forwarded_For="203.0.113.7")
        assert told.status == 200


async def test_metrics_count_requests_by_route_and_never_by_id_or_person(product: Site) -> None:
    acme = product.acme
    await acme.read.get("/v1/ops/due/987654321")
    await acme.admin.post("/v1/api-keys", {"name": "Zaphod", "role": "read"})
    await product.anyone.get("/v1/secret-path-of-a-stranger")
    text = (await product.anyone.get("/metrics")).body.decode()
    assert 'http_requests_total{method="GET",route="/v1/ops/due/{due_id}",status="404"}' in text.replace("soonish_", "")
    for secret in ("987654321", "Zaphod", "secret-path", acme.admin.key or "", "acme"):
        assert secret not in text


async def test_a_process_that_only_works_answers_machines_and_nobody_else(product: Site) -> None:
    assert product.process
    async with listening(probe(product.process)) as anyone:
        assert [(await anyone.get(path)).status for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]
        assert (await anyone.by(product.main.admin.key).get("/v1/me")).refused == (401, "unauthorized")
