"""Hear NOTIFY on one connection, and find out when that connection is dead.

A Listener keeps one connection for ever: it LISTENs, probes, and reconnects after 0.1 s doubling to 5 s. What was
notified while it was deaf is lost; so after each reconnect it LISTENs first and then calls `on_reconnect`, where
one looks. Knows asyncpg alone: no pools, no metrics (read `reconnects` and `up`), no meaning of a channel.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import asyncpg

_log = logging.getLogger(__name__)

Callback = Callable[[str], None]


class Listener:
    """LISTEN on the channels of `on`, from `start` to `stop` (or as an async context manager).

    `connect` gives a connection: `Database.connect`, or a pool's `acquire` together with its `release`.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        release: Callable[[Any], Awaitable[None]] | None = None,
        *,
        probe_every: float = 10.0,
        probe_timeout: float = 5.0,
        first_wait: float = 0.1,
        longest_wait: float = 5.0,
    ) -> None:
        self.reconnects = 0
        self._connect = connect
        self._release = release
        self._probe_every = probe_every
        self._probe_timeout = probe_timeout
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._callbacks: dict[str, list[Callback]] = {}
        self._reconnect_callbacks: list[Callable[[], None]] = []
        self._tried = asyncio.Event()
        self._hearing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        """Whether it hears, as far as is known; a half-open connection is found by the next probe."""
        return self._hearing.is_set()

    def on(self, channel: str, callback: Callback) -> Callable[[], None]:
        """Call `callback(payload)` for each NOTIFY; answers a function that ends this. New channels before `start`."""
        if self._task and channel not in self._callbacks:
            raise RuntimeError(f"Name the channel {channel!r} before the listener starts")
        return _add(self._callbacks.setdefault(channel, []), callback)

    def on_reconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback()` whenever it hears again after it was deaf: look now for what was missed."""
        return _add(self._reconnect_callbacks, callback)

    async def start(self) -> None:
        """Begin; returns when it hears, or when the first attempt failed and the next ones go on by themselves."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="listener")
        await self._tried.wait()

    async def stop(self) -> None:
        """End, and give the connection back."""
        if self._task is not None:
            await cancelled(self._task)
            self._task = None
            self._tried.clear()

    async def wait_up(self) -> None:
        """Return as soon as it hears; at once if it does."""
        await self._hearing.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        wait = self._first_wait
        while True:
            began = clock()
            try:
                await self._hear()
                _log.warning("bell.lost error=closed")
            except Exception as error:  # no error may end this loop: nobody would hear the bell again
                _log.warning("bell.lost error=%s", type(error).__name__)
            finally:
                self._hearing.clear()
            self._tried.set()
            if clock() - began > self._longest_wait:  # it had lived, so this is no series of refusals
                wait = self._first_wait
            await asyncio.sleep(wait)
            wait = min(wait * 2, self._longest_wait)

    async def _hear(self) -> None:
        """Connect, LISTEN, say so, and watch until the connection is found dead."""
        lost = asyncio.Event()
        async with self._connection() as con:
            con.add_termination_listener(lambda _: lost.set())
            async with asyncio.timeout(self._probe_timeout):
                for channel in self._callbacks:
                    await con.add_listener(channel, self._heard)
            self._now_hearing()
            while not await _within(lost, self._probe_every):
                async with asyncio.timeout(self._probe_timeout):
                    await con.execute("SELECT 1")

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        async with asyncio.timeout(self._probe_timeout):
            con = await self._connect()
        try:
            yield con
        finally:
            # Cut it, also at a stop: a connection that still LISTENs must not serve anybody else,
            # and one that is half-open would not answer a polite goodbye.
            with suppress(asyncpg.InterfaceError):
                con.terminate()
            if self._release is not None:
                await self._release(con)

    def _now_hearing(self) -> None:
        first = not self._tried.is_set()
        self._hearing.set()
        self._tried.set()
        if first:
            return
        self.reconnects += 1
        _log.info("bell.back reconnects=%d", self.reconnects)
        for callback in tuple(self._reconnect_callbacks):
            _call(callback)

    def _heard(self, _con: Any, _pid: int, channel: str, payload: str) -> None:
        for callback in tuple(self._callbacks[channel]):
            _call(callback, payload)


async def cancelled(*tasks: asyncio.Task[None], patience: float = 1.0) -> None:
    """End tasks for good: one may lose a cancellation while it gives back a connection that does not answer."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=patience)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def _add(callbacks: list[Any], callback: Any) -> Callable[[], None]:
    callbacks.append(callback)

    def end() -> None:
        with suppress(ValueError):
            callbacks.remove(callback)

    return end


def _call(callback: Callable[..., None], *args: str) -> None:
    try:
        callback(*args)
    except Exception:
        _log.exception("bell.callback_failed")
