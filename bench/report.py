"""What a measurement says, and how it is printed. Knows figures and words, nothing of queues or databases."""

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

LEGEND = """\
How to read: each figure is the median of its repetitions, lowest and highest beside it. What is compared runs in turn,
on one server, with one setting, so the ratios count; absolute figures are hints, for a machine may be shared.
A ratio is the median of the ratios of the turns. `met` and `missed` say whether the goal is reached in this run."""


class Line(NamedTuple):
    """One figure: what, its value, its spread, what it is beside others, and the verdict where it has a goal."""

    what: str
    value: str
    spread: str = ""
    beside: str = ""
    verdict: str = ""


class Goal(NamedTuple):
    """A wanted bound; `at_most` where less is better."""

    wanted: float
    unit: str
    at_most: bool = False

    def verdict(self, value: float) -> str:
        bound = f"{'<=' if self.at_most else '>='} {self.wanted:g}{self.unit}"
        if value <= self.wanted if self.at_most else value >= self.wanted:
            return f"met ({bound})"
        by = value / self.wanted if self.at_most else self.wanted / value if value else float("inf")
        return f"MISSED by {by:.2f}x ({bound})"


def rate(what: str, values: Sequence[float], unit: str, *beside: str, verdict: str = "") -> Line:
    """A line of a speed: higher is better."""
    return Line(what, f"{_short(values)} {unit}", _spread(values), ", ".join(filter(None, beside)), verdict)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of the turns."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=False))


def both(*verdicts: str) -> str:
    """The verdict of a line with several goals."""
    return "; ".join(verdicts)


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def lateness(what: str, runs: Sequence[Sequence[float]], goals: Sequence[tuple[float, Goal]] = ()) -> Line:
    """A line of delays in seconds: p50 and p99 as the median of the runs, the worst of all beside."""
    p50, p99 = (statistics.median(percentile(run, share) for run in runs) * 1e3 for share in (0.5, 0.99))
    worst, least = max(map(max, runs)) * 1e3, min(map(min, runs)) * 1e3
    value = f"p50 {p50:.2f} p99 {p99:.2f} ms"
    verdicts = [goal.verdict(p50 if share == 0.5 else p99) for share, goal in goals]
    return Line(what, value, f"{least:.2f} - {worst:.2f}, n={len(runs)}", "", both(*verdicts))


def show(title: str, lines: Sequence[Line], seconds: float) -> None:
    """Print one goal as a table."""
    print(f"\n{title}  ({seconds:.0f} s)")
    widths = [max(len(line[column]) for line in lines) for column in range(len(Line._fields))]
    for line in lines:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def machine() -> str:
    """The facts that a reader needs to compare."""
    model = next((text for text in _lines("/proc/cpuinfo") if text.startswith("model name")), ":unknown").split(":")[1]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    cpu = f"{len(os.sched_getaffinity(0))} cores{model.rstrip()}, {memory:.0f} GiB, load {load:.1f} at the start"
    return f"{cpu}, Python {platform.python_version()}, {platform.system()} {platform.release()}"


def _lines(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().splitlines() if file.exists() else []


def _short(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f}" if max(values) >= 100 else f"{statistics.median(values):.2f}"


def _spread(values: Sequence[float]) -> str:
    low, high = (f"{bound:,.0f}" if max(values) >= 100 else f"{bound:.2f}" for bound in (min(values), max(values)))
    return f"{low} - {high}, n={len(values)}" if len(values) > 1 else "n=1"
