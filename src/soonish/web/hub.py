"""Who follows what, in this process: one LISTEN wakes them all, and one look every 5 s makes up for a lost ring.

A stream has a name, `<workspace>:<topic>`. Knows that something changed, never what; who writes it to a client, and
how, stands in sse.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from soonish import telemetry
from soonish.db.listen import Listener
from soonish.errors import SoonishError, TooMany
from soonish.web.auth import FindEnded, Secret

_log = logging.getLogger(__name__)

CHANNEL: Final = "soonish_live"
LOOK_EVERY: Final = 5.0  # seconds between safety looks
CHECK_EVERY: Final = 45.0  # seconds after which a secret is asked for again, so that one that ended ends its streams
MOST_REMEMBERED: Final = 10_000  # streams whose last ring is known

Heads = Callable[[], Awaitable[Mapping[str, int]]]


class Follower:
    """One client that follows some streams."""

    def __init__(self, streams: Sequence[str], secret: Secret) -> None:
        self.streams = tuple(streams)
        self.secret = secret
        self.changed: set[str] = set(streams)  # it has not looked yet
        self.ended = False
        self._woken = asyncio.Event()

    def wake(self, stream: str) -> None:
        self.changed.add(stream)
        self._woken.set()

    def end(self) -> None:
        self.ended = True
        self._woken.set()

    def take(self) -> set[str]:
        """What changed since the last time; to be called before one looks."""
        self._woken.clear()
        changed, self.changed = self.changed, set()
        return changed

    async def wait(self, seconds: float) -> bool:
        """Until something changed or it ended; False when the time is over first."""
        if self.ended:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        return self._woken.is_set()


class Hub:
    """All followers of this process."""

    def __init__(
        self,
        find_ended: FindEnded,
        heads: Heads | None = None,
        most: int = 1000,
        look_every: float = LOOK_EVERY,
        check_every: float = CHECK_EVERY,
    ) -> None:
        self._find_ended = find_ended
        self._heads = heads
        self._most = most
        self._look_every = look_every
        self._check_every = check_every
        self._followers: dict[str, set[Follower]] = {}
        self._all: set[Follower] = set()
        self._checked: dict[Secret, float] = {}
        self._seen: dict[str, int] = {}
        self._boot = secrets.token_hex(4)
        self._count = 0  # of rings
        self._rung: dict[str, int] = {}  # the number of a stream's last ring
        self._forgotten = 0  # rings up to this number may be missing in _rung
        self._ending = False
        self._task: asyncio.Task[None] | None = None

    def listen(self, listener: Listener) -> None:
        """Hear the rings of all processes; to be called before the listener starts."""
        listener.on(CHANNEL, self.ring)
        listener.on_reconnect(self.ring_all)

    def ring(self, stream: str) -> None:
        """Wake those who follow this stream."""
        self._count += 1
        self._rung[stream] = self._count
        if len(self._rung) > MOST_REMEMBERED:
            self._rung.clear()
            self._forgotten = self._count
        for follower in self._followers.get(stream, ()):
            follower.wake(stream)

    def ring_all(self) -> None:
        """Wake everybody: rings may have been missed."""
        self._count += 1
        self._forgotten = self._count
        for stream, followers in self._followers.items():
            for follower in followers:
                follower.wake(stream)

    @property
    def mark(self) -> str:
        """This moment, for `changed_since`."""
        return f"{self._boot}:{self._count}"

    def changed_since(self, mark: str, streams: Sequence[str]) -> set[str]:
        """Which of the streams rang after that moment; all, if it is not known here."""
        boot, _, number = mark.partition(":")
        if boot != self._boot or not number.isdecimal() or int(number) < self._forgotten:
            return set(streams)
        return {stream for stream in streams if self._rung.get(stream, 0) > int(number)}

    @asynccontextmanager
    async def following(self, streams: Sequence[str], secret: Secret) -> AsyncIterator[Follower]:
        """Follow these streams for as long as the block lasts."""
        if self._ending or len(self._all) >= self._most:
            raise TooMany("Too many streams are open here; try again in 5 s", 5, code="too_many_streams")
        follower = Follower(streams, secret)
        self._add(follower)
        try:
            yield follower
        finally:
            self._remove(follower)

    def end(self) -> None:
        """End all streams; new ones are refused. For the end of the process."""
        self._ending = True
        for follower in tuple(self._all):
            follower.end()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="live")

    async def stop(self) -> None:
        self.end()
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _add(self, follower: Follower) -> None:
        self._all.add(follower)
        self._checked.setdefault(follower.secret, asyncio.get_running_loop().time())
        for stream in follower.streams:
            self._followers.setdefault(stream, set()).add(follower)
        telemetry.sse_streams.inc()

    def _remove(self, follower: Follower) -> None:
        self._all.discard(follower)
        for stream in follower.streams:
            self._followers[stream].discard(follower)
            if not self._followers[stream]:
                del self._followers[stream]
        telemetry.sse_streams.dec()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._look_every)
            try:
                if self._all:
                    await self._look()
                    await self._check_secrets()
            except SoonishError as error:
                _log.info("live.look_failed code=%s", error.code)
            except Exception:
                _log.exception("live.look_failed")

    async def _look(self) -> None:
        """Ring for each stream that moved since the last look, whether or not a ring was heard."""
        if self._heads is None:
            return
        heads = await self._heads()
        for stream in tuple(self._followers):
            if stream in heads and heads[stream] != self._seen.get(stream):
                self.ring(stream)
        self._seen = {stream: heads[stream] for stream in self._followers if stream in heads}

    async def _check_secrets(self) -> None:
        now = asyncio.get_running_loop().time()
        open_secrets = {follower.secret for follower in self._all}
        self._checked = {secret: at for secret, at in self._checked.items() if secret in open_secrets}
        over = [secret for secret, at in self._checked.items() if now - at >= self._check_every]
        if not over:
            return
        ended = await self._find_ended(over)  # where nobody can be asked, the next look asks again
        self._checked |= dict.fromkeys(over, now)
        for follower in tuple(self._all):
            if follower.secret in ended:
                follower.end()
