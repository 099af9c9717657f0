"""The files of this repository, as its rules read them: what git knows, or would if asked. Knows no rule."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "soonish"


@cache
def files() -> tuple[str, ...]:
    """Every file that is, or would be, part of the repository, by its path from the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(sorted(path for path in listed.split("\0") if path and (ROOT / path).is_file()))


def under(*folders: str, suffix: str = "") -> list[str]:
    """The files in these folders, or all of a suffix."""
    return [path for path in files() if path.endswith(suffix) and (not folders or path.startswith(folders))]


def text(path: str) -> str:
    return (ROOT / path).read_text()


def lines(path: str) -> int:
    return len(text(path).splitlines())


@cache
def tree(path: str) -> ast.Module:
    """A Python file, parsed."""
    return ast.parse(text(path), path)


def nodes(path: str) -> Iterator[ast.AST]:
    return ast.walk(tree(path))
