"""Amazon SQS, or what speaks like it: facts that are under way at once for one queue go in one request.

Each fact of a request has its own end. Requests are signed and written by AWS' library; how they are sent is ours: over
the guard, once, without redirects, so that it is known what may have arrived. Knows one try.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp import ClientConnectorError, ClientError, ClientSSLError, ConnectionTimeoutError
from yarl import URL

from soonish.access.model import OPERATOR_WORKSPACE
from soonish.delivery.channel import SENT, Outcome, Parcel, Target, failed, refused, unknown
from soonish.delivery.channels.kept import IDLE, Kept
from soonish.delivery.egress import CONNECT, Guard
from soonish.delivery.model.brokers import BATCH, BATCH_BYTES, group_of, is_fifo, refusal, service_of
from soonish.errors import DeliveryFailed, Invalid

if TYPE_CHECKING:
    from types_aiobotocore_sqs import SQSClient
    from types_aiobotocore_sqs.type_defs import MessageAttributeValueTypeDef, SendMessageBatchRequestEntryTypeDef

LIMIT: Final = 15.0  # seconds for one request
OPENING: Final = 30.0  # for the library to read its own descriptions, and the server's own login
LEAVE: Final = 3.0
GATHER: Final = 0.004  # seconds in which others may join a request
REST: Final = 4.0  # seconds that a socket waits: we close first, because a request that meets a close has no known end
READ: Final = 262_144  # bytes of an answer
OVERHEAD: Final = 1_024  # bytes of an entry that are not its body, at most

_CONTENT: Final = ("too_long", "rejected")


@dataclass(eq=False, slots=True)
class _Entry:
    """One fact, and whoever waits for its end."""

    what: Parcel
    end: "asyncio.Future[Outcome]"


class Sqs:
    """The channel; needs the extra `aws`. Only the operator's workspace may go with the login of this server."""

    def __init__(self, guard: Guard, *, limit: float = LIMIT, gather: float = GATHER, idle: float = IDLE) -> None:
        self._guard = guard
        self._limit = limit
        self._gather = gather
        self._kept: Kept[_Queue] = Kept(self._connect, idle)

    async def send(self, target: Target, what: Parcel) -> Outcome:
        """Hand it over once."""
        if not target.config.get("access_key_id") and target.workspace_id != OPERATOR_WORKSPACE:
            return refused("access_denied", "Give this endpoint an access_key_id and secret_access_key of its own")
        try:
            async with self._kept.use(target) as queue:
                return await queue.put(what)
        except DeliveryFailed as error:
            return refused(error.code, error.message) if error.permanent else failed(error.code, error.message)

    async def close(self) -> None:
        await self._kept.close()

    async def _connect(self, target: Target) -> "_Queue":
        await _prepare()
        from botocore.exceptions import BotoCoreError

        service = service_of(target.address, target.config.get("endpoint_url"))
        try:
            for url in (target.address, service):
                self._guard.check_url(url, plain=False)
            async with asyncio.timeout(OPENING):
                return await _Queue.open(target, service, partial(_Http, self._guard, self._limit), self._gather)
        except Invalid as error:
            raise DeliveryFailed(error.message, permanent=True, code=error.code) from error
        except (BotoCoreError, ValueError, TimeoutError) as error:
            raise DeliveryFailed(type(error).__name__, permanent=False, code="client") from error


