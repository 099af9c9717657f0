"""What many ask at once is asked as one, and everybody gets their own answer."""

import asyncio
from collections.abc import Sequence

import pytest

from soonish.db.together import Together, TogetherBy


async def test_what_is_asked_in_one_turn_is_one_asking_and_what_comes_meanwhile_the_next() -> None:
    asked: list[list[int]] = []
    opened = asyncio.Event()

    async def double(numbers: Sequence[int]) -> list[int]:
        asked.append(list(numbers))
        await opened.wait()
        return [2 * number for number in numbers]

    together = Together(double)
    first = [asyncio.create_task(together.ask(n)) for n in (1, 2, 3)]
    while not asked:
        await asyncio.sleep(0)
    later = [asyncio.create_task(together.ask(n)) for n in (4, 5)]
    await asyncio.sleep(0)
    opened.set()
    assert await asyncio.gather(*first, *later) == [2, 4, 6, 8, 10]
    assert asked == [[1, 2, 3], [4, 5]]
    assert await together.ask(6) == 12


async def test_no_asking_is_longer_than_the_most() -> None:
    sizes: list[int] = []

    async def work(numbers: Sequence[int]) -> Sequence[int]:
        sizes.append(len(numbers))
        return numbers

    together = Together(work, most=2)
    assert await asyncio.gather(*(together.ask(n) for n in range(5))) == list(range(5))
    assert sizes == [2, 2, 1]


async def test_an_error_is_told_to_those_who_shared_it_and_who_went_away_harms_nobody() -> None:
    async def work(numbers: Sequence[int]) -> Sequence[int]:
        if 13 in numbers:
            raise LookupError("unlucky")
        return numbers

    together = Together(work)
    gone, bad, worse = (asyncio.create_task(together.ask(n)) for n in (1, 13, 2))
    await asyncio.sleep(0)
    gone.cancel()
    for task in (bad, worse):
        with pytest.raises(LookupError):
            await task
    assert await together.ask(7) == 7


async def test_what_is_asked_by_one_is_never_asked_together_with_what_is_asked_by_another() -> None:
    asked: list[tuple[int, list[str]]] = []

    async def work(by: int, names: Sequence[str]) -> list[str]:
        asked.append((by, list(names)))
        return [f"{by}/{name}" for name in names]

    together = TogetherBy(work)
    answers = await asyncio.gather(*(together.ask(by, name) for name in ("a", "b") for by in (1, 2)))
    assert sorted(asked) == [(1, ["a", "b"]), (2, ["a", "b"])]
    assert answers == ["1/a", "2/a", "1/b", "2/b"]
