"""The receiver prints and checks what arrives, and answers as it is told."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
import standardwebhooks

from soonish.receiver import LARGEST, Receiver, verified
from tests.support.places import free_port
from tests.support.service import COMMAND, ROOT, environ, run

SECRET = b"s" * 32
BODY = '{"type":"game.reminder_due","data":{}}'
NOW = datetime(2026, 12, 1, 18, tzinfo=UTC)


def signed(secret: bytes = SECRET, at: datetime | None = None, wire_id: str = "dlv_1") -> dict[str, str]:
    """Headers as the library of the standard makes them."""
    # It takes a naive time, as UTC.
    naive = (at or datetime.now(UTC)).astimezone(UTC).replace(tzinfo=None)
    given = standardwebhooks.Webhook(secret).sign(wire_id, naive, BODY)
    seconds = int(naive.replace(tzinfo=UTC).timestamp())
    return {"webhook-id": wire_id, "webhook-timestamp": str(seconds), "webhook-signature": given}


@asynccontextmanager
async def receiving(*statuses: int, secrets: tuple[bytes, ...] = ()) -> AsyncIterator[tuple[str, list[str]]]:
    """Its address, and the lines that it tells."""
    lines: list[str] = []
    async with Receiver(lines.append, statuses or (200,), secrets).listening("127.0.0.1", 0) as url:
        yield url, lines


async def post(url: str, headers: dict[str, str], body: Any = BODY) -> int:
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        return response.status


async def test_a_line_tells_id_type_and_whether_the_signature_is_good() -> None:
    async with receiving(secrets=(b"o" * 32, SECRET)) as (url, lines):
        assert await post(url, signed()) == 200
        assert await post(f"{url}any/path", signed(b"x" * 32, wire_id="dlv_2")) == 200
    assert [line.split("  ")[1:] for line in lines] == [
        ["dlv_1", "game.reminder_due", "verified", "200"],
        ["dlv_2", "game.reminder_due", "NOT VERIFIED", "200"],
    ]


async def test_what_has_no_id_is_no_repeat() -> None:
    async with receiving() as (url, lines):
        for _ in range(2):
            await post(url, {}, b'{"type": "info"}')
    assert [line.split("  ")[1:] for line in lines] == [["-", "info", "not checked", "200"]] * 2


async def test_statuses_are_answered_in_turn_and_the_last_one_stays() -> None:
    async with receiving(503, 429, 200) as (url, lines):
        assert [await post(url, signed()) for _ in range(4)] == [503, 429, 200, 200]
    assert [line.split("  ")[3:] for line in lines] == [
        ["not checked", "503"],
        ["not checked", "429", "again"],
        ["not checked", "200", "again"],
        ["not checked", "200", "again"],
    ]


@pytest.mark.parametrize("body", ["", "no json", "[1]", "{}", "[" * 100_000, b"\xff"])
async def test_a_body_of_any_kind_is_received(body: Any) -> None:
    async with receiving() as (url, lines):
        assert await post(url, {"webhook-id": "a b\u202e"}, body) == 200
    assert lines[0].split("  ")[1:3] == ["a?b?", "-"]


async def test_a_body_that_is_too_large_is_not() -> None:
    async with receiving() as (url, lines):
        assert await post(url, {}, b"x" * (LARGEST + 1)) == 413
    assert lines == []


@pytest.mark.parametrize(
    ("headers", "good"),
    [
        (signed(at=NOW), True),
        (signed(at=NOW - timedelta(minutes=4)), True),
        (signed(at=NOW - timedelta(minutes=6)), False),
        (signed(at=NOW + timedelta(minutes=6)), False),
        (signed(b"x" * 32, NOW), False),
        (signed(at=NOW) | {"webhook-id": "dlv_2"}, False),
        (signed(at=NOW) | {"webhook-timestamp": "soon"}, False),
        (signed(at=NOW) | {"webhook-signature": ""}, False),
        (signed(at=NOW) | {"webhook-signature": "v1a,abc v1,ä"}, False),
        (signed(at=NOW) | {"webhook-signature": f"v2,x {signed(at=NOW)['webhook-signature']}"}, True),
        ({}, False),
    ],
)
def test_a_signature_is_checked_by_the_standard(headers: dict[str, str], good: bool) -> None:
    assert verified([SECRET], headers, BODY.encode(), NOW) is good


# --- the command ------------------------------------------------------------------------------------------------------


@contextmanager
def command(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, and the address that it says."""
    words = [*COMMAND, "receiver", "--bind", "127.0.0.1:0", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=environ(), cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            process.stdin.write("whsec_" + "c3Nz" * 10 + "c3M=\n")
            process.stdin.flush()
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.kill()


def test_the_command_prints_until_it_is_interrupted() -> None:
    with command("--answer", "503", "--answer", "200", "--secret", "-") as (process, url):
        assert process.stdout
        assert [asyncio.run(post(url, signed())) for _ in range(2)] == [503, 200]
        lines = [process.stdout.readline().rstrip().split("  ")[1:] for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert lines == [
        ["dlv_1", "game.reminder_due", "verified", "503"],
        ["dlv_1", "game.reminder_due", "verified", "200", "again"],
    ]


@pytest.mark.parametrize(
    "words", [["--bind", "somewhere"], ["--answer", "99"], ["--answer", "soon"], ["--secret", "secret"]]
)
def test_a_wrong_word_is_named(words: list[str]) -> None:
    ended = run("receiver", *words)
    assert (ended.returncode, ended.stdout) == (2, "")


async def test_a_taken_address_is_named() -> None:
    async with receiving() as (url, _):
        bind = url.removeprefix("http://").rstrip("/")
        ended = await asyncio.to_thread(run, "receiver", "--bind", bind)
    assert (ended.returncode, bind in ended.stderr) == (4, True)


def test_a_free_port_is_taken() -> None:
    """The port that is asked for is the one that is listened on."""
    port = free_port()
    words = [*COMMAND, "receiver", "--bind", f"127.0.0.1:{port}"]
    with subprocess.Popen(words, env=environ(), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == f"listening on http://127.0.0.1:{port}/\n"
        finally:
            process.kill()
