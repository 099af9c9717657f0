"""A stranger's first minute: start, sign in, use the key; and what a second start does."""

import asyncio
import stat
from collections.abc import Iterator

import aiohttp
import pytest

from tests.support.places import free_port
from tests.support.service import Service

COOKIE = "soonish_signin"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    fresh = Service()
    yield fresh.start()
    fresh.remove()


def test_a_fresh_start_says_where_everything_is(service: Service) -> None:
    assert list(service.printed) == ["database", "temporal", "api", "overdue", "sign in", "admin key", "ready"]
    assert service.printed["api"] == service.url
    assert service.printed["sign in"].startswith(f"{service.url}/login/")
    assert service.printed["admin key"].startswith("sk_")


def test_the_first_key_is_kept_for_the_owner_alone(service: Service) -> None:
    file = service.folder / "keys" / "admin-key"
    assert file.read_text().strip() == service.printed["admin key"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(service.folder.stat().st_mode) == 0o700


async def test_the_first_key_is_the_operator_s(service: Service) -> None:
    async with service.client() as soonish:
        me = await soonish.get("/v1/me")
    assert (me["role"], me["workspace"]["slug"]) == ("operator", "main")


async def test_the_link_signs_in_once_and_looking_at_it_costs_nothing(service: Service) -> None:
    link = service.printed["sign in"]
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        for _ in range(2):
            async with browser.get(link) as page:
                assert page.status == 200
        async with browser.post(link, allow_redirects=False) as signed_in:
            assert (signed_in.status, signed_in.headers["location"]) == (303, "/")
            assert COOKIE in signed_in.cookies
        async with browser.get(service.url + "/", headers={"accept": "text/html"}) as now:
            assert now.status == 200
    async with aiohttp.ClientSession() as stranger, stranger.post(link, allow_redirects=False) as again:
        assert again.status == 404
        assert COOKIE not in again.cookies


async def test_a_fresh_link_leads_to_where_the_service_was_told_to_listen(service: Service) -> None:
    told = await asyncio.to_thread(service.run, "sign-in", SOONISH_BIND="127.0.0.1:1")
    assert told.stdout.startswith(f"sign in {service.url}/login/")


async def test_whoever_may_run_commands_beside_the_database_gets_a_fresh_link_without_a_key(service: Service) -> None:
    told = await asyncio.to_thread(service.run, "sign-in", SOONISH_API_KEY="lost")
    assert (told.returncode, told.stderr) == (0, "")
    link = told.stdout.removeprefix("sign in ").strip()
    assert link.startswith(f"{service.url}/login/")
    async with aiohttp.ClientSession() as browser, browser.post(link, allow_redirects=False) as signed_in:
        assert (signed_in.status, COOKIE in signed_in.cookies) == (303, True)


def test_a_second_start_on_the_same_data_names_the_first(service: Service) -> None:
    second = service.run("up", SOONISH_BIND=f"127.0.0.1:{free_port()}")
    assert second.returncode == 3
    assert str(service.pid) in second.stderr
    assert service.url in second.stderr


def test_a_start_where_somebody_listens_makes_nothing(service: Service) -> None:
    other = Service()
    taken = other.run("up", SOONISH_BIND=f"127.0.0.1:{service.port}")
    assert taken.returncode == 4
    assert str(service.port) in taken.stderr
    assert not any((other.folder / "pg").iterdir())
    assert not any((other.folder / "keys").iterdir())
    other.remove()


def test_a_later_start_makes_no_second_key_and_a_fresh_link(service: Service) -> None:
    before = dict(service.printed)
    code, seconds = service.stop()
    assert code == 0
    assert seconds < 10
    service.start()
    assert "admin key" not in service.printed
    assert service.printed["sign in"] != before["sign in"]
    assert service.key == before["admin key"]
