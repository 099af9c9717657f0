"""`soonish import people FILE`: tables and JSON lines, refused rows in a file of their own, and safe to repeat."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from soonish.cli.importing import BATCH, BATCH_BYTES, Row, batches, read
from tests.support.service import Service
from tests.support.shell import Done, shell
from tests.support.terminal import Terminal

TABLE = """external_id,name,email,timezone,quiet_start,quiet_end
{0}-1,Ben,{0}-ben@example.org,Europe/Berlin,22:00,07:00
{0}-2,"Ann, the other",,,,
"""


@pytest.fixture
def mark() -> str:
    """What no other test's people have."""
    return f"i{uuid4().hex[:10]}"


def run(service: Service, file: Path) -> Done:
    return shell("import", "people", str(file), environ=service.settings)


def counts(done: Done) -> dict[str, int]:
    return {name: int(number) for name, number in (line.split() for line in done.out.splitlines())}


def written(folder: Path, text: str, name: str = "people.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


async def people(service: Service, mark: str) -> dict[str, Any]:
    async with service.client() as soonish:
        found = [one async for one in soonish.list("/v1/people", limit=200)]
    return {one["external_id"]: one for one in found if (one["external_id"] or "").startswith(mark)}


async def test_a_table_becomes_people_and_a_second_run_changes_nothing(
    service: Service, mark: str, tmp_path: Path
) -> None:
    file = written(tmp_path, TABLE.format(mark))
    done = run(service, file)
    assert done.code == 0, done.err
    assert counts(done) == {"created": 2, "changed": 0, "same": 0, "refused": 0}
    found = await people(service, mark)
    assert found[f"{mark}-1"]["quiet_hours"] == {"start": "22:00", "end": "07:00", "critical": "send"}
    assert (found[f"{mark}-1"]["name"], found[f"{mark}-1"]["timezone"]) == ("Ben", "Europe/Berlin")
    assert (found[f"{mark}-2"]["name"], found[f"{mark}-2"]["email"]) == ("Ann, the other", None)
    assert counts(run(service, file)) == {"created": 0, "changed": 0, "same": 2, "refused": 0}
    file.write_text(TABLE.format(mark).replace("Ben", "Benno"))
    assert counts(run(service, file)) == {"created": 0, "changed": 1, "same": 1, "refused": 0}
    assert not (tmp_path / "people.csv.refused.jsonl").exists()


async def test_json_lines_take_all_that_the_api_takes(service: Service, mark: str, tmp_path: Path) -> None:
    rows = [
        {"external_id": f"{mark}-1", "first_name": "Ben", "last_name": "Berg", "paused_until": None},
        {"external_id": f"{mark}-2", "name": "Ann", "quiet_hours": {"start": "21:00", "end": "06:00"}},
    ]
    file = written(tmp_path, "\n\n".join(json.dumps(row) for row in rows), "people.jsonl")
    assert counts(run(service, file))["created"] == 2
    assert (await people(service, mark))[f"{mark}-1"]["name"] == "Ben Berg"


async def test_good_rows_are_kept_and_refused_ones_stand_in_a_file_with_their_errors(
    service: Service, mark: str, tmp_path: Path
) -> None:
    text = f"external_id,name,timezone\n{mark}-1,Ben,Mars/Base\n{mark}-2,Ann,\n{mark}-3,Cat,UTC,more,cells\n"
    file = written(tmp_path, text)
    done = run(service, file)
    assert done.code == 1
    assert counts(done) == {"created": 1, "changed": 0, "same": 0, "refused": 2}
    assert "people.csv.refused.jsonl" in done.err
    refused = [json.loads(line) for line in (tmp_path / "people.csv.refused.jsonl").read_text().splitlines()]
    assert {one["line"]: one["errors"][0]["code"] for one in refused} == {2: "unknown_zone", 4: "unreadable"}
    assert (await people(service, mark)).keys() == {f"{mark}-2"}
    file.write_text(text.replace("Mars/Base", "UTC").replace(",more,cells", ""))
    assert counts(run(service, file)) == {"created": 2, "changed": 0, "same": 1, "refused": 0}
    assert not (tmp_path / "people.csv.refused.jsonl").exists()


async def test_more_than_a_request_holds_goes_in_batches_with_progress(
    service: Service, mark: str, tmp_path: Path
) -> None:
    lines = [f"{mark}-{n},Person {n}" for n in range(BATCH + 5)]
    file = written(tmp_path, "\n".join(["external_id,name", *lines]))
    with Terminal(service.environ(), "import", "people", str(file)) as terminal:
        assert terminal.code() == 0
        assert str(BATCH + 5) in terminal.seen
        assert "people" in terminal.seen
    assert len(await people(service, mark)) == BATCH + 5


def test_rows_without_an_id_of_yours_are_told_to_be_made_anew(service: Service, mark: str, tmp_path: Path) -> None:
    done = run(service, written(tmp_path, f"name\n{mark} Nobody\n"))
    assert done.code == 0
    assert "made anew by each import" in done.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour,shape\nred,round\n", "must name the columns"),
        ("", "must name the columns"),
        (b"name\n\xff\xfe\n", "is not UTF-8"),
    ],
)
def test_what_is_no_list_of_people_is_refused_as_a_whole(
    service: Service, tmp_path: Path, text: str | bytes, said: str
) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = run(service, file)
    assert done.code == 1
    assert said in done.err


def test_a_file_that_is_not_there_is_a_wrong_use(service: Service, tmp_path: Path) -> None:
    assert run(service, tmp_path / "none.csv").code == 2


def test_batches_fit_into_a_request_by_number_and_by_size() -> None:
    small = [Row(n, n, {"name": "x"}) for n in range(BATCH * 2 + 1)]
    assert [len(batch) for batch in batches(small)] == [BATCH, BATCH, 1]
    large = [Row(n, n, {"name": "x" * (BATCH_BYTES // 2)}) for n in range(3)]
    assert [len(batch) for batch in batches(large)] == [1, 1, 1]
    assert list(batches([])) == []


@pytest.mark.parametrize("mark_", [",", ";", "\t"])
def test_a_table_may_be_separated_as_programs_do(tmp_path: Path, mark_: str) -> None:
    file = tmp_path / "people.csv"
    file.write_text("\ufeffexternal_id,Name\r\n7,Ben\r\n".replace(",", mark_))
    with file.open(encoding="utf-8-sig", newline="") as opened:
        rows = list(read(opened))
    assert [(row.line, row.wish, row.error) for row in rows] == [(2, {"external_id": "7", "name": "Ben"}, None)]


def test_a_line_that_is_no_object_is_refused_and_the_rest_is_read(tmp_path: Path) -> None:
    file = tmp_path / "people.jsonl"
    file.write_text('{"name": "Ben"}\n[1]\n{"name": \n{"name": "Ann"}\n')
    with file.open(encoding="utf-8-sig", newline="") as opened:
        rows = list(read(opened))
    assert [row.wish.get("name") for row in rows if row.error is None] == ["Ben", "Ann"]
    assert [row.line for row in rows if row.error] == [2, 3]
