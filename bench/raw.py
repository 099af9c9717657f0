"""The limit: bare SQL that does the least a queue must, in batches of 1000. No fence, no lease, no history."""

from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

import asyncpg

BATCH = 1_000
TABLE = """
CREATE TABLE item (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, due_at timestamptz NOT NULL,
                   taken boolean NOT NULL DEFAULT false, key text NOT NULL, payload jsonb NOT NULL);
CREATE INDEX item_due ON item (due_at) WHERE NOT taken;
"""
FILL = """
INSERT INTO item (due_at, key, payload)
SELECT $1::timestamptz, u.key, u.payload::jsonb FROM unnest($2::text[], $3::text[]) AS u (key, payload)
"""
# The last batch goes, the next one is taken: one statement, one round trip.
TURN = f"""
WITH gone AS (DELETE FROM item WHERE id = ANY($1::bigint[]))
UPDATE item SET taken = true
WHERE id = ANY(ARRAY(SELECT id FROM item WHERE NOT taken AND due_at <= now()
                     ORDER BY due_at LIMIT {BATCH} FOR UPDATE SKIP LOCKED))
RETURNING id, payload
"""


async def prepare(con: Any, pending: int) -> None:
    await con.execute(TABLE)
    await put(con, pending)


async def put(con: Any, count: int) -> float:
    """Rows a second of bare inserts, each batch in a transaction of its own."""
    at = datetime.now(UTC) - timedelta(seconds=1)
    began = perf_counter()
    for start in range(0, count, BATCH):
        keys = [str(number) for number in range(start, min(start + BATCH, count))]
        await con.execute(FILL, at, keys, [f'{{"n":{key}}}' for key in keys])
    return count / (perf_counter() - began)


async def work(url: str, count: int) -> float:
    """Rows a second, taken and removed; the same number is put back first."""
    con = await asyncpg.connect(url)
    try:
        done: list[int] = []
        await con.fetch(TURN, done)
        began, total = perf_counter(), 0
        while total < count:
            done = [row["id"] for row in await con.fetch(TURN, done)]
            total += len(done)
        return total / (perf_counter() - began)
    finally:
        await con.close()
