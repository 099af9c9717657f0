"""Bodies too deep and bodies without end, for every operation and form: refused, unread, at no cost of memory."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.support.hostile import deep, places, with_text
from tests.support.http import Client
from tests.support.town import Town, filled, forms, town

ALLOWANCE = 50 << 20  # bytes by which the process may grow
HUGE = 100 << 20
PIECE = 1 << 16
DEPTHS = (33, 1_000, 10_000)
FORMS = ("lists", "objects", "both")


@pytest.fixture
async def here() -> AsyncIterator[Town]:
    async with town() as one:
        yield one


async def test_json_ten_thousand_deep_in_any_place_is_bad_json(here: Town, say: Callable[..., None]) -> None:
    before, tried = here.memory(), Counter[str]()
    for method, path, said, schema, good in here.bodies():
        bodies = [deep(depth, form) for depth in DEPTHS for form in FORMS]
        bodies += [
            json.dumps(with_text(good, place, "HERE")).encode().replace(b'"HERE"', deep(DEPTHS[-1], "both"))
            for place in set(places(here.document, schema))
        ]
        for body in bodies:
            answer = await here.ask(said, method, filled(path), body, "deep")
            tried[answer.code] += 1
    grown = here.memory() - before
    say(**tried, grown_mb=grown >> 20, complaints=len(here.complaints))
    assert here.complaints == []
    assert set(tried) == {"bad_json"}
    assert grown < ALLOWANCE


async def test_a_hundred_megabytes_are_refused_by_every_operation_and_form(
    here: Town, say: Callable[..., None]
) -> None:
    before, tried = here.memory(), Counter[str]()
    json_ones = [(method, path, "application/json") for method, path, *_ in here.bodies()]
    form_ones = [("POST", one.path, "application/x-www-form-urlencoded") for one in forms()]
    for method, path, kind in (*json_ones, *form_ones):
        client = here.client if kind == "application/json" else here.browser
        for head in (f"content-length: {HUGE}", "transfer-encoding: chunked"):
            status = await flooded(client, method, filled(path), kind, head)
            tried[f"status_{status}"] += 1
    grown = here.memory() - before
    assert (await here.client.get("/v1/me")).status == 200
    say(**tried, operations=len(json_ones), forms=len(form_ones), grown_mb=grown >> 20)
    assert set(tried) == {"status_413"}
    assert grown < ALLOWANCE


async def flooded(client: Client, method: str, path: str, kind: str, head: str) -> int:
    """The status that so many bytes get."""
    reader, writer = await client.connect()
    who = f"cookie: {client.headers['cookie']}" if "cookie" in client.headers else f"authorization: Bearer {client.key}"
    lines = [f"{method} {path} HTTP/1.1", "host: here", who, f"content-type: {kind}", head, "", ""]
    writer.write("\r\n".join(lines).encode())
    pouring = asyncio.create_task(_pour(writer, chunked="chunked" in head))
    try:
        async with asyncio.timeout(60):
            line = await reader.readline()
        return int(line.split()[1])
    finally:
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)
        writer.close()


async def _pour(writer: asyncio.StreamWriter, *, chunked: bool) -> None:
    piece: Any = b"x" * PIECE
    framed = b"%x\r\n%s\r\n" % (PIECE, piece) if chunked else piece
    for _ in range(HUGE // PIECE):
        writer.write(framed)
        await writer.drain()
