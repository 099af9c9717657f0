"""Named statements: parameters in their order, and all else as it was written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soonish.db.pool import Database
from soonish.db.sql import Statements, in_schema, load, parse
from soonish.due import queue


def test_parameters_become_numbers_in_the_order_of_their_first_use() -> None:
    statement = parse("x", "SELECT :b, :a, :b WHERE c = :a")
    assert statement.text == "SELECT $1, $2, $1 WHERE c = $2"
    assert statement.params == ("b", "a")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT now()::date",
        "SELECT 'at :noon'",
        "SELECT 'it''s :noon'",
        "SELECT a[1:2]",
        "SELECT '-- no comment'",
        "SELECT '{}'::jsonb",
    ],
)
def test_casts_literals_and_slices_are_left_alone(text: str) -> None:
    assert parse("x", text).text == text
    assert parse("x", text).params == ()


def test_comments_and_empty_lines_go_with_what_they_mention() -> None:
    statement = parse("x", "-- How :many\nSELECT :a -- and why :not 'quoted\n\nFROM t")
    assert [line.rstrip() for line in statement.text.splitlines()] == ["SELECT $1", "FROM t"]
    assert statement.params == ("a",)


@given(st.text(alphabet=st.characters(exclude_characters="\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\x00"), max_size=40))
def test_no_literal_is_ever_changed(literal: str) -> None:
    quoted = "'" + literal.replace("'", "''") + "'"
    assert parse("x", f"SELECT {quoted}, :a").text == f"SELECT {quoted}, $1"


def test_a_file_is_read_into_its_named_statements(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(
        "-- About the file.\n-- name: one\n-- Why.\nSELECT 1;\n\n-- name: two\nSELECT :x FROM due.due;\n"
    )
    statements = load(str(tmp_path / "actions.py"))
    assert [each.name for each in statements] == ["one", "two"]
    assert statements.two.text == "SELECT $1 FROM due.due;"
    assert load(str(tmp_path / "actions.py"), "mine").two.text == "SELECT $1 FROM mine.due;"


def test_what_stands_in_brackets_is_left_out_of_the_short_form(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(
        "-- name: all, short: few\nSELECT :a\n  -- [\n  , :b\n  -- ]\n  , :c;\n\n-- name: two\nSELECT 2;\n"
    )
    statements = load(str(tmp_path / "actions.py"))
    assert [(each.name, each.params) for each in statements] == [
        ("all", ("a", "b", "c")),
        ("few", ("a", "c")),
        ("two", ()),
    ]
    assert statements.few.text.split() == ["SELECT", "$1", ",", "$2;"]


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="'frobnicate'"):
        _ = Statements({}).frobnicate


@pytest.mark.parametrize("schema", ["Mine", "a b", "a;b", "", 'a"b', "1a"])
def test_a_schema_that_would_need_quotes_is_refused(schema: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        in_schema("SELECT 1", schema)


async def test_a_statement_answers_rows_one_row_a_value_or_a_count(db: Database) -> None:
    numbers = parse("numbers", "SELECT n FROM generate_series(1, :last::int) n")
    mark = parse("mark", "UPDATE installation SET made_first_key = :it")
    async with db.transaction(1) as tx:
        assert [row["n"] for row in await numbers.rows(tx, last=3)] == [1, 2, 3]
        assert (await numbers.row(tx, last=3))["n"] == 1
        assert await numbers.value(tx, last=3) == 1
        assert await numbers.row(tx, last=0) is None
        assert await mark.run(tx, it=True) == 1


async def test_a_missing_value_is_an_error_before_anything_is_sent(db: Database) -> None:
    async with db.transaction(1) as tx:
        with pytest.raises(KeyError, match="kind"):
            await load(queue.__file__).leased.rows(tx, keys=[])


def test_two_statements_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")
    with pytest.raises(ValueError, match="named 'one'"):
        load(str(tmp_path / "code.py"))
