"""`soonish send`: tell somebody something, and see how it went. Speaks HTTP only."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from soonish.cli import show
from soonish.cli.server import server
from soonish.client import Soonish
from soonish.errors import NotFound, SoonishError

PATIENCE: Final = 30.0  # seconds for all of it
ONE_WAIT: Final = 20  # seconds that one request may wait: less than the client's patience
EVERY: Final = 0.1  # seconds between two looks for deliveries that are not written yet


@dataclass(frozen=True, slots=True)
class Letter:
    """What to say to whom, and when; at once if no moment is given."""

    to: str
    title: str
    body: str
    level: str = "info"
    at: str | None = None


class NobodyTold(SoonishError):
    """It was asked for, and reached nobody yet."""


async def send(letter: Letter) -> None:
    """Put the message; without a moment wait for its deliveries and print each: channel, state, reason, late_ms."""
    async with server() as soonish:
        message = {"title": letter.title, "body": letter.body, "level": letter.level, "send_at": letter.at}
        made = await soonish.post("/v1/messages", message | {"to": await _recipient(soonish, letter.to)})
        if letter.at is not None:
            show.line("message", str(made["id"]))
            return
        told = await _outcome(soonish, made["id"])
    for one in told:
        show.say("  ".join(_cells(one)))
    if not any(one["state"] == "sent" for one in told):
        raise NobodyTold(f"Nobody was told by message {made['id']}{_remedy(told)}")


async def _recipient(soonish: Soonish, to: str) -> Mapping[str, Any]:
    """A number is the id of a person, what holds an @ their email, anything else an id that you gave them."""
    if to.isdecimal():
        return {"person_ids": [int(to)]}
    if "@" not in to:
        return {"external_ids": [to]}
    found = (await soonish.get("/v1/people", email=to))["items"]
    if not found:
        raise NotFound(f"Nobody here has the email {to}; see `soonish api GET /v1/people`")
    return {"person_ids": [found[0]["id"]]}


async def _outcome(soonish: Soonish, message_id: int) -> Sequence[Mapping[str, Any]]:
    """The deliveries of the message when all of them have ended, or as they are when our patience has."""
    clock = asyncio.get_running_loop().time
    end = clock() + PATIENCE
    while True:
        told = [one async for one in soonish.list("/v1/deliveries", message_id=message_id)]
        open_ = [one["id"] for one in told if one["state"] == "pending"]
        left = end - clock()
        if (told and not open_) or left <= 0:
            return told
        if open_:
            await soonish.get(f"/v1/deliveries/{open_[0]}", wait=max(1, min(ONE_WAIT, int(left))))
        else:
            await asyncio.sleep(EVERY)


def _cells(one: Mapping[str, Any]) -> Sequence[str]:
    late = "-" if one["late_ms"] is None else str(one["late_ms"])
    return one["channel"], one["state"], one["reason"] or "-", late


def _remedy(told: Sequence[Mapping[str, Any]]) -> str:
    if not told:
        return " yet: it was not taken up in time; is a `work` process running? See `soonish doctor`"
    return f"; `soonish why delivery {told[0]['id']}` tells why"
