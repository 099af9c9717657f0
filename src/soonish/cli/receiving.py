"""`soonish receiver`: reads what was typed, and receives. Knows no HTTP."""

import sys
from collections.abc import Sequence

import typer

from soonish import receiver, spelling
from soonish.cli import show
from soonish.delivery.model.webhooks import read_secret
from soonish.errors import Invalid


async def receive(bind: str, statuses: Sequence[int], secrets: Sequence[str]) -> None:
    """Print what arrives, until the program is interrupted."""
    if strange := [one for one in statuses if not 200 <= one <= 599]:
        raise typer.BadParameter(f"{strange[0]} is no status to answer; write 200 to 599")
    try:
        where, known = spelling.bind(bind), [read_secret(_given(text)) for text in secrets]
    except (ValueError, Invalid) as error:
        raise typer.BadParameter(str(error)) from error
    await receiver.run(show.say, where.host, where.port, statuses, known)


def _given(text: str) -> str:
    return sys.stdin.readline().strip() if text == "-" else text
