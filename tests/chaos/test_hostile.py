"""Hostile targets and hostile answers: nothing private is reached, and nothing that is answered costs much."""

import asyncio
import resource
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

from soonish import clock
from soonish.delivery.channel import Outcome, Parcel, Target
from soonish.delivery.channels.webhook import Webhook
from soonish.delivery.egress import Guard
from tests.support import targets
from tests.support.receiver import Receiver, Reply

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
AT_ONCE = 200
ROUNDS = 5
# What a sender may grow by while so many answers flood in: a few buffers for each.
ALLOWANCE = 150 * 1024 * 1024


@asynccontextmanager
async def channel(guard: Guard, timeout: float = 5.0) -> AsyncIterator[Webhook]:
    one = Webhook(guard, "1.2.3", timeout)
    try:
        yield one
    finally:
        await one.close()


async def send(webhook: Webhook, url: str, number: int = 1) -> Outcome:
    parcel = Parcel(f"dlv_{number:032x}", 1, "custom.x", "x", b"{}", clock.utc_now(), "main")
    return await webhook.send(Target(number, 1, 1, url, {}, (b"s" * 32,)), parcel)


async def test_no_target_of_the_table_is_reached_in_any_way(say: Callable[..., None]) -> None:
    guard = Guard(plain_http=True, resolve=targets.answers)
    refused: Counter[str] = Counter()
    async with Receiver() as v4, Receiver(host="::1") as v6, channel(guard) as webhook:
        for number, target in enumerate(targets.REFUSED):
            for port in (v4.port, v6.port):
                for url in {target, target.replace("https:", "http:", 1)}:
                    outcome = await send(webhook, url.replace("{port}", str(port)), number)
                    assert (outcome.result, outcome.permanent) == ("failed", True), url
                    refused[outcome.code] += 1
    say(targets=len(targets.REFUSED), connections=v4.connections + v6.connections, **refused)
    assert (v4.connections, v6.connections) == (0, 0)


async def test_no_redirect_of_the_table_is_followed(say: Callable[..., None]) -> None:
    guard = Guard([ip_network("127.0.0.3/32")], plain_http=True, resolve=targets.answers)
    followed = 0
    async with Receiver() as inner, Receiver(host="127.0.0.3") as outer, guard.session() as session:
        for target in targets.LOOPBACK + targets.PRIVATE:
            location = target.replace("{port}", str(inner.port)).replace("https:", "http:", 1)
            if not location.isascii() or any(one in location for one in "\t\r\n"):
                continue  # no header can carry it
            outer.answer(Reply(302, {"location": location}))
            try:
                async with guard.fetch(session, outer.url):
                    followed += 1
            except Exception as error:
                assert getattr(error, "permanent", False), (location, error)
    say(redirects=len(outer.arrivals), followed=followed, connections=inner.connections)
    assert (followed, inner.connections) == (0, 0)


async def test_with_the_setting_the_same_receiver_is_reached(say: Callable[..., None]) -> None:
    reached = 0
    async with Receiver() as receiver, channel(Guard(LOOPBACK, plain_http=True, resolve=targets.answers)) as webhook:
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "loopback.example", "mapped.example", "localhost"):
            reached += (await send(webhook, f"http://{host}:{receiver.port}/", reached)).result == "sent"
    say(reached=reached, arrivals=len(receiver.arrivals))
    assert reached == len(receiver.arrivals) == 5


async def test_floods_drips_and_lies_cost_little_and_hold_up_no_neighbour(say: Callable[..., None]) -> None:
    bad: list[Any] = ["huge", "drip", "hang", "cut", "garbage", "cut body"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    results: Counter[str] = Counter()
    replies = [Reply(way=bad[n % 6]) for n in range(AT_ONCE * ROUNDS)]
    async with Receiver(*replies) as awful, Receiver() as good, channel(Guard(LOOPBACK), timeout=2.0) as webhook:
        for _ in range(ROUNDS):
            sending = [asyncio.create_task(send(webhook, awful.url, n)) for n in range(AT_ONCE)]
            await awful.wait(1)
            assert (await send(webhook, good.url)).result == "sent"
            results.update(one.result for one in await asyncio.gather(*sending))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    say(tries=AT_ONCE * ROUNDS, **results, grown_mb=grown // 2**20, left_open=awful.open)
    assert results.keys() == {"sent", "unknown"}
    assert len(awful.arrivals) == AT_ONCE * ROUNDS
    assert grown < ALLOWANCE
