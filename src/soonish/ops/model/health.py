"""Verdicts: whether this process is ready, how the whole is doing, and what a person should know and do.

Pure: figures come in, words go out. Each trouble names its remedy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from soonish.ops.model.items import ALL_KINDS, Pause

Word: TypeAlias = Literal["ok", "degraded", "down"]
WORDS: Final[tuple[Word, ...]] = ("ok", "degraded", "down")

SILENT_PROCESS: Final = 30.0  # seconds: three heartbeats missed
SILENT_LOOP: Final = 60.0  # twice the longest sleep of a loop
OVERDUE_SHOWN: Final = 60.0  # seconds overdue, before a person should wonder
MOST_COUNTED: Final = 10_000  # of anything, and as many are retried at once; a figure above says that there are more
LEAST_FREE: Final = 200 * 2**20  # bytes on the data directory, below which nothing new is begun


class Check(Struct, frozen=True):
    """One thing that must work; `detail` says how it is, and what to do where it does not."""

    status: Word
    detail: str


class Readiness(Struct, frozen=True, kw_only=True):
    """Whether this process can serve: `down` where it cannot, `degraded` where something waits."""

    status: Word
    checks: dict[str, Check]


class LaneHealth(Struct, frozen=True, kw_only=True):
    """How a lane stands, over all processes and workspaces."""

    running: int
    overdue: int
    oldest_overdue_s: float
    last_claim_s: float | None  # since any loop looked into it; null where nobody works it


class ProcessHealth(Struct, frozen=True, kw_only=True):
    """One process of this installation."""

    name: str
    role: str
    version: str
    lanes: list[str]
    started_at: datetime
    seen_s: float
    silent: bool


class Health(Struct, frozen=True, kw_only=True):
    """How all is going, in this workspace. Lanes, processes and recovery are the operator's, null for others."""

    status: Word
    troubles: list[str]
    overdue: int
    oldest_overdue_s: float
    dead: int
    dead_24h: int
    unknown_kinds: dict[str, int]
    pauses: list[Pause]
    lanes: dict[str, LaneHealth] | None
    processes: list[ProcessHealth] | None
    recovery: dict[str, Any] | None
    tzdata: str
    version: str


# -- readiness -------------------------------------------------------------------------------------------------------


def readiness(checks: Mapping[str, Check]) -> Readiness:
    """The whole is as good as its worst check."""
    worst = max((WORDS.index(check.status) for check in checks.values()), default=0)
    return Readiness(status=WORDS[worst], checks=dict(checks))


def check_database(answers: bool) -> Check:
    return Check("ok", "answers") if answers else Check("down", "does not answer; start it, or look at its log")


def check_schema(state: str | None) -> Check:
    """`state` as the migrations say it: current, behind, ahead or empty; None where nobody could ask."""
    if state == "current":
        return Check("ok", "current")
    if state is None:
        return Check("down", "not known, for the database does not answer")
    if state == "ahead":
        return Check("down", "made by a newer Soonish; run that one")
    return Check("down", f"{state}; run `soonish migrate`")


def check_loops(silent_s: Mapping[str, float] | None) -> Check:
    """By loop of this process: the seconds since it looked last."""
    if not silent_s:
        return Check("ok", "none in this process")
    if stuck := sorted(name for name, seconds in silent_s.items() if seconds > SILENT_LOOP):
        return Check("down", f"silent for more than a minute: {', '.join(stuck)}; read the log, restart this process")
    return Check("ok", f"looking: {', '.join(silent_s)}")


def check_bell(up: bool | None) -> Check:
    if up is False:
        remedy = "SOONISH_DATABASE_LISTEN_URL must be a direct connection"
        return Check("degraded", f"not heard; what is due is found by looking, up to 30 s late; {remedy}")
    return Check("ok", "heard" if up else "none in this process")


def check_temporal(up: bool | None) -> Check:
    if up is False:
        return Check("degraded", "does not answer; workflows wait, and are carried out after its return")
    return Check("ok", "answers" if up else "none in this process")


def check_keys(missing: Iterable[str]) -> Check:
    """`missing`: ids of keys under which values are stored, and which this process does not have."""
    if gone := ", ".join(sorted(missing)):
        return Check("degraded", f"values are stored under keys that SOONISH_SECRETS_KEYS does not have: {gone}")
    return Check("ok", "every stored value can be read")


