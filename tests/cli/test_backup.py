"""`soonish backup`: everything in one file while all runs, and an installation from it that goes on where it stood."""

import asyncio
import io
import json
import re
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from soonish.cli import backup
from soonish.due import Put, put
from soonish.vault import make_key
from tests.support.service import Service, embedded_url, lines_of, notes, run
from tests.support.shell import shell


def manifest_of(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as tar:
        last = tar.getmembers()[-1]
        content = tar.extractfile(last)
        assert content
        assert last.name == "manifest.json"
        manifest: dict[str, Any] = json.load(content)
    return manifest


def names_in(archive: Path) -> set[str]:
    with tarfile.open(archive) as tar:
        return {name.partition("/")[0] for name in tar.getnames()}


def rewritten(archive: Path, target: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """The same archive with another manifest."""
    with tarfile.open(archive) as old, tarfile.open(target, "x") as new:
        for member in old.getmembers():
            content = old.extractfile(member)
            data = content.read() if content else b""
            if member.name == "manifest.json":
                manifest = json.loads(data)
                change(manifest)
                data = json.dumps(manifest).encode()
                member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return target


@pytest.fixture
def busy() -> Iterator[Service]:
    """One of its own, which may be stopped."""
    fresh = Service(SOONISH_LEASE="2s")
    yield fresh.start()
    fresh.remove()


@pytest.fixture
def elsewhere() -> Iterator[Service]:
    """An empty data directory."""
    fresh = Service()
    yield fresh
    fresh.remove()


async def test_under_load_it_is_one_moment_and_after_the_restore_all_that_waited_is_done_once(
    busy: Service, elsewhere: Service, tmp_path: Path
) -> None:
    ledger, archive = tmp_path / "ledger", tmp_path / "soonish.tar"
    (busy.folder / "shelf" / "clip.txt").write_text("fetched once")

    async def load() -> None:
        for batch in range(10_000):
            await busy.put(notes(ledger, [f"{batch}-{n}" for n in range(20)], seconds=0.5))

    async with busy.client() as soonish:
        putting = asyncio.create_task(load())
        await lines_of(ledger, 40)
        saved = await asyncio.to_thread(busy.run, "backup", "create", str(archive), "--with-keys")
        await soonish.get("/v1/me")  # it was never in the way
        putting.cancel()
        with suppress(asyncio.CancelledError):
            await putting
    assert (saved.returncode, saved.stderr) == (0, "")
    assert re.fullmatch(
        r"database \d+ rows in \d+ tables, schema \w+\ntemporal its state is in it\narchive .*\n", saved.stdout
    )
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    await asyncio.to_thread(busy.stop)
    ledger.rename(tmp_path / "before")

    counts = manifest_of(archive)["counts"]
    restored = await asyncio.to_thread(elsewhere.run, "backup", "restore", str(archive))
    assert (restored.returncode, restored.stderr) == (0, "")
    assert restored.stdout.endswith("paused everything, until `soonish due resume '*'`\n")
    assert (elsewhere.folder / "shelf" / "clip.txt").read_text() == "fetched once"
    assert {stat.S_IMODE(path.stat().st_mode) for path in elsewhere.folder.iterdir()} == {0o700}

    await asyncio.to_thread(elsewhere.start)
    waiting, done = await _state(elsewhere)
    assert len(waiting) > 0
    assert len(done) > 0
    assert counts["due.due_past"] == len(done) + await _others(elsewhere, "due_past")
    assert counts["due.due"] >= len(waiting)
    assert await lines_of(ledger, 1, within=0.5) == []
    resumed = await asyncio.to_thread(elsewhere.run, "due", "resume", "*")
    assert resumed.stdout == "resumed *\n"
    assert sorted(await lines_of(ledger, len(waiting))) == waiting
    assert not set(waiting) & done


async def _state(service: Service) -> tuple[list[str], set[str]]:
    """The keys that wait, and those that are done."""
    owner = await asyncpg.connect(embedded_url(service.folder))
    waiting = await owner.fetch("SELECT key FROM due.due WHERE kind = 'test.note' ORDER BY key COLLATE \"C\"")
    done = await owner.fetch("SELECT key FROM due.due_past WHERE kind = 'test.note'")
    await owner.close()
    return [row["key"] for row in waiting], {row["key"] for row in done}


async def _others(service: Service, table: str) -> int:
    """How many of the system's own it held before this start."""
    owner = await asyncpg.connect(embedded_url(service.folder))
    statement = f"SELECT count(*) FROM due.{table} WHERE kind <> 'test.note' AND finished_at < $1"
    started = await owner.fetchval("SELECT pg_postmaster_start_time()")
    count: int = await owner.fetchval(statement, started)
    await owner.close()
    return count


def test_keys_stay_out_of_it_unless_they_are_asked_for(service: Service, elsewhere: Service, tmp_path: Path) -> None:
    archive = tmp_path / "soonish.tar"
    assert shell("backup", "create", str(archive), environ=service.settings).code == 0
    assert names_in(archive) == {"database.dump", "temporal.db", "shelf", "manifest.json"}
    assert not manifest_of(archive)["keys"]

    restored = shell("backup", "restore", str(archive), environ=elsewhere.settings)
    assert restored.code == 0
    assert f"keys are not in it; put them into {elsewhere.folder / 'keys'} before the start\n" in restored.out
    refused = elsewhere.run("up")
    assert refused.returncode == 2
    assert f"or the file {elsewhere.folder / 'keys' / 'secrets-keys'}" in refused.stderr
    assert not any((elsewhere.folder / "keys").iterdir())


@pytest.fixture
async def archive(database_url: str, tmp_path: Path) -> Path:
    """A backup of a database that the settings name, with one item in it."""
    owner = await asyncpg.connect(database_url)
    async with owner.transaction():
        await put(owner, [Put("test.note", "kept")], workspace_id=1)
    await owner.close()
    target = tmp_path / "soonish.tar"
    settings = {"SOONISH_DATABASE_URL": database_url, "SOONISH_DATA_DIR": str(tmp_path / "data")}
    saved = await asyncio.to_thread(shell, "backup", "create", str(target), environ=settings)
    assert (saved.code, saved.err) == (0, "")
    return target


@pytest.fixture
def target(tmp_path: Path, bare_url: str) -> dict[str, str]:
    """Settings that name an empty database."""
    keys = {"SOONISH_SECRETS_KEYS": make_key()}
    return {"SOONISH_DATA_DIR": str(tmp_path / "fresh"), "SOONISH_DATABASE_URL": bare_url} | keys


async def restored(archive: Path, settings: dict[str, str], *more: str) -> tuple[int, str, str]:
    told = await asyncio.to_thread(shell, "backup", "restore", str(archive), *more, environ=settings)
    return told.code, told.out, told.err


async def value(url: str, statement: str) -> Any:
    owner = await asyncpg.connect(url)
    try:
        return await owner.fetchval(statement)
    finally:
        await owner.close()


@pytest.mark.parametrize("more", [(), ("--resume",)])
async def test_a_database_that_the_settings_name_is_restored_into_another(
    archive: Path, target: dict[str, str], bare_url: str, more: tuple[str, ...]
) -> None:
    code, out, err = await restored(archive, target, *more)
    assert (code, err) == (0, "")
    assert "temporal nothing\n" in out
    assert f"paused {'nothing' if more else 'everything, until'}" in out
    assert await value(bare_url, "SELECT count(*) FROM due.due WHERE key = 'kept'") == 1
    assert await value(bare_url, "SELECT count(*) FROM due.due_pause WHERE kind = '*' AND workspace_id = 0") == (
        not more
    )
    if not more:
        assert await value(bare_url, "SELECT reason FROM due.due_pause") == "restored from soonish.tar"


async def test_a_database_that_is_not_empty_is_left_alone(
    archive: Path, target: dict[str, str], database_url: str
) -> None:
    code, out, err = await restored(archive, target | {"SOONISH_DATABASE_URL": database_url})
    assert (code, out) == (1, "")
    assert "The database is not empty" in err
    assert await value(database_url, "SELECT count(*) FROM due.due_pause") == 0


async def test_what_does_not_count_as_it_did_is_refused(archive: Path, target: dict[str, str], tmp_path: Path) -> None:
    less = rewritten(archive, tmp_path / "less.tar", lambda manifest: manifest["counts"].update({"due.due": 7}))
    code, _, err = await restored(less, target)
    assert code == 1
    assert "due.due has 1 rows after the restore, and had 7" in err


async def test_a_restore_that_was_cut_short_starts_nothing(
    archive: Path, target: dict[str, str], bare_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backup, "_finish", cut)
    with pytest.raises(KeyboardInterrupt):
        await backup.restore(target, archive, resume=False)
    assert await value(bare_url, "SELECT count(*) FROM due.due WHERE key = 'kept'") == 1
    for command in ("work", "migrate"):
        settings: dict[str, Any] = target | ({"SOONISH_TEMPORAL_ADDRESS": "127.0.0.1:1"} if command == "work" else {})
        refused = await asyncio.to_thread(run, command, **settings)
        assert (refused.returncode, refused.stdout) == (5, "")
        assert "A restore into this database was cut short" in refused.stderr


def test_a_restore_that_failed_can_be_tried_again(service: Service, elsewhere: Service, tmp_path: Path) -> None:
    good = tmp_path / "good.tar"
    assert shell("backup", "create", str(good), environ=service.settings).code == 0
    bad = rewritten(good, tmp_path / "bad.tar", lambda manifest: manifest["counts"].update({"public.workspace": 7}))
    assert shell("backup", "restore", str(bad), environ=elsewhere.settings).code == 1
    assert shell("backup", "restore", str(good), environ=elsewhere.settings).code == 0
    used = shell("backup", "restore", str(good), environ=elsewhere.settings)
    assert used.code == 1
    assert f"{elsewhere.folder / 'pg'} is not empty" in used.err


@pytest.mark.parametrize(
    ("change", "told"), [({"format": 2}, "newer than this one"), ({"schema": "9999_later"}, "newer than this one")]
)
async def test_an_archive_of_a_newer_version_is_refused(
    archive: Path, target: dict[str, str], tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    newer = rewritten(archive, tmp_path / "newer.tar", lambda manifest: manifest.update(change))
    code, out, err = await restored(newer, target)
    assert (code, out) == (1, "")
    assert told in err


@pytest.mark.parametrize("part", [0, 100, 20_000])
async def test_a_file_that_is_no_whole_archive_is_refused(
    archive: Path, target: dict[str, str], bare_url: str, tmp_path: Path, part: int
) -> None:
    cut = tmp_path / "cut.tar"
    cut.write_bytes(archive.read_bytes()[:part])  # noqa: ASYNC240
    code, out, err = await restored(cut, target)
    assert (code, out) == (1, "")
    assert err.startswith(f"soonish: {cut} is no whole archive of Soonish: ")
    assert len(err.splitlines()) == 1
    assert await value(bare_url, "SELECT to_regclass('alembic_version')") is None


async def test_an_archive_cannot_write_outside_of_its_place(
    archive: Path, target: dict[str, str], tmp_path: Path
) -> None:
    evil = tmp_path / "evil.tar"
    with tarfile.open(evil, "x") as tar:
        member = tarfile.TarInfo("../../escaped")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
    code, _, err = await restored(evil, target)
    assert code == 1
    assert "is no whole archive" in err
    assert not (tmp_path.parent / "escaped").exists()


async def test_files_that_are_there_or_not_there_are_said(
    archive: Path, target: dict[str, str], tmp_path: Path, database_url: str
) -> None:
    settings = target | {"SOONISH_DATABASE_URL": database_url}
    taken = await asyncio.to_thread(shell, "backup", "create", str(archive), environ=settings)
    assert (taken.code, taken.out) == (1, "")
    assert f"{archive} is there already" in taken.err
    lost = await asyncio.to_thread(shell, "backup", "create", str(tmp_path / "no" / "x.tar"), environ=settings)
    assert (lost.code, lost.err) == (1, f"soonish: There is no folder {tmp_path / 'no'}\n")
    code, _, err = await restored(tmp_path / "never.tar", target)
    assert (code, err) == (1, f"soonish: There is no file {tmp_path / 'never.tar'}\n")
    assert not leftovers(tmp_path)


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob(".soonish*"))
