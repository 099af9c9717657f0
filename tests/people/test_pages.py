"""The pages of people by their forms: what is refused comes back with what was typed; who may only look is refused."""

from typing import Any
from urllib.parse import quote, urlencode

import pytest

from tests.people.test_addresses import added, person
from tests.support.http import Answer, Client
from tests.support.site import Site
from tests.web.test_auth import csrf


@pytest.fixture
async def browser(product: Site) -> Client:
    return await product.main.browser("write", accept="text/html")


async def send(browser: Client, path: str, **fields: Any) -> Answer:
    return await browser.form(path, urlencode({"csrf": await csrf(browser), **fields}))


async def fields_of(product: Site, path: str) -> dict[str, Any]:
    """What the form of a person or an address shows, as it is sent back."""
    found = (await product.main.read.get(path)).json
    return {name: found[name] for name in ("version", "timezone", "locale", "name", "label") if name in found}


async def test_a_person_is_added_and_shown(product: Site, browser: Client) -> None:
    answer = await send(browser, "/people", name=" Ben ", timezone="", email="ben@example.org", external_id="")
    assert answer.status == 303
    path = answer.headers["location"].partition("#")[0]
    page = await browser.get(path)
    assert (page.status, b"<h1>Ben</h1>" in page.body, b"no address" in page.body) == (200, True, True)
    [ben] = await product.main.read.every("/v1/people")
    assert (ben["name"], ben["timezone"], ben["external_id"]) == ("Ben", "UTC", None)


async def test_who_is_refused_comes_back_with_what_was_typed(product: Site, browser: Client) -> None:
    await send(browser, "/people", name="Ben", email="ben@example.org")
    taken = await send(browser, "/people", name="Benno", email="Ben@example.org")
    assert (taken.status, b'value="Benno"' in taken.body) == (409, True)
    assert b"Somebody has this mail address already" in taken.body
    wrong = await send(browser, "/people", name="", timezone="Mars/Base")
    assert (wrong.status, b"Mars/Base" in wrong.body) == (422, True)
    assert len(await product.main.read.every("/v1/people")) == 1


async def test_a_person_is_changed_unless_somebody_did_so_meanwhile(product: Site, browser: Client) -> None:
    path = f"/people/{await person(product.main)}"
    shown = await fields_of(product, f"/v1{path}")
    first = {"first_name": "Ben", "last_name": "Bo", "quiet_start": "22:00", "quiet_end": "07:00:00"}
    saved = await send(browser, path, **shown, **first, quiet_critical="hold", paused_until="2099-07-01T08:00")
    assert saved.status == 303
    after = (await product.main.read.get(f"/v1{path}")).json
    assert after["quiet_hours"] == {"start": "22:00", "end": "07:00", "critical": "hold"}
    assert (after["first_name"], after["paused_until"]) == ("Ben", "2099-07-01T08:00:00Z")
    stale = await send(browser, path, **{**shown, "name": "Old"})
    assert (stale.status, b'value="Old"' in stale.body) == (412, True)
    cleared = await send(browser, path, **await fields_of(product, f"/v1{path}"))
    assert cleared.status == 303
    after = (await product.main.read.get(f"/v1{path}")).json
    assert (after["quiet_hours"], after["first_name"], after["paused_until"]) == (None, None, None)


async def test_a_pause_keeps_its_seconds_when_something_else_is_saved(product: Site, browser: Client) -> None:
    path = f"/people/{await person(product.main)}"
    await product.main.write.patch(f"/v1{path}", {"paused_until": "2099-07-01T08:00:59Z"})
    shown = await fields_of(product, f"/v1{path}")
    assert (await send(browser, path, **shown, email="b@example.org", paused_until="2099-07-01T08:00")).status == 303
    after = (await product.main.read.get(f"/v1{path}")).json
    assert (after["email"], after["paused_until"]) == ("b@example.org", "2099-07-01T08:00:59Z")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"quiet_start": "22:00"}, b"Quiet hours need a start and an end"),
        ({"quiet_start": "22:00", "quiet_end": "22:00"}, b"Quiet hours end at another time"),
        ({"paused_until": "tomorrow"}, b"Write a date and a time"),
        ({"date_of_birth": "2199-01-01"}, b"This day has not come yet"),
        ({"first_name": "Ben"}, b"First and last name go together"),
    ],
)
async def test_what_a_person_cannot_be_stands_at_its_field(
    product: Site, browser: Client, fields: dict[str, str], said: bytes
) -> None:
    path = f"/people/{await person(product.main)}"
    answer = await send(browser, path, **await fields_of(product, f"/v1{path}"), **fields)
    assert (answer.status, said in answer.body) == (422, True)


