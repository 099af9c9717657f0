"""Receivers that answer slowly, lie, drip, cut or die, all at once: each gets its ladder; a good one waits for none."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from soonish.db.pool import Database
from soonish.delivery.model.health import Limits
from soonish.delivery.model.tries import Ladders
from soonish.delivery.outbox import Fact
from soonish.due import Lane, Loop
from tests.support.due import until
from tests.support.ledger import Ledger
from tests.support.receiver import Receiver, Reply
from tests.support.sending import Sending

EACH = 40
QUICK = Ladders((0, 0.2, 0.4), (0, 0.2, 0.4), (0, 0.2, 0.4, 0.4), (0, 0.2), 0.2)
# A circuit would let one try a minute pass, which is right, and would take the ladders half an hour.
NO_CIRCUIT = Limits(100_000, timedelta(seconds=1), timedelta(seconds=1), timedelta(days=5))
WAYS: dict[str, tuple[Reply | int, ...]] = {
    "good": (200,),
    "slow": (Reply(delay=1.0),),
    "moved": (301,),
    "refusing": (422,),
    "gone": (410,),
    "busy": (Reply(429, headers={"Retry-After": "1"}), 200),
    "broken": (500,),
    "dripping": (Reply(way="drip"),),
    "cutting": (Reply(way="cut"),),
    "hanging": (Reply(way="hang"),),
    "babbling": (Reply(way="garbage"),),
    "huge": (Reply(way="huge"),),
}
ENDS = {
    "good": {"sent"}, "slow": {"sent"}, "busy": {"sent"}, "huge": {"sent"}, "dripping": {"sent"},
    "moved": {"failed"}, "refusing": {"failed"}, "broken": {"failed"}, "gone": {"failed", "skipped"},
    "cutting": {"failed"}, "hanging": {"failed"}, "babbling": {"failed"},
}  # fmt: skip


async def test_misbehaving_receivers_follow_their_ladders_and_delay_no_neighbour(
    db: Database, say: Callable[..., None]
) -> None:
    ledger = await Ledger.of(db)
    sending = Sending(ledger, ladders=QUICK, limits=NO_CIRCUIT, timeout=2.0)
    async with AsyncExitStack() as stack:
        receivers = {way: await stack.enter_async_context(Receiver(*replies)) for way, replies in WAYS.items()}
        for way, receiver in receivers.items():
            await ledger.endpoint(receiver.url, name=way, fact_types=[f"custom.{way}"], max_in_flight=20)
        async with Loop(db.loops, [sending.kind], lanes={Lane.PEOPLE: 256}):
            for n in range(EACH):
                async with db.transaction(1) as tx:
                    await ledger.outbox.state_all(tx, [_fact(way, n) for way in WAYS])
                await asyncio.sleep(0.05)
            await until(lambda: _settled(ledger), seconds=300)
    found = await _ends(ledger)
    late = await ledger.value(
        """SELECT max(extract(epoch FROM d.first_at - d.due_at)) FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id
           WHERE e.name = 'good'"""
    )
    say(
        **{way: "/".join(f"{state}:{count}" for state, count in found[way].items()) for way in WAYS},
        good_late=f"{late:.3f}s",
    )
    assert {way: set(found[way]) for way in WAYS} == {way: ENDS[way] & set(found[way]) for way in WAYS}
    assert all(sum(counts.values()) == EACH for counts in found.values())
    assert late < 5
    for receiver in receivers.values():
        assert len(set(receiver.ids)) <= EACH
    await sending.close()


def _fact(way: str, n: int) -> Fact:
    return Fact(cause=f"{way}/{n}", type=f"custom.{way}", subject="", data={"n": n})


async def _settled(ledger: Ledger) -> bool:
    return not await ledger.value("SELECT EXISTS (SELECT FROM delivery WHERE state = 'pending')")


async def _ends(ledger: Ledger) -> dict[str, dict[str, Any]]:
    rows = await ledger.rows(
        """SELECT e.name, d.state, count(*) AS count FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id
           GROUP BY 1, 2 ORDER BY 1, 2"""
    )
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["name"], {})[row["state"]] = row["count"]
    return found