class _Queue:
    """One queue: facts gather for a moment, then go together."""

    def __init__(self, url: str, client: "SQSClient", stack: AsyncExitStack, gather: float) -> None:
        self._url = url
        self._client = client
        self._stack = stack
        self._gather = gather
        self._waiting: list[_Entry] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._posting: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(cls, target: Target, service: str, http: Any, gather: float) -> "_Queue":
        from aiobotocore.config import AioConfig
        from aiobotocore.session import get_session

        config, stack = target.config, AsyncExitStack()
        client = await stack.enter_async_context(
            get_session().create_client(
                "sqs",
                region_name=config.get("region"),
                endpoint_url=service,
                aws_access_key_id=config.get("access_key_id"),
                aws_secret_access_key=config.get("secret_access_key"),
                config=AioConfig(
                    http_session_cls=http,
                    warm_up_loader_caches=True,  # in a thread: they are megabytes of JSON
                    retries={"total_max_attempts": 1, "mode": "standard"},
                    proxies={},
                ),
            )
        )
        return cls(target.address, client, stack, gather)

    @property
    def is_open(self) -> bool:
        return True

    async def put(self, what: Parcel) -> Outcome:
        """Let it go with others, and answer what became of it."""
        entry = _Entry(what, asyncio.get_running_loop().create_future())
        size = len(what.body) + OVERHEAD
        if self._bytes + size > BATCH_BYTES:
            self._go()
        self._waiting.append(entry)
        self._bytes += size
        if len(self._waiting) == BATCH:
            self._go()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._gather, self._go)
        return await entry.end

    async def close(self) -> None:
        self._go()
        if self._posting:
            _, late = await asyncio.wait(self._posting, timeout=LEAVE)
            for task in late:
                task.cancel()
        with suppress(Exception):
            await self._stack.aclose()

    def _go(self) -> None:
        """Send what has gathered."""
        if self._timer:
            self._timer.cancel()
        batch = [entry for entry in self._waiting if not entry.end.done()]  # who has gone does not send
        self._waiting, self._timer, self._bytes = [], None, 0
        if batch:
            task = asyncio.create_task(self._post(batch))
            self._posting.add(task)
            task.add_done_callback(self._posting.discard)

    async def _post(self, batch: Sequence[_Entry]) -> None:
        """However this ends, everybody hears of it."""
        outcomes = [unknown("lost")] * len(batch)
        try:
            outcomes = await self._settle(batch)
        finally:
            for entry, outcome in zip(batch, outcomes, strict=True):
                if not entry.end.done():
                    entry.end.set_result(outcome)

    async def _settle(self, batch: Sequence[_Entry]) -> list[Outcome]:
        """The end of each."""
        found = await self._try(batch)
        if not isinstance(found, Outcome):
            return found
        if len(batch) > 1 and found.code in _CONTENT:
            # Nothing was taken because of one of them: each goes alone, so that the others do not suffer for it.
            return [end for entry in batch for end in await self._settle([entry])]
        return [found] * len(batch)

    async def _try(self, batch: Sequence[_Entry]) -> list[Outcome] | Outcome:
        """One request; its end, or that of each entry."""
        from botocore.exceptions import BotoCoreError
        from botocore.exceptions import ClientError as Refused

        try:
            entries = [_entry(str(n), entry.what, is_fifo(self._url)) for n, entry in enumerate(batch)]
            return _each(await self._client.send_message_batch(QueueUrl=self._url, Entries=entries), len(batch))
        except Refused as error:
            return _refused(error.response)
        except (DeliveryFailed, ClientError, OSError, TimeoutError) as error:
            return _lost(error)
        except BotoCoreError as error:  # no login, or what no request can be made of
            return failed("client", type(error).__name__)
        except Exception as error:  # an answer that is none of SQS
            return unknown("lost", type(error).__name__)


