"""Slots of rates are shared by all processes and given in order; places are few, and who finds none stands aside."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from soonish.db.pool import Database
from soonish.delivery.send.reserve import LONGEST, Places, Rate, Rates
from tests.support.ledger import Ledger


@asynccontextmanager
async def entered(places: Places, caps: Sequence[tuple[str, int]]) -> AsyncIterator[float]:
    """Hold a place under each name while the block runs; yields the seconds to stand aside where there is none."""
    taken = places.take(caps) or await places.wait(caps)
    if isinstance(taken, float):
        yield taken
        return
    try:
        yield 0.0
    finally:
        taken.leave()


async def wait(rates: Rates, wanted: Sequence[Rate]) -> float:
    [seconds] = await rates.waits([wanted])
    return seconds


async def test_after_a_burst_slots_are_as_far_apart_as_the_rate_says(db: Database) -> None:
    found = await Rates(db).waits([[Rate("host/a", 2.0, 3)]] * 8)
    assert found == pytest.approx([0.0] * 3 + [0.5, 1.0, 1.5, 2.0, 2.5], abs=0.001)


async def test_those_who_ask_together_have_slots_of_their_own(db: Database) -> None:
    rates, one = Rates(db), [Rate("host/a", 0.01, 3)]
    found = sorted(await asyncio.gather(*(wait(rates, one) for _ in range(6))))
    assert found[:3] == [0.0] * 3
    assert all(b - a > 50 for a, b in pairwise(found[2:]))


async def test_two_processes_share_a_rate(db: Database) -> None:
    first, second, one = Rates(db), Rates(db), [Rate("workspace/1", 0.01, 1)]
    assert await wait(first, one) == 0.0
    assert await wait(second, one) > 50


async def test_of_several_rates_the_one_that_lets_it_go_last_counts(db: Database) -> None:
    rates = Rates(db)
    slow, fast = Rate("address/1", 0.01, 1), Rate("host/a", 100.0, 100)
    assert await wait(rates, [slow, fast]) == 0.0
    assert await wait(rates, [slow, fast]) > 50
    assert await wait(rates, [fast]) == 0.0
    assert await wait(rates, []) == 0.0


async def test_a_place_that_is_free_is_taken_and_no_more_than_there_are() -> None:
    places, inside, most = Places(), 0, 0

    async def go() -> float:
        nonlocal inside, most
        async with entered(places, [("host/a", 8)]) as aside:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            return aside

    assert set(await asyncio.gather(*(go() for _ in range(40)))) == {0.0}, (
        "their turn is near: they wait where they are"
    )
    assert most <= 8


async def test_whoever_would_wait_for_long_stands_aside_behind_those_who_do_already() -> None:
    places = Places()
    async with entered(places, [("endpoint/1", 1)]):
        places._gates["endpoint/1"].latency = 10.0  # a try takes ten seconds, as far as is known
        found = []
        for _ in range(6):
            async with entered(places, [("endpoint/1", 1)]) as aside:
                found.append(aside)
    assert all(0 < a <= b for a, b in pairwise(found))
    assert found[-1] == LONGEST
    async with entered(places, [("endpoint/1", 1)]) as aside:
        assert aside == 0.0


async def test_whoever_finds_no_room_in_the_second_gate_leaves_the_first_one_free() -> None:
    places = Places()
    async with entered(places, [("workspace/1", 1)]):
        places._gates["workspace/1"].latency = 10.0
        async with entered(places, [("host/a", 1), ("workspace/1", 1)]) as aside:
            assert aside > 0
        async with entered(places, [("host/a", 1)]) as aside:
            assert aside == 0.0


async def test_one_who_gives_up_in_line_keeps_nobody_from_their_turn() -> None:
    places = Places()

    async def go(inside: asyncio.Event) -> None:
        async with entered(places, [("host/a", 1)]):
            inside.set()

    async with entered(places, [("host/a", 1)]):
        tired, next_ = asyncio.Event(), asyncio.Event()
        first, second = asyncio.create_task(go(tired)), asyncio.create_task(go(next_))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
    async with asyncio.timeout(5):
        await next_.wait()
        await second
    assert not tired.is_set()
    assert places._gates == {}


async def test_rates_are_of_no_workspace(db: Database) -> None:
    ledger = await Ledger.of(db)
    await wait(Rates(db), [Rate("host/a", 1.0, 1)])
    assert [row["name"] for row in await ledger.rows("SELECT name FROM rate_slot")] == ["host/a"]
