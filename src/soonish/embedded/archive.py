"""Dump a database into a file, and restore it: PostgreSQL's own programs, from the wheel.

Any database that a URL names, not only the embedded one. What a backup holds beside it, and whether the target is
empty, is not known here.
"""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncpg

from soonish.embedded.binaries import program
from soonish.embedded.processes import environment
from soonish.errors import SoonishError, Unavailable

Progress = Callable[[str], None]

_AWAY: Final = ("could not connect", "connection to server", "server closed the connection", "timeout expired")
_SAID: Final = {
    "server version mismatch": "The database is newer than the pg_dump that comes with Soonish; use its own pg_dump",
    "row-level security": (
        "The login role sees only its own rows; dump as a superuser, or run: ALTER ROLE ... BYPASSRLS"
    ),
    "No space left": "There is no space left for the archive",
}
_ROLE: Final = r'(?:"(?:[^"]|"")+"|\w+)'
_OWNER: Final = re.compile(rf"^ALTER [^;\n]+ OWNER TO ({_ROLE});$", re.MULTILINE)


class ArchiveFailed(SoonishError):
    """A dump or a restore ended early; nothing half-done was kept."""

    code = "archive_failed"


async def dump(url: str, path: Path, progress: Progress | None = None, *, snapshot: str | None = None) -> None:
    """Write the whole database, as of one moment, or of an exported snapshot, to `path`; `progress` hears all."""
    words = ["--format=custom", "--compress=gzip:3", "--verbose", f"--file={path}"]
    words += [f"--snapshot={snapshot}"] if snapshot else []
    await asyncio.to_thread(path.touch, 0o600)  # the program keeps this mode
    try:
        await _run("pg_dump", url, words, progress)
    except BaseException:
        await asyncio.to_thread(path.unlink, missing_ok=True)
        raise


async def restore(url: str, path: Path, progress: Progress | None = None, *, without: str = "") -> None:
    """Fill the empty database with what `path` holds, in one transaction; the product's roles must be there.

    All becomes the login role's, whoever owned it where it was dumped, except what a role without login owned: that
    limits what a function may see, so it is kept. `without` names a table (`schema.name`) whose rows are left out.
    """
    wanted = await _list_without(path, without)
    words = ("--no-owner", "--exit-on-error", "--single-transaction", "--verbose", f"--use-list={wanted}", path)
    await _run("pg_restore", url, words, progress)
    script = await _run("pg_restore", None, ("--schema-only", "--file=-", path), None)
    await _give_back(url, script)


async def _list_without(path: Path, table: str) -> Path:
    """The contents of an archive, beside it, but for the rows of one table."""
    contents = await _run("pg_restore", None, ("--list", path), None)
    left_out = f" TABLE DATA {table.replace('.', ' ')} "
    wanted = path.with_name(f"{path.name}.list")
    lines = [line for line in contents.splitlines(keepends=True) if left_out not in line]
    await asyncio.to_thread(wanted.write_text, "".join(lines))
    return wanted


async def _give_back(url: str, script: str) -> None:
    connection = await asyncpg.connect(_without(url, "pooler"), timeout=10)
    try:
        rows = await connection.fetch("SELECT quote_ident(rolname) AS name FROM pg_roles WHERE NOT rolcanlogin")
        roles = {row["name"] for row in rows}
        statements = [found[0] for found in _OWNER.finditer(script) if found[1] in roles]
        await connection.execute("".join(statements))
    finally:
        await connection.close()


async def _run(name: str, url: str | None, words: Sequence[str | Path], progress: Progress | None) -> str:
    """Run the program to its end and answer its output; what it says on the way is `progress`, at last the error."""
    target, secret = _target(url) if url else ((), {})
    process = await asyncio.create_subprocess_exec(
        program(name), *target, *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment() | secret
    )
    assert process.stdout and process.stderr
    try:
        output, said = await asyncio.gather(process.stdout.read(), _listen(process.stderr, progress))
        code = await process.wait()
    except BaseException:
        process.terminate()
        await process.wait()
        raise
    if code:
        raise _failure(name, said)
    return output.decode()


def _target(url: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The database as an argument, and the password apart: arguments can be read by everybody on the machine."""
    parts = urlsplit(url)
    user, at, where = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    password = unquote(password) or dict(parse_qsl(parts.query)).get("password", "")
    open_url = _without(_without(f"{parts.scheme}://{name}{at}{where}{parts.path}?{parts.query}", "pooler"), "password")
    return ("--no-password", f"--dbname={open_url}"), {"PGPASSWORD": password} if password else {}


def _without(url: str, name: str) -> str:
    """The URL without that part of its query."""
    base, _, query = url.partition("?")
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] != name]
    return f"{base}?{'&'.join(kept)}" if kept else base


async def _listen(stream: asyncio.StreamReader, progress: Progress | None) -> list[str]:
    """The last lines; each is handed on without the name of the program."""
    last: list[str] = []
    async for raw in stream:
        line = raw.decode(errors="replace").strip()
        last = [*last[-7:], line]
        if progress:
            progress(re.sub(r"^pg_\w+: ", "", line))
    return last


def _failure(name: str, said: list[str]) -> SoonishError:
    errors = [line for line in said if "error:" in line] or said[-1:]
    text = " ".join(said)
    for sign, sentence in _SAID.items():
        if sign in text:
            return ArchiveFailed(f"{sentence} ({' '.join(errors)})")
    if any(sign in text for sign in _AWAY):
        return Unavailable(f"The database is not reachable just now: {' '.join(errors)}")
    return ArchiveFailed(f"{name} failed: {' '.join(errors)}")
