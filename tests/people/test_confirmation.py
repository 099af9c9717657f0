"""The owner of a mailbox agrees to be written to, by a link and a button."""

import pytest

from soonish.errors import TooMany
from soonish.people.actions.confirmation import begin_confirmation, confirmation_url
from soonish.people.actions.hooks import People
from soonish.people.actions.retention import sweeps
from soonish.vault import Hmac
from tests.people.test_addresses import add, added, person
from tests.support.http import Client
from tests.support.site import House, Site


def handed(site: Site) -> People:
    people: People = site.app.state.people
    return people


async def mail(house: House, label: str = "mail", target: str = "ben@example.org") -> int:
    """A mail address that waits for its owner, to whom a first mail went."""
    return int((await added(house.write, await person(house), kind="email", label=label, target=target))["id"])


async def link(site: Site, house: House, address_id: int) -> str:
    """The path of the link in a confirmation mail."""
    async with house.db.transaction(house.id) as tx:
        token_id = await begin_confirmation(tx, address_id)
    url = confirmation_url(await handed(site).hmac(), "https://soonish.example.org/", house.id, token_id)
    return url.removeprefix("https://soonish.example.org")


async def health(client: Client, address_id: int) -> str:
    return str((await client.get(f"/v1/addresses/{address_id}")).json["health"])


async def test_looking_confirms_nothing_and_the_button_does_as_often_as_it_is_pressed(mailing: Site) -> None:
    address_id = await mail(mailing.acme)
    path, read = await link(mailing, mailing.acme, address_id), mailing.acme.read
    for _ in range(2):
        page = await mailing.anyone.get(path, accept="text/html")
        assert (page.status, b"b***@example.org" in page.body, b"Acme" in page.body) == (200, True, True)
        assert await health(read, address_id) == "unverified"
    for _ in range(2):
        done = await mailing.anyone.form(path, accept="text/html")
        assert (done.status, b"ben@example.org" in done.body) == (200, False)
        after = (await read.get(f"/v1/addresses/{address_id}")).json
        assert (after["health"], after["version"], after["verified_at"] is not None) == ("ok", 2, True)
    assert (await mailing.anyone.get(path, accept="text/html")).status == 200
    lines = await mailing.acme.admin.every(f"/v1/ops/audit?entity=address/{address_id}")
    assert [(line["verb"], line["actor"]) for line in lines] == [("confirm", "mail"), ("add", lines[1]["actor"])]


async def test_unknown_expired_and_outlived_links_look_the_same(mailing: Site) -> None:
    main = mailing.main
    expired = await link(mailing, main, await mail(main, target="a@example.org"))
    await main.run("UPDATE address_token SET expires_at = now()")
    retargeted_id = await mail(main, target="b@example.org")
    retargeted = await link(mailing, main, retargeted_id)
    await main.write.patch(f"/v1/addresses/{retargeted_id}", {"target": "c@example.org"})
    removed_id = await mail(main, target="d@example.org")
    removed = await link(mailing, main, removed_id)
    await main.write.delete(f"/v1/addresses/{removed_id}")
    foreign = "/p/confirm/" + Hmac(b"x" * 32).token("confirm", 1, 1)
    other = "/p/confirm/" + (await handed(mailing).hmac()).token("other", 1, 1)
    for path in (expired, retargeted, removed, foreign, other, "/p/confirm/nonsense"):
        for answer in (await mailing.anyone.get(path), await mailing.anyone.form(path)):
            assert answer.refused == (404, "not_found"), path
            assert answer.json["detail"].startswith("This link is not valid or has expired")
    assert await health(main.read, retargeted_id) == "unverified"


async def test_a_link_of_a_closed_workspace_leads_nowhere(mailing: Site) -> None:
    path = await link(mailing, mailing.acme, await mail(mailing.acme))
    assert (await mailing.main.admin.post(f"/v1/workspaces/{mailing.acme.id}/close")).status == 200
    assert (await mailing.anyone.form(path)).refused == (404, "not_found")


async def test_three_mails_a_day_go_to_a_mailbox_however_often_it_is_added(mailing: Site) -> None:
    main = mailing.main
    address_id = await mail(main)
    await link(mailing, main, address_id)
    await main.write.delete(f"/v1/addresses/{address_id}")
    address_id = await mail(main, target="BEN@example.org")
    with pytest.raises(TooMany) as caught:
        await link(mailing, main, address_id)
    assert 86_000 < caught.value.retry_after <= 86_400
    again = await add(main.write, await person(main, "Ana"), kind="email", label="mail", target="ben@example.org")
    assert (again.refused, "retry-after" in again.headers) == ((429, "rate_limited"), True)
    await link(mailing, main, await mail(main, target="other@example.org"))
    await link(mailing, mailing.acme, await mail(mailing.acme))
    await main.run("UPDATE address_token SET created_at = created_at - interval '1 day'")
    await link(mailing, main, address_id)


async def test_a_link_is_the_same_whenever_it_is_made_and_is_stored_nowhere(mailing: Site) -> None:
    hmac = await handed(mailing).hmac()
    urls = {confirmation_url(hmac, "https://soonish.example.org", 1, 7) for _ in range(2)}
    assert len(urls) == 1
    address_id = await mail(mailing.main)
    path = await link(mailing, mailing.main, address_id)
    rows = await mailing.main.rows("SELECT t::text AS text FROM address_token t")
    assert [row for row in rows if path.rpartition("/")[2] in row["text"]] == []


async def test_old_links_are_swept(mailing: Site) -> None:
    for target in ("a@example.org", "b@example.org"):
        await mail(mailing.main, target=target)
    await mailing.main.run("UPDATE address_token SET expires_at = now() - interval '2 days' WHERE id = 1")
    [(name, sweep)] = sweeps()
    async with mailing.db.transaction(1) as tx:
        assert (name, await sweep(tx, 100)) == ("address_token", 1)
    assert len(await mailing.main.rows("SELECT FROM address_token")) == 1
