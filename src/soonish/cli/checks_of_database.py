"""What the doctor looks at in the database: roles, schema, bell, clock, keys, and what waits there. Changes nothing."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from soonish.app.installation import own_keys
from soonish.app.parts import SECRETS
from soonish.cli.checks import Check
from soonish.clock import utc_now
from soonish.db import migrate
from soonish.db.pool import Database, WrongDatabase, connect
from soonish.db.sql import load
from soonish.due import queue
from soonish.embedded.folder import Folder
from soonish.embedded.lock import holder
from soonish.embedded.postgres import running_url
from soonish.errors import SoonishError, Unavailable
from soonish.ops.actions.secrets import count_by_key
from soonish.settings import Settings, WrongSettings
from soonish.vault import Vault

SQL: Final = load(__file__)
HEARD_WITHIN: Final = 3.0  # seconds
SKEW_WARNS: Final = 2.0
SKEW_FAILS: Final = 30.0
MOST_COUNTED: Final = 100_000  # overdue items of a lane
LATE: Final = 60.0  # seconds overdue, or over a lease, after which nobody seems to work
HMAC_PLACE: Final = (0, "installation", "hmac_key", 1)


@dataclass(frozen=True, slots=True)
class Opened:
    """The database as the checks reach it."""

    settings: Settings
    url: str
    direct: str
    db: Database


Look: TypeAlias = Callable[[Opened], Awaitable[Check]]


async def of_database(settings: Settings) -> AsyncIterator[tuple[str, Check]]:
    """Each check stands on those before it: where one of the first three fails, the others are not looked at."""
    url = settings.database_url or running_url(settings.data_dir)
    yield "database", (found := await _database(settings, url))
    if found.state != "ok" or url is None:
        return
    direct = settings.database_listen_url or url
    yield "schema", (state := await _schema(direct))
    try:
        db = await Database.open(url, listen_url=direct)
    except WrongDatabase as error:
        yield "role", Check("fail", error.message, "Then run `soonish migrate`.")
        return
    try:
        yield "role", await _role(db)
        looks = {"LISTEN": _listen, "clock": _clock}
        if state.state == "ok":
            looks |= {"keys": _keys, "overdue": _overdue, "leases": _leases, "dead": _dead}
        for name, look in looks.items():
            yield name, await look(Opened(settings, url, direct, db))
    finally:
        await db.close()


async def _database(settings: Settings, url: str | None) -> Check:
    if url is None:
        if holder(settings.data_dir):
            return Check("fail", "does not answer", f"Read {Folder(settings.data_dir).logs}/postgres.log.")
        return Check("warn", "does not run, so the rest cannot be looked at", "`soonish up` starts it.")
    try:
        con = await connect(url)
    except SoonishError as error:
        return Check("fail", error.message, "Start it, or correct SOONISH_DATABASE_URL.")
    try:
        server = con.get_server_version()
        if server.major < migrate.OLDEST_SERVER:
            return Check(
                "fail", f"PostgreSQL {server.major}", f"PostgreSQL {migrate.OLDEST_SERVER} or newer is needed."
            )
        return Check("ok", f"PostgreSQL {server.major}.{server.micro}")
    finally:
        await con.close()


async def _schema(direct: str) -> Check:
    state = await migrate.check(direct)
    return Check("ok", migrate.HEAD) if state == "current" else Check("fail", state, f"{migrate.REMEDY[state]}.")


async def _role(db: Database) -> Check:
    async with db.transaction(0, readonly=True) as tx:
        role = await SQL.role.row(tx)
    if role["over_the_wall"]:
        remedy = f"As a superuser: ALTER ROLE {role['name']} NOSUPERUSER NOBYPASSRLS."
        return Check("fail", f"{role['name']} looks over the walls between workspaces", remedy)
    return Check("ok", f"{role['login']} acts as {role['name']}")


async def _listen(at: Opened) -> Check:
    """Ring on the connection that requests use, and listen on the one that the loops use."""
    word, heard = secrets.token_hex(8), asyncio.Event()

    def hear(_con: Any, _pid: int, _channel: str, payload: str) -> None:
        if payload == word:
            heard.set()

    listening, ringing = await connect(at.direct), await connect(at.url)
    try:
        await listening.add_listener("soonish_doctor", hear)
        await SQL.ring.value(ringing, word=word)
        async with asyncio.timeout(HEARD_WITHIN):
            await heard.wait()
    except TimeoutError:
        remedy = "A pooler stands between: set SOONISH_DATABASE_LISTEN_URL to the server itself."
        return Check("fail", "a NOTIFY does not arrive, so what is due now would be up to 30 s late", remedy)
    finally:
        listening.terminate()
        ringing.terminate()
    return Check("ok", "a NOTIFY arrives")


async def _clock(at: Opened) -> Check:
    before = utc_now()
    async with at.db.transaction(0, readonly=True) as tx:
        there = await SQL.clock.value(tx)
    after = utc_now()
    skew = max((before - there).total_seconds(), (there - after).total_seconds(), 0.0)
    text = f"{skew:.1f} s apart from the database's"
    remedy = "Let both machines follow one time server; only the database's clock decides what is due."
    if skew > SKEW_FAILS:
        return Check("fail", text, remedy)
    return Check("warn", text, remedy) if skew > SKEW_WARNS else Check("ok", text)


async def _keys(at: Opened) -> Check:
    try:
        vault = Vault.from_setting(own_keys(at.settings, Folder(at.settings.data_dir).keys))
    except WrongSettings as error:
        return Check("fail", error.message, "Put the keys back that this installation was made with.")
    counts = await count_by_key(at.db, SECRETS)
    async with at.db.transaction(0, readonly=True) as tx:
        sealed = await SQL.sealed.value(tx)
    try:
        if sealed is not None:
            vault.unseal(sealed, HMAC_PLACE)
    except Unavailable as error:
        return Check("fail", error.message, "Put the key back that this installation was made with.")
    if missing := ", ".join(sorted(set(counts) - set(vault.key_ids))):
        return Check("fail", f"values are sealed under {missing}", "Put that key back into SOONISH_SECRETS_KEYS.")
    if old := counts.total() - counts[vault.writing_key_id]:
        remedy = "`soonish migrate --rekey`; then the older keys may go."
        return Check("warn", f"{old} of {counts.total()} values are under older keys", remedy)
    return Check("ok", f"all {counts.total()} values are under {vault.writing_key_id}")


async def _overdue(at: Opened) -> Check:
    async with at.db.loops.acquire() as con:
        lanes = await queue.overdue(con)
        now = await SQL.clock.value(con)
    count, oldest = (
        sum(lane["count"] for lane in lanes),
        min((lane["oldest"] for lane in lanes if lane["oldest"]), default=now),
    )
    cut = any(lane["count"] >= MOST_COUNTED for lane in lanes)
    told = f"at least {count:,}" if cut else f"{count:,}"
    if (now - oldest).total_seconds() > LATE:
        remedy = "Does a process work? See `soonish due --overdue`, and what it logs."
        return Check("warn", f"{told} items, the oldest since {oldest:%Y-%m-%d %H:%M} UTC", remedy)
    return Check("ok", "nothing" if not count else f"{told} items, all of this minute")


async def _leases(at: Opened) -> Check:
    async with at.db.loops.acquire() as con:
        leases = await SQL.leases.row(con)
    if leases["longest_over_s"] > LATE:
        remedy = "Their process vanished, and no other works that lane: start `soonish work`."
        return Check("warn", f"{leases['over']} have run out and nobody takes them", remedy)
    return Check("ok", f"{leases['running']} items are being worked on")


async def _dead(at: Opened) -> Check:
    async with at.db.loops.acquire() as con:
        count = await SQL.dead.value(con)
    if count:
        return Check(
            "warn", f"{count} of the last day", "`soonish due --dead` says why; `soonish due retry ID` revives."
        )
    return Check("ok", "none of the last day")
