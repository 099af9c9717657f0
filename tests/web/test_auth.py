"""Who asks: by a key, or by the cookie of a sign-in; and the token that a change by cookie needs."""

import re

import pytest

from soonish.web.auth import COOKIE, read_cookie
from tests.support.http import Client
from tests.support.site import Site

THING = {"name": "a"}


async def csrf(browser: Client) -> str:
    """The token, as a page of ours shows it."""
    page = await browser.get("/settings", accept="text/html")
    found = re.search(rb'name="csrf" value="([^"]+)"', page.body)
    assert found
    return found[1].decode()


async def test_a_key_comes_as_a_bearer_whatever_the_letters_of_the_word(product: Site) -> None:
    key = product.acme.read.key or ""
    for said in (f"Bearer {key}", f"bearer {key}", f"BEARER   {key} "):
        assert (await product.anyone.get("/v1/me", Authorization=said)).status == 200, said
    for said in (
        f"Basic {key}",
        f"{key}",
        "Bearer",
        "Bearer ",
        f"Bearer {key} {key}",
        f"Bearer {key[:-1]}",
        "Bearer sk_",
    ):
        answer = await product.anyone.get("/v1/me", Authorization=said)
        assert (answer.refused, answer.headers["www-authenticate"]) == ((401, "unauthorized"), "Bearer"), said


async def test_me_says_who_asks_and_what_they_may(product: Site) -> None:
    roles = [(await client.get("/v1/me")).json["role"] for client in clients(product)]
    assert roles == ["operator", "admin", "write", "read"]
    me = (await product.acme.read.get("/v1/me")).json
    assert me["workspace"] == {"id": product.acme.id, "slug": "acme", "name": "Acme"}
    assert (me["actor"].split(":")[0], me["person_id"]) == ("key", None)


def clients(product: Site) -> tuple[Client, ...]:
    return product.main.admin, product.acme.admin, product.acme.write, product.acme.read


async def test_a_sign_in_asks_like_a_key_of_its_role(product: Site) -> None:
    for role in ("admin", "write", "read"):
        me = (await (await product.acme.browser(role)).get("/v1/me")).json
        assert (me["role"], me["actor"].split(":")[0]) == (role, "sign_in")


async def test_an_admin_of_the_first_workspace_is_the_operator_by_sign_in_as_by_key(product: Site) -> None:
    browsers = [await product.main.browser("admin"), await product.main.browser("write")]
    assert [(await one.get("/v1/me")).json["role"] for one in browsers] == ["operator", "write"]


async def test_a_key_counts_before_a_cookie(product: Site) -> None:
    browser = await product.acme.browser("admin")
    assert (await browser.by(product.acme.read.key).get("/v1/me")).json["role"] == "read"
    assert (await browser.by("sk_wrong").get("/v1/me")).refused == (401, "unauthorized")


@pytest.mark.parametrize("cookie", ["", "x", "a" * 43, '"', "a=b; c", "soonish_signin", "\xff"])
async def test_a_cookie_that_says_nothing_signs_nobody_in(product: Site, cookie: str) -> None:
    for header in (cookie, f"{COOKIE}={cookie}"):
        assert (await product.anyone.get("/v1/me", Cookie=header)).refused == (401, "unauthorized")


@pytest.mark.parametrize(
    "other", ["a=1", 'prefs={"a":1}', "a b", "foo", "a=é\xff", "=", "", 'q="x', "$a=1", "a[b]=c,d"]
)
def test_a_cookie_is_found_among_others_however_they_are_written(other: str) -> None:
    for header in (f"{other}; soonish_signin=x; b=2", f"{other};soonish_signin=x", f"soonish_signin=x; {other}"):
        assert read_cookie(header, COOKIE) == "x", header


def test_a_cookie_of_another_name_is_not_taken_for_ours() -> None:
    for header in (
        "a=1; b=2",
        "my_soonish_signin=x",
        "soonish_signin2=x",
        "a=soonish_signin=x",
        "SOONISH_SIGNIN=x",
        None,
    ):
        assert read_cookie(header, COOKIE) is None


async def test_what_another_program_of_this_host_has_set_signs_nobody_out(product: Site) -> None:
    browser = await product.acme.browser("read")
    others = browser.by(None, cookie='prefs={"a":1}; a b; foo; ' + browser.headers["cookie"])
    assert (await others.get("/v1/me")).status == 200


async def test_a_change_by_cookie_needs_the_token_of_our_pages(product: Site) -> None:
    browser = await product.acme.browser()
    pause = {"kind": "shop.reminder"}
    for token in (None, "", "x", "é"):
        headers = {} if token is None else {"X_CSRF_Token": token}
        assert (await browser.post("/v1/ops/pauses", pause, **headers)).refused == (403, "csrf"), token
    token = await csrf(browser)
    for method, path, body in (
        ("POST", "/v1/ops/pauses", pause),
        ("PATCH", "/v1/workspace", {"name": "New"}),
        ("DELETE", "/v1/ops/pauses/shop.reminder", {}),
    ):
        assert (await browser.ask(method, path, body)).refused == (403, "csrf")
        assert (await browser.ask(method, path, body, X_CSRF_Token=token)).status < 300


async def test_the_token_of_one_sign_in_is_of_no_use_to_another(product: Site) -> None:
    mine, theirs = [await product.acme.browser() for _ in range(2)]
    answer = await mine.post("/v1/ops/pauses", {"kind": "a.b"}, X_CSRF_Token=await csrf(theirs))
    assert answer.refused == (403, "csrf")


async def test_a_role_too_low_is_told_before_a_missing_token(product: Site) -> None:
    browser = await product.acme.browser("read")
    assert (await browser.post("/v1/ops/pauses", {"kind": "a.b"})).refused == (403, "forbidden")


async def test_a_key_needs_no_token(shop: Site) -> None:
    assert (await shop.acme.write.post("/v1/things", THING)).status == 201


async def test_a_sign_in_and_a_key_of_one_workspace_have_idempotency_keys_of_their_own(product: Site) -> None:
    browser, pause = await product.acme.browser(), {"kind": "shop.reminder"}
    token = await csrf(browser)
    first = await product.acme.admin.post("/v1/ops/pauses", pause, Idempotency_Key="k")
    other = await browser.post("/v1/ops/pauses", pause, Idempotency_Key="k", X_CSRF_Token=token)
    assert ["idempotent-replay" in answer.headers for answer in (first, other)] == [False, False]
    again = await browser.post("/v1/ops/pauses", pause, Idempotency_Key="k", X_CSRF_Token=token)
    assert again.headers["idempotent-replay"] == "true"