class _Http:
    """What AWS' library sends its requests with, instead of its own: over the guard, no proxy, no redirect, bounded."""

    def __init__(self, guard: Guard, limit: float, **_: Any) -> None:
        self._guard = guard
        self._limits = aiohttp.ClientTimeout(total=limit, connect=min(CONNECT, limit * 0.8))
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "_Http":
        # How many go at once is decided where they are handed over.
        self._session = self._guard.session(
            limit=0,
            keepalive_timeout=REST,
            timeout=self._limits,
            auto_decompress=False,
            skip_auto_headers=["content-type"],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session:
            await self._session.close()

    async def send(self, request: Any) -> Any:
        from aiobotocore.awsrequest import AioAWSResponse

        assert self._session
        headers = {name: _text(value) for name, value in request.headers.items()}
        headers["accept-encoding"] = "identity"
        async with self._session.request(
            request.method,
            URL(request.url, encoded=True),
            data=request.body,
            headers=headers,
            allow_redirects=False,
        ) as response:
            body = await _read(response)
            told: Any = {name.lower(): value for name, value in response.headers.items()}
            return AioAWSResponse(request.url, response.status, told, _Body(body))


class _Body:
    """A body that was read, as the library reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self) -> bytes:
        return self._body


async def _read(response: aiohttp.ClientResponse) -> bytes:
    kept = bytearray()
    while chunk := await response.content.readany():
        kept += chunk
        if len(kept) > READ:
            raise aiohttp.ClientPayloadError("an answer longer than any of SQS")
    return bytes(kept)


def _entry(key: str, what: Parcel, fifo: bool) -> "SendMessageBatchRequestEntryTypeDef":
    entry: SendMessageBatchRequestEntryTypeDef = {
        "Id": key,
        "MessageBody": what.body.decode(),
        "MessageAttributes": {
            "id": _attribute(what.wire_id),
            "type": _attribute(what.type),
            "idempotency_key": _attribute(what.wire_id),
            "workspace": _attribute(what.workspace),
            "attempt": {"DataType": "Number", "StringValue": str(what.n)},
        },
    }
    if fifo:
        entry["MessageGroupId"] = group_of(what.subject, what.type)
        entry["MessageDeduplicationId"] = what.wire_id
    return entry


def _attribute(text: str) -> "MessageAttributeValueTypeDef":
    return {"DataType": "String", "StringValue": text}


def _each(answer: Any, count: int) -> list[Outcome]:
    """What SQS says of each entry; of one that it does not mention nobody knows."""
    ends = {entry["Id"]: SENT for entry in answer.get("Successful", ())}
    for entry in answer.get("Failed", ()):
        code, text = entry.get("Code", ""), entry.get("Message", "")
        ends[entry["Id"]] = _outcome(code, text, 400 if entry.get("SenderFault") else 500)
    return [ends.get(str(n)) or unknown("no_answer") for n in range(count)]


def _refused(response: Any) -> Outcome:
    """A request that was refused as a whole."""
    error, status = response.get("Error", {}), response["ResponseMetadata"]["HTTPStatusCode"]
    return _outcome(error.get("Code", ""), error.get("Message", ""), status)


def _outcome(code: str, text: str, status: int) -> Outcome:
    word, permanent = refusal(code, text, status)
    answer = f"{code}: {text}" if text else code
    return refused(word, answer, status=status) if permanent else failed(word, answer, status=status)


def _lost(error: BaseException) -> Outcome:
    """What is known of a request that has no answer: what comes before the connection was surely not done."""
    match error:
        case DeliveryFailed():
            return (refused if error.permanent else failed)(error.code, error.message)
        case ClientSSLError():
            return failed("tls", _reason(error))
        case ClientConnectorError() | ConnectionTimeoutError():
            return failed("connect", _reason(error))
        case TimeoutError():
            return unknown("timeout")
        case _:
            return unknown("lost", type(error).__name__)


def _reason(error: Exception) -> str:
    """What the system said; its own sentences tell the address that a name had."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLError):
        return cause.reason or "TLS failed"
    return os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else "no connection"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


async def _prepare() -> None:
    """Load the library, in a thread: it is large."""
    try:
        await asyncio.to_thread(import_module, "aiobotocore.session")
    except ImportError as error:
        what = "SQS needs more of Soonish: pip install 'soonish[aws]'"
        raise DeliveryFailed(what, permanent=True, code="not_installed") from error
    for name in ("botocore", "aiobotocore"):  # below, they tell whole requests
        logging.getLogger(name).setLevel(logging.WARNING)
