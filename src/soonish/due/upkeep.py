"""The due tables themselves: make them, and keep the days of their past.

Takes a pool, because each step commits by itself. Knows no items.
"""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from soonish.db.sql import Statements, in_schema, load

CHUNK = 1_000
INDEX_TIMEOUT = 7_200.0  # seconds, for the index of a whole day
DROP_TRIES, DROP_WAIT = 10, 0.3  # while somebody reads an old day


async def keep_days(pool: Any, *, keep: timedelta, ahead: int = 7, schema: str = "due") -> None:
    """Make the coming days of the history, index those that are over, remove what is older than `keep`.

    Each step commits by itself, so that no finish waits for more than a moment. An old day that somebody reads stays
    until the next time.
    """
    sql = load(__file__, schema)
    async with pool.acquire() as con:
        await sql.days.value(con, ahead=ahead)
        while await con.fetchval(sql.index_day.text, timeout=INDEX_TIMEOUT):
            pass
        await _drop_days(con, sql, keep)
        while await sql.sweep_past.value(con, keep=keep, k=CHUNK) == CHUNK:
            pass


async def _drop_days(con: Any, sql: Statements, keep: timedelta) -> None:
    refusals = 0
    while refusals < DROP_TRIES and (day := await sql.drop_day.value(con, keep=keep)) is not None:
        if not day:
            refusals += 1
            await asyncio.sleep(DROP_WAIT)


async def install(pool: Any, schema: str = "due") -> None:
    """Make the due tables in a schema of their own; safe to repeat."""
    text = Path(__file__).with_name("schema.sql").read_text()
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('soonish.due.install'))")
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema};\n{in_schema(text, schema)}")
        await load(__file__, schema).days.value(connection, ahead=7)