async def test_an_address_is_added_changed_enabled_and_removed(product: Site, browser: Client) -> None:
    path = f"/people/{await person(product.main)}"
    target = {"kind": "apprise", "target": "json://push.example.org/secret-token"}
    assert (await send(browser, f"{path}/addresses", **target, label="phone", tags="Urgent, home")).status == 303
    [made] = await product.main.read.every(f"/v1{path}/addresses")
    assert (made["tags"], made["active"]) == (["urgent", "home"], True)
    at = f"{path}/addresses/{made['id']}"
    bad = await send(browser, f"{path}/addresses", kind="console", label="x", tags="no!")
    assert (bad.status, b"&#39;no!&#39; is no tag" in bad.body) == (422, True)
    clash = await send(browser, f"{path}/addresses", **target, label="other")
    assert (clash.status, b"The person has this address already" in clash.body) == (409, True)
    assert b"secret-token" not in (await browser.get(path)).body
    changed = await send(browser, at, version=1, label="mobile", tags="", active="true")
    assert changed.status == 303
    stale = await send(browser, at, version=1, label="late", tags="")
    assert (stale.status, b'value="late"' in stale.body) == (412, True)
    await product.main.run("UPDATE address SET health = 'disabled', disabled_reason = 'http_404'")
    page = await browser.get(path)
    assert (b"http 404" in page.body, b"cannot be reached" in page.body) == (True, True)
    assert (await send(browser, f"{at}/enable")).status == 303
    assert (await product.main.read.get(f"/v1/addresses/{made['id']}")).json["health"] == "ok"
    assert (await send(browser, f"{at}/remove")).status == 303
    assert await product.main.read.every(f"/v1{path}/addresses") == []


async def test_a_paste_says_what_became_of_each_row(product: Site, browser: Client) -> None:
    rows = 'name,email,date_of_birth,timezone\n"Silva, Ana",ana@example.org,1990-01-15,Europe/Lisbon\nBen,ben,,\n'
    answer = await send(browser, "/people/import", rows=rows)
    assert answer.status == 200
    assert b"1 created, 0 changed, 0 the same as before, 1 refused" in answer.body
    [ana] = await product.main.read.every("/v1/people")
    assert (ana["name"], ana["date_of_birth"], ana["timezone"]) == ("Silva, Ana", "1990-01-15", "Europe/Lisbon")
    wrong = await send(browser, "/people/import", rows="Ana,ana@example.org")
    assert (wrong.status, b"is no column" in wrong.body) == (422, True)


async def test_markup_in_a_name_is_text(product: Site, browser: Client) -> None:
    name = "<script>alert(1)</script>"
    made = await person(product.main, name)
    await added(product.main.write, made, label=name)
    for path in ("/people", f"/people/{made}", f"/people?q={quote('<b>')}"):
        page = await browser.get(path)
        assert (page.status, b"<script>alert" in page.body, b"<b>" in page.body) == (200, False, False)


async def test_who_may_only_read_sees_and_changes_nothing(product: Site) -> None:
    path = f"/people/{await person(product.main)}"
    reader = await product.main.browser("read", accept="text/html")
    assert [(await reader.get(one)).status for one in ("/people", path)] == [200, 200]
    assert (await reader.get("/people/import")).status == 403
    for one in ("/people", "/people/import", path, f"{path}/erase", f"{path}/addresses"):
        assert (await send(reader, one, name="x")).status == 403, one


async def test_people_of_another_workspace_have_no_page(product: Site, browser: Client) -> None:
    path = f"/people/{await person(product.acme)}"
    assert (await browser.get(path)).status == 404
    assert (await send(browser, f"{path}/erase")).status == 404
    assert (await send(browser, f"{path}/addresses", kind="console", label="x")).status == 404
    assert len(await product.acme.read.every("/v1/people")) == 1
