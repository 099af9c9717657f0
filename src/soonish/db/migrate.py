"""Bring a database to the schema of this program, and say how far it is.

Alembic knows the order of the versions and writes their SQL down; one asyncpg connection runs it, under an advisory
lock, each version in a transaction of its own. Safe to repeat, and from many processes at once. How a version is
written is told in `migrations/wall.py`. Needs a direct connection: a transaction pooler would lose the lock.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Final, Literal, TypeAlias

import asyncpg

from soonish.db.pool import CONNECT_TIMEOUT, WrongDatabase, connect, translated
from soonish.errors import Unavailable

State: TypeAlias = Literal["current", "behind", "ahead", "empty", "unfinished"]

MIGRATIONS: Final = Path(__file__).with_name("migrations")
VERSIONS: Final = tuple(sorted(file.stem for file in MIGRATIONS.glob("versions/[0-9]*.py")))
HEAD: Final = VERSIONS[-1]
OLDEST_SERVER: Final = 16
REMEDY: Final[dict[State, str]] = {
    "empty": "The database is empty; run `soonish migrate`",
    "behind": "The schema is older than this version; run `soonish migrate`",
    "ahead": "The schema is newer than this version; run the newer Soonish",
    "unfinished": "A restore into this database was cut short; empty it, or take a fresh SOONISH_DATA_DIR, and repeat",
}
LOCK_TIMEOUT: Final = "5s"

# In the whole server, so another database may be doing the same at this moment. A login role that is no superuser
# must be able to act as both: as the one to serve, as the other to hand over functions.
_ROLES: Final = """
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['soonish_app', 'soonish_lookup'] LOOP
    IF to_regrole(name) IS NULL THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', name);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
      END;
    END IF;
    IF NOT pg_has_role(name, 'SET') THEN
      BEGIN
        EXECUTE format('GRANT %I TO CURRENT_USER', name);
      EXCEPTION WHEN unique_violation THEN NULL;
      END;
    END IF;
  END LOOP;
END $$"""


async def migrate(url: str, to: str = HEAD) -> list[str]:
    """Apply the versions that the database lacks, and answer their names."""
    async with _connection(url) as con:
        await con.execute("SELECT pg_advisory_lock(hashtext('soonish.migrate'))")  # held until the connection ends
        await _prepare(con)
        at = await _version(con)
        if _state(at) == "ahead":
            raise WrongDatabase(f"The database is at {at}, made by a newer Soonish; run that one", code="schema")
        if _state(at) == "unfinished":
            raise WrongDatabase(REMEDY["unfinished"], code="schema")
        missing = VERSIONS[VERSIONS.index(at) + 1 if at else 0 : VERSIONS.index(to) + 1]
        if missing:
            await _run(con, _script(at, to))
        return list(missing)


async def check(url: str) -> State:
    """How the schema of the database stands to that of this program; changes nothing."""
    async with _connection(url) as con:
        return _state(await _version(con))


async def make_roles(url: str) -> None:
    """Make the roles alone: they belong to the server, so a dump of a database names them and does not hold them."""
    async with _connection(url) as con:
        await _prepare(con)


async def finish_restore(con: asyncpg.Connection, version: str) -> None:
    """Say at which version a database is that was restored without saying so; until then nobody works on it."""
    await con.execute("INSERT INTO public.alembic_version (version_num) VALUES ($1)", version)


def _state(at: str | None) -> State:
    if at is None:
        return "empty"
    if not at:
        return "unfinished"
    if at not in VERSIONS:
        return "ahead"
    return "current" if at == HEAD else "behind"


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[asyncpg.Connection]:
    con = await connect(url, command_timeout=None)  # a version takes the time that its rows need
    try:
        yield con
    except asyncpg.InsufficientPrivilegeError as error:
        raise WrongDatabase(f"The login role may not do this: {error}; run it as the owner of the database") from error
    except Exception as error:
        if (ours := translated(error, con)) is error:
            raise
        raise ours from error
    finally:
        await con.close(timeout=CONNECT_TIMEOUT)


async def _version(con: asyncpg.Connection) -> str | None:
    """None in an empty database, and an empty text where a restore did not come to its end."""
    if await con.fetchval("SELECT to_regclass('public.alembic_version')") is None:
        return None
    return await con.fetchval("SELECT version_num FROM public.alembic_version") or ""


async def _prepare(con: asyncpg.Connection) -> None:
    """Make the roles, which belong to the whole server, and see that they cannot look over the wall."""
    if con.get_server_version().major < OLDEST_SERVER:
        raise WrongDatabase(f"PostgreSQL {OLDEST_SERVER} or newer is needed; this is {con.get_server_version().major}")
    try:
        await con.execute(_ROLES)
    except asyncpg.InsufficientPrivilegeError as error:
        login = con.get_settings().session_authorization
        raise WrongDatabase(
            f"The login role {login!r} may not make and take the roles of Soonish; run as a superuser: "
            f"CREATE ROLE soonish_app NOLOGIN; CREATE ROLE soonish_lookup NOLOGIN; "
            f'GRANT soonish_app, soonish_lookup TO "{login}" (a role that is there already needs only the GRANT)'
        ) from error
    if await con.fetchval(
        "SELECT bool_or(rolsuper OR rolbypassrls) FROM pg_roles WHERE rolname ~ '^soonish_(app|lookup)$'"
    ):
        raise WrongDatabase("soonish_app and soonish_lookup must be neither SUPERUSER nor BYPASSRLS; see ALTER ROLE")


async def _run(con: asyncpg.Connection, script: str) -> None:
    await con.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'; SET search_path = public")
    try:
        await con.execute(script)
    except asyncpg.LockNotAvailableError as error:
        raise Unavailable(
            "A table is held by a long transaction; end that, then run `soonish migrate` again"
        ) from error


def _script(at: str | None, to: str) -> str:
    """The SQL between two versions: each step in a transaction, with the note that it was made."""
    from alembic.operations import Operations  # heavy, and a start rarely migrates
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    script = StringIO()
    revisions = ScriptDirectory(MIGRATIONS)
    context = MigrationContext.configure(
        dialect_name="postgresql",
        opts={
            "as_sql": True,
            "output_buffer": script,
            "transaction_per_migration": True,
            "starting_rev": at,
            "fn": lambda since, _context: revisions._upgrade_revs(to, since),
        },
    )
    with Operations.context(context):
        context.run_migrations()
    return script.getvalue()
