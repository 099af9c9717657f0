"""`soonish due`: what is due, what died, what is paused; for eyes on a terminal and for scripts in a pipe."""

import asyncio
import json
import re
import shlex
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soonish.due import Lane, Put, put
from tests.rules.test_docs import blocks
from tests.support.service import Service, lines_of, notes
from tests.support.shell import Done, shell
from tests.support.terminal import Terminal

FAR = datetime(2031, 5, 6, 7, 8, tzinfo=UTC)


@pytest.fixture
def key() -> str:
    """A key that no other test has."""
    return f"k-{uuid.uuid4().hex[:12]}"


def note(key: str, at: datetime) -> Put:
    return Put("test.note", key, at, lane=Lane.PEOPLE)


def due(service: Service, *arguments: str) -> Done:
    return shell("due", *arguments, environ=service.settings)


def found(service: Service, *arguments: str) -> list[dict[str, Any]]:
    told = due(service, "--json", *arguments)
    assert told.code == 0, told.err
    items: list[dict[str, Any]] = json.loads(told.out)
    return items


async def dead(service: Service, *keys: str) -> list[dict[str, Any]]:
    """Put what never works, and wait until it has died."""
    await service.put(Put("test.poison", key) for key in keys)
    async with service.client() as soonish:
        while True:
            past = soonish.list("/v1/ops/past", kind="test.poison", fate="dead", limit=200)
            died = [item async for item in past if item["key"] in keys]
            if len(died) == len(keys):
                return died


async def test_in_a_pipe_it_is_a_table_of_plain_columns_soonest_first(service: Service, key: str) -> None:
    soon = datetime.now(UTC) + timedelta(hours=3)
    await service.put([note(f"{key}-far", FAR), note(f"{key}-soon", soon)])
    told = due(service, "--kind", "test.note", "--limit", "200")
    head, *rows = told.out.splitlines()
    assert head.split() == ["in", "due_at", "lane", "kind", "key", "tries", "last", "error"]
    mine = [row for row in rows if key in row]
    assert [row.split()[-2] for row in mine] == [f"{key}-soon", f"{key}-far"]
    assert re.match(rf"\d+ d \d+ h +2031-05-06T07:08:00Z +people +test.note +{key}-far +0$", mine[1])
    assert re.match(r"(2 h 59|3 h 00) min ", mine[0])
    assert "\x1b" not in told.out


async def test_on_a_terminal_it_is_a_table_with_a_rule(service: Service, key: str) -> None:
    await service.put([note(key, FAR)])
    with Terminal(service.environ(), "due", "--kind", "test.note", "--limit", "200") as terminal:
        assert terminal.code() == 0
    assert key in terminal.seen
    assert "\x1b[" in terminal.seen
    assert "───" in terminal.seen


async def test_as_json_it_is_what_the_api_answers(service: Service, key: str) -> None:
    await service.put([note(key, FAR)])
    [item] = [item for item in found(service, "--kind", "test.note", "--limit", "500") if item["key"] == key]
    assert (item["kind"], item["lane"], item["due_at"], item["state"]) == (
        "test.note", "people", "2031-05-06T07:08:00Z", "waiting",
    )  # fmt: skip


def test_where_nothing_is_due_it_says_what_would_stand_there(service: Service) -> None:
    told = due(service, "--kind", "no.such")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("Nothing is due. ")
    assert due(service, "--kind", "no.such", "--past").out == "Nothing of this ended.\n"
    assert found(service, "--kind", "no.such") == []


async def test_it_filters_by_kind_lane_and_state_and_keeps_to_its_limit(service: Service, key: str) -> None:
    await service.put(note(f"{key}-{n}", FAR) for n in range(3))
    assert len(found(service, "--kind", "test.note", "--limit", "2")) == 2
    assert all(item["lane"] == "people" for item in found(service, "--lane", "people"))
    assert not [item for item in found(service, "--kind", "test.note", "--lane", "bulk") if key in item["key"]]
    assert not [item for item in found(service, "--kind", "test.note", "--overdue") if key in item["key"]]
    wrong = due(service, "--lane", "express")
    assert (wrong.code, wrong.out) == (1, "")
    assert "  lane: " in wrong.err


@pytest.mark.parametrize(
    "filtered", ["--lane people --past", "--overdue --past", "--lane bulk --dead", "--overdue --dead"]
)
def test_a_filter_that_what_ended_does_not_have_is_refused(service: Service, filtered: str) -> None:
    told = due(service, *filtered.split())
    assert (told.code, told.out) == (2, "")
    assert f"{filtered.split()[0]} is about what is still to come" in told.err


async def test_what_ended_is_told_newest_first(service: Service, key: str, tmp_path: Path) -> None:
    for n in range(2):
        await service.put(notes(tmp_path / "ledger", [f"{key}-{n}"]))
        await lines_of(tmp_path / "ledger", n + 1)
    async with service.client() as soonish:
        while len([item async for item in soonish.list("/v1/ops/past", kind="test.note") if key in item["key"]]) < 2:
            pass
    mine = [item for item in found(service, "--past", "--kind", "test.note") if key in item["key"]]
    assert [(item["key"], item["fate"]) for item in mine] == [(f"{key}-1", "done"), (f"{key}-0", "done")]
    head = due(service, "--past").out.splitlines()[0]
    assert head.split() == ["finished", "due_at", "fate", "kind", "key", "id", "reason", "last", "error"]


