"""How commands read what is typed, and write what they found: no process, no server."""

from typing import Any

import pytest
import typer

from soonish.cli import show
from soonish.cli.api import body, field
from soonish.cli.due import in_words


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("name=Ben", "Ben"),
        ("name=Ben and Ann", "Ben and Ann"),
        ("minutes=30", 30),
        ("force=true", True),
        ("expires_at=null", None),
        ("tags=[1, 2]", [1, 2]),
        ('slug="12"', "12"),
        ("url=a=b", "a=b"),
        ("name=", ""),
    ],
)
def test_a_field_is_json_where_it_reads_as_json_and_text_elsewhere(typed: str, value: Any) -> None:
    assert field(typed) == (typed.partition("=")[0], value)


@pytest.mark.parametrize("typed", ["name", "=value", ""])
def test_what_is_no_field_is_refused_with_the_form(typed: str) -> None:
    with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
        field(typed)


def test_fields_are_laid_over_the_file(tmp_path: Any) -> None:
    file = tmp_path / "body.json"
    file.write_text('{"name": "old", "role": "read"}')
    assert body({"name": "new"}, str(file)) == {"name": "new", "role": "read"}


@pytest.mark.parametrize("text", ["{", "\udcff"])
def test_a_file_that_is_no_json_is_named(tmp_path: Any, text: str) -> None:
    file = tmp_path / "body.json"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(typer.BadParameter, match=r"body\.json"):
        body({}, str(file))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"), (12, "12 s"), (119, "119 s"), (120, "2 min"), (3599, "59 min"), (3600, "1 h 00 min"),
        (90_000, "25 h 00 min"), (200_000, "2 d 7 h"), (-5, "-5 s"), (-7260, "-2 h 01 min"), (-0.2, "0 s"),
    ],
)  # fmt: skip
def test_a_wait_is_told_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_a_table_in_a_pipe_has_columns_and_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(("kind", "tries"), [("test.note", 3), ("a.b", 12)])
    assert capsys.readouterr().out == "kind       tries\ntest.note  3\na.b        12\n"


def test_what_a_terminal_would_obey_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(("error",), [("\x1b[31mred\nand\x9bmore\x07",)])
    assert capsys.readouterr().out == "error\n[31mred and more\n"
