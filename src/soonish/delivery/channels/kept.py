"""Connections that outlive a try: one a target, opened once for all who need it at that moment, ended when idle.

A newer version of a target has a connection of its own; those who still use the old one finish with it. Knows no
protocol.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Generic, Protocol, TypeVar

from soonish.delivery.channel import Target
from soonish.errors import DeliveryFailed

IDLE: Final = 180.0  # seconds without use after which a connection ends


class Connection(Protocol):
    """What is kept. `close` raises nothing and comes to an end."""

    @property
    def is_open(self) -> bool: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Connection)


class _Place(Generic[C]):
    """Where the connection of one version of a target is, or is about to be."""

    def __init__(self, version: int, opening: "asyncio.Task[C]") -> None:
        self.version = version
        self.opening = opening
        self.users = 0
        self.rest: asyncio.TimerHandle | None = None

    @property
    def connection(self) -> C | None:
        """The connection, if it was made."""
        task = self.opening
        return task.result() if task.done() and not task.cancelled() and not task.exception() else None

    @property
    def is_good(self) -> bool:
        """Whether it is worth waiting for, or open."""
        return not self.opening.done() or (self.connection is not None and self.connection.is_open)


class Kept(Generic[C]):
    """The connections of one channel; `connect(target)` opens one, or raises for all who wait for it."""

    def __init__(self, connect: Callable[[Target], Awaitable[C]], idle: float = IDLE) -> None:
        self._connect = connect
        self._idle = idle
        self._places: dict[int, _Place[C]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(self, target: Target) -> AsyncIterator[C]:
        """The connection to a target. One that ends meanwhile is opened anew at the next use."""
        place = self._place(target)
        place.users += 1
        if place.rest:
            place.rest.cancel()
        try:
            # The attempt belongs to all who wait: whoever goes away does not end it.
            await asyncio.wait([place.opening])
            yield _opened(place.opening)
        finally:
            place.users -= 1
            self._leave(target.id, place)

    def distrust(self, connection: C) -> None:
        """Give this one to nobody any more; it ends when the last of its users has left."""
        for target_id, place in list(self._places.items()):
            if place.connection is connection:
                self._forget(target_id, place)

    async def close(self) -> None:
        """End all of them, used or not."""
        for target_id, place in list(self._places.items()):
            self._forget(target_id, place)
            self._end(place)
        await asyncio.gather(*self._ending)

    def _place(self, target: Target) -> _Place[C]:
        place = self._places.get(target.id)
        if place and place.version >= target.version and place.is_good:
            return place
        if place:
            self._forget(target.id, place)
        opening = asyncio.ensure_future(self._connect(target))
        place = self._places[target.id] = _Place(target.version, opening)
        return place

    def _leave(self, target_id: int, place: _Place[C]) -> None:
        if place.users:
            return
        if self._places.get(target_id) is place:
            if place.is_good:
                loop = asyncio.get_running_loop()
                place.rest = loop.call_later(self._idle, self._forget, target_id, place)
                return
            del self._places[target_id]
        self._end(place)

    def _forget(self, target_id: int, place: _Place[C]) -> None:
        if self._places.get(target_id) is place:
            del self._places[target_id]
        if not place.users:
            self._end(place)

    def _end(self, place: _Place[C]) -> None:
        if place.rest:
            place.rest.cancel()
        task = asyncio.create_task(_end(place.opening))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def _opened(opening: "asyncio.Task[C]") -> C:
    if opening.cancelled():
        raise DeliveryFailed("This process is about to end", permanent=False, code="closed")
    return opening.result()


async def _end(opening: "asyncio.Task[C]") -> None:
    opening.cancel()  # of no effect once it is open
    with suppress(Exception, asyncio.CancelledError):
        await (await opening).close()
