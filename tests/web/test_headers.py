"""What stands around every answer: headers of security, the id of the request, and who of other origins may read it."""

import uuid
from pathlib import Path

from tests.support.http import Answer
from tests.support.site import Site, site
from tests.support.things import things

ORIGIN = "https://app.example.org"
SECURITY = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}


async def answers_of_every_kind(shop: Site) -> dict[str, Answer]:
    writer, anyone = shop.acme.write, shop.anyone
    made = await writer.post("/v1/things", {"name": "a"}, Idempotency_Key="k")
    path = made.headers["location"]
    return {
        "made": made,
        "made before": await writer.post("/v1/things", {"name": "a"}, Idempotency_Key="k"),
        "shown": await writer.get(path),
        "not changed": await writer.get(path, If_None_Match='"1"'),
        "poked": await writer.post(f"{path}/poke"),
        "removed": await writer.delete(path),
        "unread": await anyone.post("/v1/things", b"x" * (1024 * 1024 + 1)),
        "nobody": await anyone.get("/v1/things"),
        "forbidden": await shop.acme.read.delete(path),
        "gone": await writer.get(path),
        "no path": await writer.get("/v1/nothing"),
        "no path of anybody's": await anyone.get("/nothing"),
        "no method": await writer.ask("PUT", path),
        "invalid": await writer.post("/v1/things", {}),
        "broken": await writer.post("/v1/things", {"name": "broken"}),
        "page": await anyone.get("/p/thing/good", accept="text/html"),
        "page of a refusal": await anyone.get("/p/thing/wrong", accept="text/html"),
        "form": await anyone.form("/p/thing/good"),
        "file": await anyone.get("/static/x/logo.svg"),
        "description": await anyone.get("/openapi.json"),
        "options": await writer.ask("OPTIONS", path),
        "head": await writer.ask("HEAD", "/v1/things"),
    }


async def test_every_answer_has_the_headers_of_security_an_id_and_a_rule_for_caches(shop: Site) -> None:
    found = await answers_of_every_kind(shop)
    assert {answer.status for answer in found.values()} >= {
        200,
        201,
        202,
        204,
        303,
        304,
        401,
        403,
        404,
        405,
        413,
        422,
        500,
    }
    for name, answer in found.items():
        for header, value in SECURITY.items():
            assert answer.headers.getall(header) == [value], name
        assert uuid.UUID(answer.headers["x-request-id"]), name
        assert answer.headers["cache-control"], name
        assert "server" not in answer.headers, name
        assert not any(header.lower().startswith("access-control") for header in answer.headers), name
        assert "strict-transport-security" not in answer.headers, name


async def test_a_request_keeps_the_id_that_it_brings_if_that_is_one(product: Site) -> None:
    given = str(uuid.uuid4())
    answer = await product.acme.admin.post("/v1/ops/pauses", {"kind": "a.b"}, X_Request_Id=given)
    assert answer.headers["x-request-id"] == given
    [row] = await product.acme.rows("SELECT request_id::text FROM audit WHERE verb = 'pause'")
    assert row["request_id"] == given
    for wrong in ("7", "", "x" * 36, given + "0", given.replace("-", "")):
        other = (await product.acme.read.get("/v1/me", X_Request_Id=wrong)).headers["x-request-id"]
        assert uuid.UUID(other)
        assert other != wrong


async def test_requests_that_bring_no_id_get_one_each(product: Site) -> None:
    ids = {(await product.acme.read.get("/v1/me")).headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


async def test_behind_https_browsers_are_told_to_stay_with_it(database_url: str, tmp_path: Path) -> None:
    async with site(database_url, tmp_path, public_url="https://soonish.example.org") as product:
        for path in ("/healthz", "/v1/me", "/login/x"):
            assert "max-age" in (await product.anyone.get(path)).headers["strict-transport-security"]


async def test_a_proxy_tells_that_people_come_by_https_if_it_is_trusted(database_url: str, tmp_path: Path) -> None:
    async with things(database_url, tmp_path, trusted_proxies="127.0.0.1/32") as shop:
        told = await shop.anyone.get("/v1/x", X_Forwarded_Proto="https")
        assert "strict-transport-security" in told.headers
        assert "strict-transport-security" not in (await shop.anyone.get("/v1/x")).headers


async def test_anybody_may_claim_to_come_by_https_and_it_does_not_count(shop: Site) -> None:
    answer = await shop.anyone.get("/v1/x", X_Forwarded_Proto="https")
    assert "strict-transport-security" not in answer.headers


async def preflight(shop: Site, origin: str) -> Answer:
    return await shop.anyone.ask("OPTIONS", "/v1/things", Origin=origin, Access_Control_Request_Method="POST")


async def test_by_default_no_other_origin_may_read_anything(shop: Site) -> None:
    for answer in (await preflight(shop, ORIGIN), await shop.acme.read.get("/v1/things", Origin=ORIGIN)):
        assert not any(name.lower().startswith("access-control") for name in answer.headers)


async def test_an_origin_that_is_named_may_call_with_a_key_and_never_with_our_cookie(
    database_url: str, tmp_path: Path
) -> None:
    async with things(database_url, tmp_path, cors_origins=f"{ORIGIN},https://other.example.org") as shop:
        asked = await preflight(shop, ORIGIN)
        assert (asked.status, asked.headers["access-control-allow-origin"]) == (204, ORIGIN)
        assert "PATCH" in asked.headers["access-control-allow-methods"]
        assert {"authorization", "idempotency-key", "if-match", "last-event-id"} <= set(
            asked.headers["access-control-allow-headers"].split(", ")
        )
        for answer in (
            await shop.acme.read.get("/v1/things", Origin=ORIGIN),
            await shop.anyone.get("/v1/things", Origin=ORIGIN),
        ):
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert {"etag", "location"} <= set(answer.headers["access-control-expose-headers"].split(", "))
            assert answer.headers["vary"] == "Origin"
        for answer in (asked, await shop.acme.read.get("/v1/things", Origin=ORIGIN)):
            assert "access-control-allow-credentials" not in answer.headers
        for strange in ("https://evil.example.org", "null", f"{ORIGIN}.evil.org", "http://app.example.org"):
            answer = await preflight(shop, strange)
            assert (answer.headers["vary"], "access-control-allow-origin" in answer.headers) == ("Origin", False)
