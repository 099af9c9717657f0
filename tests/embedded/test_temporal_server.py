"""The embedded Temporal server: loopback only, at home on its port, and with all that it knew after every death."""

import asyncio
import socket
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus

from soonish.embedded import temporal_server
from soonish.embedded.folder import Folder
from soonish.embedded.processes import LINUX, alive
from soonish.embedded.temporal_server import API, HOST, RETENTION, Temporal, copy_state, running_address, state_file
from tests.embedded.conftest import killed, until
from tests.support.parent import Parent

pytestmark = pytest.mark.asyncio(loop_scope="module")
on_linux = pytest.mark.skipif(not LINUX, reason="only Linux tells this")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(shared_folder: Path) -> AsyncIterator[Temporal]:
    told: list[str] = []
    async with Temporal(shared_folder, namespace="kitchen", on_restart=told.append) as server:
        yield server
    assert told == ["temporal"] * server.restarts


async def remember(address: str, workflow_id: str, namespace: str = "default") -> None:
    """Begin a workflow that nobody works, so that the server has something to keep."""
    client = await Client.connect(address, namespace=namespace)
    await client.start_workflow("any", id=workflow_id, task_queue="nobody")


async def runs(address: str, workflow_id: str, namespace: str = "default") -> bool:
    client = await Client.connect(address, namespace=namespace)
    return (await client.get_workflow_handle(workflow_id).describe()).status == WorkflowExecutionStatus.RUNNING


def listening(pid: int) -> set[tuple[str, int]]:
    """The addresses at which a process listens (Linux)."""
    sockets = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(str(fd.readlink()))
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                host, port = local.split(":")
                found.add((host, int(port, 16)))
    return found


@on_linux
async def test_it_listens_on_this_machine_alone_and_shows_no_pages(server: Temporal) -> None:
    assert server.pid
    addresses = listening(server.pid)
    port = int(server.address.rpartition(":")[2])
    assert {host for host, _ in addresses} == {"0100007F"}
    assert {port, port + API} <= {port for _, port in addresses}
    assert port + temporal_server.UI not in {port for _, port in addresses}
    assert server.ui_url is None


async def test_its_namespace_is_there_and_remembers_long_enough(server: Temporal) -> None:
    client = await Client.connect(server.address, namespace="kitchen")
    told = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="kitchen"))
    assert told.config.workflow_execution_retention_ttl.ToTimedelta() == RETENTION >= timedelta(days=30)


async def test_others_find_it_by_its_directory(server: Temporal, shared_folder: Path) -> None:
    assert running_address(shared_folder) == server.address
    assert running_address(shared_folder.parent / "another") is None


async def test_what_it_knows_is_in_one_file_that_only_its_owner_reads(server: Temporal, shared_folder: Path) -> None:
    file = state_file(Folder(shared_folder))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {path.name.partition(".db")[0] for path in file.parent.iterdir()} == {"temporal"}


async def test_after_a_crash_it_is_back_at_its_address_with_all_that_it_answered(server: Temporal) -> None:
    await remember(server.address, "before the crash", "kitchen")
    before, address, deaths = server.pid, server.address, server.restarts
    await killed(before)
    await until(lambda: server.up and server.pid not in (None, before))
    assert server.address == address
    assert server.restarts == deaths + 1
    assert await runs(address, "before the crash", "kitchen")


async def test_its_state_is_copied_whole_while_it_writes(server: Temporal, shared_folder: Path, tmp_path: Path) -> None:
    writing = asyncio.gather(*(remember(server.address, f"copied {n}", "kitchen") for n in range(5)))
    assert await copy_state(shared_folder, tmp_path / "copy.db")
    await writing
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert copy.execute("SELECT count(*) FROM namespaces").fetchone()[0] > 0


async def test_where_nothing_ran_there_is_nothing_to_copy(folder: Path, tmp_path: Path) -> None:
    assert not await copy_state(folder, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


async def test_a_new_start_after_a_kill_takes_over_and_a_stop_keeps_all(
    folder: Path, parent_of: Callable[..., Parent]
) -> None:
    parent = await asyncio.to_thread(parent_of, "temporal")
    [orphaned] = parent.children
    address = running_address(folder)
    assert address
    await remember(address, "before the kill")
    parent.kill()

    async with Temporal(folder, ui=True) as server:
        assert server.address == address
        assert not alive(orphaned)
        assert await runs(address, "before the kill")
        assert server.ui_url
        _, writer = await asyncio.open_connection(HOST, int(server.ui_url.rpartition(":")[2]))
        writer.close()
        pid = server.pid
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 10
    assert pid
    assert not alive(pid)
    assert running_address(folder) is None


async def test_a_port_that_somebody_took_is_left_to_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporal_server, "ORPHAN", 0.1)
    with socket.socket() as somebody:
        somebody.bind((HOST, 0))
        somebody.listen()
        taken = somebody.getsockname()[1]
        (Folder.prepare(folder).run / "temporal-port").write_text(f"{taken}\n")
        async with Temporal(folder) as server:
            assert server.address != f"{HOST}:{taken}"
            assert (folder / "run" / "temporal-port").read_text().strip() == server.address.rpartition(":")[2]
            assert running_address(folder) == server.address
