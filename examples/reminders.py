"""Reminders in a program of your own: `soonish.due` alone, on your PostgreSQL, with asyncpg and no settings.

    python examples/reminders.py postgresql://user@localhost/database

A guest and the reminder are written in one transaction. Ada is told at her moment; Ben has no phone, so his reminder is
given up after three tries, kept with its reason, and sent when it is retried.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg

from soonish import due


class Watch(due.Observer):
    """Says when a reminder has been given up, and when two have been sent."""

    def __init__(self) -> None:
        self.given_up, self.all_sent, self.sent = asyncio.Event(), asyncio.Event(), 0

    def finished(self, lane: str, results: Sequence[Any]) -> None:
        super().finished(lane, results)
        self.sent += sum(result.fate == "done" for result in results)
        if any(result.fate == "dead" for result in results):
            self.given_up.set()
        if self.sent == 2:
            self.all_sent.set()


async def book(pool: asyncpg.Pool, guest: str, phone: str | None, seconds: float) -> None:
    """The guest and the reminder: both are there, or neither."""
    async with pool.acquire() as tx, tx.transaction():
        await tx.execute("INSERT INTO guest VALUES ($1, $2)", guest, phone)
        moment = await tx.fetchval("SELECT now()") + timedelta(seconds=seconds)
        await due.put(tx, [due.Put("hotel.remind", guest, moment, {"room": 7})])


async def main(dsn: str) -> None:
    async with asyncpg.create_pool(dsn, min_size=0) as pool:
        await due.install(pool)
        await pool.execute("CREATE TABLE IF NOT EXISTS guest (name text PRIMARY KEY, phone text); TRUNCATE guest")

        async def remind(item: due.Item) -> due.Fate:
            if not await pool.fetchval("SELECT phone FROM guest WHERE name = $1", item.key):
                raise LookupError("no phone")
            print(f"told {item.key} about room {item.payload['room']}")
            return due.DONE

        await book(pool, "Ada", "+49 30 1", seconds=1)
        await book(pool, "Ben", None, seconds=0)
        for row in await due.peek(pool):
            print(f"next: {row['key']} at {row['due_at']:%H:%M:%S} UTC")
        watch = Watch()
        kinds = [due.Kind("hotel.remind", remind, tries=3, first=timedelta(milliseconds=100))]
        async with due.Loop(pool, kinds, observer=watch):
            await watch.given_up.wait()
            (dead,) = await due.dead(pool)
            print(f"given up: {dead['key']}, {dead['last_error']}")
            async with pool.acquire() as tx, tx.transaction():
                await tx.execute("UPDATE guest SET phone = '+49 30 2' WHERE name = 'Ben'")
                await due.retry(tx, [dead["id"]])
            await watch.all_sent.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else os.environ["DATABASE_URL"]))
