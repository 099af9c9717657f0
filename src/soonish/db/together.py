"""Ask together: what many tasks ask one by one at about the same time goes to the database as one statement.

Tasks that begin in one turn of the event loop share the first asking; what is asked while one is under way shares the
next. Knows nothing of what is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Generic, TypeVar

B = TypeVar("B", bound=Hashable)
K = TypeVar("K")
V = TypeVar("V")

MOST = 1_000


class Together(Generic[K, V]):
    """`work` takes questions and answers them, in their order."""

    def __init__(self, work: Callable[[Sequence[K]], Awaitable[Sequence[V]]], most: int = MOST) -> None:
        self._work = work
        self._most = most
        self._asked: list[tuple[K, asyncio.Future[V]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, what: K) -> V:
        """The answer to one question; raises what the asking raised."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V] = loop.create_future()
        self._asked.append((what, answer))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        await asyncio.sleep(0)
        while self._asked:
            asked, self._asked = self._asked[: self._most], self._asked[self._most :]
            try:
                answers = await self._work([what for what, _ in asked])
            except Exception as error:
                _tell(asked, error)
            else:
                for (_, answer), value in zip(asked, answers, strict=True):
                    if not answer.done():  # who asked may have gone
                        answer.set_result(value)


class TogetherBy(Generic[B, K, V]):
    """The same, apart for each `by`: what is asked in one workspace is never answered with what is asked in another."""

    def __init__(self, work: Callable[[B, Sequence[K]], Awaitable[Sequence[V]]]) -> None:
        self._work = work
        self._asking: dict[B, Together[K, V]] = {}

    async def ask(self, by: B, what: K) -> V:
        """The answer to one question."""
        asking = self._asking.get(by)
        if asking is None:
            asking = self._asking[by] = Together(partial(self._work, by))
        return await asking.ask(what)


def _tell(asked: Sequence[tuple[K, "asyncio.Future[V]"]], error: Exception) -> None:
    for _, answer in asked:
        if not answer.done():
            answer.set_exception(error)
