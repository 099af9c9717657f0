"""S6: an event with a hundred thousand subscribers changes: how soon the request is answered, the first has the
message, and all are in the ledger. The way is the whole one: HTTP, a signal, a workflow, its activity, pages, inboxes.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

from bench.product import Product, product
from bench.report import Goal, Line, rate
from bench.scale import Scale
from bench.server import Server

TITLE = "S6  tell all subscribers of an event"
ANSWER, LEDGER, FIRST = Goal(50, " ms", at_most=True), Goal(2_000, " ms", at_most=True), Goal(300, " ms", at_most=True)
PATIENCE = 300.0
TOLD = "SELECT state = 'told' FROM broadcast WHERE id = $1"
SENT = "SELECT NOT EXISTS (SELECT FROM due.due WHERE kind = 'delivery.send' AND $1::bigint > 0)"
FIRST_AT = """
SELECT min(t.ended_at) FROM attempt t JOIN delivery d ON d.id = t.delivery_id JOIN message m ON m.id = d.message_id
WHERE m.cause = 'event/' || $1::bigint || '/broadcast/' || $2::bigint"""


async def measure(server: Server, scale: Scale) -> list[Line]:
    answers, firsts, ledgers, speeds = [], [], [], []
    async with product(server) as running:
        await running.crowd(scale.subscribers)
        event = await make(running)
        await running.subscribe_all(event["id"])
        await _warm_up(running)
        for turn in range(max(1, scale.repetitions // 2)):
            asked, began = await running.sql.fetchval("SELECT clock_timestamp()"), perf_counter()
            told = await running.call("PATCH", f"/v1/events/{event['id']}", {"location": f"Hall {turn}"})
            answers.append(1e3 * (perf_counter() - began))
            ledgers.append(1e3 * (await until(running, TOLD, told["broadcast_id"]) - began))
            speeds.append(scale.subscribers / (await until(running, SENT, told["broadcast_id"]) - began))
            first = await running.sql.fetchval(FIRST_AT, event["id"], told["broadcast_id"])
            firsts.append((first - asked) / timedelta(milliseconds=1))
    return [
        line("answered", answers, ANSWER),
        line("the first delivery", firsts, FIRST),
        line(f"{scale.subscribers:,} in the ledger", ledgers, LEDGER),
        rate("all of them in their inboxes", speeds, "/s"),
    ]


async def make(running: Product, **more: Any) -> Any:
    """An event of next week."""
    start = (datetime.now(UTC) + timedelta(days=7)).isoformat()
    return await running.call("POST", "/v1/events", {"name": "Garden party", "start_date": start} | more)


async def until(running: Product, question: str, *values: Any) -> float:
    """When the answer of the database became yes."""
    async with asyncio.timeout(PATIENCE):
        while not await running.sql.fetchval(question, *values):  # noqa: ASYNC110 - it is the database that is asked
            await asyncio.sleep(0.01)
    return perf_counter()


def line(what: str, values: list[float], goal: Goal) -> Line:
    """Milliseconds beside their goal."""
    return rate(what, values, "ms", verdict=goal.verdict(sorted(values)[len(values) // 2]))


async def _warm_up(running: Product) -> None:
    """An event with one subscriber: the first workflow of a process loads much."""
    event, person = await make(running), await running.sql.fetchval("SELECT min(id) FROM person")
    await running.call("POST", f"/v1/events/{event['id']}/subscriptions", {"person_id": person, "welcome": False})
    told = await running.call("PATCH", f"/v1/events/{event['id']}", {"location": "Yard"})
    await until(running, TOLD, told["broadcast_id"])
    await until(running, SENT, told["broadcast_id"])