def check_disk(free: int | None, *, refused: bool = False) -> Check:
    """`free` bytes on the data directory; `refused` where the database had no space at the last look."""
    remedy = "nothing new is begun; free some space, and all goes on by itself"
    if refused:
        return Check("down", f"the database has no space left: {remedy}")
    if free is not None and free < LEAST_FREE:
        return Check("down", f"{show_bytes(free)} free, less than {show_bytes(LEAST_FREE)}: {remedy}")
    return Check("ok", "not looked at here" if free is None else f"{show_bytes(free)} free")


def is_silent(seen_s: float) -> bool:
    """Whether a process has not been heard of for too long."""
    return seen_s > SILENT_PROCESS


def show_bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count // 2**20} MiB"


# -- troubles --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something a person should know, the remedy in words, and the page to apply it.

    The tone is that of its bar. Where something only `waits`, the whole is not down for it, however red the bar.
    """

    tone: Literal["bad", "warn"]
    text: str
    remedy: str
    link: str | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What the verdict on the whole is made from; what is the operator's stays empty for others.

    `overdue` are those of known kinds: of the others nothing is worked off.
    """

    dead: int = 0
    system_dead: int = 0
    overdue: int = 0
    oldest_overdue_s: float = 0.0
    unworked: Sequence[str] = ()
    silent: Sequence[ProcessHealth] = ()
    pauses: Sequence[Pause] = ()
    unknown_kinds: Mapping[str, int] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)


def troubles(facts: Facts) -> list[Trouble]:
    """What is wrong now, the worst first; nothing where all is well."""
    found = [*_of_checks(facts.checks), *_of_workers(facts), *_of_items(facts), *map(_of_pause, facts.pauses)]
    return sorted(found, key=lambda trouble: (trouble.tone != "bad", trouble.waits))


def verdict(found: Sequence[Trouble]) -> Word:
    if not found:
        return "ok"
    return "down" if any(one.tone == "bad" and not one.waits for one in found) else "degraded"


def _of_checks(checks: Mapping[str, Check]) -> Iterator[Trouble]:
    for name, check in checks.items():
        if check.status != "ok":
            what, _, remedy = check.detail.partition("; ")
            yield Trouble("bad" if check.status == "down" else "warn", f"{name.capitalize()}: {what}.", remedy)


def _of_workers(facts: Facts) -> Iterator[Trouble]:
    if facts.unworked:
        lanes = " and ".join(facts.unworked)
        yield Trouble("bad", f"Nobody works the lane {lanes}; what is due there waits.", "Start `soonish work`.")
    for process in facts.silent:
        text = f"The process {process.name} ({process.role}) has been silent for {_about(process.seen_s)}."
        yield Trouble("bad", text, "Look at its machine; others do its work, if there are any.", waits=True)


def _of_items(facts: Facts) -> Iterator[Trouble]:
    if facts.dead:
        yield Trouble("bad", f"{_count(facts.dead, 'dead item')}.", "See why, then retry.", "/due/dead")
    if facts.system_dead:
        text = f"{_count(facts.system_dead, 'dead item')} of the system itself."
        yield Trouble("bad", text, "See why, then retry.", "/due/dead?system=true")
    cut = sum(facts.unknown_kinds.values()) >= MOST_COUNTED  # over all kinds, so each of them may have more
    for kind, count in facts.unknown_kinds.items():
        text = f"{'At least ' * cut}{_count(count, 'due item')} of {kind}, a kind that is not known here."
        yield Trouble("bad", text, "Start the version that knows it, or cancel them.", f"/due?kind={kind}")
    if facts.oldest_overdue_s > OVERDUE_SHOWN:
        text = f"{_count(facts.overdue, 'item')} overdue, the oldest for {_about(facts.oldest_overdue_s)}."
        yield Trouble("warn", text, "They are worked off, oldest first.", "/due?state=overdue")


def _of_pause(pause: Pause) -> Trouble:
    what = "Everything is paused" if pause.kind == ALL_KINDS else f"{pause.kind} is paused"
    where = " in every workspace" if pause.everywhere else ""
    why = f": {pause.reason}" if pause.reason else ""
    remedy = "Nothing of it happens until you resume it."
    return Trouble("bad", f"{what}{where}{why}.", remedy, "/due/pauses", waits=True)


def _count(count: int, noun: str) -> str:
    """Nobody counts on beyond 10,000."""
    if count > MOST_COUNTED:
        return f"More than {MOST_COUNTED:,} {noun}s"
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _about(seconds: float) -> str:
    for name, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} s"
