"""How any server is kept alive and ended, shown with programs of the system in its place."""

import logging
import os
import signal
from pathlib import Path
from typing import ClassVar

import pytest

from soonish.embedded import child
from soonish.embedded.child import Child, NotStarted
from soonish.embedded.processes import Command, alive
from tests.embedded.conftest import killed, until

SLEEP = "sleep 100"


class Program(Child):
    """A script of the shell; it answers as soon as its file is there."""

    name = "program"
    ladder: ClassVar = ((signal.SIGINT, 0.3), (signal.SIGKILL, 5.0))

    def __init__(self, folder: Path, script: str = SLEEP) -> None:
        self.told: list[str] = []
        super().__init__(folder / "program.log", self.told.append)
        self.script = script
        self._folder = folder

    async def _prepare(self) -> Command:
        return Command(("sh", "-c", self.script), self._folder)

    async def _answers(self) -> bool:
        return True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that are short, but still double, and no life that is long."""
    monkeypatch.setattr(child, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(child, "LONGEST_WAIT", 0.05)
    monkeypatch.setattr(child, "STEADY", 3600.0)


def waits(caplog: pytest.LogCaptureFixture) -> list[float]:
    """The seconds before each restart, as they were logged."""
    deaths = [record for record in caplog.records if record.getMessage().startswith("child.died")]
    return [float(record.args[2]) for record in deaths if isinstance(record.args, tuple)]  # type: ignore[arg-type]


async def test_one_that_dies_is_started_again_after_waits_that_double(
    tmp_path: Path, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with Program(tmp_path) as program:
        for death in range(1, 6):
            before = program.pid
            await killed(before)
            await until(lambda: program.pid not in (None, before) and program.up)  # noqa: B023
            assert program.told == ["program"] * death
    assert waits(caplog) == [0.01, 0.02, 0.04, 0.05, 0.05]
    assert "child=program why='ended by signal 9'" in caplog.text


async def test_one_that_lived_long_enough_is_started_again_soon(
    tmp_path: Path, quick: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "STEADY", 0.0)
    async with Program(tmp_path) as program:
        for _ in range(3):
            before = program.pid
            await killed(before)
            await until(lambda: program.pid not in (None, before) and program.up)  # noqa: B023
    assert waits(caplog) == [0.01] * 3


async def test_the_waits_begin_with_half_a_second_and_end_with_thirty() -> None:
    assert (child.FIRST_WAIT, child.LONGEST_WAIT, child.STEADY) == (0.5, 30.0, 30.0)


class Polite(Program):
    """One that ends when it is asked, and gets the time for it on any machine."""

    ladder: ClassVar = ((signal.SIGINT, 60.0), (signal.SIGKILL, 5.0))


class Silent(Program):
    async def _answers(self) -> bool:
        return False


async def test_one_that_dies_before_it_ever_answers_is_given_up_after_three_starts(tmp_path: Path, quick: None) -> None:
    with pytest.raises(NotStarted, match=r"ended with code 3(.|\n)*no such luck"):
        async with Silent(tmp_path, "echo no such luck; exit 3"):
            pass
    assert (tmp_path / "program.log").read_text() == "no such luck\n" * 3


async def test_one_that_lives_and_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "FIRST_START", 1.0)
    silent = Silent(tmp_path, f"echo $$ > pid; exec {SLEEP}")
    with pytest.raises(NotStarted, match="does not answer"):
        async with silent:
            pass
    assert not alive(int((tmp_path / "pid").read_text()))


async def test_at_the_end_it_is_asked_first_and_made_to_then(tmp_path: Path) -> None:
    polite = Polite(tmp_path, "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.01; done")
    deaf = Program(tmp_path, "trap '' INT; echo up; while :; do sleep 0.01; done")
    log = tmp_path / "program.log"
    for program, words in ((polite, "up\nbye\n"), (deaf, "up\nbye\nup\n")):
        async with program:
            pid = program.pid
            assert pid
            await until(lambda: log.read_text().endswith("up\n"))
        assert program.pid is None
        assert not alive(pid)
        assert log.read_text() == words
        assert program.told == []


async def test_its_log_stays_below_a_size_and_what_was_written_is_kept(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "LOG_SIZE", 1_000)
    monkeypatch.setattr(child, "LOG_LOOK", 0.01)
    log, old = tmp_path / "program.log", tmp_path / "program.log.1"
    async with Program(tmp_path, f"printf '%01001d' 0; while ! [ -e go ]; do sleep 0.01; done; echo later; {SLEEP}"):
        await until(old.exists)
        await until(lambda: log.stat().st_size == 0)
        assert old.stat().st_size == 1001
        (tmp_path / "go").touch()
        await until(lambda: log.read_text() == "later\n")


async def test_it_gets_nothing_of_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOONISH_SECRETS_KEYS", "k1:secret")
    monkeypatch.setenv("TEMPORAL_ADDRESS", "elsewhere:7233")
    async with Program(tmp_path, f"env; echo end; {SLEEP}"):
        log = tmp_path / "program.log"
        await until(lambda: log.read_text().endswith("end\n"))
    assert "secret" not in log.read_text()
    assert "elsewhere" not in log.read_text()
    assert f"PATH={os.environ['PATH']}" in log.read_text()


async def test_what_it_logs_is_told_in_fields(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Program(tmp_path) as program:
        assert f"child.up child=program pid={program.pid}" in caplog.messages
