"""The style in figures: how long functions and files are, and how much of this is tests.

`python -m tests.rules.figures` prints them and fails on a function over 50 lines or a file over 400; the others are a
bar to look at. A function is as long as its body without the docstring. Knows Python files only.
"""

import ast
import statistics
import sys
from collections.abc import Iterable, Iterator

from tests.rules.repository import lines, nodes, under

LONGEST_FUNCTION = 50
LONGEST_FILE = 400
CODE = ("src/", "tests/", "bench/", "examples/")


def functions(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Each function as `path:line name`, with its length."""
    for path in paths:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}:{node.lineno} {node.name}", length(node)


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def too_long(paths: list[str]) -> list[str]:
    """What breaks the bar."""
    long_functions = [f"{name}: {size} lines" for name, size in functions(paths) if size > LONGEST_FUNCTION]
    return long_functions + [f"{path}: {lines(path)} lines" for path in paths if lines(path) > LONGEST_FILE]


def report() -> list[str]:
    source, tests = under("src/", suffix=".py"), under("tests/", suffix=".py")
    sizes = sorted(size for _, size in functions(source))
    heights = sorted(map(lines, source))
    ratio = sum(map(lines, tests)) / sum(heights)
    return [
        f"functions  {len(sizes):5}  median {statistics.median(sizes):.0f} (7)  p90 {at(sizes, 0.9)} (25)"
        f"  longest {sizes[-1]} ({LONGEST_FUNCTION})",
        f"files      {len(heights):5}  p90 {at(heights, 0.9)} (250)  longest {heights[-1]} ({LONGEST_FILE})",
        f"lines      {sum(heights):5}  tests to source {ratio:.2f} (1.2)",
    ]


def at(ordered: list[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


if __name__ == "__main__":
    print("\n".join(report()))
    found = too_long(under(*CODE, suffix=".py"))
    print("\n".join(found) or "style: nothing is too long")
    sys.exit(bool(found))
