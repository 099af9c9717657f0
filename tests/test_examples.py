"""The examples do what they say, as programs of their own."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    source = str(EXAMPLES.parent / "src")
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": source, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("by_argument", [True, False])
def test_reminders_are_told_given_up_and_retried(bare_url: Any, by_argument: bool) -> None:
    for _ in range(2):
        done = run("reminders.py", bare_url) if by_argument else run("reminders.py", DATABASE_URL=bare_url)
        assert (done.returncode, done.stderr.partition("=")[0]) == (0, "due.dead item")
        lines = done.stdout.splitlines()
        assert [line[:9] for line in lines[:2]] == ["next: Ben", "next: Ada"]
        assert sorted(lines[2:]) == [
            "given up: Ben, LookupError: no phone",
            "told Ada about room 7",
            "told Ben about room 7",
        ]
        assert lines.index("given up: Ben, LookupError: no phone") < lines.index("told Ben about room 7")


def test_the_queue_alone_needs_nothing_but_its_driver() -> None:
    heavy = "litestar", "msgspec", "structlog", "temporalio", "cryptography", "sqlalchemy", "prometheus_client"
    code = (
        f"import sys, soonish.due as due; due.Loop; due.put; print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "[]"
