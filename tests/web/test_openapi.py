"""The document says all that can be asked and answered; and by it, every operation is tried with every wrong key."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from soonish.due import Put
from soonish.web.server import operations
from tests.support.contract import BODIES, HEADERS, QUERY, ROLES, ROLES_OF, SOON, VALUES
from tests.support.http import NOTHING, Answer, Client
from tests.support.schema import Document
from tests.support.site import House, Site, site

NOBODY = "sk_" + "a" * 43


async def document(product: Site) -> Document:
    return Document((await product.anyone.get("/openapi.json")).json)


def filled(path: str, number: int = 1) -> str:
    """The path of an operation with values in it."""
    return re.sub(r"\{(\w+)\}", lambda match: VALUES.get(match[1], str(number)), path)


def streams(said: dict[str, Any]) -> bool:
    """Whether its answer has no end; such are tried elsewhere."""
    return "text/event-stream" in said["responses"].get("200", {}).get("content", {})


def client_of(product: Site, role: str) -> Client:
    """The one with just this role."""
    acme = product.acme
    return {
        "public": product.anyone,
        "read": acme.read,
        "write": acme.write,
        "admin": acme.admin,
        "operator": product.main.admin,
    }[role]


async def test_every_operation_is_described(product: Site) -> None:
    described = {(method, path): said for method, path, said in (await document(product)).operations()}
    parts = product.app.state.parts
    planned = {
        (one.method, re.sub(r":(int|str|text)\}", "}", one.path)): one
        for one in operations(parts.routes)
        if not one.page
    }
    assert described.keys() - {("GET", "/openapi.json")} == planned.keys()
    assert len({said["operationId"] for said in described.values()}) == len(described)
    for name, one in planned.items():
        said = described[name]
        assert said["x-role"] == (one.role.name.lower() if one.role else "public")
        assert said["summary"]
        assert ("requestBody" in said) == bool(one.body and one.body.name)
        assert said.get("security") == ([] if one.role is None else None)


async def test_a_condition_is_declared_where_an_answer_has_an_etag_and_nowhere_else(busy: Site) -> None:
    for method, path, said in (await document(busy)).operations():
        if method == "GET" and "{" not in path and not streams(said):
            answer = await client_of(busy, said["x-role"]).get(path)
            declared = "If-None-Match" in {one["name"] for one in said["parameters"]}, "304" in said["responses"]
            assert set(declared) == {"etag" in answer.headers}, path


async def test_whatever_is_made_is_found_where_its_answer_says(product: Site) -> None:
    made = 0
    for method, path, said in (await document(product)).operations():
        if "201" in said["responses"]:
            client = client_of(product, said["x-role"])
            bodies = [(client, body) for body in BODIES.get(f"{method} {path}", [NOTHING])]
            bodies += [(product.main.admin, body | {"everywhere": True}) for _, body in bodies if "pauses" in path]
            for asks, body in bodies:
                answer = await asks.ask(method, filled(path), body)
                if answer.status != 201:
                    continue
                found = await asks.get(answer.headers["location"])
                assert found.status == 200, answer.headers["location"]
                assert found.json.items() <= answer.json.items(), "all but what is shown once"
                made += 1
    assert made >= 7


async def test_roles_are_those_of_the_contract(product: Site) -> None:
    """read is every GET but keys, sign-ins and audit; what is not told otherwise is admin."""
    roles = {f"{method} {path}": said["x-role"] for method, path, said in (await document(product)).operations()}
    assert roles == ROLES_OF


async def test_a_key_one_role_too_low_is_forbidden_whatever_it_asks(product: Site) -> None:
    for method, path, said in (await document(product)).operations():
        if said["x-role"] not in ("public", "read"):
            low = client_of(product, ROLES[ROLES.index(said["x-role"]) - 1])
            for asked in (filled(path), filled(path, 2**63 - 1), path):
                for body in (NOTHING, {}, {"nonsense": 1}):
                    assert (await low.ask(method, asked, body)).refused == (403, "forbidden"), (method, asked)


async def wrong_keys(product: Site) -> dict[str, Client]:
    """Clients with an admin key that was revoked, one that expired, one of a closed workspace, and none at all."""
    admin, keys = product.acme.admin, {}
    for name in ("revoked", "expired"):
        made = (await admin.post("/v1/api-keys", {"name": name, "role": "admin"})).json
        keys[name] = made["key"]
    await product.acme.run("UPDATE api_key SET revoked_at = now() WHERE name = 'revoked'")
    await product.acme.run("UPDATE api_key SET expires_at = now() WHERE name = 'expired'")
    other = (await product.main.admin.post("/v1/workspaces", {"slug": "other", "name": "Other"})).json
    assert (await product.main.admin.post(f"/v1/workspaces/{other['id']}/close")).status == 200
    keys |= {"closed": other["api_key"], "unknown": NOBODY, "malformed": "sk_x", "empty": ""}
    return {name: product.anyone.by(None, authorization=f"Bearer {key}") for name, key in keys.items()}


async def test_revoked_expired_unknown_keys_and_those_of_a_closed_workspace_get_the_same_401(product: Site) -> None:
    clients = await wrong_keys(product)
    for method, path, said in (await document(product)).operations():
        if said["x-role"] == "public":
            continue
        answers = {name: await client.ask(method, filled(path)) for name, client in clients.items()}
        assert {answer.refused for answer in answers.values()} == {(401, "unauthorized")}, path
        assert len({shape(answer) for answer in answers.values()}) == 1, answers


def shape(answer: Answer) -> tuple[Any, ...]:
    """All of it but what differs in each answer."""
    headers = sorted((name, value) for name, value in answer.headers.items() if name not in ("Date", "X-Request-ID"))
    return answer.status, tuple(headers), answer.body.replace(answer.headers["x-request-id"].encode(), b"")


@pytest.fixture
async def busy(product: Site) -> AsyncIterator[Site]:
    """Both workspaces have something of everything."""
    for house in (product.main, product.acme):
        await fill(house)
    yield product


async def fill(house: House) -> None:
    """Rows that a stranger must not see, all with the mark of their workspace in them."""
    mark = f"mark-{house.id}"
    await house.put(*(Put("shop.reminder", f"{mark}/{n}") for n in range(3)))
    for _ in range(2):
        await house.browser()
    await house.admin.post("/v1/api-keys", {"name": mark, "role": "read"})
    for n in range(2):
        made = (await house.admin.post("/v1/people", {"name": mark, "external_id": f"{mark}/{n}"})).json
        address = {"kind": "console", "label": mark, "tags": [mark]}
        assert (await house.admin.post(f"/v1/people/{made['id']}/addresses", address)).status == 201
    url = f"https://{mark}.example.org/in"
    endpoint = {"name": mark, "kind": "webhook", "fact_types": ["*"], "config": {"url": url}}
    fact = {"type": "custom.mark", "subject": mark, "data": {"mark": mark}}
    message = {"to": {"tag": mark}, "title": mark, "body": mark, "send_at": "2030-01-01T00:00:00Z"}
    for path, body in (("endpoints", endpoint), ("facts", fact), ("messages", message)) * 2:
        assert (await house.admin.post(f"/v1/{path}", body)).status in (201, 202)
    await house.admin.post("/v1/ops/pauses", {"kind": f"mark.of_{house.id}", "reason": mark})
    await fill_events(house, mark, made["id"])
    await house.run(
        """INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, created_at,
             finished_at, fate, reason)
           SELECT 1000 * $1 + n, $1, 'shop.dead', $2 || n, 0, now(), 1, 0, '{}', now(), now(), 'dead', $2
           FROM generate_series(1, 3) n""",
        house.id,
        mark,
    )


async def fill_events(house: House, mark: str, person_id: int) -> None:
    """Two events, with a subscriber who has a snooze, and an announcement that waits."""
    for _ in range(2):
        event = (await house.admin.post("/v1/events", {"name": mark, "start_date": SOON, "is_public": True})).json
        under = f"/v1/events/{event['id']}"
        subscription = (await house.admin.post(f"{under}/subscriptions", {"person_id": person_id})).json
        later = BODIES["POST /v1/events/{event_id}/announcements"][0] | {"title": mark}
        for path, body in (
            (f"subscriptions/{subscription['id']}/snoozes", {"in_seconds": 60}),
            ("announcements", later),
        ):
            assert (await house.admin.post(f"{under}/{path}", body)).status == 201


async def ids_of(house: House) -> dict[str, list[int]]:
    """By the name of a path parameter: the ids that belong to this workspace."""
    statements = {
        "key_id": "SELECT id FROM api_key",
        "link_id": "SELECT id FROM login_link",
        "sign_in_id": "SELECT id FROM sign_in",
        "person_id": "SELECT id FROM person",
        "address_id": "SELECT id FROM address",
        "endpoint_id": "SELECT id FROM endpoint",
        "fact_id": "SELECT id FROM fact",
        "message_id": "SELECT id FROM message",
        "delivery_id": "SELECT id FROM delivery",
        "due_id": "SELECT id FROM due.due UNION SELECT id FROM due.due_undone",
        "event_id": "SELECT id FROM event",
        "subscription_id": "SELECT id FROM subscription",
        "broadcast_id": "SELECT id FROM broadcast",
        "snooze_id": "SELECT id FROM snooze",
    }
    return {name: [row["id"] for row in await house.rows(text)] for name, text in statements.items()}


@pytest.mark.parametrize("stranger", ["acme", "main"])
async def test_ids_of_another_workspace_are_not_found(busy: Site, stranger: str) -> None:
    """Also by the operator, whose workspace is one like the others."""
    asks, owner = (busy.acme, busy.main) if stranger == "acme" else (busy.main, busy.acme)
    before, ids, mine, tried = await state_of(owner), await ids_of(owner), await ids_of(asks), 0
    for method, path, _ in (await document(busy)).operations():
        for name in set(re.findall(r"\{(\w+)\}", path)) & ids.keys():
            for number in ids[name]:
                body = next(iter(BODIES.get(f"{method} {path}", ())), NOTHING)
                asked = own(path.replace(f"{{{name}}}", str(number)), mine)
                answer = await asks.admin.ask(method, asked, body, **conditions(method))
                assert answer.refused in ((404, "not_found"), (405, "method_not_allowed")), (method, path, number)
                tried += 1
    assert tried >= 20
    assert (await asks.admin.delete(f"/v1/ops/pauses/mark.of_{owner.id}")).refused == (404, "not_found")
    assert await state_of(owner) == before


def own(path: str, ids: dict[str, list[int]]) -> str:
    """The path with ids of one workspace in it."""
    return re.sub(r"\{(\w+)\}", lambda match: str(ids.get(match[1], ["a"])[0]), path)


def conditions(method: str) -> dict[str, str]:
    return {"Idempotency_Key": "k"} if method == "POST" else {}


async def state_of(house: House) -> list[Any]:
    tables = (
        "api_key", "sign_in", "person", "address", "due.due", "due.due_undone", "due.due_pause", "audit",
        "event", "subscription", "broadcast", "snooze",
    )  # fmt: skip
    return [[tuple(row) for row in await house.rows(f"SELECT t::text FROM {table} t ORDER BY 1")] for table in tables]


async def test_no_list_shows_anything_of_another_workspace(busy: Site) -> None:
    for method, path, said in (await document(busy)).operations():
        if method == "GET" and path.startswith("/v1/") and "{" not in path:
            if said["x-role"] == "operator" or streams(said):
                continue
            for asks, owner in ((busy.acme, busy.main), (busy.main, busy.acme)):
                answer = await asks.admin.get(path)
                assert answer.status == 200
                assert f"mark-{owner.id}".encode() not in answer.body, path
                assert f"mark.of_{owner.id}".encode() not in answer.body, path
                assert "items" not in answer.json or answer.json["items"], f"{path} has nothing to show"


async def test_a_cursor_of_another_workspace_leads_to_nothing_of_it(busy: Site) -> None:
    tried, theirs, mine = 0, await ids_of(busy.main), await ids_of(busy.acme)
    for method, path, said in (await document(busy)).operations():
        takes = {parameter["name"] for parameter in said["parameters"]}
        if method == "GET" and "after" in takes and said["x-role"] != "operator" and not streams(said):
            cursor = (await busy.main.admin.get(f"{own(path, theirs)}?limit=1")).json["next"]
            answer = await busy.acme.admin.get(f"{own(path, mine)}?after={cursor or ''}")
            assert answer.status == 200 or not cursor, path
            assert b"mark-1" not in answer.body
            tried += 1
    assert tried >= 5


async def test_what_is_done_to_many_is_done_to_ones_own(busy: Site) -> None:
    before = await state_of(busy.acme)
    theirs = [2001, 2002, 2003]
    for body in ({"ids": theirs}, {"kind": "shop.dead"}):
        revived = (await busy.main.admin.post("/v1/ops/dead/retry", body)).json
        assert revived == {"revived": 0 if "ids" in body else 3, "superseded": 0}
    assert await state_of(busy.acme) == before


async def test_what_is_the_systems_own_is_the_operators(busy: Site) -> None:
    async with busy.db.transaction(0) as tx:
        await tx.execute("SELECT 1")
    for path in ("/v1/ops/due?system=true", "/v1/ops/past?system=true"):
        assert (await busy.acme.admin.get(path)).refused == (403, "forbidden")
        assert (await busy.main.admin.get(path)).status == 200
    everywhere = {"kind": "shop.reminder", "everywhere": True}
    assert (await busy.acme.admin.post("/v1/ops/pauses", everywhere)).refused == (403, "forbidden")
    assert (await busy.acme.admin.delete("/v1/ops/pauses/shop.reminder?everywhere=true")).refused == (403, "forbidden")
    assert (await busy.acme.admin.post("/v1/ops/dead/retry", {"kind": "a.b", "system": True})).status == 403


async def test_every_answer_is_one_that_the_document_declares(busy: Site) -> None:
    """Each operation with good and bad values in every place: nothing breaks, and nothing comes undescribed."""
    described = await document(busy)
    complaints = []
    for method, path, said in described.operations():
        client = client_of(busy, said["x-role"])
        for asked, body, headers in () if streams(said) else attempts(method, path, said):
            answer = await client.ask(method, asked, body, **headers)
            complaints += [f"{method} {asked} {one}" for one in described.complaints(said, answer)]
            if answer.status == 500:
                complaints.append(f"{method} {asked} {body!r} breaks")
    assert complaints == []


def attempts(method: str, path: str, said: dict[str, Any]) -> list[tuple[str, Any, dict[str, str]]]:
    """Good and bad ways to ask."""
    good = filled(path)
    queries = [f"{good}?{one['name']}={value}" for one in said["parameters"] if one["in"] == "query" for value in QUERY]
    bodies = [NOTHING, {}, [], {"nonsense": 1}, b"{", *BODIES.get(f"{method} {path}", [])]
    return [
        (good, NOTHING, {}),
        (f"{good}?nonsense=1", NOTHING, {}),
        (filled(path, 2**63 - 1), NOTHING, {}),
        (filled(path, 0), NOTHING, {}),
        (path, NOTHING, {}),
        (good, b"x" * (1024 * 1024 + 1), {}),
        (good, NOTHING, {"Authorization": f"Bearer {NOBODY}"}),
        (good, NOTHING, {"Accept": "text/html"}),
        *((one, NOTHING, {}) for one in queries),
        *((good, body, headers) for body in bodies for headers in HEADERS if method != "GET"),
    ]


async def test_metrics_refuse_as_the_document_declares(database_url: str, tmp_path: Path) -> None:
    async with site(database_url, tmp_path, metrics_token="m" * 20) as product:
        described = await document(product)
        [said] = [said for _, path, said in described.operations() if path == "/metrics"]
        assert described.complaints(said, await product.anyone.get("/metrics")) == []