async def test_the_dead_are_told_with_their_reason_on_one_line_and_live_again(service: Service, key: str) -> None:
    [item] = await dead(service, key)
    [row] = [row for row in due(service, "--dead").out.splitlines() if key in row]
    assert "RuntimeError: poison:  [31mnever works" in row
    assert "\x1b" not in row
    again = due(service, "retry", str(item["id"]))
    assert (again.code, again.out, again.err) == (0, "revived 1\nsuperseded 0\n", "")


async def test_the_operator_finds_the_systems_own_beside_the_rest_and_lets_them_live_again(
    service: Service, key: str
) -> None:
    tidy = {"kind": "system.housekeeping", "lane": "bulk"}.items()
    assert [item for item in found(service, "--limit", "500") if tidy <= item.items()]
    assert {item["kind"].partition(".")[0] for item in found(service, "--system")} == {"system"}
    connection = await service.database()
    async with connection.transaction():
        await put(connection, [Put("test.poison", key)], workspace_id=0)
    await connection.close()
    while not (mine := [item for item in found(service, "--dead", "--limit", "500") if item["key"] == key]):
        await asyncio.sleep(0.05)
    told = due(service, "retry", str(mine[0]["id"]))
    assert (told.code, told.out) == (0, "revived 1\nsuperseded 0\n")


def test_a_retry_of_what_is_not_dead_ends_with_1(service: Service) -> None:
    told = due(service, "retry", "999999999")
    assert (told.code, told.out) == (1, "revived 0\nsuperseded 0\n")
    assert "soonish due --dead" in told.err


async def test_what_is_paused_waits_until_it_is_resumed(service: Service, key: str, tmp_path: Path) -> None:
    paused = due(service, "pause", "test.note", "--reason", "the printer burns")
    assert (paused.code, paused.out) == (0, "paused test.note\n")
    await service.put(notes(tmp_path / "ledger", [key]))
    async with service.client() as soonish:
        [pause] = (await soonish.get("/v1/ops/pauses"))["items"]
    assert (pause["kind"], pause["reason"], pause["everywhere"]) == ("test.note", "the printer burns", False)
    [row] = [row for row in due(service, "--kind", "test.note", "--limit", "500").out.splitlines() if key in row]
    assert row.startswith("paused ")
    assert await lines_of(tmp_path / "ledger", 1, within=0.5) == []
    resumed = due(service, "resume", "test.note")
    assert (resumed.code, resumed.out) == (0, "resumed test.note\n")
    assert await lines_of(tmp_path / "ledger", 1) == [key]


def test_one_word_resumes_what_was_paused_here_and_everywhere(service: Service) -> None:
    due(service, "pause", "test.poison")
    due(service, "pause", "test.poison", "--everywhere")
    assert due(service, "resume", "test.poison").code == 0
    again = due(service, "resume", "test.poison")
    assert again.code == 1
    assert "test.poison is not paused; paused are: none" in again.err


@pytest.mark.parametrize("page", ["docs/how-to/recover-what-died.md", "docs/tutorial.md"])
def test_each_command_about_due_items_in_the_docs_does_what_its_page_says(service: Service, page: str) -> None:
    typed = [
        line for block in blocks(page, "sh") for line in block.splitlines() if re.match(r"soonish (due|api)", line)
    ]
    [housekeeping] = found(service, "--kind", "system.housekeeping")
    for line in typed:
        told = shell(*shlex.split(line)[1:], environ=service.settings)
        assert told.code == (1 if line.startswith("soonish due retry") else 0), (line, told.err)  # nothing has died
        if "--everywhere" in line:
            now = shell("api", "POST", f"/v1/ops/due/{housekeeping['id']}/now", environ=service.settings)
            assert (now.code, "so item" in now.err) == (1, True), "the system's own stand still too"
    assert "soonish due resume" in "".join(typed)
    assert json.loads(shell("api", "GET", "/v1/ops/pauses", environ=service.settings).out)["items"] == []


def test_what_is_no_kind_cannot_be_paused(service: Service) -> None:
    told = due(service, "pause", "nonsense")
    assert (told.code, told.out) == (1, "")
    assert "  kind: " in told.err


async def test_watching_shows_each_change(service: Service, key: str) -> None:
    with Terminal(service.environ(), "due", "--kind", "test.note", "--limit", "200", "watch") as terminal:
        await service.put([note(key, datetime.now(UTC) + timedelta(minutes=30))])
        terminal.until(key)
        terminal.until("\x1b[?1049h")  # a screen of its own, so that nothing scrolls
        terminal.interrupt()
        assert terminal.code() == 130
        assert "\x1b[?1049l" in terminal.seen  # and the old one is back
