"""What a user names is dialled after its address was judged, or not at all."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address, ip_network

import aiohttp
import pytest
from yarl import URL

from soonish.delivery import egress
from soonish.delivery.egress import EgressRefused, Guard
from soonish.delivery.model import networks
from soonish.errors import DeliveryFailed, Invalid
from soonish.settings import Settings
from tests.support import targets
from tests.support.places import free_port
from tests.support.receiver import Receiver, Reply

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
NAMED = ("loopback", "mapped", "mixed", "nat64", "scoped", "spelled", "metadata", "localhost", "LOCALHOST", "ⓛocalhost")


def named(url: str) -> bool:
    return any(f"//{name}" in url for name in NAMED)


# --- before it is stored ----------------------------------------------------------------------------------------------


def test_the_table_is_long_enough() -> None:
    assert len(set(targets.REFUSED)) == len(targets.REFUSED) >= 60


@pytest.mark.parametrize("url", [url for url in targets.REFUSED if not named(url)])
def test_what_is_not_public_is_not_stored(url: str) -> None:
    with pytest.raises(Invalid) as refusal:
        Guard().check_url(url.replace("{port}", "9000"))
    assert refusal.value.code in ("egress_refused", "pattern")
    assert (refusal.value.code == "pattern") != ("SOONISH_EGRESS_ALLOW" in refusal.value.message)


@pytest.mark.parametrize("url", targets.PUBLIC)
def test_what_is_public_is_stored(url: str) -> None:
    Guard().check_url(url)


@pytest.mark.parametrize("url", [url for url in targets.REFUSED if named(url)])
def test_a_name_is_stored_and_judged_when_it_is_dialled(url: str) -> None:
    Guard().check_url(url.replace("{port}", "9000"))


@pytest.mark.parametrize("port", [22, 25, 1023, 8080])
def test_an_opened_range_is_open_at_every_port(port: int) -> None:
    Guard(LOOPBACK).check_url(f"https://127.0.0.1:{port}/")
    Guard(LOOPBACK).check_url(f"https://[::1]:{port}/")


def test_a_range_that_is_opened_opens_no_other() -> None:
    with pytest.raises(Invalid):
        Guard(LOOPBACK).check_url("https://10.0.0.1/")
    with pytest.raises(Invalid):
        Guard([ip_network("::/0")]).check_url("https://[::ffff:10.0.0.1]/")


def test_what_opens_an_address_opens_its_other_forms() -> None:
    for host in ("[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"):
        Guard(LOOPBACK).check_url(f"https://{host}:22/")


def test_other_protocols_have_their_schemes_and_ports() -> None:
    guard = Guard()
    guard.check_url("amqps://ben:secret@mq.example.org/vhost", schemes=("amqp", "amqps"))
    guard.check_url("ntfys://push.example.org/ben", schemes=("ntfys",), default_port=443)
    for url, scheme in [
        ("amqp://127.0.0.1/", "amqp"),
        ("amqp://mq.example.org:79/", "amqp"),
        ("https://a.example/", "amqp"),
    ]:
        with pytest.raises(Invalid):
            guard.check_url(url, schemes=(scheme,))
    with pytest.raises(Invalid):
        guard.check_url("smtp://mail.example.org", schemes=("smtp",), default_port=25)


@pytest.mark.parametrize(
    ("guard", "url", "good"),
    [
        (Guard(), "http://93.184.215.14/", False),
        (Guard(), "http://example.org/", False),
        (Guard(plain_http=True), "http://example.org/", True),
        (Guard(LOOPBACK), "http://127.0.0.1/", True),
        (Guard(LOOPBACK), "http://93.184.215.14/", False),
        (Guard(LOOPBACK), "http://localhost/", False),
        (Guard(plain_http=True), "http://127.0.0.1/", False),
    ],
)
def test_a_target_without_tls_needs_the_operators_word(guard: Guard, url: str, good: bool) -> None:
    refusal = contextlib.nullcontext() if good else pytest.raises(Invalid, match="SOONISH_EGRESS_ALLOW")
    with refusal:
        guard.check_url(url, plain=False)


def test_the_settings_of_the_operator_count() -> None:
    settings = Settings.read({"SOONISH_EGRESS_ALLOW": "127.0.0.0/8,::1/128", "SOONISH_EGRESS_PLAIN_HTTP": "1"})
    Guard.of(settings).check_url("https://127.0.0.1:22/")
    Guard.of(settings).check_url("http://example.org/", plain=False)
    with pytest.raises(Invalid):
        Guard.of(Settings.read({})).check_url("https://127.0.0.1/")


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [network for network in networks.CLOSED if network != ip_network("2002::/16")])
def test_each_closed_range_is_closed_from_its_first_address_to_its_last(network: networks.Network) -> None:
    for address in (network[0], network[-1]):
        assert networks.closed(address)
        assert networks.opened(address, [network])


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "10.1.2.3", "169.254.169.254", "::", "::1", "fc00::1", "64:ff9b::a00:1", "64:ff9b:1::808:808",
     "2002:a00:1::", "2002:808:808::", "1fff::1", "4000::1"],
)  # fmt: skip
def test_an_address_that_is_not_public_is_closed(address: str) -> None:
    assert networks.closed(ip_address(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "11.0.0.1", "2001:4860:4860::8888", "64:ff9b::808:808", "2000::", "3ffe::1"]
)
def test_an_address_that_is_public_is_not(address: str) -> None:
    assert not networks.closed(ip_address(address))


# --- when it is dialled -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(targets.ANSWERS))
async def test_one_answer_that_is_refused_refuses_all(name: str) -> None:
    guard = Guard(resolve=targets.answers)
    for ask in (guard.resolve, asked_in_a_thread(guard)):
        with pytest.raises(EgressRefused) as refusal:
            await ask(name, 443)
        assert (refusal.value.permanent, refusal.value.code) == (True, "egress_refused")
        assert "SOONISH_EGRESS_ALLOW" in refusal.value.message
        assert not [one for one in targets.ANSWERS[name] if one in refusal.value.message]


def asked_in_a_thread(guard: Guard) -> Callable[[str, int], Awaitable[object]]:
    async def ask(host: str, port: int) -> object:
        return await asyncio.to_thread(guard.resolve_sync, host, port)

    return ask


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "::ffff:127.0.0.1", "fe80::1%lo", "a b", ""]
)
async def test_a_host_that_is_no_public_one_is_not_even_looked_up(host: str) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.215.14"]

    guard = Guard(resolve=resolve)
    with pytest.raises(EgressRefused):
        await guard.resolve(host, 443)
    with pytest.raises(EgressRefused):
        guard.resolve_sync(host, 443)
    assert asked == []


async def test_answers_come_as_a_socket_takes_them() -> None:
    both = ["93.184.215.14", "2606:2800:21f::1"]
    wanted = [(socket.AF_INET, ("93.184.215.14", 443)), (socket.AF_INET6, ("2606:2800:21f::1", 443, 0, 0))]
    guard = Guard(resolve=lambda host, port: both)
    assert await guard.resolve("example.org", 443) == wanted
    assert guard.resolve_sync("example.org", 443) == wanted
    assert await guard.resolve("93.184.215.14", 443) == wanted[:1]


async def test_a_port_of_a_name_is_judged_with_its_address() -> None:
    guard = Guard(LOOPBACK, resolve=targets.answers)
    assert await guard.resolve("loopback.example", 22)
    with pytest.raises(EgressRefused):
        await guard.resolve("public.example", 22)


@pytest.mark.parametrize("error", [socket.gaierror("no such name"), UnicodeError("label too long"), None])
async def test_a_name_that_is_none_may_be_one_later(error: Exception | None) -> None:
    def resolve(host: str, port: int) -> list[str]:
        if error:
            raise error
        return []

    guard = Guard(resolve=resolve)
    for ask in (guard.resolve, asked_in_a_thread(guard)):
        with pytest.raises(DeliveryFailed) as failure:
            await ask("gone.example", 443)
        assert (failure.value.code, failure.value.permanent) == ("dns", False)


async def test_a_name_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress, "LOOKUP", 0.1)
    answered = threading.Event()

    def resolve(host: str, port: int) -> list[str]:
        answered.wait()
        return ["93.184.215.14"]

    guard = Guard(resolve=resolve)
    try:
        for ask in (guard.resolve, asked_in_a_thread(guard)):
            with pytest.raises(DeliveryFailed) as failure:
                await ask("slow.example", 443)
            assert failure.value.code == "dns"
    finally:
        answered.set()


async def test_the_system_is_asked_where_nobody_else_is() -> None:
    with pytest.raises(EgressRefused):
        await Guard().resolve("localhost", 443)
    assert {one.place[0] for one in await Guard(LOOPBACK).resolve("localhost", 443)} <= {"127.0.0.1", "::1"}


# --- the connector of aiohttp -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "loopback.example", "mixed.example", "127.1"])
async def test_a_session_reaches_nothing_private(host: str) -> None:
    async with Receiver() as receiver, Guard(resolve=targets.answers).session() as session:
        with pytest.raises((EgressRefused, aiohttp.InvalidURL)):
            await session.get(f"http://{host}:{receiver.port}/")
    assert receiver.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "loopback.example"])
async def test_with_the_setting_it_does(host: str) -> None:
    async with Receiver() as receiver, Guard(LOOPBACK, resolve=targets.answers).session() as session:
        assert (await session.get(f"http://{host}:{receiver.port}/")).status == 200
    wanted = URL(f"http://{host}:{receiver.port}").host_port_subcomponent
    assert [one.headers["host"] for one in receiver.arrivals] == [wanted]


async def test_a_redirect_of_the_clients_own_is_judged_too() -> None:
    guard = Guard([ip_network("127.0.0.1/32")])
    async with Receiver(host="127.0.0.2") as inner, Receiver() as outer, guard.session() as session:
        outer.answer(Reply(302, {"location": inner.url}))
        with pytest.raises(EgressRefused):
            await session.get(outer.url)
    assert (outer.connections, inner.connections) == (1, 0)


async def test_a_second_answer_of_the_name_server_leads_nowhere() -> None:
    """What was judged is what is dialled: nobody asks again between the two."""
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    guard = Guard([ip_network("127.0.0.1/32")], resolve=rebinding)
    async with Receiver() as good, guard.session() as session:
        await session.get(f"http://rebind.example:{good.port}/")
    assert (asked, good.connections) == (["rebind.example"], 1)


# --- redirects that are followed --------------------------------------------------------------------------------------


async def test_three_redirects_are_followed_and_no_fourth() -> None:
    guard = Guard(LOOPBACK)
    hop = Reply(302, {"location": "/next"})
    async with Receiver(hop, hop, hop, Reply(200, body=b"there")) as receiver, guard.session() as session:
        assert await fetched(guard, session, receiver.url) == b"there"
        receiver.arrivals.clear()
        receiver.answer(hop)
        with pytest.raises(DeliveryFailed) as failure:
            await fetched(guard, session, receiver.url)
    assert (failure.value.code, len(receiver.arrivals)) == ("redirects", 4)


@pytest.mark.parametrize(
    "location", ["http://127.0.0.2:{port}/in", "http://127.2:{port}/in", "file:///etc/passwd", "http://[bad"]
)
async def test_each_redirect_is_judged(location: str) -> None:
    guard = Guard([ip_network("127.0.0.1/32")])
    async with Receiver(host="127.0.0.2") as inner, Receiver() as outer, guard.session() as session:
        outer.answer(Reply(307, {"location": location.format(port=inner.port)}))
        with pytest.raises(DeliveryFailed) as failure:
            await fetched(guard, session, outer.url)
    assert (failure.value.permanent, inner.connections) == (True, 0)


async def test_credentials_stay_with_their_origin() -> None:
    guard = Guard(LOOPBACK)
    given = {"Authorization": "Bearer secret", "X-Api-Key": "secret", "Accept": "text/calendar"}
    async with Receiver() as other, Receiver() as first, guard.session() as session:
        first.answer(Reply(302, {"location": "/same"}), Reply(302, {"location": other.url}))
        await fetched(guard, session, first.url, given)
    assert [[one.headers.get(name) for name in given] for one in (*first.arrivals, *other.arrivals)] == [
        ["Bearer secret", "secret", "text/calendar"],
        ["Bearer secret", "secret", "text/calendar"],
        [None, None, "text/calendar"],
    ]


async def fetched(
    guard: Guard, session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] = egress.NO_HEADERS
) -> bytes:
    async with guard.fetch(session, url, headers) as response:
        return await response.read()


# --- a socket, a relay ------------------------------------------------------------------------------------------------


async def test_a_relay_leads_to_the_one_target_and_ends_with_its_block() -> None:
    async with Receiver(Reply(200, body=b"hello")) as receiver:
        async with Guard(LOOPBACK, resolve=targets.answers).relay("loopback.example", receiver.port) as (host, port):
            assert host == "127.0.0.1"
            async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/") as response:
                assert await response.read() == b"hello"
        with pytest.raises(OSError):
            await asyncio.open_connection(host, port)


async def test_a_relay_carries_much_in_both_directions_and_tells_its_ends() -> None:
    async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        writer.write_eof()

    much = bytes(range(256)) * 20_000
    server = await asyncio.start_server(mirror, "127.0.0.1", 0)
    async with server, Guard(LOOPBACK).relay("127.0.0.1", server.sockets[0].getsockname()[1]) as door:
        reader, writer = await asyncio.open_connection(*door)
        writer.write(much)
        writer.write_eof()
        assert await reader.read() == much


@pytest.mark.parametrize("host", ["127.0.0.1", "mixed.example", "127.1"])
async def test_a_relay_to_what_is_private_does_not_open(host: str) -> None:
    async with Receiver() as receiver:
        with pytest.raises(EgressRefused):
            async with Guard(resolve=targets.answers).relay(host, receiver.port):
                pass
        with pytest.raises(EgressRefused):
            await Guard(resolve=targets.answers).connect(host, receiver.port)
    assert receiver.connections == 0


async def test_a_relay_to_nobody_closes_what_comes() -> None:
    async with Guard(LOOPBACK).relay("127.0.0.1", free_port()) as door:
        reader, _ = await asyncio.open_connection(*door)
        assert await reader.read() == b""


async def test_the_end_of_a_relay_ends_what_it_carries() -> None:
    async with Receiver(Reply(way="hang")) as receiver:
        async with Guard(LOOPBACK).relay("127.0.0.1", receiver.port) as door:
            reader, writer = await asyncio.open_connection(*door)
            writer.write(b"POST / HTTP/1.1\r\n\r\n")
            await receiver.wait()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""


async def test_a_relay_carries_so_many_connections_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress, "RELAYED", 1)
    async with Receiver() as receiver, Guard(LOOPBACK).relay("127.0.0.1", receiver.port) as door:
        first, writer = await asyncio.open_connection(*door)
        writer.write(b"GET /1 HTTP/1.1\r\n\r\n")
        await first.readuntil(b"\r\n\r\n")
        second, _ = await asyncio.open_connection(*door)
        assert await second.read() == b""


async def test_the_first_address_that_answers_is_taken() -> None:
    async with Receiver() as receiver:
        guard = Guard(LOOPBACK, resolve=lambda host, port: ["127.0.0.9", "127.0.0.1"])
        with await guard.connect("two.example", receiver.port) as sock:
            assert sock.getpeername() == ("127.0.0.1", receiver.port)
