"""Forms of pages: what was typed comes back with what is wrong with it; public pages act by POST alone."""

from urllib.parse import quote

import pytest

from soonish.web.routes import within
from tests.support.http import Answer, Client
from tests.support.site import Site
from tests.web.test_auth import csrf


@pytest.fixture
async def browser(shop: Site) -> Client:
    return await shop.acme.browser("write", accept="text/html")


async def token_of(shop: Site, browser: Client) -> str:
    caller = await shop.app.state.parts.find_caller("sign_in", browser.headers["cookie"].partition("=")[2], "x")
    return str(caller.csrf)


async def send(shop: Site, browser: Client, body: str, **headers: str) -> Answer:
    return await browser.form("/things", f"csrf={await token_of(shop, browser)}&{body}", **headers)


async def test_a_form_changes_something_and_leads_to_the_page_that_shows_it(shop: Site, browser: Client) -> None:
    answer = await send(shop, browser, "name=%20B%C3%A4r%20&note=one%0D%0Atwo&tags=a&tags=b&active=on")
    assert (answer.status, answer.body) == (303, b"")
    assert answer.headers["location"].startswith("/things?made=")
    [row] = await shop.acme.rows("SELECT name, note FROM thing")
    assert tuple(row) == ("Bär", "one\ntwo"), "a browser ends its lines in its own way"
    assert answer.headers["set-cookie"].startswith("soonish_toast=")


async def test_a_form_that_is_refused_comes_back_with_what_was_typed(shop: Site, browser: Client) -> None:
    answer = await send(shop, browser, "name=" + "x" * 21)
    assert answer.status == 422
    assert b"xxxxxxxxxxxxxxxxxxxxx" in answer.body
    assert b"At most 20 characters" in answer.body
    taken = await send(shop, browser, "name=taken")
    assert (taken.status, b"taken" in taken.body) == (409, True)
    assert await shop.acme.rows("SELECT FROM thing") == []


async def test_what_was_typed_is_shown_as_text_and_never_as_markup(shop: Site, browser: Client) -> None:
    answer = await send(shop, browser, "name=" + quote("<script>alert(1)</script>"))
    assert (answer.status, b"<script>alert" in answer.body) == (422, False)


async def test_a_form_without_its_token_is_refused_as_a_page(shop: Site, browser: Client) -> None:
    for body in ("name=a", "csrf=&name=a", "csrf=x&name=a"):
        answer = await browser.form("/things", body)
        assert (answer.status, answer.headers["content-type"]) == (403, "text/html; charset=utf-8")
    by_script = await browser.form("/things", "name=a", X_CSRF_Token=await token_of(shop, browser))
    assert by_script.status == 303


async def test_a_form_is_a_form_and_not_too_large(shop: Site, browser: Client) -> None:
    token = await token_of(shop, browser)
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/json"):
        answer = await browser.form("/things", "name=a", content_type=kind, X_CSRF_Token=token)
        assert answer.status == 415, kind
    assert (await browser.form("/things", f"csrf={token}&name=" + "x" * 1024 * 1024)).status == 413
    assert (await send(shop, browser, "&".join(f"tags={n}" for n in range(1001)))).status == 422
    assert (await send(shop, browser, "name=%ff")).status == 422


async def test_a_page_for_who_is_not_signed_in_says_how_to(shop: Site) -> None:
    answer = await shop.anyone.get("/things", accept="text/html")
    assert (answer.status, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert (await shop.anyone.get("/things")).refused == (401, "unauthorized"), "a program gets a problem"


async def test_a_public_page_acts_by_post_and_looking_changes_nothing(shop: Site) -> None:
    assert (await shop.anyone.get("/p/thing/good", accept="text/html")).status == 200
    assert (await shop.anyone.form("/p/thing/good")).status == 303
    assert (await shop.anyone.form("/p/thing/wrong")).refused == (404, "not_found")


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 303), ("none", 303)]
)
async def test_a_public_form_is_sent_from_our_own_page(shop: Site, site: str, status: int) -> None:
    assert (await shop.anyone.form("/p/thing/good", Sec_Fetch_Site=site)).status == status


async def test_nobody_is_led_elsewhere_by_a_way_back(product: Site) -> None:
    for back in ("//evil.example", "/\\evil.example", "https://evil.example", "/\r\nset-cookie: x=y", "javascript:x"):
        answer = await product.anyone.form("/theme", f"theme=dark&back={quote(back)}")
        assert (answer.status, answer.headers["location"]) == (303, "/"), back
    assert within("/due?kind=a.b") == "/due?kind=a.b"


async def test_a_secret_is_taken_as_it_is_but_for_what_cannot_be_stored(shop: Site, browser: Client) -> None:
    assert (await send(shop, browser, "name=a&secret=%20%01%0A%20")).status == 303
    assert (await send(shop, browser, "name=a&secret=%00")).status == 422


async def test_the_settings_page_takes_its_token_from_the_cookie_it_belongs_to(product: Site) -> None:
    browser = await product.acme.browser()
    answer = await browser.form(
        "/settings/links", f"csrf={await csrf(browser)}&role=read&minutes=5", accept="text/html"
    )
    assert (answer.status, answer.headers["cache-control"]) == (201, "no-store")
