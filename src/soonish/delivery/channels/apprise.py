"""Apprise in this process: more than a hundred services, each spoken to in a thread, through the guard alone.

A try is one service object and one call. Of what the library answers only yes, no and nobody are used: the rest is read
from the account of the connections. Knows no ladder: the library's own repeats are off.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final

from soonish.clock import utc_now
from soonish.delivery.channel import Letter, Outcome, Target, failed, refused, unknown
from soonish.delivery.channels.apprise_library import asset, library, make_service
from soonish.delivery.channels.apprise_wire import Account, keeping
from soonish.delivery.egress import Guard
from soonish.delivery.model.targets import apprise_text, apprise_type, check_apprise, masked
from soonish.delivery.model.webhooks import pause
from soonish.errors import Invalid

LIMIT: Final = 30.0
GRACE: Final = 1.0  # by which the thread's own limit is later: that a try took too long is told by the one who waits
_FOR_GOOD: Final = frozenset({400, 401, 403, 404, 410})


class BadArguments(ValueError):
    """The library does not take the message at all."""


class AppriseChannel:
    """Sends so many at once as there are threads; a try begins when it has one."""

    def __init__(
        self, guard: Guard, threads: int, allow: frozenset[str] | None = None, *, limit: float = LIMIT
    ) -> None:
        self._guard = guard
        self._allow = allow
        self._limit = limit
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="apprise")
        self._room = asyncio.Semaphore(threads)
        self._loaded = False
        self._open: set[Account] = set()

    async def send(self, target: Target, what: Letter) -> Outcome:
        try:
            check_apprise(target.address, self._allow)  # it may have been stored under other settings
        except Invalid as error:
            return refused(error.code, error.message)
        if not self._loaded:
            await asyncio.to_thread(library)  # which takes longer than some tries
            self._loaded = True
        await self._room.acquire()
        account = Account(self._guard, monotonic() + self._limit + GRACE)
        self._open.add(account)
        call = asyncio.get_running_loop().run_in_executor(self._pool, _call, target.address, what, account)
        call.add_done_callback(lambda _: self._room.release())  # when the thread is free, not when nobody waits for it
        try:
            async with asyncio.timeout(self._limit):
                verdict = await asyncio.shield(call)
        except TimeoutError:
            account.end()  # first: from here on nothing is written any more
            return unknown("timeout") if account.written or account.raw else failed("timeout")
        except BadArguments:
            return refused("bad_arguments", "Apprise does not take this message")
        finally:
            self._open.discard(account)
            account.end()
        return outcome(verdict, account, target.address)

    async def close(self) -> None:
        for account in self._open:
            account.end()  # threads that are in the middle of something would hold up the end of the process
        self._pool.shutdown(wait=False, cancel_futures=True)


def outcome(verdict: bool | None, account: Account, url: str) -> Outcome:
    """What a try has come to: by the library's word, and by what was seen on the wire."""
    status = account.statuses[-1] if account.statuses else None
    if verdict:
        return Outcome("sent", status=status)
    answer = masked(account.answer, url)
    if any(200 <= one < 300 for one in account.statuses):
        return Outcome("partial", "partial", status=status, answer=answer)
    if verdict is None:
        return refused("no_service", "Apprise has no service for this address")
    if error := account.refusal:
        return refused(error.code, error.message) if error.permanent else failed(error.code, error.message)
    if account.lost:
        return unknown("lost")
    if status is None:
        return failed("not_sent" if account.raw else "no_connection")
    if _FOR_GOOD.issuperset(account.statuses):
        return refused(f"http_{status}", answer, status=status)
    return failed(f"http_{status}", answer, status=status, retry_after=pause(account.retry_after, utc_now()))


def _call(url: str, letter: Letter, account: Account) -> bool | None:
    """In a thread: True = sent, False = not or in part, None = nobody to send it to."""
    with keeping(account):
        try:
            return _notify(url, letter)
        except BadArguments:
            raise
        except Exception:  # the code of a service may raise anything, with its URL in it: the account tells enough
            return False


def _notify(url: str, letter: Letter) -> bool | None:
    service = make_service(url)
    if service is None:
        return None
    title, body = apprise_text(letter)
    box = library().Apprise(asset=asset())
    box.add(service)
    said = box.notify(
        body=body,
        title=title,
        notify_type=apprise_type(letter.level),
        body_format=library().NotifyFormat.TEXT,
    )
    if not said and not said.results:
        raise BadArguments
    return bool(said)
