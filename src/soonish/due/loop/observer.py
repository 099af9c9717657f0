"""What a loop tells of itself: for metrics, and for the lines of the log. By default it logs and counts nothing.

Every method is called once a batch, never once an item, and must not raise.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from soonish.due.model import Item

if TYPE_CHECKING:
    from soonish.due.loop.work import Result

_log = logging.getLogger("soonish.due")
VERY_LATE = 60.0


class Observer:
    """Override what you want to hear, and call `super()` to keep the lines of the log."""

    def woke(self, reason: str) -> None:
        """A sleeping lane looks: `bell`, `time` or `connection`."""

    def claimed(self, lane: str, items: Sequence[Item]) -> None:
        if _log.isEnabledFor(logging.INFO):
            late = max(item.late for item in items)
            flag = (
                " late=true" if late > VERY_LATE and any(item.first and item.late > VERY_LATE for item in items) else ""
            )
            _log.info("due.claimed lane=%s %s late_ms=%d%s", lane, _which(items), late * 1000, flag)

    def finished(self, lane: str, results: "Sequence[Result]") -> None:
        if _log.isEnabledFor(logging.INFO):
            for fate, count in Counter(result.fate for result in results).items():
                mine = [result.item for result in results if result.fate == fate]
                name = "due.again" if fate in ("again", "held") else "due.finished"
                _log.info("%s lane=%s %s fate=%s count=%d", name, lane, _which(mine), fate, count)
        for result in results:
            if result.fate == "dead":
                item = result.item
                _log.error("due.dead item=%d workspace=%d kind=%s", item.id, item.workspace_id, item.kind)

    def lost(self, items: Sequence[Item]) -> None:
        """Results that came too late: somebody else has the items."""
        _log.warning("due.lost %s", _which(items))

    def unknown(self, kinds: Mapping[str, int]) -> None:
        """Due items of kinds that this process does not know."""

    def recovered(self, report: Mapping[str, Any]) -> None:
        _log.info("due.recovery %s", " ".join(f"{name}={_word(value)}" for name, value in report.items()))


def _word(value: Any) -> str:
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _which(items: Sequence[Item]) -> str:
    if len(items) == 1:
        item = items[0]
        return f"item={item.id} workspace={item.workspace_id} kind={item.kind}"
    return f"items={len(items)} first={items[0].id}"
