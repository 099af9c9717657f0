"""The fixed tree: where a file may stand and what it may be called. `python -m tests.rules.layout` fails on any other.

A slice is a folder of nouns and verbs with fixed names; one that outgrows 400 lines becomes a folder of that name. So
whoever knows one slice finds their way in all of them. Knows names, not what is in the files.
"""

import re
import sys
from collections.abc import Iterable

from tests.rules.repository import files

ROOT_FILES = {
    ".dockerignore", ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "Dockerfile", "LICENSE", "Makefile", "README.md",
    "compose.yaml", "pyproject.toml", "requirements-dev.lock", "requirements.lock", ".ci/run",
}  # fmt: skip

# Single modules of the kernel, and programs beside the service. Each may become a folder.
MODULES = {
    "app", "cli", "client", "clock", "demo", "embedded", "errors", "failpoints", "pytest_plugin", "receiver",
    "reminders", "settings", "spelling", "telemetry", "temporal", "vault",
}  # fmt: skip

SLICE = {"model", "actions", "on_due", "workflow", "activities", "routes", "queries.sql", "templates/"}

# Folders of the kernel have words of their own; slices with ports (a contract in the singular, its kinds in a folder in
# the plural) have theirs beside those of every slice.
FOLDERS = {
    "db": {"again", "pool", "sql", "listen", "migrate", "migrations"},
    "due": {"model", "queue", "upkeep", "loop", "schema.sql", "queries.sql"},
    "web": {
        "server", "front", "operation", "plan", "serving", "reading", "shapes", "fields", "scalars", "answers", "auth",
        "rates", "problems", "openapi", "routes", "sse", "hub", "pages", "moments", "charts", "assets", "queries.sql",
        "templates/", "static/",
    },
    "access": SLICE,
    "ops": SLICE,
    "people": SLICE,
    "events": SLICE,
    "games": SLICE,
    "birthdays": SLICE,
    "delivery": SLICE | {"outbox", "send", "egress", "channel", "channels"},
    "feeds": SLICE | {"source", "sources", "finder", "finders", "validator", "validators", "shelf"},
    "agents": SLICE | {"brain", "brains", "tool", "tools"},
}  # fmt: skip

VAGUE = {"utils", "util", "base", "helpers", "helper", "common", "misc", "manager", "services", "service", "core"}
NAME = r"[a-z][a-z0-9_]*"

BESIDE = (
    rf"bench/(__main__|{NAME})\.py",
    rf"examples/{NAME}\.py",
    r"tests/conftest\.py",
    rf"tests/test_{NAME}\.py",
    rf"tests/(support|rules)/{NAME}\.py",
    rf"tests/({'|'.join(sorted([*FOLDERS, *MODULES]))}|stories|chaos)/(conftest|test_{NAME})\.py",
    rf"tests/({'|'.join(sorted(FOLDERS))})/histories/{NAME}\.json",  # of workflows, to be replayed
    r"docs/(tutorial|scale|glossary)\.md",
    r"docs/(how-to|reference|explanation)/[a-z][a-z0-9-]*\.md",
    r"docs/decisions/\d{4}-[a-z0-9-]+\.md",
)


def complaints(paths: Iterable[str]) -> list[str]:
    """What stands where nothing of that name may stand."""
    return [f"{path}: {problem}" for path in paths if (problem := _problem(path))]


def _problem(path: str) -> str | None:
    if path in ROOT_FILES or any(re.fullmatch(pattern, path) for pattern in BESIDE):
        return None
    match path.split("/"):
        case ["src", "soonish", "__init__.py" | "__main__.py" | "py.typed"]:
            return None
        case ["src", "soonish", name]:
            return _of(name.removesuffix(".py"), MODULES, "modules")
        case ["src", "soonish", folder, *rest] if folder in FOLDERS:
            return _in_folder(FOLDERS[folder], rest)
        case ["src", "soonish", folder, file] if folder in MODULES:
            return _in_noun(file)
        case _:
            return "no place for it in the tree; see ARCHITECTURE.md"


def _in_folder(words: set[str], rest: list[str]) -> str | None:
    head = rest[0]
    if len(rest) == 1:
        return None if head == "__init__.py" else _of(head.removesuffix(".py"), words, "the words of its folder")
    if f"{head}/" in words:
        return _asset(head, rest[1:])
    if head == "migrations":
        return (
            None if re.fullmatch(rf"{NAME}\.py|__init__\.py|versions/\d{{4}}_{NAME}\.py", "/".join(rest[1:])) else "?"
        )
    return _of(head, words, "the words of its folder") or (_in_noun(rest[1]) if len(rest) == 2 else "too deep")


def _in_noun(file: str) -> str | None:
    """A file in a folder that a word has grown into."""
    if not re.fullmatch(rf"({NAME}|__init__)\.py|queries\.sql", file):
        return "only Python files and their queries.sql stand in the folder of a word"
    return f"{file} says nothing; name the noun" if file.removesuffix(".py") in VAGUE else None


def _asset(folder: str, rest: list[str]) -> str | None:
    kinds = r"html|txt" if folder == "templates" else r"css|js|svg|webmanifest|ico|png"
    fits = re.fullmatch(rf"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*\.({kinds})", rest[-1])
    return None if fits and len(rest) <= 2 else f"{folder} holds files of {kinds.replace('|', ', ')}"


def _of(name: str, words: set[str], what: str) -> str | None:
    return None if name in words else f"{name!r} is none of {what}: {', '.join(sorted(words))}"


if __name__ == "__main__":
    found = complaints(files())
    print("\n".join(found) or f"layout: {len(files())} files, each in its place")
    sys.exit(bool(found))
