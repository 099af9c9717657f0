"""Servers that speak SQS: moto's, in a process of its own, and one that answers as told, for what moto never says.

Knows nothing of what is sent.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiobotocore.session import get_session
from aiohttp import web

from tests.support.places import free_port

REGION = "eu-west-1"
PATIENCE = 60.0
PLAIN = {"content-type": "text/plain"}
KEYS: dict[str, Any] = {"aws_access_key_id": "AKIATESTTESTTESTTEST", "aws_secret_access_key": "secret-word"}


class Moto:
    """A server with queues in memory."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MOTO_"))}
        self._process = subprocess.Popen(
            command, env=mine, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        end = time.monotonic() + PATIENCE
        while not self._listens():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError("the queue server did not start")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._process = None

    def check_keys(self, yes: bool) -> None:
        """Whether keys must be those of a user who may send; else any will do."""
        free = "0" if yes else "inf"
        request = urllib.request.Request(f"{self.url}/moto-api/reset-auth", data=free.encode(), headers=PLAIN)
        urllib.request.urlopen(request, timeout=PATIENCE).close()

    async def queue(self, name: str, **attributes: str) -> str:
        """Make a queue; answers its URL."""
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        async with self._client() as client:
            made = await client.create_queue(QueueName=name, Attributes=attributes)
        return str(made["QueueUrl"])

    async def messages(self, queue_url: str) -> list[Any]:
        """Everything in a queue; it is then empty."""
        found: list[Any] = []
        async with self._client() as client:
            while got := (await client.receive_message(QueueUrl=queue_url, **_ALL)).get("Messages"):
                found += got
                for one in got:
                    await client.delete_message(QueueUrl=queue_url, ReceiptHandle=one["ReceiptHandle"])
        return found

    def _client(self) -> Any:
        return get_session().create_client("sqs", region_name=REGION, endpoint_url=self.url, **KEYS)

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


_ALL: Any = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"], "AttributeNames": ["All"]}


class Told:
    """Answers each request with the next of `answers`, the last one for ever: (status, document or text), or a word:

    "cut" ends the connection after reading, "hang" never answers. `batches` are the entries that it read.
    """

    def __init__(self, *answers: tuple[int, Any] | str) -> None:
        self._answers = list(answers)
        self.batches: list[list[Any]] = []
        self.headers: list[dict[str, str]] = []
        self.reached = asyncio.Event()
        self.url = ""

    @property
    def queue_url(self) -> str:
        return f"{self.url}/1/q"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        self.reached.set()
        self.batches.append((await request.json())["Entries"])
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer == "hang":
            await asyncio.Event().wait()
        if isinstance(answer, str):
            assert request.transport
            request.transport.abort()
            return web.Response()
        status, document = answer
        if callable(document):
            document = document(self.batches[-1])
        text = document if isinstance(document, str) else json.dumps(document)
        return web.Response(status=status, text=text, content_type="application/x-amz-json-1.0")


def taken(entries: list[Any]) -> dict[str, Any]:
    """The answer that all of these were taken."""
    ends = [{"Id": one["Id"], "MessageId": f"m{one['Id']}", "MD5OfMessageBody": ""} for one in entries]
    return {"Successful": ends, "Failed": []}


def error(code: str, text: str = "") -> dict[str, str]:
    """The answer that a request was refused."""
    return {"__type": f"com.amazonaws.sqs#{code}", "message": text}


@asynccontextmanager
async def told(*answers: tuple[int, Any] | str) -> AsyncIterator[Told]:
    one = Told(*answers)
    app = web.Application()
    app.router.add_post("/{path:.*}", one.serve)
    runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield one
    finally:
        await runner.cleanup()
