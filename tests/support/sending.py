"""The whole way of a delivery in this process: the ledger, the due queue, the sender, and real channels on loopback."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

from soonish.delivery.actions.ledger import revive
from soonish.delivery.channel import Channel
from soonish.delivery.channels.console import Console
from soonish.delivery.channels.webhook import Webhook
from soonish.delivery.egress import Guard
from soonish.delivery.model.facts import FactTypes
from soonish.delivery.model.health import Limits
from soonish.delivery.model.tries import Ladders
from soonish.delivery.outbox import SEND
from soonish.delivery.send.load import Loader
from soonish.delivery.send.record import Recorder
from soonish.delivery.send.sender import Pace, Sender
from soonish.due import Kind, Lane, Late, drain
from tests.support.ledger import Ledger

LOOPBACK = (ip_network("127.0.0.0/8"),)
LADDERS = Ladders(people=(0, 10, 60), short=(0, 5, 60), long=(0, 5, 300), broker=(0, 1, 5), unknown_pause=120)
LIMITS = Limits(5, timedelta(seconds=30), timedelta(minutes=15), timedelta(days=5))
PACE = Pace(address=0, host=0, workspace=0, share=100)


@dataclass
class Sending:
    """A sender over a ledger; `drain` works what is due."""

    ledger: Ledger
    ladders: Ladders = LADDERS
    limits: Limits = LIMITS
    pace: Pace = PACE
    timeout: float = 5.0
    channels: Mapping[str, Channel] = field(default_factory=dict)
    links: Mapping[str, Any] = field(default_factory=dict)
    tries_4xx: int = 1

    def __post_init__(self) -> None:
        one = self.ledger
        guard = Guard(LOOPBACK, plain_http=True)
        mine: dict[str, Channel] = {
            "console": Console(),
            "webhook": Webhook(guard, "0.1", self.timeout, self.tries_4xx),
        }
        self.sender = Sender(
            one.db,
            Loader(one.db, one.vault),
            Recorder(one.db, one.outbox, self.limits),
            {**mine, **self.channels},
            types=FactTypes(),
            ladders=self.ladders,
            pace=self.pace,
            links=self.links,
            chance=lambda: 0.0,
        )

    @property
    def kind(self) -> Kind:
        return Kind(SEND, self.sender, Lane.PEOPLE, Late.send(), tries=None, stream=True, on_revive=revive)

    async def drain(self) -> int:
        return await drain(self.ledger.db.loops, [self.kind])

    async def later(self, **span: float) -> None:
        """So much time passes for all that waits."""
        by = timedelta(**span)
        await self.ledger.run("UPDATE due.due SET wake_at = wake_at - $1::interval", by)
        for table in ("address", "endpoint"):
            await self.ledger.run(f"UPDATE {table} SET circuit_until = circuit_until - $1::interval", by)
        await self.ledger.run("UPDATE rate_slot SET next_at = next_at - $1::interval", by)
        await self.drain()

    async def attempts(self) -> list[dict[str, Any]]:
        return await self.ledger.rows("SELECT * FROM attempt ORDER BY delivery_id, n")

    async def close(self) -> None:
        await self.sender.close()
