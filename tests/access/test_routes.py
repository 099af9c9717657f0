"""Access over HTTP: workspaces, keys, links, sign-ins and the record, as clients and browsers meet them."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from soonish.access.actions import callers
from soonish.due import Put
from soonish.web.auth import COOKIE
from tests.support.http import Answer, Client
from tests.support.site import House, Site, another, site
from tests.support.things import until


async def verbs(house: House) -> list[tuple[str, str]]:
    """What the record says, the oldest first."""
    return [(line["verb"], line["entity"]) for line in reversed(await house.admin.every("/v1/ops/audit"))]


async def open_workspace(product: Site, slug: str = "other") -> Any:
    return (await product.main.admin.post("/v1/workspaces", {"slug": slug, "name": "Other"})).json


# --- workspaces


async def test_the_operator_makes_a_workspace_and_gets_its_first_key_once(product: Site) -> None:
    body = {"slug": "third", "name": "Third", "timezone": "Asia/Tokyo", "locale": "ja"}
    answer = await product.main.admin.post("/v1/workspaces", body)
    made = answer.json
    assert (answer.status, answer.headers["location"]) == (201, f"/v1/workspaces/{made['id']}")
    me = (await product.anyone.by(made["api_key"]).get("/v1/me")).json
    assert (me["workspace"]["slug"], me["role"]) == ("third", "admin")
    listed = await product.main.admin.every("/v1/workspaces?limit=1")
    assert [one["slug"] for one in listed] == ["third", "acme", "main"]
    assert all("api_key" not in one for one in listed)
    assert listed[0] == {name: value for name, value in made.items() if name != "api_key"}


async def test_a_workspace_speaks_utc_and_english_unless_told_otherwise(product: Site) -> None:
    made = await open_workspace(product)
    assert (made["timezone"], made["locale"], made["email_trust"], made["unknown_people"], made["closed_at"]) == (
        "UTC",
        "en",
        "confirm",
        "retry_once",
        None,
    )


async def test_a_slug_is_taken_once_also_when_two_want_it_at_once(product: Site) -> None:
    want = {"slug": "third", "name": "Third"}
    answers = await asyncio.gather(*(product.main.admin.post("/v1/workspaces", want) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409, 409]
    assert {answer.code for answer in answers if answer.status == 409} == {"slug_taken"}


@pytest.mark.parametrize("slug", ["a", "A", "1a", "a_b", "-a", "a" * 41, "ä"])
async def test_a_slug_has_small_letters_digits_and_hyphens(product: Site, slug: str) -> None:
    answer = await product.main.admin.post("/v1/workspaces", {"slug": slug, "name": ""})
    assert answer.fields.keys() == {"slug", "name"}


async def test_closing_a_workspace_stops_its_keys_and_sign_ins_and_drops_what_was_due(
    product: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "KEY_LIFE", 0.0)
    acme, operator = product.acme, product.main.admin
    browser = await acme.browser()
    link = (await acme.admin.post("/v1/login-links", {"role": "read"})).json["url"]
    await acme.put(Put("shop.reminder", "a"), Put("shop.reminder", "b"))
    await product.main.put(Put("shop.reminder", "mine"))
    closed = (await operator.post(f"/v1/workspaces/{acme.id}/close")).json
    assert (closed["closed_at"] is not None, closed["version"]) == (True, 2)
    for client in (acme.admin, acme.read, browser):
        assert (await client.get("/v1/me")).refused == (401, "unauthorized")
    assert (await product.anyone.form(f"/login/{link.rpartition('/')[2]}")).status == 404
    assert await acme.rows("SELECT FROM due.due") == []
    ended = await acme.rows("SELECT key, fate, reason FROM due.due_undone ORDER BY key")
    assert [tuple(row) for row in ended] == [(key, "dropped", "workspace_closed") for key in "ab"]
    assert len((await operator.get("/v1/ops/due")).json["items"]) == 1
    again = (await operator.post(f"/v1/workspaces/{acme.id}/close")).json
    assert again == closed == (await operator.get(f"/v1/workspaces/{acme.id}")).json
    assert (await verbs(product.main)).count(("close", f"workspace/{acme.id}")) == 1


async def test_the_first_workspace_stays_and_an_unknown_one_is_not_found(product: Site) -> None:
    operator = product.main.admin
    assert (await operator.post("/v1/workspaces/1/close")).refused == (409, "first_workspace")
    assert (await operator.post("/v1/workspaces/999/close")).refused == (404, "not_found")
    assert (await product.acme.admin.post("/v1/workspaces/1/close")).refused == (403, "forbidden")


async def test_an_admin_changes_the_workspace_and_the_record_says_from_what_to_what(product: Site) -> None:
    wish = {"name": "New", "timezone": "Europe/Lisbon", "email_trust": "trusted", "unknown_people": "never"}
    changed = (await product.acme.admin.patch("/v1/workspace", wish)).json
    assert wish.items() <= changed.items()
    assert (await product.acme.read.get("/v1/workspace")).json == changed
    line = (await product.acme.admin.get("/v1/ops/audit")).json["items"][0]
    assert (line["verb"], line["entity"]) == ("change", f"workspace/{product.acme.id}")
    assert line["changes"]["timezone"] == {"from": "Europe/Berlin", "to": "Europe/Lisbon"}
    assert line["changes"]["name"] == {}, "a name may be somebody's"
    bad = {"name": None, "locale": "german", "email_trust": "maybe", "slug": "new"}
    codes = (await product.acme.admin.patch("/v1/workspace", bad)).fields
    assert codes == {"name": "type", "locale": "unknown_locale", "email_trust": "one_of", "slug": "unknown_field"}


# --- keys


async def test_a_key_is_shown_once_and_works_at_once(product: Site) -> None:
    answer = await product.acme.admin.post("/v1/api-keys", {"name": " Robot ", "role": "write"})
    made = answer.json
    assert (answer.status, answer.headers["location"]) == (201, f"/v1/api-keys/{made['id']}")
    assert re.fullmatch(r"sk_[A-Za-z0-9_-]{43}", made["key"])
    assert (await product.anyone.by(made["key"]).get("/v1/me")).json["role"] == "write"
    [listed] = [one for one in await product.acme.admin.every("/v1/api-keys") if one["id"] == made["id"]]
    assert "key" not in listed
    assert (listed["name"], listed["hint"]) == ("Robot", made["key"][:7])
    assert listed["last_used_at"]


async def test_a_revoked_key_ends_everywhere_within_five_seconds(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the process that was asked, and in another one that had remembered it; here the five seconds are one."""
    assert callers.KEY_LIFE == 5.0
    monkeypatch.setattr(callers, "KEY_LIFE", 1.0)
    async with site(database_url, tmp_path) as product, another(product) as elsewhere:
        acme = product.acme
        clients = [acme.read, elsewhere.by(acme.read.key)]
        assert [(await client.get("/v1/me")).status for client in clients] == [200, 200]
        [key] = [one for one in await acme.admin.every("/v1/api-keys") if one["name"] == "Reader"]
        assert (await acme.admin.delete(f"/v1/api-keys/{key['id']}")).status == 204
        for client in clients:
            await until(lambda client=client: _is_out(client))
        assert (await acme.admin.delete(f"/v1/api-keys/{key['id']}")).refused == (404, "not_found")
        assert (await acme.admin.get(f"/v1/api-keys/{key['id']}")).refused == (404, "not_found")
        assert key["id"] not in [one["id"] for one in await acme.admin.every("/v1/api-keys")]


