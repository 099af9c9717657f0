"""The embedded PostgreSQL: private, safe, alive again after every death, and gone with its parent."""

import asyncio
import os
import re
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import asyncpg
import pytest
import pytest_asyncio

from soonish.embedded import binaries, child, cluster
from soonish.embedded.child import NotStarted
from soonish.embedded.folder import Folder
from soonish.embedded.postgres import MARK, Postgres, running_url
from soonish.embedded.processes import LINUX, Account, Command, alive
from tests.embedded.conftest import killed, until
from tests.support.parent import Parent

pytestmark = pytest.mark.asyncio(loop_scope="module")
on_linux = pytest.mark.skipif(not LINUX, reason="only Linux tells this")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(shared_folder: Path) -> AsyncIterator[Postgres]:
    """One whose making was cut short once, as by a kill in the middle of it."""
    told: list[str] = []
    (Folder.prepare(shared_folder).root / "pg.new" / "base").mkdir(parents=True)
    async with Postgres(shared_folder, told.append) as server:
        assert server.first
        yield server
    assert told == ["postgres"] * server.restarts


async def ask(url: str | None, statement: str) -> Any:
    assert url
    connection = await asyncpg.connect(url, timeout=30)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_it_listens_on_no_network(server: Postgres) -> None:
    assert await ask(server.url, "SHOW listen_addresses") == ""


async def test_it_loses_nothing_that_it_said_is_saved(server: Postgres) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert await ask(server.url, f"SHOW {setting}") == "on"


async def test_it_says_which_version_runs(server: Postgres) -> None:
    assert (await ask(server.url, "SHOW server_version")).startswith(server.version)
    assert re.fullmatch(r"18\.\d+", server.version)


async def test_it_speaks_every_language_and_sorts_by_code(server: Postgres) -> None:
    assert await ask(server.url, "SHOW server_encoding") == "UTF8"
    assert await ask(server.url, "SELECT upper('señor øre')") == "SEÑOR ØRE"
    assert await ask(server.url, "SELECT 'a' > 'B'")


async def test_only_its_owner_reaches_the_socket_and_reads_the_files(server: Postgres, shared_folder: Path) -> None:
    folder = Folder(shared_folder)
    for path in (folder.root, folder.pg, folder.run, folder.run / "pg"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for file in ("postgresql.conf", "pg_hba.conf", "pg_ident.conf"):
        assert stat.S_IMODE((folder.pg / file).stat().st_mode) == 0o600
    assert stat.S_IMODE((folder.logs / "postgres.log").stat().st_mode) == 0o600
    [socket] = [path for path in (folder.run / "pg").iterdir() if path.is_socket()]
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700


async def test_nobody_logs_in_under_another_name(server: Postgres) -> None:
    await ask(server.url, "CREATE ROLE guest LOGIN SUPERUSER")
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
        await ask(server.url.replace("//soonish@", "//guest@"), "SELECT 1")


@on_linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives its rights away")
async def test_under_root_it_runs_as_somebody_who_may_do_nothing_else(server: Postgres, shared_folder: Path) -> None:
    assert server.pid
    uid, gid, groups = _rights(server.pid)
    assert uid == Folder(shared_folder).pg.stat().st_uid
    assert {uid, gid}.isdisjoint({0})
    assert groups <= {gid}


def _rights(pid: int) -> tuple[int, int, set[int]]:
    """Who a process is: its user, its group, and the groups that it is in beside."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    told = {
        name: [int(word) for word in rest.split()]
        for name, _, rest in (line.partition(":") for line in lines)
        if name in ("Uid", "Gid", "Groups")
    }
    return told["Uid"][0], told["Gid"][0], set(told["Groups"])


async def test_others_find_the_running_server_by_its_directory(server: Postgres, shared_folder: Path) -> None:
    assert running_url(shared_folder) == server.url
    assert running_url(shared_folder.parent / "another") is None


async def test_after_a_crash_it_is_back_by_itself_with_all_that_was_saved(server: Postgres) -> None:
    await ask(server.url, "CREATE TABLE kept AS SELECT 7 AS n")
    before, deaths = server.pid, server.restarts
    await killed(before)
    await until(lambda: server.up and server.pid not in (None, before))
    assert await ask(server.url, "SELECT n FROM kept") == 7
    assert server.restarts == deaths + 1


async def test_what_an_operator_altered_stays(server: Postgres) -> None:
    await ask(server.url, "ALTER SYSTEM SET work_mem = '17MB'")
    before = server.pid
    await killed(before)
    await until(lambda: server.up and server.pid not in (None, before))
    assert await ask(server.url, "SHOW work_mem") == "17MB"


async def test_it_stops_in_order_and_starts_with_its_data_and_is_gone_with_its_parent(
    folder: Path, parent_of: Callable[..., Parent]
) -> None:
    async with Postgres(folder) as server:
        await ask(server.url, "CREATE TABLE kept AS SELECT 8 AS n")
        busy = await asyncpg.connect(server.url)
        pid = server.pid
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 8
    assert pid
    assert not alive(pid)
    assert running_url(folder) is None
    assert _state(folder) == "shut down"
    busy.terminate()

    parent = await asyncio.to_thread(parent_of, "postgres")
    [orphaned] = parent.children
    assert await ask(running_url(folder), "SELECT n FROM kept") == 8
    parent.kill()
    async with Postgres(folder) as server:
        assert not server.first
        assert not alive(orphaned)
        assert await ask(server.url, "SELECT n FROM kept") == 8


def _state(folder: Path) -> str:
    """How the cluster was left."""
    program = binaries.wheel() / "bin" / "pg_controldata"
    _, said = Command((program, "-D", folder / "pg"), Path("/")).run()
    return said.partition("Database cluster state:")[2].partition("\n")[0].strip()


@asynccontextmanager
async def orphan(folder: Folder, mark: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A server whose parent did not end it, started as ours is or (without mark) as somebody else's."""
    process = _orphan(folder, ["-c", mark] if mark else [])
    recorded = folder.pg / "postmaster.pid"
    try:
        await until(lambda: recorded.exists() and "ready" in recorded.read_text())
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)


