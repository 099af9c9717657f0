"""Every file stands where the tree says, and the rule sees one that does not."""

import pytest

from tests.rules.layout import complaints
from tests.rules.repository import files


def test_every_file_stands_in_its_place() -> None:
    assert complaints(files()) == []


@pytest.mark.parametrize(
    "path",
    [
        "src/soonish/utils.py",
        "src/soonish/ops/helpers.py",
        "src/soonish/ops/actions/base.py",
        "src/soonish/ops/actions/deeper/still.py",
        "src/soonish/ops/templates/page.py",
        "src/soonish/billing/model.py",
        "src/soonish/web/static/app.ts",
        "src/soonish/db/migrations/versions/ground.py",
        "tests/billing/test_bill.py",
        "tests/due/check.py",
        "docs/notes.md",
        "docs/decisions/own-loader.md",
        "setup.py",
    ],
)
def test_a_file_out_of_place_is_named(path: str) -> None:
    assert len(complaints([path])) == 1


@pytest.mark.parametrize(
    "path", ["src/soonish/ops/actions.py", "src/soonish/ops/actions/pauses.py", "src/soonish/web/static/app.css"]
)
def test_a_word_may_be_a_file_or_a_folder(path: str) -> None:
    assert complaints([path]) == []
