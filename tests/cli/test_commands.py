"""What every command has in common: help that is quick, and an end that scripts can read."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import free_port
from tests.support.service import Service, run
from tests.support.shell import shell
from tests.support.terminal import Terminal

COMMANDS = [
    ("up",), ("serve",), ("work",), ("migrate",), ("doctor",), ("api",), ("due",), ("due", "retry"), ("due", "pause"),
    ("due", "resume"), ("due", "watch"), ("backup", "create"), ("backup", "restore"),
]  # fmt: skip
HEAVY = "aiohttp alembic asyncpg cryptography jinja2 litestar msgspec prometheus_client rich sqlalchemy structlog"


def test_help_loads_nothing_that_is_not_needed_for_it() -> None:
    heavy = f"{HEAVY} temporalio uvicorn uvloop".split()
    program = f"import sys, soonish.cli.commands; print(*sorted(set(sys.modules) & set({heavy})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_commands_that_speak_http_load_no_server_and_no_database() -> None:
    heavy = f"{HEAVY} temporalio uvicorn uvloop".split()
    program = f"import sys, soonish.cli.due, soonish.cli.api; print(*sorted(set(sys.modules) & set({heavy})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_says_what_it_does(command: tuple[str, ...]) -> None:
    for flag in ("--help", "-h"):
        told = shell(*command, flag)
        assert (told.code, told.err) == (0, "")
        assert told.out.startswith(f"Usage: soonish {' '.join(command)} ")
        assert told.out.splitlines()[2].strip().endswith(".")


def test_help_lists_every_command() -> None:
    told = shell("--help").out
    assert [name for name, *_ in COMMANDS if f"\n  {name} " not in told] == []


def test_it_says_which_version_it_is() -> None:
    told = shell("--version")
    assert (told.code, told.out) == (0, f"soonish {version('soonish')}\n")


@pytest.mark.parametrize(
    "typed",
    [
        ("frobnicate",), ("up", "--frobnicate"), ("due", "retry"), ("due", "retry", "seven"), ("due", "--limit", "0"),
        ("api", "GET"), ("api", "GET", "/v1/me", "novalue"), ("work", "--lanes", "bulk,express"), ("backup", "create"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_understood_ends_with_2_and_the_way_to_help(typed: tuple[str, ...], service: Service) -> None:
    told = shell(*typed, environ=service.settings)
    assert (told.code, told.out) == (2, "")
    assert "-h' for help" in told.err


def test_a_lane_that_is_none_is_told_the_lanes() -> None:
    assert "'express' is no lane; the lanes are control, people, bulk" in shell("work", "--lanes", "express").err


@pytest.mark.parametrize(
    "command",
    [
        ("up",), ("serve",), ("work",), ("migrate",), ("migrate", "--rekey"), ("due",), ("api", "GET", "/v1/me"),
        ("backup", "create", "x.tar"), ("backup", "restore", "x.tar"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_settings_end_with_2_and_are_all_named(command: tuple[str, ...]) -> None:
    wrong = {"SOONISH_LEASE": "soon", "SOONISH_STREMS": "5", "SOONISH_BIND": "here"}
    told = shell(*command, environ=wrong)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("soonish: 3 settings are wrong:\n")
    for words in ("SOONISH_LEASE: 'soon'", "did you mean SOONISH_STREAMS?", "SOONISH_BIND: 'here'"):
        assert words in told.err


def test_a_bind_that_others_reach_needs_a_public_url() -> None:
    told = shell("up", "--bind", "0.0.0.0:8787")
    assert told.code == 2
    assert "SOONISH_PUBLIC_URL: is needed, because SOONISH_BIND is no loopback address" in told.err


@pytest.mark.parametrize(
    ("half", "lacking"),
    [("serve", ["DATABASE_URL", "SECRETS_KEYS"]), ("work", ["DATABASE_URL", "SECRETS_KEYS", "TEMPORAL_ADDRESS"])],
)
def test_halves_without_engines_name_all_that_they_lack(half: str, lacking: list[str]) -> None:
    told = run(half)
    assert told.returncode == 2
    assert [name for name in ("DATABASE_URL", "SECRETS_KEYS", "TEMPORAL_ADDRESS") if name in told.stderr] == lacking


@pytest.mark.parametrize("keys", ["k1:c2hvcnQ=", "nonsense"])
def test_keys_that_cannot_be_used_end_with_2_and_are_not_shown(keys: str) -> None:
    told = run("serve", SOONISH_DATABASE_URL="postgresql://h/d", SOONISH_SECRETS_KEYS=keys)
    assert told.returncode == 2
    assert "SOONISH_SECRETS_KEYS" in told.stderr
    assert keys not in told.stderr


@pytest.mark.parametrize(
    "command", [("up",), ("serve",), ("work",), ("migrate",), ("migrate", "--check")], ids=" ".join
)
def test_a_database_that_does_not_answer_ends_with_5_and_its_place(
    command: tuple[str, ...], nowhere: dict[str, str]
) -> None:
    elsewhere: dict[str, Any] = {
        "SOONISH_DATABASE_URL": "postgresql://ben:hunter2@127.0.0.1:1/shop",
        "SOONISH_SECRETS_KEYS": "k1:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        "SOONISH_TEMPORAL_ADDRESS": "127.0.0.1:1",
        "SOONISH_BIND": f"127.0.0.1:{free_port()}",
    }
    told = run(*command, **elsewhere | nowhere)
    assert (told.returncode, told.stdout) == (5, "")
    assert "No database answers at 127.0.0.1:1/shop; is it running?" in told.stderr
    assert "hunter2" not in told.stderr


@pytest.mark.parametrize(
    "command", [("migrate", "--check"), ("migrate", "--rekey"), ("backup", "create", "never.tar")], ids=" ".join
)
def test_where_there_is_no_database_it_is_said_how_one_is_made(
    command: tuple[str, ...], nowhere: dict[str, str]
) -> None:
    told = shell(*command, environ=nowhere)
    assert (told.code, told.out) == (5, "")
    assert "soonish up" in told.err
    assert not Path(nowhere["SOONISH_DATA_DIR"]).exists()


@pytest.mark.parametrize(
    "command", [("due",), ("due", "retry", "7"), ("due", "watch"), ("api", "GET", "/v1/me")], ids=" ".join
)
def test_without_a_key_or_a_server_it_ends_with_1_and_what_to_do(
    command: tuple[str, ...], nowhere: dict[str, str]
) -> None:
    keyless = shell(*command, environ=nowhere)
    assert (keyless.code, keyless.out) == (1, "")
    assert "set SOONISH_API_KEY" in keyless.err
    alone = shell(*command, environ=nowhere | {"SOONISH_API_KEY": "sk_x"})
    assert (alone.code, alone.out) == (1, "")
    assert "Nobody answers at http://127.0.0.1:1; is `soonish up` running there?" in alone.err


def test_a_key_that_is_not_known_ends_with_1(service: Service) -> None:
    refused = shell("due", environ=service.settings | {"SOONISH_API_KEY": "sk_wrong"})
    assert (refused.code, refused.out) == (1, "")
    assert "not known here" in refused.err


def test_a_data_directory_that_cannot_be_used_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    told = run("up", "--data-dir", str(tmp_path / "file"), "--bind", f"127.0.0.1:{free_port()}")
    assert told.returncode == 2
    assert "name another with --data-dir" in told.stderr


def test_ctrl_c_ends_a_command_with_130(service: Service) -> None:
    with Terminal(service.environ(), "due", "--kind", "no.such", "watch") as terminal:
        terminal.until("Nothing is due")
        terminal.interrupt()
        assert terminal.code() == 130
    assert "Traceback" not in terminal.seen


def test_a_reader_that_has_gone_ends_it_quietly(service: Service) -> None:
    command = f"{sys.executable} -m soonish api GET /openapi.json | head -c 10"
    done = subprocess.run(["sh", "-c", command], env=service.environ(), capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    assert len(done.stdout) == 10
