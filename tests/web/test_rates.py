"""How often one may ask: a key, an address, an address with wrong tokens. Who waits learns for how long."""

import asyncio
from ipaddress import ip_network
from pathlib import Path

import pytest

from soonish.web import rates
from soonish.web.front import Rules
from soonish.web.rates import Rate
from tests.support.http import Answer, Client
from tests.support.site import Site
from tests.support.things import things

PROXY = "127.0.0.0/8, 10.0.0.0/8"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_and_then_as_fast_as_it_fills() -> None:
    clock = Clock()
    rate = Rate(0.5, 3, clock)
    assert [rate.take("a") for _ in range(4)] == [0, 0, 0, 2]
    clock.now += 1.9
    assert rate.take("a") == 1
    clock.now += 0.1
    assert [rate.take("a"), rate.take("a")] == [0, 2]
    clock.now += 1000
    assert [rate.take("a") for _ in range(4)] == [0, 0, 0, 2], "it never holds more than the burst"


def test_one_name_does_not_wait_for_another_and_looking_takes_nothing() -> None:
    rate = Rate(1, 1, Clock())
    assert [rate.take("a"), rate.take("b"), rate.take("a")] == [0, 0, 1]
    assert [rate.wait("c"), rate.wait("c"), rate.take("c"), rate.wait("c")] == [0, 0, 0, 1]


def test_who_was_not_seen_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST_NAMES", 2)
    rate = Rate(1, 1, Clock())
    assert [rate.take(name) for name in ("a", "b", "b", "c", "b", "a")] == [0, 0, 1, 0, 1, 0]


async def codes(client: Client, path: str, count: int, **headers: str) -> list[int]:
    return [(await client.get(path, **headers)).status for _ in range(count)]


async def test_each_key_has_its_own_rate_and_learns_when_to_ask_again(database_url: str, tmp_path: Path) -> None:
    async with things(database_url, tmp_path, rate_api="0.001") as shop:
        assert await codes(shop.acme.read, "/v1/things", 1) == [200]
        answer = await shop.acme.read.get("/v1/things")
        assert answer.refused == (429, "rate_limited")
        assert 900 < int(answer.headers["retry-after"]) <= 1000
        assert await codes(shop.acme.write, "/v1/things", 1) == [200]


async def test_without_the_setting_a_key_may_ask_as_often_as_it_likes(shop: Site) -> None:
    assert set(await codes(shop.acme.read, "/v1/things", 100)) == {200}


async def test_public_pages_are_thirty_a_minute_for_each_address(shop: Site) -> None:
    clock = asyncio.get_running_loop().time
    began, good = clock(), 0
    while (answer := await shop.anyone.get("/p/thing/good")).status == 200:
        good += 1
    assert 30 <= good <= 30 + (clock() - began) / 2
    assert (answer.refused, answer.headers["retry-after"]) in [((429, "rate_limited"), wait) for wait in "12"]
    posted, since = await shop.anyone.form("/p/thing/good"), clock() - began
    assert posted.refused == (429, "rate_limited") or since > 2 * (good - 29), "pages and forms count together"
    assert (await shop.anyone.get("/healthz")).status == 404, "of another path nobody counts"
    assert await codes(shop.acme.read, "/v1/things", 2) == [200, 200]


async def test_the_way_in_is_a_public_page(product: Site) -> None:
    token = "a" * 43
    assert set(await codes(product.anyone, f"/login/{token}", 20)) == {404}
    assert (await product.anyone.form(f"/login/{token}")).status == 429


async def test_wrong_tokens_are_twenty_an_hour_and_then_good_ones_do_not_help(shop: Site) -> None:
    assert set(await codes(shop.anyone, "/p/thing/wrong", 20)) == {404}
    answer = await shop.anyone.get("/p/thing/good")
    assert answer.refused == (429, "rate_limited")
    assert 0 < int(answer.headers["retry-after"]) <= 180


async def forwarded(client: Client, hops: str) -> Answer:
    return await client.get("/p/thing/wrong", X_Forwarded_For=hops)


async def test_behind_a_trusted_proxy_the_last_hop_that_is_none_counts(database_url: str, tmp_path: Path) -> None:
    async with things(database_url, tmp_path, trusted_proxies=PROXY) as shop:
        for number in range(20):  # whatever a client writes before what the proxy has seen, it stays one address
            assert (await forwarded(shop.anyone, f"198.51.100.{number}, 203.0.113.7, 10.1.2.3")).status == 404
        assert (await forwarded(shop.anyone, "203.0.113.7")).status == 429
        assert (await forwarded(shop.anyone, "203.0.113.7, 203.0.113.8")).status == 404
        assert (await forwarded(shop.anyone, "203.0.113.7, nonsense")).status == 404


async def test_hops_on_several_lines_are_one_list(database_url: str, tmp_path: Path) -> None:
    async with things(database_url, tmp_path, trusted_proxies=PROXY) as shop:
        for number in range(21):
            lines = ("203.0.113.7", "10.1.2.3") if number % 2 else (f"198.51.100.{number}, 203.0.113.7", "10.1.2.3")
            heads = [f"x-forwarded-for: {line}" for line in lines]
            answer = await shop.anyone.raw("GET /p/thing/wrong", *heads)
            assert answer.startswith(b"HTTP/1.1 429" if number == 20 else b"HTTP/1.1 404")


def test_a_proxy_is_trusted_by_its_ipv4_address_however_the_socket_calls_it() -> None:
    rules = Rules(trusted_proxies=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")))
    trusted = ("10.0.0.1", "::ffff:10.0.0.1", "fd00::1")
    strange = ("11.0.0.1", "::ffff:11.0.0.1", "fe80::1", "::10.0.0.1", "local", "")
    assert [one for one in (*trusted, *strange) if rules.trusts(one)] == list(trusted)


async def test_without_a_trusted_proxy_nobody_chooses_an_address(shop: Site) -> None:
    answers = [await forwarded(shop.anyone, f"203.0.113.{number}") for number in range(21)]
    assert [answer.status for answer in answers] == [404] * 20 + [429]