async def _is_out(client: Client) -> bool:
    return (await client.get("/v1/me")).status == 401


async def test_a_key_that_expires_ends_by_itself(product: Site) -> None:
    past = {"name": "Robot", "role": "read", "expires_at": "2020-01-01T00:00:00Z"}
    assert (await product.acme.admin.post("/v1/api-keys", past)).fields == {"expires_at": "range"}
    future = past | {"expires_at": "2099-01-01T00:00:00+01:00"}
    made = (await product.acme.admin.post("/v1/api-keys", future)).json
    assert made["expires_at"] == "2098-12-31T23:00:00Z"
    await product.acme.run("UPDATE api_key SET expires_at = now() WHERE id = $1", made["id"])
    assert (await product.anyone.by(made["key"]).get("/v1/me")).refused == (401, "unauthorized")


async def test_the_last_key_that_lets_an_admin_in_stays(product: Site) -> None:
    admin = product.acme.admin
    mine = int((await admin.get("/v1/me")).json["actor"].split(":")[1])
    assert (await admin.delete(f"/v1/api-keys/{mine}")).refused == (409, "last_admin_key")
    other = (await admin.post("/v1/api-keys", {"name": "Other", "role": "admin"})).json
    assert (await admin.delete(f"/v1/api-keys/{mine}")).status == 204
    assert (await product.anyone.by(other["key"]).get("/v1/api-keys")).status == 200


async def test_a_key_has_a_name_and_a_role(product: Site) -> None:
    answer = await product.acme.admin.post("/v1/api-keys", {"name": "x" * 61, "role": "operator", "expires_at": "soon"})
    assert answer.fields == {"name": "length", "role": "one_of", "expires_at": "type"}


# --- links and sign-ins


async def link(house: House, **body: Any) -> Answer:
    return await house.admin.post("/v1/login-links", {"role": "write"} | body)


def token_of(answer: Answer) -> str:
    return str(answer.json["url"].rpartition("/")[2])


