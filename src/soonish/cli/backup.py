"""`soonish backup`: everything in one archive, and an installation from it.

The archive is a tar: `database.dump`, `temporal.db`, `shelf/`, with `--with-keys` also `keys/`, and `manifest.json` at
its end, so that one that was cut short is known as such. The database is read first and as of one moment; what comes
after it can only be newer, which the workflows are made for. Knows files, not rows.
"""

import json
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import asyncpg

from soonish.cli import show
from soonish.cli.database import database
from soonish.clock import show_instant, utc_now
from soonish.db import migrate
from soonish.db.pool import connect
from soonish.db.sql import load
from soonish.due import queue
from soonish.embedded.archive import dump
from soonish.embedded.archive import restore as load_dump
from soonish.embedded.folder import Folder
from soonish.embedded.temporal_server import copy_state
from soonish.errors import Conflict, Invalid, NotFound
from soonish.settings import Settings

Manifest: TypeAlias = dict[str, Any]

SQL: Final = load(__file__)
DUMP: Final = "database.dump"
STATE: Final = "temporal.db"
MANIFEST: Final = "manifest.json"
VERSION: Final = "public.alembic_version"
FORMAT: Final = 1
PRIVATE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


class BadArchive(Invalid):
    """This file is no backup that can be restored here."""

    code = "bad_archive"


async def create(environ: Mapping[str, str], path: Path, *, with_keys: bool) -> None:
    """Write the archive beside its place first, so that what stands there is whole."""
    settings = Settings.read(environ)
    _refuse_taken(path)
    folder = Folder(settings.data_dir)
    with _scratch(path) as scratch:
        async with database(settings) as url:
            manifest = await _dump(url, scratch / DUMP)
        manifest["temporal"] = await copy_state(settings.data_dir, scratch / STATE)
        manifest["keys"] = with_keys and folder.keys.exists()
        (scratch / MANIFEST).write_text(json.dumps(manifest, indent=2))
        parts = [scratch / DUMP, scratch / STATE, folder.shelf, scratch / MANIFEST]
        _pack([*parts[:-1], folder.keys, parts[-1]] if with_keys else parts, scratch / "archive")
        (scratch / "archive").replace(path)
    _tell(manifest)
    show.line("archive", str(path))


async def restore(environ: Mapping[str, str], path: Path, *, resume: bool) -> None:
    """Into an empty data directory, or where the settings name a database, into that, which must be empty too."""
    settings = Settings.read(environ)
    _refuse_used(settings)
    with _scratch(path) as scratch:
        manifest = _unpack(path, scratch)
        folder = Folder.prepare(settings.data_dir)
        try:
            async with database(settings, make=True) as url:
                await _fill(url, scratch / DUMP, manifest)
                await _finish(url, manifest["schema"], paused=None if resume else f"restored from {path.name}")
        except BaseException:
            if settings.database_url is None:
                shutil.rmtree(folder.pg, ignore_errors=True)  # it was empty before, so the next try finds it empty
            raise
        _place(scratch, folder)
    _tell(manifest)
    if not manifest["keys"] and settings.secrets_keys is None:
        show.line("keys", f"are not in it; put them into {folder.keys} before the start")
    show.line("paused", "nothing" if resume else "everything, until `soonish due resume '*'`")


async def _dump(url: str, target: Path) -> Manifest:
    """The database, and how many rows its tables have, as of one moment."""
    con = await connect(url, command_timeout=None)
    try:
        async with con.transaction(isolation="repeatable_read", readonly=True):
            counts = await _counts(con)
            await dump(url, target, snapshot=await SQL.snapshot.value(con))
            schema = await SQL.schema.value(con)
    finally:
        await con.close()
    made = {"format": FORMAT, "soonish": version("soonish"), "made_at": show_instant(utc_now())}
    return {**made, "schema": schema, "counts": counts}


async def _fill(url: str, source: Path, manifest: Manifest) -> None:
    """Load and compare. Without its version nobody works on it, whatever happens before the end."""
    if await migrate.check(url) != "empty":
        raise Conflict("The database is not empty; restore into one that is")
    await migrate.make_roles(url)
    await load_dump(url, source, without=VERSION)
    con = await connect(url, command_timeout=None)
    try:
        counts = await _counts(con)
    finally:
        await con.close()
    for name, count in manifest["counts"].items():
        if counts.get(name) != count and name != VERSION:
            raise BadArchive(f"{name} has {counts.get(name, 'no')} rows after the restore, and had {count}")


async def _finish(url: str, schema: str, *, paused: str | None) -> None:
    """Pause everything and say that all is there, both or neither; then bring an older schema to this version."""
    con = await connect(url)
    try:
        async with con.transaction():
            if paused:
                await SQL.enter_everywhere.value(con)
                await load(queue.__file__).pause.value(con, workspace_id=0, kind="*", reason=paused)
            await migrate.finish_restore(con, schema)
    finally:
        await con.close()
    await migrate.migrate(url)


async def _counts(con: asyncpg.Connection) -> dict[str, int]:
    return {row["name"]: row["rows"] for row in await con.fetch(await SQL.counting.value(con))}


# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    """A folder on the disk of the archive, for its owner alone, gone afterwards."""
    parent = path.absolute().parent
    try:
        with TemporaryDirectory(prefix=".soonish-backup-", dir=parent) as folder:
            yield Path(folder)
    except FileNotFoundError as error:
        raise NotFound(f"There is no folder {parent}") from error


def _pack(parts: Iterable[Path], target: Path) -> None:
    with tarfile.open(target, "x") as archive:
        target.chmod(PRIVATE)
        for part in parts:
            if part.exists():
                archive.add(part, part.name)


def _unpack(path: Path, scratch: Path) -> Manifest:
    try:
        with tarfile.open(path, "r:") as archive:
            archive.extractall(scratch, filter="data")
        manifest: Manifest = json.loads((scratch / MANIFEST).read_text())
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path}") from error
    except (OSError, tarfile.TarError, ValueError) as error:
        raise BadArchive(f"{path} is no whole archive of Soonish: {error}") from error
    if manifest["format"] != FORMAT or manifest["schema"] not in migrate.VERSIONS:
        raise BadArchive(f"{path} was made by Soonish {manifest['soonish']}, which is newer than this one")
    return manifest


def _refuse_taken(path: Path) -> None:
    if path.exists():
        raise Conflict(f"{path} is there already; name another file")


def _refuse_used(settings: Settings) -> None:
    folder = Folder(settings.data_dir)
    for part in (folder.pg, folder.temporal, folder.shelf):
        if part.exists() and any(part.iterdir()):
            raise Conflict(f"{part} is not empty; restore into a fresh SOONISH_DATA_DIR")


def _place(scratch: Path, folder: Folder) -> None:
    """Where the start looks for them."""
    if (scratch / STATE).exists():
        shutil.move(scratch / STATE, folder.temporal / STATE)
    for part in (folder.shelf, folder.keys):
        if (scratch / part.name).exists():
            shutil.copytree(scratch / part.name, part, dirs_exist_ok=True)
            part.chmod(PRIVATE_FOLDER)


def _tell(manifest: Manifest) -> None:
    counts = manifest["counts"]
    show.line("database", f"{sum(counts.values())} rows in {len(counts)} tables, schema {manifest['schema']}")
    show.line("temporal", "its state is in it" if manifest["temporal"] else "nothing")
