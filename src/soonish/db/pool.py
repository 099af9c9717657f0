"""Connections to PostgreSQL: one transaction for an action, and the loops' own pool.

A transaction costs one round trip before its statements and one after. It always runs as `soonish_app` in one
workspace; both are set for the transaction only and set anew by the next one, so nothing leaks with a connection.
Knows nothing of tables. Errors of the connection become ours here, once; all other errors pass.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from soonish.errors import SoonishError, Unavailable

Tx: TypeAlias = asyncpg.Connection
Step: TypeAlias = Callable[[Tx], Awaitable[None]]

ROLE = "soonish_app"
CONNECT_TIMEOUT = 5.0  # seconds, for a new connection
ACQUIRE_TIMEOUT = 10.0  # to wait for a free one
LOOPS = 32  # connections for loops at most: up to two a lane, and for each group of kinds with slots of their own
STATEMENT_TIMEOUT = 60.0  # after which a statement counts as a database that is away

# What runs just before the COMMIT of the one writing transaction of this request.
tx_steps: ContextVar[tuple[Step, ...]] = ContextVar("tx_steps", default=())

_FAILURES = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_REFUSALS = (*_FAILURES, ValueError)  # asyncpg lets some errors of reading a URL through
_AWAY = "The database is away; ask again in a moment"
_LOOP_SESSION = f"SET ROLE {ROLE}; SET soonish.workspace = '*'; SET plan_cache_mode = force_custom_plan"


class WrongDatabase(SoonishError):
    """The database answers, but cannot serve as it is; the message says what to run."""

    code = "wrong_database"


class Database:
    """The pools of one PostgreSQL: `transaction` for actions, `loops` for the due loops and housekeeping."""

    loops: asyncpg.Pool

    def __init__(self, pool: asyncpg.Pool, loops: asyncpg.Pool, direct_url: str) -> None:
        self._pool = pool
        self.loops = loops
        self._direct_url = direct_url

    @classmethod
    async def open(cls, url: str, size: int = 10, *, listen_url: str | None = None, loops: int = LOOPS) -> Self:
        """Open on `url`; the loops and the bell use `listen_url`, which must be direct where `url` is a pooler.

        Says what to run where the login role may not act as `soonish_app`; raises Unavailable where nobody answers.
        """
        direct = listen_url or url
        pool = await asyncpg.create_pool(**connect_args(url), min_size=0, max_size=size, reset=_keep)
        looping = await asyncpg.create_pool(
            **connect_args(direct), min_size=0, max_size=loops, reset=_keep, init=_enter_loop_session
        )
        database = cls(pool, looping, direct)
        try:
            async with database.transaction(0, readonly=True):
                pass
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self, timeout: float = 5.0) -> None:
        """End all connections; those still at work after `timeout` are cut."""
        for pool in (self._pool, self.loops):
            try:
                async with asyncio.timeout(timeout):
                    await pool.close()
            except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                pool.terminate()

    async def connect(self) -> asyncpg.Connection:
        """A fresh, direct connection of its own: for a Listener."""
        return await connect(self._direct_url)

    @asynccontextmanager
    async def transaction(self, workspace_id: int, *, readonly: bool = False) -> AsyncIterator[Tx]:
        """One transaction as `soonish_app` in one workspace (0 = the system's own).

        Retries nothing: see `db.again`. A lost answer to COMMIT is Unavailable; unique keys make a repeat harmless.
        """
        steps = tx_steps.get()
        async with self._connection() as con:
            try:
                await _enter(con, _begin(workspace_id, readonly))
                yield con
                await _commit(con, () if readonly else tx_steps.get())
            except BaseException as error:
                tx_steps.set(steps)  # those registered inside go: the next run registers its own
                ours = translated(error, con, readonly=readonly)
                await _undo(con, error, away=ours is not error)
                if ours is error:
                    raise
                raise ours from error
        if not readonly:
            tx_steps.set(())

    @staticmethod
    def before_commit(step: Step) -> None:
        """See `before_commit` of this module."""
        before_commit(step)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncpg.Connection]:
        try:
            con = await self._pool.acquire(timeout=ACQUIRE_TIMEOUT)
        except _REFUSALS as error:
            raise refused(error) from error
        try:
            yield con
        finally:
            await self._pool.release(con)


def before_commit(step: Step) -> None:
    """Run `step(tx)` once, just before the COMMIT of the next writing transaction of this request."""
    tx_steps.set((*tx_steps.get(), step))


async def connect(url: str, **changed: Any) -> asyncpg.Connection:
    """One connection as the login role, outside any pool."""
    try:
        return await asyncpg.connect(**connect_args(url) | changed)
    except _REFUSALS as error:
        raise refused(error, f"No database answers at {place(url)}; is it running?") from error


def connect_args(url: str) -> dict[str, Any]:
    """What asyncpg is given for a URL.

    `pooler=1` in its query says that a transaction pooler stands between: statements are then prepared without a name,
    since the next transaction may meet another server connection.
    """
    base, _, query = url.partition("?")
    pairs = query.split("&") if query else []
    kept = [pair for pair in pairs if pair != "pooler=1"]
    args: dict[str, Any] = {
        "dsn": f"{base}?{'&'.join(kept)}" if kept else base,
        "timeout": CONNECT_TIMEOUT,
        "command_timeout": STATEMENT_TIMEOUT,
        "server_settings": {"application_name": "soonish"},
    }
    return args if kept == pairs else {**args, "statement_cache_size": 0}


def place(url: str) -> str:
    """Where that is, without who logs in and how."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "localhost")
    return f"{host}{parts.path}"


def refused(error: BaseException, away: str = _AWAY) -> SoonishError:
    """Ours, for a connection that could not be had."""
    if isinstance(error, ValueError) and not isinstance(error, OSError):  # a certificate's error is both
        return WrongDatabase("The database URL cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(("28", "3D")):
        return Unavailable("The database refuses this login, or has no such database; check SOONISH_DATABASE_URL")
    return Unavailable(away)


def translated(error: BaseException, con: asyncpg.Connection, *, readonly: bool = False) -> BaseException:
    """The same error, or ours where it means that the database is away or full."""
    state = getattr(error, "sqlstate", None) or ""
    if state == "53100":
        return Unavailable("The database has no space left; nothing was saved", code="storage_full")
    # 25P03: ended for idling in a transaction. 25006: after a failover, a standby that takes no writes yet.
    if state.startswith(("08", "57P0", "53")) or state == "25P03" or (state == "25006" and not readonly):
        return Unavailable(_AWAY)
    # An action does no other I/O inside its transaction, so these two can only be the database's.
    if isinstance(error, ConnectionError | TimeoutError):
        return Unavailable(_AWAY)
    if _is_gone(con) and isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return Unavailable(_AWAY)
    return error


def _begin(workspace_id: int, readonly: bool) -> str:
    mode = "BEGIN READ ONLY" if readonly else "BEGIN"
    return f"{mode}; SET LOCAL ROLE {ROLE}; SET LOCAL soonish.workspace = '{int(workspace_id)}'"


async def _enter(con: asyncpg.Connection, statements: str) -> None:
    """Take our role; where that is refused, say what to grant."""
    try:
        await con.execute(statements)
    except asyncpg.InsufficientPrivilegeError as error:
        login = con.get_settings().session_authorization
        raise WrongDatabase(
            f'The login role {login!r} may not act as {ROLE}; run as a superuser: GRANT {ROLE} TO "{login}"'
        ) from error
    except asyncpg.InvalidParameterValueError as error:
        raise WrongDatabase(f"This database has no role {ROLE}; run `soonish migrate`", code="schema") from error


async def _enter_loop_session(con: asyncpg.Connection) -> None:
    await _enter(con, _LOOP_SESSION)


async def _commit(con: asyncpg.Connection, steps: tuple[Step, ...]) -> None:
    for step in steps:
        await step(con)
    # PostgreSQL answers COMMIT with ROLLBACK, and no error, where an earlier error was swallowed by the caller.
    if await con.execute("COMMIT") != "COMMIT":
        raise RuntimeError("An error inside the transaction was swallowed; nothing was saved")


async def _undo(con: asyncpg.Connection, error: BaseException, *, away: bool) -> None:
    """Leave no open transaction behind; a connection that does not obey is cut, and the pool makes another."""
    if _is_gone(con):
        return
    if away:
        con.terminate()
    elif con.is_in_transaction() or isinstance(error, asyncio.CancelledError):  # it may have cut our BEGIN short
        await _roll_back(con)


async def _roll_back(con: asyncpg.Connection) -> None:
    try:
        await con.execute("ROLLBACK", timeout=CONNECT_TIMEOUT)
    except BaseException as error:
        if not _is_gone(con):
            con.terminate()
        if not isinstance(error, _FAILURES):
            raise


def _is_gone(con: asyncpg.Connection) -> bool:
    """Whether it is closed; the pool takes back at once what is, and then it answers nothing any more."""
    try:
        return con.is_closed()  # type: ignore[no-any-return]
    except asyncpg.InterfaceError:
        return True


async def _keep(_con: asyncpg.Connection) -> None:
    """Instead of asyncpg's reset, which costs a round trip.

    asyncpg has already ended an open transaction and removed listeners; role and workspace were set for the transaction
    only (or, in `loops`, for good).
    """