def _orphan(folder: Folder, more: list[str]) -> subprocess.Popen[bytes]:
    account = binaries.account_for(folder.root, folder.pg)
    program, data = binaries.installation(account) / "bin" / "postgres", cluster.data_argument(folder.pg, account)
    return subprocess.Popen(
        [program, "-D", data, "-k", ".", "-c", "listen_addresses=", *more],
        cwd=folder.pg,
        stderr=subprocess.DEVNULL,
        user=account.uid if account else None,
        group=account.gid if account else None,
    )


@on_linux
async def test_an_orphan_that_nobody_ended_is_ended_and_a_stranger_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "FIRST_WAIT", 0.01)
    async with Postgres(folder):
        pass
    place = Folder(folder)
    async with orphan(place, "") as stranger:
        with pytest.raises(NotStarted, match=f"process {stranger.pid}"):
            async with Postgres(folder):
                pass
        assert stranger.poll() is None
    async with orphan(place, MARK) as ours, Postgres(folder) as server:
        assert await ask(server.url, "SELECT 1") == 1
        assert ours.poll() is not None


async def test_a_path_too_long_for_a_socket_gets_a_private_folder_elsewhere(folder: Path) -> None:
    deep = folder / ("d" * 60) / ("e" * 60)
    async with Postgres(deep) as server:
        found = running_url(deep)
        assert found == server.url
        place = Path(unquote(found.partition("?host=")[2]))
        assert not place.is_relative_to(folder)
        assert _mode(place) == 0o700
        assert await ask(found, "SELECT 1") == 1
    assert _mode(place) is None


def _mode(path: Path) -> int | None:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [("PG_VERSION", "14\n", "made by PostgreSQL 14"), ("photos.txt", "mine", "is not empty, and is no database")],
)
async def test_files_of_another_kind_are_left_alone(folder: Path, file: str, text: str, told: str) -> None:
    kept = Folder.prepare(folder).pg / file
    kept.write_text(text)
    with pytest.raises(NotStarted, match=told):
        async with Postgres(folder):
            pass
    assert [path.name for path in kept.parent.iterdir()] == [file]


async def test_settings_are_never_written_through_a_link_that_was_laid_there(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("postgresql.conf", "postgresql.conf.new"):
        (tmp_path / name).symlink_to(victim)
    cluster.configure(tmp_path, None)
    assert victim.read_text() == "precious"
    assert "fsync = on" in (tmp_path / "postgresql.conf").read_text()


async def test_a_user_without_a_name_is_told_what_is_missing() -> None:
    with pytest.raises(NotStarted, match="no name here"):
        binaries._of(2**31 - 7)
    assert Account.of(os.geteuid()).uid == os.geteuid()
