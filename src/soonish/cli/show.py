"""What a command prints: coloured on a terminal, plain lines when piped. Knows text alone."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Self

import typer

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_FRACTION = re.compile(r"(?<=T\d\d:\d\d:\d\d)\.\d+(?=Z$)")
_LONG = {"kind", "key", "reason", "last error"}  # what may go on in a second line where a terminal is narrow
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def on_terminal() -> bool:
    return sys.stdout.isatty()


def line(label: str, value: str = "") -> None:
    """One fact: `label value`."""
    if on_terminal():
        typer.echo(typer.style(f"{label:<10}", bold=True) + f" {value}".rstrip())
    else:
        typer.echo(f"{label} {value}".rstrip())


def say(text: str) -> None:
    typer.echo(text)


def as_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def verdict(state: str, name: str, text: str, remedy: str) -> None:
    """One line of the doctor, and below it what to do."""
    shown = typer.style(f"{state:<4}", fg=_COLOURS[state], bold=True) if on_terminal() else f"{state:<4}"
    typer.echo(f"{shown} {name:<10} {clean(text)}")
    if remedy:
        typer.echo(f"{'':<16}{clean(remedy)}")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns side by side, for eyes on a terminal, for `awk` in a pipe."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    if on_terminal():
        from rich.console import Console

        Console().print(rich_table(columns, cells))
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in (columns, *cells):
        typer.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def rich_table(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> Any:
    """The table of a terminal, also for one that is drawn again and again. What is empty takes no room."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    filled = [column for column in zip(columns, *cells, strict=True) if any(column[1:])]
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name, *_ in filled:
        drawn.add_column(name, overflow="fold", no_wrap=name not in _LONG)
    for row in zip(*(column[1:] for column in filled), strict=True):
        drawn.add_row(*(Text(_FRACTION.sub("", cell)) for cell in row))
    return drawn


class Progress:
    """A bar on a terminal; nothing in a pipe, but for notes, which go to stderr once."""

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total = label, total
        self._notes: set[str] = set()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if on_terminal():
            from rich.progress import Progress as Bar

            self._bar = Bar(transient=True)
            self._bar.add_task(self._label, total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def at(self, done: int) -> None:
        if self._bar:
            self._bar.update(0, completed=done)

    def note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            typer.echo(text, err=True)


def clean(text: str) -> str:
    """One line, without what a terminal would obey: errors come from anywhere."""
    return _CONTROL.sub(" ", text).strip()
