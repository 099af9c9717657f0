"""Named SQL: every statement stands in a `queries.sql` beside the code that uses it.

`:param` becomes `$n`; the schema `due` can be given another name. `-- name: long, short: brief` makes two statements of
one text: `brief` lacks the lines between `-- [` and `-- ]`. Knows asyncpg and text, nothing of pools, roles or
transactions.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)(?:, short: (\w+))?\s*$", re.MULTILINE)
_BRACKETS = re.compile(r"^ *-- \[$.*?^ *-- \]$\n", re.MULTILINE | re.DOTALL)
_PARAM = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_SKIP = re.compile(r"'(?:[^']|'')*'|--[^\n]*")
_DUE = re.compile(r"\bdue\.")


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement; `text` has the placeholders in the order of `params`."""

    name: str
    text: str
    params: tuple[str, ...]

    async def rows(self, tx: Any, record_class: type | None = None, **values: Any) -> list[Any]:
        return await tx.fetch(self.text, *self.args(values), record_class=record_class)  # type: ignore[no-any-return]

    async def row(self, tx: Any, **values: Any) -> Any:
        return await tx.fetchrow(self.text, *self.args(values))

    async def value(self, tx: Any, **values: Any) -> Any:
        return await tx.fetchval(self.text, *self.args(values))

    async def run(self, tx: Any, **values: Any) -> int:
        """Execute and answer how many rows it touched."""
        status: str = await tx.execute(self.text, *self.args(values))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def args(self, values: dict[str, Any]) -> list[Any]:
        """The values in the order of the placeholders."""
        return [values[name] for name in self.params]


class Statements:
    """The statements of one file, as attributes."""

    def __init__(self, statements: dict[str, Statement]) -> None:
        self._all = statements

    def __getattr__(self, name: str) -> Statement:
        try:
            return self._all[name]
        except KeyError:
            raise AttributeError(f"no statement named {name!r}") from None

    def __iter__(self) -> Iterator[Statement]:
        return iter(self._all.values())


@cache
def load(module_file: str, schema: str = "due") -> Statements:
    """The statements of the `queries.sql` that lies beside `module_file`; raises ValueError where two have one name."""
    text = Path(module_file).with_name("queries.sql").read_text()
    parts = _NAME.split(in_schema(text, schema))[1:]
    statements = {}
    for name, short, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if name in statements:
            raise ValueError(f"{module_file}: two statements are named {name!r}")
        statements[name] = parse(name, body)
        if short:
            statements[short] = parse(short, _BRACKETS.sub("", body))
    return Statements(statements)


def parse(name: str, body: str) -> Statement:
    """Turn `:param` into `$n`, leaving string literals, comments and `::casts` alone."""
    params: list[str] = []

    def place(match: re.Match[str]) -> str:
        if match[1] not in params:
            params.append(match[1])
        return f"${params.index(match[1]) + 1}"

    code = _SKIP.sub(lambda m: m[0] if m[0].startswith("'") else "", body)
    pieces = re.split(r"('(?:[^']|'')*')", code)
    text = "".join(p if p.startswith("'") else _PARAM.sub(place, p) for p in pieces)
    return Statement(name, "\n".join(line for line in text.splitlines() if line.strip()).strip(), tuple(params))


def in_schema(text: str, schema: str) -> str:
    """The same SQL for due tables that live in another schema."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", schema):
        raise ValueError(f"schema {schema!r}: use lower-case letters, digits and underscores")
    return text if schema == "due" else _DUE.sub(f"{schema}.", text)
