"""RabbitMQ, or what speaks AMQP 0-9-1: a fact is published to a topic exchange under its type.

Sent means confirmed by the broker and, unless the endpoint accepts less, put into a queue. No queue is declared: who
hears what is the receiver's to say. Knows one try; a connection that is lost is opened again by the next one.
"""

import asyncio
import logging
import os
import re
import ssl
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from yarl import URL

from soonish.delivery.channel import ANSWER_LENGTH, SENT, Outcome, Parcel, Target, failed, refused, unknown
from soonish.delivery.channels.kept import IDLE, Kept
from soonish.delivery.egress import Guard
from soonish.errors import DeliveryFailed, Invalid

if TYPE_CHECKING:
    import aio_pika
    from aio_pika.abc import AbstractChannel, AbstractExchange

CONFIRM: Final = 15.0  # seconds to wait for the broker's word
CONNECT: Final = 10.0  # for all that comes before the first fact
LEAVE: Final = 3.0
HEARTBEAT: Final = 15
EXCHANGE: Final = "soonish.facts"

_SCHEMES: Final = ("amqps", "amqp")
_UNROUTED: Final = Outcome("sent", "unroutable")
_WORD: Final = re.compile(r"\b[A-Z]+(_[A-Z]+)+\b")


class Amqp:
    """The channel; needs the extra `amqp`. `tls` judges certificates, by default as this machine does."""

    def __init__(
        self, guard: Guard, *, confirm: float = CONFIRM, idle: float = IDLE, tls: ssl.SSLContext | None = None
    ) -> None:
        self._guard = guard
        self._confirm = confirm
        self._tls = tls
        self._kept: Kept[_Link] = Kept(self._connect, idle)

    async def send(self, target: Target, what: Parcel) -> Outcome:
        """Publish it once."""
        try:
            async with self._kept.use(target) as link:
                return await self._publish(link, what)
        except DeliveryFailed as error:
            return refused(error.code, error.message) if error.permanent else failed(error.code, error.message)

    async def close(self) -> None:
        await self._kept.close()

    async def _publish(self, link: "_Link", what: Parcel) -> Outcome:
        from aio_pika.exceptions import CONNECTION_EXCEPTIONS, DeliveryError, PublishError

        try:
            async with asyncio.timeout(self._confirm):
                await link.publish(what)
        except PublishError:
            return _UNROUTED if link.accepts_unroutable else failed("unroutable", "No queue is bound for this type")
        except DeliveryError:
            return failed("nack", "The broker did not take it")
        except TimeoutError:
            self._kept.distrust(link)  # it may be half-open
            return unknown("timeout")
        except CONNECTION_EXCEPTIONS as error:
            return failed("closed", _said(error))
        except asyncio.CancelledError:
            # The library ends those who wait on a lost connection like this, too.
            task = asyncio.current_task()
            if task and task.cancelling():
                raise
            return failed("closed")
        return SENT

    async def _connect(self, target: Target) -> "_Link":
        """Dial, log in, declare the exchange; what goes wrong is the same for all who wait for it."""
        await _prepare()
        from aio_pika.exceptions import CONNECTION_EXCEPTIONS, AMQPError

        try:
            async with asyncio.timeout(CONNECT):
                return await _Link.open(self._url(target), target, _Way(self._guard, self._tls_context))
        except DeliveryFailed:
            raise
        except Invalid as error:
            raise DeliveryFailed(error.message, permanent=True, code=error.code) from error
        except TimeoutError as error:
            raise DeliveryFailed("The broker took too long", permanent=False, code="connect") from error
        except ssl.SSLError as error:
            raise DeliveryFailed(error.reason or "TLS failed", permanent=False, code="tls") from error
        except AMQPError as error:
            raise DeliveryFailed(_said(error), permanent=False, code="refused") from error
        except CONNECTION_EXCEPTIONS as error:
            raise DeliveryFailed(_said(error), permanent=False, code="connect") from error

    def _url(self, target: Target) -> URL:
        """Judged again, as it may have been stored under other settings; options in it are ours alone to give."""
        self._guard.check_url(target.address, schemes=_SCHEMES)
        return URL(target.address).with_fragment(None).with_query(heartbeat=HEARTBEAT)

    async def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        return self._tls


class _Link:
    """An open connection, and the exchange that facts go to."""

    def __init__(self, connection: "aio_pika.Connection", way: "_Way", target: Target) -> None:
        self._connection = connection
        self._way = way
        self._name = target.config.get("exchange") or EXCHANGE
        self.accepts_unroutable = target.config.get("unroutable") == "accept"
        self._channel: AbstractChannel
        self._exchange: AbstractExchange

    @classmethod
    async def open(cls, url: URL, target: Target, way: "_Way") -> "_Link":
        import aio_pika

        connection = aio_pika.Connection(url, client_properties={"connection_name": "soonish"})
        connection.kwargs["transport_factory"] = way
        link = cls(connection, way, target)
        try:
            await connection.connect()
            await link._declare()
        except BaseException:
            way.abort()
            raise
        return link

    @property
    def is_open(self) -> bool:
        return self._connection.connected.is_set() and not self._channel.is_closed

    async def publish(self, what: Parcel) -> None:
        """Returns when the broker has confirmed it; raises where it was returned, refused or lost."""
        import aio_pika

        message = aio_pika.Message(
            what.body,
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            message_id=what.wire_id,
            type=what.type,
            timestamp=what.sent_at,
            app_id="soonish",
            headers={
                "x-idempotency-key": what.wire_id,
                "x-soonish-workspace": what.workspace,
                "x-soonish-attempt": what.n,
            },
        )
        await self._exchange.publish(message, what.type, mandatory=True)

    async def close(self) -> None:
        with suppress(Exception):
            async with asyncio.timeout(LEAVE):
                await self._connection.close()
        self._way.abort()

    async def _declare(self) -> None:
        self._channel = self._connection.channel(on_return_raises=True)
        await self._channel.initialize()
        self._exchange = await self._channel.declare_exchange(self._name, "topic", durable=True)


class _Way:
    """How the library comes to its streams: over an address that the guard has judged, with the name kept for TLS."""

    def __init__(self, guard: Guard, tls: Any) -> None:
        self._guard = guard
        self._tls = tls
        self._writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = url.raw_host, url.port
        assert host
        assert port
        context = await self._tls() if url.scheme == "amqps" else None
        sock = await self._guard.connect(host, port)
        try:
            reader, self._writer = await asyncio.open_connection(
                sock=sock, ssl=context, server_hostname=host if context else None
            )
        except BaseException:
            sock.close()
            raise
        return reader, self._writer

    def abort(self) -> None:
        """For a connection that does not end in order."""
        if self._writer:
            self._writer.transport.abort()


async def _prepare() -> None:
    """Load the library, in a thread: it is large."""
    try:
        await asyncio.to_thread(import_module, "aio_pika")
    except ImportError as error:
        what = "RabbitMQ needs more of Soonish: pip install 'soonish[amqp]'"
        raise DeliveryFailed(what, permanent=True, code="not_installed") from error
    for name in ("aiormq", "aio_pika"):  # they tell addresses and users; what matters of them is the outcome
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _said(error: BaseException) -> str:
    """The broker's word for what is wrong; its sentences tell users and virtual hosts, the system's tell addresses."""
    if found := _WORD.search(" ".join(map(str, error.args))):
        return found[0][:ANSWER_LENGTH]
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
