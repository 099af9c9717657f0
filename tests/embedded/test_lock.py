"""One instance a data directory, and who holds it."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from soonish.embedded.folder import PARTS, Folder
from soonish.embedded.lock import AlreadyRunning, Lock, holder
from soonish.errors import Unavailable
from tests.support.parent import Parent


def test_the_second_is_told_who_was_first(folder: Path) -> None:
    with Lock(folder, "http://127.0.0.1:8787"), pytest.raises(AlreadyRunning) as refused, Lock(folder):
        pass
    assert (refused.value.pid, refused.value.url) == (os.getpid(), "http://127.0.0.1:8787")
    assert str(os.getpid()) in refused.value.message
    assert "http://127.0.0.1:8787" in refused.value.message


def test_one_that_was_left_can_be_taken_again(folder: Path) -> None:
    for _ in range(2):
        with Lock(folder):
            held = holder(folder)
            assert held
            assert held.pid == os.getpid()
    assert holder(folder) is None


def test_who_was_killed_holds_nothing(folder: Path, parent_of: Callable[..., Parent]) -> None:
    parent = parent_of()
    with pytest.raises(AlreadyRunning) as refused, Lock(folder):
        pass
    assert (refused.value.pid, refused.value.url) == (parent.pid, "http://127.0.0.1:1")
    parent.kill()
    with Lock(folder):
        pass


def test_asking_who_holds_it_makes_nothing(folder: Path) -> None:
    assert holder(folder) is None
    assert not folder.exists()


def test_nobody_else_looks_into_the_data_directory(folder: Path) -> None:
    with Lock(folder):
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
        assert stat.S_IMODE((folder / "run" / "lock").stat().st_mode) == 0o600
    assert modes == dict.fromkeys([folder, *(folder / part for part in PARTS)], 0o700)


def test_the_mode_of_a_directory_that_was_there_stays(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    Folder.prepare(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "keys").stat().st_mode) == 0o700


def test_a_place_where_nothing_can_be_kept_is_refused_with_what_to_do(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(Unavailable, match="--data-dir") as refused:
        Folder.prepare(folder)
    assert refused.value.code == "data_dir"