async def test_a_link_says_where_to_and_until_when(product: Site) -> None:
    answer = await link(product.acme, minutes=1)
    made = answer.json
    assert answer.status == 201
    assert made["url"].startswith(f"{product.app.state.parts.settings.public_url}/login/")
    assert len(token_of(answer)) == 43
    [row] = await product.acme.rows("SELECT expires_at - created_at < interval '61 s' AS soon FROM login_link")
    assert row["soon"]
    for minutes in (0, 1441, 1.5, "5"):
        assert list((await link(product.acme, minutes=minutes)).fields) == ["minutes"]


async def test_a_link_that_was_made_tells_whether_it_was_used_and_never_itself(product: Site) -> None:
    made = await link(product.acme)
    before = (await product.acme.admin.get(made.headers["location"])).json
    assert before == {name: value for name, value in made.json.items() if name != "url"}
    await product.anyone.form(f"/login/{token_of(made)}")
    assert (await product.acme.admin.get(made.headers["location"])).json["used_at"]


async def test_the_token_of_a_link_is_in_no_header_that_others_keep(product: Site) -> None:
    answer = await link(product.acme)
    assert token_of(answer) not in str(dict(answer.headers))


async def test_looking_at_a_link_uses_nothing_up_and_of_browsers_at_once_one_signs_in(product: Site) -> None:
    path = f"/login/{token_of(await link(product.acme))}"
    for method in ("GET", "HEAD", "GET"):
        assert (await product.anyone.ask(method, path, accept="text/html")).status == 200
    answers = await asyncio.gather(*(product.anyone.form(path) for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [303, 404, 404, 404, 404]
    [used] = [answer for answer in answers if answer.status == 303]
    assert used.headers["location"] == "/"
    assert (await product.anyone.get(path)).status == 404


async def test_the_cookie_of_a_sign_in_stays_with_us_and_away_from_scripts(product: Site) -> None:
    answer = await product.anyone.form(f"/login/{token_of(await link(product.acme))}")
    name, *rules = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"{COOKIE}=")
    assert set(rules) == {"Path=/", f"Max-Age={30 * 86400}", "HttpOnly", "SameSite=Strict"}


async def test_behind_https_the_cookie_goes_by_https_alone(database_url: str, tmp_path: Path) -> None:
    async with site(database_url, tmp_path, public_url="https://soonish.example.org") as product:
        made = await link(product.acme)
        assert made.json["url"].startswith("https://soonish.example.org/login/")
        answer = await product.anyone.form(f"/login/{token_of(made)}")
        assert "Secure" in answer.headers["set-cookie"].split("; ")


async def test_unknown_used_and_expired_links_answer_the_same(product: Site) -> None:
    used, expired = [token_of(await link(product.acme)) for _ in range(2)]
    await product.anyone.form(f"/login/{used}")
    await product.acme.run("UPDATE login_link SET expires_at = now() WHERE used_at IS NULL")
    bodies = set()
    for token in (used, expired, "a" * 43, "short"):
        for answer in (await product.anyone.get(f"/login/{token}"), await product.anyone.form(f"/login/{token}")):
            bodies.add((answer.status, answer.body.replace(answer.headers["x-request-id"].encode(), b"")))
    assert len(bodies) == 1


async def signed_in(product: Site) -> Client:
    answer = await product.anyone.form(f"/login/{token_of(await link(product.acme))}")
    return product.anyone.by(None, cookie=answer.headers["set-cookie"].partition(";")[0])


async def test_signing_out_ends_the_sign_in_and_clears_the_cookie(product: Site) -> None:
    browser = await signed_in(product)
    assert (await browser.get("/v1/me")).json["role"] == "write"
    answer = await browser.form("/logout")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert f"{COOKIE}=; Path=/; Max-Age=0" in answer.headers["set-cookie"]
    assert (await browser.get("/v1/me")).refused == (401, "unauthorized")
    assert (await browser.form("/logout")).status == 303, "a second time does no harm"
    assert (await browser.get("/logout")).status == 405


async def test_another_site_cannot_sign_anybody_in_or_out(product: Site) -> None:
    browser = await signed_in(product)
    for path in ("/logout", f"/login/{token_of(await link(product.acme))}"):
        assert (await browser.form(path, Sec_Fetch_Site="cross-site")).refused == (403, "csrf")
    assert (await browser.get("/v1/me")).status == 200


async def test_an_admin_sees_sign_ins_and_ends_them_at_once(product: Site) -> None:
    browser = await signed_in(product)
    [mine] = await product.acme.admin.every("/v1/sign-ins")
    assert (mine["role"], mine["person_id"]) == ("write", None)
    assert (await product.acme.admin.delete(f"/v1/sign-ins/{mine['id']}")).status == 204
    assert (await browser.get("/v1/me")).refused == (401, "unauthorized")
    assert await product.acme.admin.every("/v1/sign-ins") == []
    assert (await product.acme.admin.delete(f"/v1/sign-ins/{mine['id']}")).refused == (404, "not_found")


# --- the record


async def test_each_change_is_on_record_once_with_who_and_by_which_request(product: Site) -> None:
    admin = product.acme.admin
    answers = [
        await admin.patch("/v1/workspace", {"name": "New"}),
        await admin.post("/v1/api-keys", {"name": "Robot", "role": "read"}),
        await admin.delete("/v1/api-keys/6"),
        await link(product.acme),
        await admin.post("/v1/ops/pauses", {"kind": "shop.reminder"}),
        await admin.delete("/v1/ops/pauses/shop.reminder"),
    ]
    assert all(answer.status < 300 for answer in answers)
    lines = list(reversed(await admin.every("/v1/ops/audit")))
    assert [line["verb"] for line in lines] == ["change", "make", "revoke", "make", "pause", "resume"]
    assert [line["request_id"] for line in lines] == [answer.headers["x-request-id"] for answer in answers]
    assert {line["actor"] for line in lines} == {(await admin.get("/v1/me")).json["actor"]}


async def test_what_is_refused_or_repeated_or_looked_at_is_not_on_record(product: Site) -> None:
    admin = product.acme.admin
    await admin.post("/v1/api-keys", {"name": "Robot", "role": "king"})
    await admin.delete("/v1/api-keys/999")
    await admin.get("/v1/api-keys")
    for _ in range(3):
        await admin.post("/v1/api-keys", {"name": "Robot", "role": "read"}, Idempotency_Key="k")
    assert [verb for verb, _ in await verbs(product.acme)] == ["make"]


async def test_the_record_is_filtered_and_holds_no_secret(product: Site) -> None:
    admin = product.acme.admin
    made = (await admin.post("/v1/api-keys", {"name": "Robot", "role": "read"})).json
    links = token_of(await link(product.acme))
    browser = await signed_in(product)
    entity = f"api_key/{made['id']}"
    actor = (await admin.get("/v1/me")).json["actor"]
    every = (await admin.get("/v1/ops/audit")).json["items"]
    at = every[-1]["at"].replace("+", "%2B")
    counts = {
        "": len(every),
        f"?entity={entity}": 1,
        f"?actor={actor}": 3,
        f"?actor={actor}&entity={entity}": 1,
        "?entity=api_key": 0,
        f"?since={at}": len(every),
        f"?until={at}": 0,
        "?since=2099-01-01T00:00:00Z": 0,
    }
    assert {query: len((await admin.get(f"/v1/ops/audit{query}")).json["items"]) for query in counts} == counts
    text = str(every)
    for secret in (made["key"], links, browser.headers["cookie"].partition("=")[2], "Robot"):
        assert secret not in text


async def test_no_table_no_log_and_no_metric_holds_a_secret(product: Site, caplog: pytest.LogCaptureFixture) -> None:
    """All that was ever shown once: keys, a link, a cookie, the token of its forms."""
    caplog.set_level("DEBUG")
    acme = product.acme
    made = (await acme.admin.post("/v1/api-keys", {"name": "Robot", "role": "read"}, Idempotency_Key="a")).json
    linked = token_of(await acme.admin.post("/v1/login-links", {"role": "admin"}, Idempotency_Key="b"))
    third = (await product.main.admin.post("/v1/workspaces", {"slug": "c", "name": "C"}, Idempotency_Key="c")).json
    answer = await product.anyone.form(f"/login/{linked}")
    cookie = answer.headers["set-cookie"].partition(";")[0]
    page = await product.anyone.get("/settings", Cookie=cookie, accept="text/html")
    token = re.search(rb'name="csrf" value="([^"]+)"', page.body)
    await product.anyone.get("/v1/me", Authorization=f"Bearer {made['key']}x")
    assert token
    secrets = [
        made["key"],
        linked,
        str(third.get("api_key")),
        cookie.partition("=")[2],
        token[1].decode(),
        acme.admin.key,
    ]
    dump, metrics = await everything(product), (await product.anyone.get("/metrics")).body.decode()
    for text in (dump, caplog.text, metrics):
        assert [secret for secret in secrets if secret and secret in text] == []
    assert len(dump) > 1_000


async def everything(product: Site) -> str:
    """Every row of every table, as a dump of the database would have it."""
    con = await product.db.connect()
    tables = await con.fetch(
        """SELECT oid::regclass::text FROM pg_class
           WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, 'due'::regnamespace)"""
    )
    found = [str([tuple(row) for row in await con.fetch(f"SELECT t::text FROM {table[0]} t")]) for table in tables]
    await con.close()
    return "\n".join(found)
