"""`soonish why`: the sentence, then the steps in the order of time. Speaks HTTP only."""

from typing import Any

from soonish.cli import show
from soonish.cli.server import server

COLUMNS = ("at", "what", "text")


async def why(what: str, number: int, *, as_json: bool = False, **query: Any) -> None:
    """Why of a `delivery`, a `due` item or a `person`."""
    async with server() as soonish:
        told = await soonish.get(f"/v1/why/{what}/{number}", **query)
    if as_json:
        show.as_json(told)
        return
    show.say(show.clean(told["sentence"]))
    if told["steps"]:
        show.say("")
        show.table(COLUMNS, [(step["at"] or "", step["what"], step["text"]) for step in told["steps"]])
