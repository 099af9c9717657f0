"""No function and no file is longer than one can hold in mind."""

import ast

from tests.rules import figures
from tests.rules.repository import under


def test_nothing_is_too_long() -> None:
    assert figures.too_long(under(*figures.CODE, suffix=".py")) == []


def test_a_docstring_does_not_make_a_function_long() -> None:
    function = ast.parse('def f():\n    """One\n\n    two."""\n    a = 1\n    return a\n').body[0]
    assert isinstance(function, ast.FunctionDef)
    assert figures.length(function) == 2


def test_the_report_names_each_figure() -> None:
    assert [line.split()[0] for line in figures.report()] == ["functions", "files", "lines"]
