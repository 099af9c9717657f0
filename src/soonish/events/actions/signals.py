"""What the workflow of an event is to hear: rows in the transaction of the change, and one item that sends them.

Nothing is sent here. The event's row is locked by the caller, so the ids have the order of the changes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from soonish.db.pool import Tx
from soonish.due import Put, put
from soonish.events.actions.rows import SQL
from soonish.events.model.items import SIGNAL


async def add_signal(tx: Tx, event_id: int, name: str, payload: Mapping[str, Any]) -> int:
    """Write a signal, to be sent at once; answers its number."""
    seq: int = await SQL.add_signal.value(
        tx, event_id=event_id, name=name, payload=msgspec.json.encode(payload).decode()
    )
    await put(tx, [Put(SIGNAL, str(event_id))])
    return seq
