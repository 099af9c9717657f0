"""The client against a peer that answers what the test says, byte for byte."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from soonish import errors
from soonish.client import Soonish


class Peer:
    """An HTTP server that says prepared answers in order; `None` hangs up without a word."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self.answers:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            self.asked.append(head + await reader.readexactly(length))
            answer = self.answers.pop(0)
            if answer is None:
                break
            writer.write(answer)
        writer.close()


@asynccontextmanager
async def peer(*answers: bytes | None) -> AsyncIterator[Peer]:
    scripted = Peer(*answers)
    async with await asyncio.start_server(scripted.serve, "127.0.0.1", 0) as server:
        scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield scripted


def answer(status: int, body: Any, *headers: str, type_: str = "application/json") -> bytes:
    content = json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} X", f"content-type: {type_}", f"content-length: {len(content)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


async def test_json_goes_out_and_comes_in_with_the_key() -> None:
    async with peer(answer(201, {"id": 7})) as server, Soonish(server.url, "sk_x") as soonish:
        assert await soonish.post("/v1/things", {"name": "Bär"}) == {"id": 7}
    asked = server.asked[0].decode()
    assert asked.startswith("POST /v1/things HTTP/1.1\r\n")
    assert "authorization: Bearer sk_x\r\n" in asked.replace("Authorization", "authorization")
    assert json.loads(asked.partition("\r\n\r\n")[2]) == {"name": "Bär"}


async def test_a_connection_serves_one_call_after_the_other() -> None:
    async with peer(answer(200, 1), answer(200, 2)) as server, Soonish(server.url) as soonish:
        assert [await soonish.get("/a"), await soonish.get("/b")] == [1, 2]
    assert server.connections == 1


async def test_a_connection_that_the_server_left_is_replaced_without_a_word() -> None:
    async with peer(answer(200, 1), None, answer(200, 2)) as server, Soonish(server.url) as soonish:
        assert [await soonish.get("/a"), await soonish.get("/b")] == [1, 2]
    assert server.connections == 2


async def test_the_repeat_of_a_post_carries_the_same_idempotency_key() -> None:
    async with peer(answer(200, 1), None, answer(201, 2)) as server, Soonish(server.url) as soonish:
        await soonish.get("/a")
        assert await soonish.post("/b", {}) == 2
    assert server.asked[1] == server.asked[2]
    assert b"idempotency-key: " in server.asked[1].lower()


async def test_a_patch_is_never_repeated_by_itself() -> None:
    async with peer(answer(200, 1), None, answer(200, 2)) as server, Soonish(server.url) as soonish:
        await soonish.get("/a")
        with pytest.raises(errors.Unavailable):
            await soonish.patch("/b", {"name": "x"})
    assert len(server.asked) == 2


async def test_chunks_become_one_answer() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
    async with peer(head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n") as server, Soonish(server.url) as soonish:
        assert await soonish.get("/metrics") == "abcde"


async def test_a_list_is_followed_to_its_end() -> None:
    pages = answer(200, {"items": [1, 2], "next": "c1"}), answer(200, {"items": [3], "next": None})
    async with peer(*pages) as server, Soonish(server.url) as soonish:
        assert [item async for item in soonish.list("/v1/things", limit=2)] == [1, 2, 3]
    assert [asked.split()[1] for asked in server.asked] == [b"/v1/things?limit=2", b"/v1/things?limit=2&after=c1"]


async def test_bad_fields_arrive_all_at_once() -> None:
    bad = [{"field": name, "code": "length", "message": "..."} for name in ("name", "timezone")]
    told = {"code": "invalid", "detail": "2 fields need a change.", "errors": bad}
    async with peer(answer(422, told, type_="application/problem+json")) as server, Soonish(server.url) as soonish:
        with pytest.raises(errors.Invalid, match="2 fields") as caught:
            await soonish.post("/v1/things", {})
    assert [error.field for error in caught.value.errors] == ["name", "timezone"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest), (401, errors.Unauthorized), (403, errors.Forbidden), (404, errors.NotFound),
        (409, errors.Conflict), (412, errors.Stale), (413, errors.TooLarge), (415, errors.UnsupportedMedia),
        (429, errors.TooMany), (500, errors.SoonishError), (503, errors.Unavailable), (405, errors.SoonishError),
    ],
)  # fmt: skip
async def test_a_problem_becomes_the_error_that_it_names(status: int, kind: type[errors.SoonishError]) -> None:
    told = answer(status, {"code": "some_code", "detail": "Why and what to do."}, 'etag: "3"', "retry-after: 7")
    async with peer(told) as server, Soonish(server.url) as soonish:
        with pytest.raises(kind, match="Why and what to do") as caught:
            await soonish.get("/x")
    assert type(caught.value) is kind
    assert caught.value.code == ("stale" if status == 412 else "some_code")
    assert getattr(caught.value, "version", 3) == 3
    assert getattr(caught.value, "retry_after", 7) == 7


async def test_nobody_there_is_said_with_what_to_do() -> None:
    async with Soonish("http://127.0.0.1:1") as soonish:
        with pytest.raises(errors.Unavailable, match="soonish up"):
            await soonish.get("/x")


async def test_a_silent_server_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Soonish(url, timeout=0.1) as soonish:
            with pytest.raises(errors.Unavailable, match=r"within 0\.1 s"):
                await soonish.get("/x")


def test_the_library_face_loads_nothing_but_the_client() -> None:
    probe = "import sys; from soonish import Soonish; print(sorted(m for m in sys.modules if m.startswith('soonish')))"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "['soonish', 'soonish.client', 'soonish.errors']"
