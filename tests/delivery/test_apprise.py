"""Apprise in this process, against a real receiver: what a try comes to, and that nothing leaves past the guard."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from soonish.delivery.channel import Letter, Outcome, Target
from soonish.delivery.channels import apprise_wire
from soonish.delivery.channels.apprise import AppriseChannel
from soonish.delivery.egress import Guard
from soonish.due import drain
from tests.support.receiver import Receiver, Reply
from tests.support.site import Site, site

LOOPBACK = [ip_network("127.0.0.0/8")]
LETTER = Letter("dlv_" + "5f" * 16, "Doors open", "Hello Ben", level="warning", link="https://example.org/x")
Fate = tuple[str, bool, str, int | None]


def to(url: str) -> Target:
    return Target(1, 1, 1, url, {})


def fate(outcome: Outcome) -> Fate:
    return outcome.result, outcome.permanent, outcome.code, outcome.status


@pytest.fixture
async def channel() -> AsyncIterator[AppriseChannel]:
    channel = AppriseChannel(Guard(LOOPBACK), 4)
    yield channel
    await channel.close()


async def send(channel: AppriseChannel, receiver: Receiver, path: str = "in", letter: Letter = LETTER) -> Outcome:
    return await channel.send(to(f"json://127.0.0.1:{receiver.port}/{path}"), letter)


@pytest.mark.parametrize(("level", "type_"), [("info", "info"), ("warning", "warning"), ("critical", "failure")])
async def test_a_letter_arrives_with_the_type_of_its_level(channel: AppriseChannel, level: Any, type_: str) -> None:
    async with Receiver() as receiver:
        assert fate(await send(channel, receiver, letter=Letter("dlv_1", "Hi", "Text", level))) == (
            "sent",
            False,
            "ok",
            200,
        )
        told = json.loads(receiver.arrivals[0].body)
    assert (told["type"], told["title"], told["message"]) == (type_, "Hi", "Text")


async def test_the_link_stands_below_the_text(channel: AppriseChannel) -> None:
    async with Receiver() as receiver:
        await send(channel, receiver)
        assert json.loads(receiver.arrivals[0].body)["message"] == "Hello Ben\n\nhttps://example.org/x"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(400), ("failed", True, "http_400", 400)),
        (Reply(401), ("failed", True, "http_401", 401)),
        (Reply(403), ("failed", True, "http_403", 403)),
        (Reply(404), ("failed", True, "http_404", 404)),
        (Reply(410), ("failed", True, "http_410", 410)),
        (Reply(422), ("failed", False, "http_422", 422)),
        (Reply(500), ("failed", False, "http_500", 500)),
        (Reply(302, {"location": "http://127.0.0.1:9/"}), ("failed", False, "http_302", 302)),
        (Reply(way="cut"), ("unknown", False, "lost", None)),
        (Reply(way="garbage"), ("unknown", False, "lost", None)),
        (Reply(way="cut body"), ("sent", False, "ok", 200)),
        (Reply(way="huge"), ("sent", False, "ok", 200)),
    ],
)
async def test_what_a_try_comes_to_is_read_from_the_wire(channel: AppriseChannel, reply: Reply, expected: Fate) -> None:
    async with Receiver(reply) as receiver:
        assert fate(await send(channel, receiver)) == expected
        assert len(receiver.arrivals) == 1


async def test_a_receiver_can_ask_for_a_pause_and_say_why(channel: AppriseChannel) -> None:
    async with Receiver(Reply(429, {"retry-after": "3"}, b"too many for sesame-open")) as receiver:
        said = await send(channel, receiver, "sesame-open")
    assert (said.retry_after, said.answer) == (3.0, "too many for ***")


async def test_a_receiver_that_never_answers_leaves_doubt_and_no_thread() -> None:
    channel = AppriseChannel(Guard(LOOPBACK), 1, limit=2.0)
    async with Receiver(Reply(way="hang"), Reply(200)) as receiver:
        url = f"json://127.0.0.1:{receiver.port}/in?rto=1000&cto=1000"
        assert fate(await channel.send(to(url), LETTER)) == ("unknown", False, "timeout", None)
        channel._limit = 60.0
        assert fate(await channel.send(to(url), LETTER)) == ("sent", False, "ok", 200)
    await channel.close()


async def test_a_url_cannot_ask_for_repeats_nor_call_a_failure_none(channel: AppriseChannel) -> None:
    async with Receiver(500) as receiver:
        assert (await send(channel, receiver, "in?retry=5&wait=0&optional=yes")).code == "http_500"
        assert len(receiver.arrivals) == 1


async def test_several_parts_of_which_one_was_done_are_partly_sent(channel: AppriseChannel) -> None:
    async with Receiver(200, 500) as receiver:
        letter = Letter("dlv_1", "", "x" * 60_000)  # in two parts
        url = f"json://127.0.0.1:{receiver.port}/in?overflow=split"
        outcome = await channel.send(to(url), letter)
        assert len(receiver.arrivals) == 2
    assert fate(outcome) == ("partial", False, "partial", 500)


async def test_nobody_there_is_tried_again(channel: AppriseChannel) -> None:
    async with Receiver() as receiver:
        port = receiver.port
    assert fate(await channel.send(to(f"json://127.0.0.1:{port}/"), LETTER)) == ("failed", False, "no_connection", None)
    assert fate(await channel.send(to("json://nobody.invalid/"), LETTER)) == ("failed", False, "dns", None)


async def test_a_server_without_tls_gets_no_request(channel: AppriseChannel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apprise_wire, "_CONNECT", 0.5)
    async with Receiver() as receiver:
        said = await channel.send(to(f"jsons://127.0.0.1:{receiver.port}/"), LETTER)
        assert not receiver.arrivals
    assert fate(said) == ("failed", False, "no_connection", None)


async def test_a_url_that_no_service_takes_any_more_ends_for_good(channel: AppriseChannel) -> None:
    assert fate(await channel.send(to("discord://x"), LETTER)) == ("failed", True, "no_service", None)
    assert fate(await channel.send(to("syslog://"), LETTER))[:3] == ("failed", True, "apprise_scheme")


async def test_a_message_that_the_library_does_not_take_ends_for_good(channel: AppriseChannel) -> None:
    said = await channel.send(to("json://127.0.0.1:9/"), Letter("dlv_1", "", ""))
    assert fate(said) == ("failed", True, "bad_arguments", None)


async def test_sends_run_at_once_up_to_the_threads() -> None:
    channel = AppriseChannel(Guard(LOOPBACK), 2)
    async with Receiver(Reply(delay=0.2)) as receiver:
        sent = await asyncio.gather(*(send(channel, receiver) for _ in range(5)))
        assert [each.result for each in sent] == ["sent"] * 5
    await channel.close()


@pytest.mark.parametrize(
    ("replies", "codes", "end"),
    [((500, 200), ["http_500", "ok"], ("sent", None)), ((404, 200), ["http_404"], ("failed", "http_404"))],
)
async def test_a_delivery_follows_its_ladder_until_it_is_sent_or_refused_for_good(
    database_url: str, tmp_path: Path, replies: tuple[int, ...], codes: list[str], end: tuple[str, str | None]
) -> None:
    settings = {"egress_allow": "127.0.0.0/8", "ladder_people": "0,1ms,1ms"}
    async with site(database_url, tmp_path, **settings) as product, Receiver(*replies) as receiver:
        ask, kinds = product.acme.admin, product.process.kinds.values() if product.process else ()
        ben = (await ask.post("/v1/people", {"name": "Ben"})).json["id"]
        target = f"json://127.0.0.1:{receiver.port}/sesame-open"
        made = await ask.post(f"/v1/people/{ben}/addresses", {"kind": "apprise", "label": "phone", "target": target})
        assert (made.status, made.json["target_hint"]) == (201, "json://***")
        await ask.post("/v1/messages", {"to": {"person_ids": [ben]}, "title": "Doors", "body": "b", "level": "warning"})
        while len(receiver.arrivals) < len(codes):
            await drain(product.db.loops, kinds)
        await drain(product.db.loops, kinds)
        (delivery,) = (await ask.get("/v1/deliveries")).json["items"]
        told = (await ask.get(f"/v1/deliveries/{delivery['id']}")).json
    assert [attempt["code"] for attempt in told["attempts"]] == codes
    assert (told["state"], told["reason"]) == end
    assert {json.loads(each.body)["type"] for each in receiver.arrivals} == {"warning"}
    assert "sesame" not in json.dumps(told) + json.dumps(made.json)


async def test_the_kinds_of_addresses_tell_the_schemes_with_a_sample_each(product: Site) -> None:
    kinds = {each["kind"]: each for each in (await product.acme.read.get("/v1/address-kinds")).json["items"]}
    schemes = {each["scheme"]: each for each in kinds["apprise"]["schemes"]}
    assert schemes["ntfys"]["sample"].startswith("ntfys://")
    assert "mailto" not in schemes


async def test_a_url_that_must_not_be_dialled_is_not_stored(product: Site) -> None:
    ben = (await product.acme.admin.post("/v1/people", {"name": "Ben"})).json["id"]
    path = f"/v1/people/{ben}/addresses"
    refusals = {
        "json://10.0.0.1/": "egress_refused",
        "syslog://": "apprise_scheme",
        "discord://x": "apprise_url",
        "json://example.org/?verify=no": "apprise_parameter",
    }
    for target, code in refusals.items():
        answer = await product.acme.admin.post(path, {"kind": "apprise", "label": "phone", "target": target})
        assert (answer.status, answer.fields) == (422, {"target": code}), target


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "[::1]", "0177.0.0.1"]
)
async def test_no_spelling_of_this_machine_is_dialled(host: str) -> None:
    channel = AppriseChannel(Guard(), 1)
    async with Receiver() as receiver:
        said = await channel.send(to(f"json://{host}:{receiver.port}/in"), LETTER)
        assert not receiver.connections
    assert said.permanent
    assert said.code in ("egress_refused", "no_service")  # where the library itself takes it for no host
    await channel.close()


async def test_a_name_is_refused_for_any_of_its_addresses_without_telling_them() -> None:
    channel = AppriseChannel(Guard(resolve=lambda _host, _port: ["8.8.8.8", "127.0.0.1"]), 1)
    async with Receiver() as receiver:
        said = await channel.send(to(f"json://push.example.org:{receiver.port}/in"), LETTER)
        assert not receiver.connections
    assert fate(said) == ("failed", True, "egress_refused", None)
    assert "SOONISH_EGRESS_ALLOW" in said.answer
    assert "127.0.0.1" not in said.answer
    await channel.close()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("tgram://123456789:abcdefg_hijklmnop/12315544/", "api.telegram.org"),
        ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", "discord.com"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#nuxref", "hooks.slack.com"),
        ("pover://ABCDEFGHIJKLMNOPQRSTUVWXYZABCD@ABCDEFGHIJKLMNOPQRSTUVWXYZABCD", "api.pushover.net"),
        ("ntfy://a-topic", "ntfy.sh"),
        ("matrix://user:word@matrix.example.org/#room", "matrix.example.org"),
        ("gotifys://push.example.org/abcdefghijklmno", "push.example.org"),
        ("bluesky://user@abcd-efgh-ijkl-mnop", "public.api.bsky.app"),
        (
            "ses://user@example.org/AHIAJGNT76XIMXDBIJYA/bu1dHSdO22pfaaVy/us-east-2/a@example.org",
            "email.us-east-2.amazonaws.com",
        ),
        ("mmosts://mattermost.example.org/3ccdd113474722377935511fc85d3dd4", "mattermost.example.org"),
    ],
)
async def test_services_of_every_make_ask_the_guard_for_their_host(url: str, host: str) -> None:
    asked: list[str] = []

    def resolve(name: str, _port: int) -> list[str]:
        asked.append(name)
        return ["10.0.0.1"]

    channel = AppriseChannel(Guard(resolve=resolve), 1)
    assert fate(await channel.send(to(url), LETTER)) == ("failed", True, "egress_refused", None)
    assert asked[0] == host
    await channel.close()


async def test_closing_ends_what_hangs() -> None:
    channel = AppriseChannel(Guard(LOOPBACK), 1)
    async with Receiver(Reply(way="hang")) as receiver:
        sending = asyncio.create_task(send(channel, receiver, "in?rto=1000"))
        await receiver.wait()
        await channel.close()
        assert fate(await sending) == ("unknown", False, "lost", None)


async def test_a_name_that_leads_elsewhere_at_the_second_look_is_dialled_where_it_was_judged() -> None:
    asked: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    channel = AppriseChannel(Guard(LOOPBACK, resolve=resolve), 1)
    async with Receiver() as receiver:
        url = f"json://push.example.org:{receiver.port}/in"
        assert (await channel.send(to(url), LETTER)).result == "sent"
        assert receiver.arrivals[0].headers["host"] == f"push.example.org:{receiver.port}"
        assert fate(await channel.send(to(url), LETTER)) == ("failed", True, "egress_refused", None)
    await channel.close()


async def test_neither_proxies_nor_a_netrc_of_the_environment_are_used(
    channel: AppriseChannel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with Receiver() as receiver, Receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await send(channel, receiver)).result == "sent"
        assert not proxy.connections
        assert "authorization" not in receiver.arrivals[0].headers


async def test_a_raw_socket_reaches_only_addresses_that_may_be_dialled() -> None:
    channel = AppriseChannel(Guard(), 1, frozenset({"rsyslog", "irc"}))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        sink.setblocking(False)
        port = sink.getsockname()[1]
        for url in (f"rsyslog://127.0.0.1:{port}", f"rsyslog://localhost:{port}", f"irc://127.0.0.1:{port}/#a"):
            assert fate(await channel.send(to(url), LETTER)) == ("failed", True, "egress_refused", None)
        with pytest.raises(BlockingIOError):
            sink.recv(1)
        opened = AppriseChannel(Guard(LOOPBACK), 1, frozenset({"rsyslog"}))
        assert (await opened.send(to(f"rsyslog://127.0.0.1:{port}"), LETTER)).result == "sent"
        assert b"Hello Ben" in sink.recv(2000)
    await channel.close()
    await opened.close()
