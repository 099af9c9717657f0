"""`serve` and `work` apart, on engines that run elsewhere; and what each says while one of these is away."""

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import asyncpg
import pytest

from soonish.due import Lane, Put, put
from soonish.embedded.temporal_server import running_address
from soonish.vault import make_key
from tests.support.parent import Parent
from tests.support.places import free_port
from tests.support.postgres import PostgresServer
from tests.support.service import Service, lines_of, notes, run

WITHIN = 60.0


@dataclass
class Installation:
    """One database, one Temporal, and the two halves on them."""

    postgres: PostgresServer
    temporal: Path
    parent: Parent
    settings: dict[str, Any]
    serve: Service
    work: Service
    key: str

    @property
    def probe(self) -> str:
        return f"http://{self.settings['SOONISH_WORK_BIND']}"

    async def put(self, items: list[Put]) -> None:
        owner = await asyncpg.connect(self.postgres.url())
        async with owner.transaction():
            await put(owner, items, workspace_id=1)
        await owner.close()


@pytest.fixture(scope="module")
def halves() -> Iterator[Installation]:
    postgres = PostgresServer()
    postgres.start()
    with TemporaryDirectory(prefix="soonish-test-") as folder:
        temporal = Path(folder) / "temporal"
        parent = Parent(temporal, "temporal")
        settings: dict[str, Any] = {
            "SOONISH_DATABASE_URL": postgres.url(),
            "SOONISH_SECRETS_KEYS": make_key(),
            "SOONISH_TEMPORAL_ADDRESS": running_address(temporal) or "",
            "SOONISH_WORK_BIND": f"127.0.0.1:{free_port()}",
        }
        migrated = run("migrate", **settings)
        assert migrated.returncode == 0, migrated.stderr
        serve, work = Service(command="serve", **settings), Service(command="work", **settings)
        serve.start()
        work.start("--lanes", "people, control")
        both = Installation(postgres, temporal, parent, settings, serve, work, serve.printed["admin key"])
        yield both
        assert [both.work.stop()[0], both.serve.stop()[0]] == [0, 0]
        for half in (both.work, both.serve):
            half.remove()
        both.parent.kill()
    postgres.stop()


async def ready(url: str) -> tuple[int, dict[str, Any]]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as answer:
        return answer.status, json.loads(await answer.text())


