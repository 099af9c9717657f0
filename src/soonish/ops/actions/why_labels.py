"""What the due items of deliveries are about, and what they told: handed in like the words of any slice."""

from collections.abc import Mapping, Sequence
from typing import Any

from soonish.db.pool import Tx
from soonish.delivery.actions import ledger, messages
from soonish.ops.model.items import Label
from soonish.ops.model.why import About, Step, Story, audience_sentence

_MESSAGE = "delivery.message"


async def label(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> list[Label]:
    """The items of kinds that begin with `delivery`."""
    sent = await ledger.entries_of(tx, _numbers(rows, ledger.SEND))
    titles = await ledger.titles_of(tx, _numbers(rows, _MESSAGE))
    return [_label(row, sent, titles) for row in rows]


async def tell(_tx: Tx, about: About) -> Story | None:
    """An item that carries out a message tells people under the cause of that message."""
    return Story(cause=f"message/{about.key}") if about.name == _MESSAGE else None


async def tell_message(tx: Tx, about: About) -> Story | None:
    """How a message chose among people and addresses, if it did; those of slices say so themselves."""
    number = about.name.split("/")[1:2]
    found = await messages.find_message(tx, int(number[0])) if number and number[0].isdecimal() else None
    if found is None or found.to is None or ("tag" not in found.to and found.selectors is None):
        return None
    text = audience_sentence(found.to, found.selectors)
    return Story(steps=[Step(at=found.told_at or found.created_at, what="audience", text=text)])


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
