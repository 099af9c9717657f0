"""Whether a delivery is tried now, and what a try means for it: ladders, deadlines, doubts.

Pure: `now` is the database's and an argument, so is chance. How a try is made is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from soonish.delivery.channel import Outcome

Row: TypeAlias = Mapping[str, Any]
UnknownPeople: TypeAlias = Literal["retry_once", "never", "retry"]

CONFIRMATION: Final = "confirm/"
"""Causes that reach also who paused all else."""
MOST_REDIRECTS: Final = 3
EXHAUSTED: Final = "exhausted"
EXPIRED: Final = "expired"
INTERRUPTED: Final = Outcome("unknown", "interrupted")
"""What became of a try whose holder vanished."""


@dataclass(frozen=True, slots=True)
class Ladders:
    """The waits before each try, in seconds, and the pause before a person is told again what may have arrived."""

    people: tuple[float, ...]
    short: tuple[float, ...]
    long: tuple[float, ...]
    broker: tuple[float, ...]
    unknown_pause: float


class End(NamedTuple):
    """It is over without a try."""

    state: Literal["failed", "skipped"]
    reason: str


class Hold(NamedTuple):
    """Not now; no try."""

    at: datetime
    reason: str


class Step(NamedTuple):
    """What a try means: an end, or the wait before the next one."""

    state: Literal["pending", "sent", "failed", "unknown", "skipped"]
    reason: str | None = None
    partial: bool = False
    wait: float = 0.0
    dead: bool = False  # its ladder is spent


def before(row: Row, quiet_until: datetime | None) -> End | Hold | None:
    """What keeps a pending delivery from being tried now, in the order in which it counts."""
    now = row["now"]
    if row["expires_at"] and row["expires_at"] <= now:
        return End("failed" if row["tries"] else "skipped", EXPIRED)
    if reason := _person(row, now) or _target(row):
        return End("skipped", reason)
    if quiet_until and quiet_until > now and _may_wait(row):
        if row["expires_at"] and quiet_until >= row["expires_at"]:
            return End("skipped", "quiet_hours")
        return Hold(quiet_until, "quiet_hours")
    if row["circuit_until"] and row["circuit_until"] > now:
        return Hold(row["circuit_until"], "circuit_open")
    return None


def _person(row: Row, now: datetime) -> str | None:
    if row["person_id"] is None:
        return None
    if not row["person_here"]:
        return "person_gone"
    paused = row["paused_until"] and row["paused_until"] > now and not row["cause"].startswith(CONFIRMATION)
    return "paused" if paused else None


def _target(row: Row) -> str | None:
    noun = "endpoint" if row["endpoint_id"] is not None else "address"
    if row["endpoint_id"] is None and row["address_id"] is None:
        return None  # a mailbox
    if not row["target_here"]:
        return f"{noun}_gone"
    if not row["active"]:
        return f"{noun}_inactive"
    return f"{noun}_{row['health']}" if row["health"] in ("unverified", "disabled") else None


def _may_wait(row: Row) -> bool:
    """Whether quiet hours hold it."""
    held: bool = row["hold"] == "quiet" and (row["level"] != "critical" or row["quiet_critical"] == "hold")
    return held


def after(
    row: Row, outcome: Outcome, ladder: tuple[float, ...], pause: float, unknown_people: UnknownPeople, chance: float
) -> Step:
    """What a try means. `chance` from 0 to 1 spreads the waits, so that those who failed together do not return so."""
    if outcome.result in ("sent", "partial"):
        return Step("sent", partial=outcome.result == "partial")
    if outcome.result == "unknown" and row["endpoint_id"] is None and unknown_people != "retry":
        if unknown_people == "never" or row["doubts"]:
            return Step("unknown", outcome.code)
        return _next(row, outcome, pause)
    if outcome.permanent or (redirected(outcome) and row["redirects"] + 1 >= MOST_REDIRECTS):
        return Step("failed", outcome.code)
    steps = row["steps"] + 1
    if steps >= len(ladder):
        return Step("failed", EXHAUSTED, dead=True)
    return _next(row, outcome, max(ladder[steps] * (1 + chance / 5), outcome.retry_after or 0.0))


def _next(row: Row, outcome: Outcome, wait: float) -> Step:
    """The next try, unless it would come after the deadline."""
    if row["expires_at"] and row["now"] + timedelta(seconds=wait) >= row["expires_at"]:
        return Step("failed", EXPIRED)
    return Step("pending", outcome.code, wait=wait)


def redirected(outcome: Outcome) -> bool:
    return outcome.status is not None and 300 <= outcome.status < 400