async def until_ready(url: str, wanted: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask until it says so."""
    async with asyncio.timeout(WITHIN):
        while not wanted(*(said := await ready(url))):
            await asyncio.sleep(0.1)
        return said[1]


def states(said: dict[str, Any]) -> dict[str, str]:
    return {name: check["status"] for name, check in said["checks"].items()}


async def metric(url: str, name: str) -> float:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"soonish_{name}"))


def test_each_says_in_plain_lines_that_it_is_ready(halves: Installation) -> None:
    assert halves.serve.lines[0] == f"api {halves.serve.url}"
    assert list(halves.serve.printed) == ["api", "admin key", "ready"]
    assert halves.work.lines == ["overdue 0", "ready"]


async def test_both_are_ready_and_answer_for_what_they_have(halves: Installation) -> None:
    served, worked = await ready(halves.serve.url), await ready(halves.probe)
    assert (served[0], worked[0]) == (200, 200)
    assert worked[1]["status"] == "ok"
    assert states(worked[1]) == dict.fromkeys(("database", "schema", "loops", "bell", "temporal", "keys", "disk"), "ok")
    assert served[1]["status"] == "ok"
    async with aiohttp.ClientSession() as session, session.get(f"{halves.probe}/healthz") as answer:
        assert (answer.status, await answer.json()) == (200, {"status": "ok"})


async def test_a_probe_is_no_way_in(halves: Installation) -> None:
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {halves.key}"}) as session:
        async with session.get(f"{halves.probe}/v1/me") as answer:
            assert answer.status == 401
        async with session.get(f"{halves.serve.url}/v1/me") as answer:
            assert answer.status == 200


async def test_each_knows_of_the_other_and_its_lanes(halves: Installation) -> None:
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {halves.key}"}) as session:
        async with asyncio.timeout(WITHIN):
            while True:
                async with session.get(f"{halves.serve.url}/v1/ops/health") as answer:
                    processes = {each["role"]: each for each in (await answer.json())["processes"]}
                if len(processes) == 2:
                    break
                await asyncio.sleep(0.2)
    assert sorted(processes["work"]["lanes"]) == ["control", "people"]
    assert processes["serve"]["lanes"] == []


async def test_what_is_due_is_worked_by_the_one_that_works(halves: Installation, tmp_path: Path) -> None:
    await halves.put(notes(tmp_path / "ledger", ["a", "b"]))
    assert sorted(await lines_of(tmp_path / "ledger", 2)) == ["a", "b"]


async def test_a_lane_that_is_not_its_own_is_left_alone(halves: Installation, tmp_path: Path) -> None:
    file = {"file": str(tmp_path / "ledger")}
    await halves.put([Put("test.note", "bulky", lane=Lane.BULK, payload=file)])
    await halves.put([Put("test.note", "quick", lane=Lane.CONTROL, payload=file)])
    assert await lines_of(tmp_path / "ledger", 1) == ["quick"]
    owner = await asyncpg.connect(halves.postgres.url())
    assert await owner.fetchval("SELECT attempts FROM due.due WHERE key = 'bulky'") == 0
    await owner.close()


async def test_one_whose_listener_was_cut_hears_again_by_itself(halves: Installation, tmp_path: Path) -> None:
    before = await metric(halves.probe, "bell_reconnects_total")
    owner = await asyncpg.connect(halves.postgres.url())
    cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%' AND pid <> $1"
    assert await owner.fetchval(cut, owner.get_server_pid()) > 0
    await owner.close()
    began = asyncio.get_running_loop().time()
    await halves.put(notes(tmp_path / "ledger", ["first"]))
    assert await lines_of(tmp_path / "ledger", 1) == ["first"]
    assert asyncio.get_running_loop().time() - began < 30
    async with asyncio.timeout(WITHIN):
        while await metric(halves.probe, "bell_reconnects_total") <= before:
            await asyncio.sleep(0.1)
    await halves.put(notes(tmp_path / "ledger", ["second"]))
    assert await lines_of(tmp_path / "ledger", 2) == ["first", "second"]


async def test_while_the_database_is_down_both_say_so_and_after_it_is_back_what_is_due_fires(
    halves: Installation, tmp_path: Path
) -> None:
    await halves.put(notes(tmp_path / "warm", ["now"]))
    await lines_of(tmp_path / "warm", 1)
    owner = await asyncpg.connect(halves.postgres.url())
    soon = await owner.fetchval("SELECT now() + interval '2 seconds'")
    await owner.close()
    await halves.put([Put("test.note", "after", soon, lane=Lane.PEOPLE, payload={"file": str(tmp_path / "ledger")})])
    await asyncio.to_thread(halves.postgres.halt)
    for url in (halves.serve.url, halves.probe):
        said = await until_ready(url, lambda status, _: status == 503)
        assert (said["status"], states(said)["database"]) == ("down", "down")
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {halves.key}"}) as session:
        async with session.get(f"{halves.serve.url}/v1/me") as answer:
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert (await answer.json(content_type=None))["code"] == "unavailable"
        async with session.get(f"{halves.serve.url}/healthz") as answer:
            assert answer.status == 200
    halves.postgres.resume()  # here, because it ends with the thread that starts it
    assert await lines_of(tmp_path / "ledger", 1, within=WITHIN) == ["after"]
    for url in (halves.serve.url, halves.probe):
        await until_ready(url, lambda status, said: status == 200 and said["status"] == "ok")


async def test_while_temporal_is_down_the_one_that_works_is_degraded_and_all_else_goes_on(
    halves: Installation, tmp_path: Path
) -> None:
    await asyncio.to_thread(halves.parent.stop)
    said = await until_ready(halves.probe, lambda _, said: said["status"] == "degraded")
    assert states(said)["temporal"] != "ok"
    assert (await ready(halves.probe))[0] == 200
    assert (await ready(halves.serve.url))[1]["status"] == "ok"
    await halves.put(notes(tmp_path / "ledger", ["meanwhile"]))
    assert await lines_of(tmp_path / "ledger", 1) == ["meanwhile"]
    halves.parent = await asyncio.to_thread(Parent, halves.temporal, "temporal")
    await until_ready(halves.probe, lambda _, said: said["status"] == "ok")


def test_an_address_that_is_taken_ends_with_4(halves: Installation) -> None:
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        taken = f"127.0.0.1:{somebody.getsockname()[1]}"
        for half, name in ((halves.serve, "SOONISH_BIND"), (halves.work, "SOONISH_WORK_BIND")):
            refused = half.run(half.command, **{name: taken})  # type: ignore[arg-type]
            assert (refused.returncode, refused.stdout) == (4, "")
            assert f"Somebody listens at {taken} already" in refused.stderr


@pytest.mark.parametrize(
    ("half", "version", "told"),
    [
        ("serve", "0001_ground", "The schema is older than this version; run `soonish migrate`"),
        ("work", "9999_later", "The schema is newer than this version; run the newer Soonish"),
    ],
)
async def test_a_schema_of_another_version_ends_with_5(
    halves: Installation, database_url: str, half: str, version: str, told: str
) -> None:
    owner = await asyncpg.connect(database_url)
    await owner.execute("UPDATE alembic_version SET version_num = $1", version)
    await owner.close()
    settings: dict[str, Any] = halves.settings | {"SOONISH_DATABASE_URL": database_url}
    settings |= {"SOONISH_BIND": f"127.0.0.1:{free_port()}", "SOONISH_WORK_BIND": f"127.0.0.1:{free_port()}"}
    refused = await asyncio.to_thread(run, half, **settings)
    assert (refused.returncode, refused.stdout, refused.stderr) == (5, "", f"soonish: {told}\n")


async def test_an_up_on_engines_that_have_an_address_starts_none(halves: Installation, tmp_path: Path) -> None:
    everything = Service(**halves.settings)
    await asyncio.to_thread(everything.start)
    try:
        assert everything.printed["database"] == f"PostgreSQL at {halves.postgres.folder}/postgres"
        assert everything.printed["temporal"] == halves.settings["SOONISH_TEMPORAL_ADDRESS"]
        assert not any((everything.folder / "pg").iterdir())
        assert not any((everything.folder / "temporal").iterdir())
        assert await asyncio.to_thread(everything.stop, signal.SIGINT) < (0, 10)
    finally:
        everything.remove()
