"""`soonish import people FILE`: CSV or JSON lines, in batches, with what was refused in a file of its own.

Safe to repeat: whoever has an external id is made once and changed after. Speaks HTTP only, and judges no row itself.
"""

import asyncio
import csv
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

import typer

from soonish.cli import show
from soonish.cli.exits import FAILED
from soonish.cli.server import server
from soonish.client import Soonish
from soonish.errors import Invalid, TooMany, Unavailable

BATCH: Final = 1_000
BATCH_BYTES: Final = 900_000  # a request holds 1 MiB
TRIES: Final = 5  # of a batch, while the server is away
QUIET: Final = {"quiet_start": "start", "quiet_end": "end", "quiet_critical": "critical"}
STATES: Final = ("created", "changed", "same", "refused")


class Row(NamedTuple):
    """A row of the file: where it ends there, and what is wished, or why it cannot be read."""

    line: int
    end: int  # bytes
    wish: Mapping[str, Any]
    error: str | None = None


@dataclass(slots=True)
class _Import:
    """One run: the server, where refused rows go, and the counts."""

    soonish: Soonish
    refused: Path
    counts: Counter[str] = field(default_factory=Counter)

    async def send(self, rows: Sequence[Row]) -> None:
        """One batch; what cannot be read is not sent."""
        good = [row for row in rows if row.error is None]
        for row in rows:
            if row.error is not None:
                self._refuse(row, [{"field": "", "code": "unreadable", "message": row.error}])
        if not good:
            return
        for result in (await self._post(good))["items"]:
            self.counts[result["status"]] += result["status"] != "refused"
            if result["status"] == "refused":
                self._refuse(good[result["index"]], result["errors"])

    async def _post(self, rows: Sequence[Row]) -> Any:
        """A batch that was sent twice changes nothing more than once, where its rows have an external id."""
        for _ in range(TRIES):
            try:
                return await self.soonish.post("/v1/people/batch", {"people": [row.wish for row in rows]})
            except (TooMany, Unavailable) as error:
                await asyncio.sleep(error.retry_after)
        return await self.soonish.post("/v1/people/batch", {"people": [row.wish for row in rows]})

    def _refuse(self, row: Row, errors: Sequence[Mapping[str, Any]]) -> None:
        self.counts["refused"] += 1
        with self.refused.open("a") as file:
            file.write(json.dumps({"line": row.line, "row": row.wish, "errors": errors}, ensure_ascii=False) + "\n")


async def import_people(path: Path) -> None:
    """Send all rows, and print how many were created, changed, the same, refused; exit 1 if any was refused."""
    refused = path.with_name(f"{path.name}.refused.jsonl")
    refused.unlink(missing_ok=True)
    with _opened(path) as file:
        async with server() as soonish:
            run = _Import(soonish, refused)
            await _send_all(run, file, path)
    for state in STATES:
        show.line(state, str(run.counts[state]))
    if run.counts["refused"]:
        typer.echo(f"soonish: what was refused, and why, stands in {refused}", err=True)
        raise typer.Exit(FAILED)


async def _send_all(run: _Import, file: TextIO, path: Path) -> None:
    with show.Progress("people", os.fstat(file.fileno()).st_size) as progress:
        try:
            for rows in batches(read(file)):
                if any(row.error is None and not row.wish.get("external_id") for row in rows):
                    progress.note("Rows without external_id are made anew by each import.")
                await run.send(rows)
                progress.at(rows[-1].end)
        except UnicodeDecodeError as error:
            raise Invalid(f"{path} is not UTF-8; save it as that") from error


def _opened(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from error


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """As many rows as fit in a request."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        weight = len(json.dumps(row.wish))
        if batch and (len(batch) == BATCH or size + weight > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += weight
    if batch:
        yield batch


def read(file: TextIO) -> Iterator[Row]:
    """JSON lines where the first one is an object, else a table with the names of its columns above."""
    first = file.readline()
    file.seek(0)
    return _objects(file) if first.lstrip().startswith("{") else _table(file)


def _objects(file: TextIO) -> Iterator[Row]:
    end = 0
    for number, line in enumerate(file, 1):
        end += len(line.encode())
        if not line.strip():
            continue
        try:
            wish = json.loads(line)
        except (ValueError, RecursionError):
            wish = None
        if isinstance(wish, dict):
            yield Row(number, end, wish)
        else:
            yield Row(number, end, {"text": line.strip()[:1_000]}, "This line is no JSON object")


def _table(file: TextIO) -> Iterator[Row]:
    counted = _Counted(file)
    head = file.readline()
    file.seek(0)
    reader = csv.DictReader(counted, delimiter=max(",;\t", key=head.count), restkey="", skipinitialspace=True)
    names = [name.strip().lower() for name in reader.fieldnames or ()]
    if "name" not in names and not {"first_name", "external_id", "email"} & {*names}:
        raise Invalid("The first line must name the columns, such as external_id, name, email, timezone")
    reader.fieldnames = names
    try:
        for cells in reader:
            more = None if "" not in cells else "There are more cells than columns"
            yield Row(reader.line_num, counted.bytes, _wish(cells), more)
    except csv.Error as error:
        raise Invalid(f"Line {reader.line_num} is no row of a table: {error}") from error


def _wish(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The cells that are not empty, by their columns; those of quiet hours are one field."""
    wish = {name: cell.strip() for name, cell in cells.items() if name and isinstance(cell, str) and cell.strip()}
    quiet = {QUIET[name]: wish.pop(name) for name in QUIET if name in wish}
    return wish | ({"quiet_hours": quiet} if quiet else {})


class _Counted:
    """The lines of a file, and how many bytes they were so far."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.bytes = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline()
        if not line:
            raise StopIteration
        self.bytes += len(line.encode())
        return line
