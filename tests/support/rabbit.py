"""A RabbitMQ node of a test's own: its ports, folder, cookie and name are nobody else's, and all are gone with it.

Knows nothing of what is published. `Gate` is a way to the node that a test can freeze or cut.
"""

import asyncio
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from tests.support.places import free_port

# Debian's `rabbitmq-server` in the path runs it as one fixed user, in one fixed folder; this is what it calls.
PLACES = (Path("/usr/lib/rabbitmq/bin/rabbitmq-server"), Path("/usr/sbin/rabbitmq-server"))
PATIENCE = 60.0
_libc = ctypes.CDLL(None)


def program() -> Path | None:
    """Where the server is; None where it is not installed."""
    named = shutil.which("rabbitmq-server")
    return next((place for place in (*PLACES, *([Path(named)] if named else [])) if place.exists()), None)


class Rabbit:
    """`start`, `halt` and `start` again keep what is durable; `remove` leaves nothing."""

    def __init__(self, tls: Mapping[str, Path] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="soonish-rabbit-"))
        self.port, self.tls_port = free_port(), free_port()
        self._epmd_port, self._distribution = free_port(), free_port()
        self._tls = tls or {}
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it and wait until it speaks."""
        self._write_config()
        if not self._children:
            # In the foreground: the one that Erlang would start by itself outlives the node.
            self._run("epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1")
        found = program()
        assert found
        self._run(str(found))
        end = time.monotonic() + PATIENCE
        while not self._speaks():
            if time.monotonic() > end or self._children[-1].poll() is not None:
                raise RuntimeError(f"the broker did not start: {self._log()[-2000:]}")
            time.sleep(0.05)

    def halt(self) -> None:
        """End the node in order; what is durable stays."""
        node = self._children.pop()
        node.send_signal(signal.SIGTERM)
        node.wait(PATIENCE)

    def remove(self) -> None:
        for child in reversed(self._children):
            child.kill()
            child.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, *command: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self._children.append(
                subprocess.Popen(
                    command,
                    env=self._environ(),
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=_die_with_parent,
                    start_new_session=True,
                )
            )

    def _environ(self) -> dict[str, str]:
        local = "-kernel inet_dist_use_interface {127,0,0,1}"
        return {
            "PATH": f"{os.environ['PATH']}:/usr/sbin",
            "HOME": str(self.folder),  # of the cookie
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"soonish{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{local} +S 2 -noinput",
            "RABBITMQ_ALLOW_INPUT": "true",  # the program becomes the server, instead of a shell that waits for it
            "RABBITMQ_BASE": str(self.folder),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "none.config"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none.env"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
        }

    def _write_config(self) -> None:
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", "disk_free_limit.absolute = 1MB", "log.console = true"]
        if self._tls:
            lines.append(f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}")
            lines += [f"ssl_options.{name} = {path}" for name, path in self._tls.items()]
        (self.folder / "rabbitmq.conf").write_text("\n".join([*lines, ""]))
        (self.folder / "plugins").write_text("[].\n")

    def _speaks(self) -> bool:
        """Whether it answers what is no AMQP with the AMQP that it speaks."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as probe:
            probe.settimeout(1)
            probe.sendall(b"AMQP\x00\x00\x00\x00")
            return probe.recv(4) == b"AMQP"
        return False

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


class Reader:
    """Whoever receives: it declares queues, binds them, and takes what is in them."""

    def __init__(self, channel: AbstractChannel) -> None:
        self._channel = channel

    async def bind(self, exchange: str, key: str = "#", arguments: Any = None) -> AbstractQueue:
        """A durable queue of its own that hears this exchange."""
        topic = await self._channel.declare_exchange(exchange, aio_pika.ExchangeType.TOPIC, durable=True)
        queue = await self._channel.declare_queue(f"of.{exchange}", durable=True, arguments=arguments)
        await queue.bind(topic, key)
        return queue

    async def queue(self, exchange: str) -> AbstractQueue:
        """The one that was bound before."""
        return await self._channel.declare_queue(f"of.{exchange}", durable=True)

    async def declare(self, exchange: str, kind: aio_pika.ExchangeType) -> None:
        await self._channel.declare_exchange(exchange, kind)

    async def delete(self, exchange: str) -> None:
        await self._channel.exchange_delete(exchange)


@asynccontextmanager
async def reader(url: str) -> AsyncIterator[Reader]:
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        yield Reader(channel)


async def take(queue: AbstractQueue, count: int = 1) -> list[AbstractIncomingMessage]:
    """So many messages, once they are there."""
    async with asyncio.timeout(PATIENCE), queue.iterator(no_ack=True) as arrivals:
        return [await anext(arrivals) for _ in range(count)]


class Gate:
    """Forwards a port of this machine to another; counts who came through."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._now: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._frozen: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Condition()
        self._shut = False
        self.port = 0
        self.passed = 0
        self.held = asyncio.Event()

    def freeze(self) -> None:
        """All connections of now are half-open from now on; `held` says that somebody spoke into one."""
        self._frozen = {*self._now, *self._now.values()}
        self.held.clear()

    def shut(self) -> None:
        """End all connections, of now and of later, until it is open again."""
        self._shut = True
        self.cut()

    def open(self) -> None:
        self._shut = False

    def cut(self) -> None:
        """End all connections of now; new ones pass."""
        for writer in {*self._now, *self._now.values()}:
            writer.transport.abort()

    async def left(self) -> None:
        """When nobody is connected any more."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._now)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._shut:
            writer.transport.abort()
            return
        self.passed += 1
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._now[writer] = back
        try:
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        finally:
            writer.transport.abort()
            back.transport.abort()
            async with self._changed:
                del self._now[writer]
                self._changed.notify_all()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if writer in self._frozen:
                    self.held.set()
                else:
                    writer.write(data)
                    await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def gate(target: int) -> AsyncIterator[Gate]:
    mine = Gate(target)
    listening = await asyncio.start_server(mine.accept, "127.0.0.1", 0)
    mine.port = listening.sockets[0].getsockname()[1]
    try:
        yield mine
    finally:
        listening.close()
        mine.cut()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        _libc.prctl(1, signal.SIGKILL)
