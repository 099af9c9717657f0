"""However the process ends, what was promised is done, once."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from soonish.errors import SoonishError
from tests.support.due import until
from tests.support.service import Service, lines_of, notes


@pytest.fixture
def service() -> Iterator[Service]:
    fresh = Service(SOONISH_LEASE="2s")
    yield fresh.start()
    fresh.remove()


async def test_told_to_end_under_load_it_ends_in_time_and_loses_nothing(service: Service, tmp_path: Path) -> None:
    ledger, promised, keys = tmp_path / "ledger", [], []

    async def put() -> None:
        for batch in range(1_000):
            mine = [f"{batch}-{n}" for n in range(20)]
            await service.put(notes(ledger, mine, seconds=0.05))
            promised.extend(mine)

    async def ask() -> None:
        async with service.client() as soonish:
            for n in range(1_000):
                key = await soonish.post("/v1/api-keys", {"name": f"load {n}", "role": "read"})
                keys.append(key)

    load = [asyncio.create_task(put()), *(asyncio.create_task(ask()) for _ in range(3))]
    await lines_of(ledger, 100)
    async with asyncio.timeout(60):
        while len(keys) <= 10:
            await asyncio.sleep(0.05)
    code, seconds = await asyncio.to_thread(service.stop)
    assert code == 0
    assert seconds < 10
    for task in load:
        with suppress(SoonishError, OSError, Exception):
            await task

    service.start()
    done = await lines_of(ledger, len(promised))
    assert sorted(done) == sorted(promised)
    async with service.client() as soonish:
        there = {key["id"] async for key in soonish.list("/v1/api-keys", limit=200)}
    assert there >= {key["id"] for key in keys}


async def test_after_kill_9_a_new_start_takes_over_by_itself(service: Service, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    keys = [str(n) for n in range(500)]
    await service.put([*notes(ledger, keys[:400], seconds=0.02), *notes(ledger, keys[400:], seconds=3)])
    await lines_of(ledger, 50)
    service.stop(signal.SIGKILL)
    before = len(await lines_of(ledger, 1))

    began = time.monotonic()
    service.start()
    assert time.monotonic() - began < 60
    done = await lines_of(ledger, 500)
    deadline = time.monotonic() + 60
    while set(done) != set(keys) and time.monotonic() < deadline:
        done = await lines_of(ledger, len(done) + 1, within=0.2)
    assert set(done) == set(keys)
    # Only what was in hands at the moment of the kill may be done a second time.
    assert len(done) - len(keys) <= 256
    assert before < 500


async def test_a_second_signal_ends_it_at_once(service: Service, tmp_path: Path) -> None:
    await service.put(notes(tmp_path / "ledger", ["slow"], seconds=60))
    await until(lambda: asyncio.sleep(0, "test.note" in service.log))
    service.tell(signal.SIGTERM)
    await until(lambda: _is_closed(service.port))
    code, seconds = service.stop(signal.SIGTERM)
    assert code == 130
    assert seconds < 4  # a handler gets five


async def _is_closed(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return True
    writer.close()
    return False
