"""Who is woken, when and by whom; and what makes up for a ring that nobody heard."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from soonish.errors import TooMany, Unavailable
from soonish.web import hub as module
from soonish.web.auth import FindEnded, Secret
from soonish.web.hub import Heads, Hub
from tests.support.things import until

KEY: Secret = ("key", "sk_a")


async def nobody(_secrets: Sequence[Secret]) -> Sequence[Secret]:
    return ()


@asynccontextmanager
async def running(find_ended: FindEnded = nobody, heads: Heads | None = None, **more: float) -> AsyncIterator[Hub]:
    hub = Hub(
        find_ended, heads, look_every=0.01, check_every=more.get("check_every", 0.02), most=int(more.get("most", 1000))
    )
    await hub.start()
    try:
        yield hub
    finally:
        await hub.stop()


async def test_a_ring_wakes_those_who_follow_that_stream() -> None:
    hub = Hub(nobody)
    async with hub.following(["1:a"], KEY) as first, hub.following(["1:b", "0:b"], KEY) as second:
        first.take(), second.take()
        hub.ring("0:b")
        assert (await first.wait(0), await second.wait(0)) == (False, True)
        assert (first.take(), second.take()) == (set(), {"0:b"})


async def test_who_begins_to_follow_has_not_looked_yet() -> None:
    async with Hub(nobody).following(["1:a"], KEY) as follower:
        assert follower.take() == {"1:a"}
        assert follower.take() == set()


async def test_a_ring_before_the_wait_is_not_lost() -> None:
    hub = Hub(nobody)
    async with hub.following(["1:a"], KEY) as follower:
        follower.take()
        hub.ring("1:a")
        assert await follower.wait(0)


async def test_after_a_lost_connection_everybody_looks() -> None:
    hub = Hub(nobody)
    async with hub.following(["1:a"], KEY) as first, hub.following(["2:b"], KEY) as second:
        first.take(), second.take()
        hub.ring_all()
        assert (first.take(), second.take()) == ({"1:a"}, {"2:b"})


async def test_what_rang_since_a_mark_is_known_and_all_where_the_mark_is_not() -> None:
    hub = Hub(nobody)
    hub.ring("1:a")
    mark = hub.mark
    hub.ring("1:b")
    assert hub.changed_since(mark, ["1:a", "1:b"]) == {"1:b"}
    for unknown in ("", "x", "other:1", mark + "x", mark.partition(":")[0] + ":-1", Hub(nobody).mark):
        assert hub.changed_since(unknown, ["1:a", "1:b"]) == {"1:a", "1:b"}
    hub.ring_all()
    assert hub.changed_since(mark, ["1:a"]) == {"1:a"}, "rings may have been missed"


async def test_more_streams_than_are_remembered_count_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 2)
    hub = Hub(nobody)
    mark = hub.mark
    for stream in ("1:a", "1:b", "1:c"):
        hub.ring(stream)
    assert hub.changed_since(mark, ["1:a", "1:d"]) == {"1:a", "1:d"}


async def test_a_stream_that_moved_without_a_ring_is_found_by_the_look_and_the_others_sleep() -> None:
    numbers = {"1:a": 1, "1:b": 1, "2:not followed": 1}

    async def heads() -> dict[str, int]:
        return numbers

    async with running(heads=heads) as hub, hub.following(["1:a"], KEY) as first, hub.following(["1:b"], KEY) as second:
        await until(lambda: first.changed and second.changed)
        await asyncio.sleep(0.03)  # the first look finds every stream moved, the next ones none
        first.take(), second.take()
        numbers["1:a"] = 2
        assert await first.wait(5)
        assert not await second.wait(0.05)


async def test_nobody_follows_and_nobody_looks() -> None:
    looks = 0

    async def heads() -> dict[str, int]:
        nonlocal looks
        looks += 1
        return {}

    async with running(heads=heads) as hub:
        await asyncio.sleep(0.05)
        assert looks == 0
        async with hub.following(["1:a"], KEY):
            await until(lambda: looks > 0)


async def test_a_secret_that_ended_ends_its_followers_alone() -> None:
    async def find_ended(_secrets: Sequence[Secret]) -> Sequence[Secret]:
        return [KEY]

    async with (
        running(find_ended) as hub,
        hub.following(["1:a"], KEY) as first,
        hub.following(["1:a"], KEY) as second,
        hub.following(["1:a"], ("key", "sk_b")) as third,
    ):
        await until(lambda: first.ended and second.ended)
        assert not third.ended
        assert await first.wait(0), "and who waits is woken"


async def test_while_nobody_can_be_asked_nobody_ends_and_the_next_look_asks_again() -> None:
    asked = 0

    async def find_ended(secrets: Sequence[Secret]) -> Sequence[Secret]:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise Unavailable
        return secrets

    async with running(find_ended) as hub, hub.following(["1:a"], KEY) as follower:
        hub._check_every = 10  # asked again long before that
        hub._checked[KEY] -= 10
        await until(lambda: follower.ended)
        assert asked == 3


async def test_no_error_ends_the_looking() -> None:
    failures = 0

    async def heads() -> dict[str, int]:
        nonlocal failures
        failures += 1
        if failures < 3:
            raise ZeroDivisionError
        return {"1:a": failures}

    async with running(heads=heads) as hub, hub.following(["1:a"], KEY):
        await until(lambda: failures > 5)


async def test_a_hub_that_is_full_or_ends_takes_nobody_in() -> None:
    async with running(most=1) as hub:
        async with hub.following(["1:a"], KEY) as follower:
            with pytest.raises(TooMany) as refused:
                async with hub.following(["1:b"], KEY):
                    pass
            assert (refused.value.code, refused.value.retry_after) == ("too_many_streams", 5)
            hub.end()
            assert follower.ended
        with pytest.raises(TooMany):
            async with hub.following(["1:a"], KEY):
                pass
