"""The parts of the docs that code can tell: settings, operations, commands, metrics, kinds, tables, library names.

`python -m tests.rules.reference` writes them anew between `<!-- from code: NAME -->` and `<!-- end: NAME -->`; a test
fails where they differ. What stands around them is written by hand.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import typer
from typer.testing import CliRunner

from soonish import due, settings
from soonish.app import eventing, lives, parts
from soonish.app.delivering import TYPES
from soonish.cli.commands import app
from soonish.delivery import on_due as delivery_due
from soonish.delivery.send.sender import Sender
from soonish.due.model import Kind, Late
from soonish.events.actions.handed import Events
from soonish.people.actions.hooks import Hooks
from soonish.settings import Settings
from soonish.telemetry import REGISTRY
from soonish.web import routes as kit
from soonish.web import sse
from soonish.web.openapi import document
from soonish.web.plan import Operation
from soonish.web.server import operations
from tests.rules.repository import ROOT, text, tree, under

WIDTH: Final = 96
_BLOCK: Final = re.compile(r"<!-- from code: (?P<name>[a-z-]+) -->\n(?P<text>.*?)<!-- end: (?P=name) -->", re.DOTALL)
_ROUTES: Final = re.compile(r"src/(soonish/\w+/routes(?:/\w+)?)\.py")

Json = dict[str, Any]


# --- operations -------------------------------------------------------------------------------------------------------


def all_operations() -> list[Operation]:
    """Every operation of the program, pages too: those of the kit, and of each module `routes`."""
    names = sorted(match[1].replace("/", ".") for path in under("src/soonish/") if (match := _ROUTES.fullmatch(path)))
    own = [route for name in names for route in getattr(import_module(name), "routes", ())]
    return operations([*kit.routes, sse.live, *own])


def openapi() -> Json:
    return document(all_operations(), "http://127.0.0.1:8787")


def operations_table() -> str:
    described = openapi()
    rows = [
        [f"`{method.upper()} {path}`", one["x-role"], _said(one), _taken(one, described)]
        for path, methods in described["paths"].items()
        for method, one in methods.items()
    ]
    return table(["operation", "role", "what it does", "takes"], rows)


def _said(operation: Json) -> str:
    codes = [word for word in _codes(operation.get("responses", {}).get("409", {})) if word not in ("conflict",)]
    own = [word for word in codes if word != "idempotency_in_flight"]
    more = f" ({', '.join(f'`{word}`' for word in own)})" if own else ""
    return f"{operation['summary']}.{more}"


def _codes(response: Json) -> list[str]:
    return re.findall(r"`(\w+)`", str(response.get("description", "")))


def _taken(operation: Json, described: Json) -> str:
    """The fields of the query or the body; a question mark after those that may be left out."""
    query = [_field(one["name"], one["required"]) for one in operation["parameters"] if one["in"] == "query"]
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    schema = described["components"]["schemas"].get(name, {})
    body = [_field(field, field in schema.get("required", ())) for field in schema.get("properties", {})]
    return ", ".join(query + body)


def _field(name: str, required: bool) -> str:
    return f"`{name}`" if required else f"`{name}?`"


# --- commands ---------------------------------------------------------------------------------------------------------


def commands() -> list[str]:
    """Every command as it is typed, groups too."""
    return [" ".join(words) for words in _walk(typer.main.get_command(app), ("soonish",))]


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from _walk(below, (*words, name))


def commands_help() -> str:
    return "\n".join(f"## `{command}`\n\n```text\n{_help(command)}\n```\n" for command in commands())


def _help(command: str) -> str:
    words = [*command.split()[1:], "--help"]
    result = CliRunner().invoke(app, words, prog_name="soonish", terminal_width=WIDTH, env={"COLUMNS": str(WIDTH)})
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


# --- metrics, kinds, tables -------------------------------------------------------------------------------------------


def metrics_table() -> str:
    rows = []
    for metric in REGISTRY.collect():
        labels = ", ".join(f"`{label}`" for label in _labels(metric.name))
        rows.append([f"`{_exposed(metric.name, metric.type)}`", metric.type, labels, metric.documentation])
    return table(["metric", "type", "labels", "what it counts"], rows)


def _exposed(name: str, kind: str) -> str:
    """The name on the page: counters and the build have a suffix there."""
    return name + {"counter": "_total", "info": "_info"}.get(kind, "")


def _labels(name: str) -> tuple[str, ...]:
    collector: Any = REGISTRY._names_to_collectors[name]
    return tuple(collector._labelnames)


def kinds() -> list[Kind]:
    """The kinds of the program. Their handlers are read, not run, so they get no database."""
    nothing = cast(Any, None)
    settings_ = Settings.read({})
    own = parts._kinds(settings_, nothing, nothing, Hooks())
    handed = Events(
        outbox=nothing, people=nothing, vault=nothing, hmac=nothing, public_url="", terms=eventing.terms(settings_),
        smtp=False,
    )  # fmt: skip
    return [
        *own,
        *delivery_due.kinds(nothing, nothing, cast(Any, Sender.__call__)),
        *eventing.kinds(nothing, handed),
        *lives.kinds(nothing, nothing, handed),
    ]


def kinds_table() -> str:
    rows = [
        [f"`{kind.name}`", kind.lane.name.lower(), late(kind.late), _tries(kind), span(kind.run_limit), _purpose(kind)]
        for kind in kinds()
    ]
    return table(["kind", "lane", "if it is late", "tries", "run limit", "what it does"], rows)


def _tries(kind: Kind) -> str:
    return "no limit" if kind.tries is None else str(kind.tries)


def late(policy: Late) -> str:
    if policy.by_grace:
        return "dropped"
    return "done" if policy.within is None else f"done within {span(policy.within)}"


def span(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    return next(
        (f"{seconds // size} {unit}" for unit, size in (("h", 3600), ("min", 60)) if seconds % size == 0),
        f"{seconds} s",
    )


def _purpose(kind: Kind) -> str:
    handler: Any = kind.handler.func if isinstance(kind.handler, partial) else kind.handler
    return str(handler.__doc__).strip().partition("\n")[0]


def due_tables() -> str:
    """The statements that make the tables and their indexes, as they stand in the schema."""
    schema = text("src/soonish/due/schema.sql")
    start, end = schema.index("CREATE TABLE"), schema.index("-- The bell.")
    return f"```sql\n{schema[start:end].strip()}\n```\n"


def fact_types_table() -> str:
    rows = [[f"`{one.name}`", one.ladder, f"`{json.dumps(one.example)}`"] for one in TYPES]
    return table(["type", "ladder", "data, for example"], rows)


# --- the library ------------------------------------------------------------------------------------------------------


def library_due() -> str:
    names = [(f"soonish.due.{home}", name) for home, group in due._HOMES.items() for name in group]
    return "\n".join(_stub(_file(module), name) for module, name in names)


def library_client() -> str:
    return "\n".join(_stub("src/soonish/client.py", name) for name in ("Soonish", "Answer"))


def _file(module: str) -> str:
    return f"src/{module.replace('.', '/')}.py"


def _stub(path: str, name: str) -> str:
    """One name as its source declares it, without what it does inside."""
    node = next(node for node in tree(path).body if _declares(node, name))
    code = "\n".join(_lines(path, node))
    return f"### `{name}`\n\n```python\n{code}\n```\n"


def _declares(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    return getattr(node, "name", None) == name


def _lines(path: str, node: ast.AST, indent: str = "") -> Iterator[str]:
    source = text(path).splitlines()
    if isinstance(node, ast.AnnAssign | ast.Assign):
        yield from source[node.lineno - 1 : node.end_lineno]
        return
    assert isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    above = node.decorator_list[0].lineno if node.decorator_list else node.lineno
    yield from (re.sub(r"  # (type|noqa).*", "", line) for line in source[above - 1 : node.body[0].lineno - 1])
    if ast.get_docstring(node):
        yield from source[node.body[0].lineno - 1 : node.body[0].end_lineno]
    if isinstance(node, ast.ClassDef):
        fields = [child for child in node.body if _is_field(child)]
        verbs = [child for child in node.body if _is_public_verb(child)]
        for child in (*fields, *verbs):
            yield from [""] if child in (*fields[:1], *verbs) else []
            yield from _lines(path, child, indent + "    ")
    elif not ast.get_docstring(node):
        yield f"{indent}    ..."


def _is_field(node: ast.stmt) -> bool:
    plain = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id != "__slots__"
    return plain or isinstance(node, ast.AnnAssign)


def _is_public_verb(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not node.name.startswith("_") or node.name == "__init__"


# --- pages ------------------------------------------------------------------------------------------------------------

BLOCKS: Final[dict[str, Callable[[], str]]] = {
    "settings": settings.reference,
    "operations": operations_table,
    "commands": commands_help,
    "metrics": metrics_table,
    "kinds": kinds_table,
    "due-tables": due_tables,
    "fact-types": fact_types_table,
    "library-due": library_due,
    "library-client": library_client,
}


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Rows in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def pages() -> list[str]:
    return [path for path in under("docs/", suffix=".md") if _BLOCK.search(text(path))]


def renewed(page: str) -> str:
    """The text of a page, with its parts from code as the code tells them now."""

    def renew(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- from code: {name} -->\n{BLOCKS[name]()}<!-- end: {name} -->"

    return _BLOCK.sub(renew, page)


def write(root: Path = ROOT) -> list[str]:
    """Bring all pages up to date; answers those that were not."""
    stale = [path for path in pages() if renewed(text(path)) != text(path)]
    for path in stale:
        (root / path).write_text(renewed(text(path)))
    return stale


if __name__ == "__main__":
    print("\n".join(write()) or "reference: every page says what the code says")
