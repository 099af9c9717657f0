"""People as somebody pastes them: CSV with a line of names above, or one JSON object a line. Pure."""

import csv
import io
import json
from typing import Any, Final

from soonish.errors import FieldError, Invalid

COLUMNS: Final = (
    "external_id", "name", "first_name", "last_name", "email", "timezone", "locale", "date_of_birth",
)  # fmt: skip
MOST_ROWS: Final = 1_000


def read_paste(text: str) -> list[Any]:
    """The rows as the API would be given them; what is in a row is not judged here."""
    rows = _json_lines(text) if text.lstrip().startswith("{") else _table(text)
    if not 1 <= len(rows) <= MOST_ROWS:
        raise _bad(f"Paste 1 to {MOST_ROWS} people at once; these are {len(rows)}", "length")
    return rows


def _json_lines(text: str) -> list[Any]:
    rows: list[Any] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            raise _bad(f"Line {number} is no JSON object") from error
    return rows


def _table(text: str) -> list[Any]:
    head, _, _ = text.strip().partition("\n")
    mark = max(",;\t", key=head.count)
    reader = csv.DictReader(io.StringIO(text.strip()), delimiter=mark, restkey="", skipinitialspace=True)
    names = [name.strip().lower() for name in reader.fieldnames or ()]
    if not names or (strange := [name for name in names if name not in COLUMNS]):
        shown = f"{strange[0][:40]!r} is no column; " if names else ""
        raise _bad(f"{shown}The first line names the columns, out of: {', '.join(COLUMNS)}")
    reader.fieldnames = names
    try:
        return [{name: value for name, value in row.items() if value} for row in reader]
    except csv.Error as error:
        raise _bad("This is no table; put text with line breaks in quotes") from error


def _bad(message: str, code: str = "pattern") -> Invalid:
    return Invalid("", FieldError("rows", code, message))
