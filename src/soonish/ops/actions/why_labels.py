"""What the due items of deliveries are about, and what they told: handed in like the words of any slice."""

from collections.abc import Mapping, Sequence
from typing import Any

from soonish.db.pool import Tx
from soonish.delivery.actions import ledger
from soonish.ops.model.items import Label
from soonish.ops.model.why import About, Story

_MESSAGE = "delivery.message"


async def label(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[Label]:
    """The items of kinds that begin with `delivery`."""
    sent = await ledger.entries_of(tx, _numbers(rows, ledger.SEND))
    titles = await ledger.titles_of(tx, _numbers(rows, _MESSAGE))
    return [_label(row, sent, titles) for row in rows]


async def tell(_tx: Tx, about: About) -> Story | None:
    """An item that carries out a message tells people under the cause of that message."""
    return Story(cause=f"message/{about.key}") if about.name == _MESSAGE else None


def _numbers(rows: Sequence[Mapping[str, Any]], kind: str) -> list[int]:
    return [int(row["key"]) for row in rows if row["kind"] == kind]


def _label(row: Mapping[str, Any], sent: Mapping[int, Any], titles: Mapping[int, str]) -> Label:
    kind, key = row["kind"], row["key"]
    if kind == ledger.SEND:
        entry = sent.get(int(key))
        if entry is None:
            return Label(f"Send delivery {key}, which is not kept any more")
        what = f"“{entry.title}”" if entry.delivery.message_id else f"of {entry.title}"
        return Label(f"Tell {entry.who} {what} by {entry.where}", f"/deliveries/{key}")
    if kind == _MESSAGE:
        title = titles.get(int(key))
        return Label(
            f"Tell people “{title}”" if title else f"Tell people message {key}", f"/deliveries?message_id={key}"
        )
    if kind == "delivery.replay":
        return Label(f"Send again what endpoint {key.partition('/')[0]} missed")
    return Label(f"Take back what is told under {key.rpartition(':')[0]}")
