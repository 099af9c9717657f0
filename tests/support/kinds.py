"""Kinds of due items for tests through the real process: their effects are lines in a file, which a test can count.

A process loads them by SOONISH_TEST_KINDS=tests.support.kinds:kinds.
"""

import asyncio
import os

from soonish.due import DONE, Fate, Item, Kind, Lane, Late


def kinds() -> list[Kind]:
    return [
        Kind("test.note", note, lane=Lane.PEOPLE, late=Late.send()),
        Kind("test.poison", poison, lane=Lane.CONTROL, tries=1),
    ]


async def note(item: Item) -> Fate:
    """Append the key to the file that the payload names; a second run appends a second line, and a test sees it."""
    payload = item.payload
    await asyncio.sleep(payload.get("seconds", 0))
    file = os.open(payload["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, f"{item.key}\n".encode())
    finally:
        os.close(file)
    return DONE


async def poison(item: Item) -> Fate:
    """Never works, so it dies at once."""
    raise RuntimeError("poison: \x1b[31mnever\nworks")
