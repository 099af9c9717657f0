"""S7: an event with a hundred thousand subscribers moves: how soon the request is answered, reminders planned anew.

With the engine `due` that is all there is to do. With the engine `temporal` each reminder of each subscriber is a
schedule of its own, which is moved after the answer: that is measured with fewer, and told for each.
"""

from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

from bench.product import Product, product
from bench.report import Goal, Line, rate
from bench.s6 import line, make, until
from bench.scale import Scale
from bench.server import Server

TITLE = "S7  move an event with many subscribers"
MOVED = Goal(50, " ms", at_most=True)
SETTLED = "SELECT NOT EXISTS (SELECT FROM event_signal WHERE event_id = $1 AND handled_at IS NULL)"


async def measure(server: Server, scale: Scale) -> list[Line]:
    moves = await _due(server, scale)
    makes, changes = await _temporal(server, scale)
    each = sorted(moves)[len(moves) // 2] / scale.subscribers
    times = sorted(changes)[len(changes) // 2] / each
    return [
        line(f"engine due, {scale.subscribers:,} subscribers", moves, MOVED),
        rate(f"engine temporal, {scale.schedules:,}: made", makes, "ms each"),
        rate("engine temporal: moved", changes, "ms each", f"{times:,.0f} x the other, for each subscriber"),
    ]


async def _due(server: Server, scale: Scale) -> list[float]:
    """Milliseconds of a move; the first one is for warming up."""
    async with product(server) as running:
        await running.crowd(scale.subscribers)
        event = await make(running)
        await running.subscribe_all(event["id"])
        return [await _move(running, event, days) for days in range(1, scale.repetitions + 2)][1:]


async def _temporal(server: Server, scale: Scale) -> tuple[list[float], list[float]]:
    """Milliseconds for each subscriber until all schedules are made, and moved."""
    count = scale.schedules
    async with product(server, reminder_engine="temporal") as running:
        await running.crowd(count)
        event = await make(running, state="draft", reminder_offsets=[3600])
        await running.subscribe_all(event["id"])
        began = perf_counter()
        await running.call("POST", f"/v1/events/{event['id']}/publish")
        made = 1e3 * (await until(running, SETTLED, event["id"]) - began) / count
        began = perf_counter()
        await _move(running, event, 1)
        return [made], [1e3 * (await until(running, SETTLED, event["id"]) - began) / count]


async def _move(running: Product, event: Any, days: int) -> float:
    start = (datetime.now(UTC) + timedelta(days=7 + days)).isoformat()
    began = perf_counter()
    await running.call("PATCH", f"/v1/events/{event['id']}", {"start_date": start, "notify": False})
    return 1e3 * (perf_counter() - began)
