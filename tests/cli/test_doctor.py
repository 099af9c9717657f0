"""`soonish doctor`: nothing to say where all is well; elsewhere which check, and what to do."""

import asyncio
import json
import socket
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from soonish.cli import checks_of_database
from soonish.clock import utc_now
from soonish.embedded.folder import Folder
from soonish.embedded.lock import Lock
from soonish.vault import make_key
from tests.support.places import free_port
from tests.support.pooler import deaf_pooler
from tests.support.postgres import PostgresServer
from tests.support.service import Service
from tests.support.shell import shell
from tests.support.smtp import Post, mail_server
from tests.support.terminal import Terminal

Checks = dict[str, dict[str, str]]


async def examined(environ: Mapping[str, str]) -> tuple[int, Checks]:
    """Its exit code, and the checks by name."""
    told = await asyncio.to_thread(shell, "doctor", "--json", environ=environ)
    return told.code, {check.pop("name"): check for check in json.loads(told.out)}


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> dict[str, str]:
    """Of an installation on a database of its own, without Temporal."""
    Folder.prepare(tmp_path / "data")
    bind = f"127.0.0.1:{free_port()}"
    keys = {"SOONISH_SECRETS_KEYS": make_key(), "SOONISH_DATABASE_URL": database_url}
    return {"SOONISH_DATA_DIR": str(tmp_path / "data"), "SOONISH_BIND": bind} | keys


async def execute(url: str, statement: str, *values: Any) -> None:
    owner = await asyncpg.connect(url)
    await owner.execute(statement, *values)
    await owner.close()


def is_told(check: Mapping[str, str], state: str, text: str, remedy: str) -> None:
    assert check["state"] == state, check
    assert text in check["text"]
    assert remedy in check["remedy"]


async def test_a_mail_server_and_an_apprise_api_are_asked_where_they_are_set(settings: dict[str, str]) -> None:
    mail = {"SOONISH_SMTP_HOST": "127.0.0.1", "SOONISH_SMTP_FROM": "a@example.org", "SOONISH_SMTP_TLS": "none"}
    with mail_server(Post()) as port:
        api = {"SOONISH_APPRISE_API_URL": f"http://127.0.0.1:{port}"}
        _, checks = await examined(settings | mail | api | {"SOONISH_SMTP_PORT": str(port)})
        is_told(checks["SMTP"], "ok", f"127.0.0.1:{port} takes mail", "")
        is_told(checks["Apprise"], "ok", "listens", "")
    nobody = str(free_port())
    api = {"SOONISH_APPRISE_API_URL": f"http://127.0.0.1:{nobody}"}
    code, checks = await examined(settings | mail | api | {"SOONISH_SMTP_PORT": nobody})
    assert code == 1
    is_told(checks["SMTP"], "fail", nobody, "Correct SOONISH_SMTP_*")
    is_told(checks["Apprise"], "fail", nobody, "SOONISH_APPRISE_API_URL")


async def test_where_all_is_well_nothing_is_to_do(service: Service) -> None:
    code, checks = await examined(service.settings)
    assert code == 0
    assert list(checks) == [
        "settings", "directory", "space", "lock", "port", "temporal", "tzdata", "SMTP", "Apprise", "database", "schema",
        "role", "LISTEN", "clock", "keys", "overdue", "leases", "dead",
    ]  # fmt: skip
    assert {name for name, check in checks.items() if check["state"] == "fail"} == set()
    assert f"process {service.pid}" in checks["lock"]["text"]
    assert service.url in checks["port"]["text"]


def test_each_check_is_a_line_and_what_to_do_stands_below(nowhere: dict[str, str]) -> None:
    told = shell("doctor", environ=nowhere | {"SOONISH_BIND": f"127.0.0.1:{free_port()}"})
    assert (told.code, told.err) == (0, "")
    lines = told.out.splitlines()
    assert lines[0] == "ok   settings   all are known and good"
    assert lines[1].startswith("warn directory  ")
    assert lines[2] == "                The first `soonish up` makes it."
    assert "\x1b" not in told.out
    assert not Path(nowhere["SOONISH_DATA_DIR"]).exists()


def test_on_a_terminal_states_have_colours(service: Service) -> None:
    with Terminal(service.environ(), "doctor") as terminal:
        assert terminal.code() == 0
    assert "\x1b[32m\x1b[1mok  \x1b[0m" in terminal.seen


async def test_wrong_settings_are_a_check_that_fails() -> None:
    code, checks = await examined({"SOONISH_LEASE": "soon"})
    assert (code, list(checks)) == (1, ["settings"])
    is_told(checks["settings"], "fail", "SOONISH_LEASE: 'soon'", "Correct them")


async def test_a_database_that_is_stopped(own_postgres: PostgresServer, settings: dict[str, str]) -> None:
    own_postgres.halt()
    code, checks = await examined(settings | {"SOONISH_DATABASE_URL": own_postgres.url()})
    assert code == 1
    is_told(checks["database"], "fail", "No database answers", "SOONISH_DATABASE_URL")
    assert "schema" not in checks


async def test_an_embedded_database_that_is_down_while_its_process_runs(tmp_path: Path) -> None:
    with Lock(tmp_path / "data", "http://127.0.0.1:1"):
        code, checks = await examined({"SOONISH_DATA_DIR": str(tmp_path / "data")})
    assert code == 1
    is_told(checks["database"], "fail", "does not answer", "logs/postgres.log")
    is_told(checks["port"], "fail", "nobody answers at http://127.0.0.1:1", "log of the process")


async def test_another_key_than_that_which_the_secrets_are_sealed_with(service: Service) -> None:
    code, checks = await examined(service.settings | {"SOONISH_SECRETS_KEYS": make_key()})
    assert code == 1
    is_told(checks["keys"], "fail", "sealed under the key", "Put the key back")


async def test_a_key_of_the_same_name_that_is_another(service: Service) -> None:
    right = (service.folder / "keys" / "secrets-keys").read_text().partition(":")[0]
    wrong = f"{right}:{make_key().partition(':')[2]}"
    code, checks = await examined(service.settings | {"SOONISH_SECRETS_KEYS": wrong})
    assert code == 1
    is_told(checks["keys"], "fail", "is another key now", "Put the key back")


async def test_a_newer_key_that_not_all_is_sealed_with_yet(service: Service) -> None:
    right = (service.folder / "keys" / "secrets-keys").read_text().strip()
    code, checks = await examined(service.settings | {"SOONISH_SECRETS_KEYS": f"{make_key()},{right}"})
    assert code == 0
    is_told(checks["keys"], "warn", "under older keys", "soonish migrate --rekey")


@pytest.mark.parametrize(("skew", "state"), [(40, "fail"), (-40, "fail"), (5, "warn")])
async def test_a_clock_that_goes_wrong(
    settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, skew: int, state: str
) -> None:
    monkeypatch.setattr(checks_of_database, "utc_now", lambda: utc_now() + timedelta(seconds=skew))
    code, checks = await examined(settings)
    assert code == (1 if state == "fail" else 0)
    is_told(checks["clock"], state, " s apart from the database's", "one time server")


async def test_a_pooler_that_swallows_what_is_notified(settings: dict[str, str], postgres: PostgresServer) -> None:
    name = settings["SOONISH_DATABASE_URL"].partition("@/")[2].partition("?")[0]
    async with deaf_pooler(postgres.folder / ".s.PGSQL.5432") as port:
        pooled = f"postgresql://postgres@127.0.0.1:{port}/{name}?sslmode=disable"
        code, checks = await examined(settings | {"SOONISH_DATABASE_URL": pooled})
        assert code == 1
        is_told(checks["LISTEN"], "fail", "a NOTIFY does not arrive", "SOONISH_DATABASE_LISTEN_URL")
        direct = {"SOONISH_DATABASE_URL": pooled, "SOONISH_DATABASE_LISTEN_URL": settings["SOONISH_DATABASE_URL"]}
        code, checks = await examined(settings | direct)
    assert (code, checks["LISTEN"]["state"]) == (0, "ok")


async def test_a_schema_that_is_not_of_this_version(settings: dict[str, str], bare_url: str) -> None:
    code, checks = await examined(settings | {"SOONISH_DATABASE_URL": bare_url})
    assert code == 1
    is_told(checks["schema"], "fail", "empty", "run `soonish migrate`")
    await execute(settings["SOONISH_DATABASE_URL"], "UPDATE alembic_version SET version_num = '9999_later'")
    code, checks = await examined(settings)
    assert code == 1
    is_told(checks["schema"], "fail", "ahead", "run the newer Soonish")


async def test_a_role_that_looks_over_the_walls(own_postgres: PostgresServer, settings: dict[str, str]) -> None:
    migrated = settings | {"SOONISH_DATABASE_URL": own_postgres.url()}
    assert await asyncio.to_thread(lambda: shell("migrate", environ=migrated).code) == 0
    await execute(own_postgres.url(), "ALTER ROLE soonish_app BYPASSRLS")
    code, checks = await examined(migrated)
    assert code == 1
    is_told(checks["role"], "fail", "looks over the walls", "ALTER ROLE soonish_app NOSUPERUSER NOBYPASSRLS")


async def test_somebody_else_at_the_address(settings: dict[str, str]) -> None:
    port = int(settings["SOONISH_BIND"].rpartition(":")[2])
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        code, checks = await examined(settings)
    assert code == 1
    is_told(checks["port"], "fail", "cannot be taken", "another SOONISH_BIND")


async def test_a_temporal_that_does_not_answer(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soonish.cli.checks.ANSWER", 0.2)
    code, checks = await examined(settings | {"SOONISH_TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert code == 1
    is_told(checks["temporal"], "fail", "does not answer at 127.0.0.1:1", "SOONISH_TEMPORAL_ADDRESS")


async def test_a_directory_that_others_read(settings: dict[str, str]) -> None:
    Path(settings["SOONISH_DATA_DIR"]).chmod(0o755)  # noqa: ASYNC240
    code, checks = await examined(settings)
    assert code == 0
    is_told(checks["directory"], "warn", "can be read by others", "chmod 700")


async def test_a_disk_that_is_nearly_full(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for free, state in (("LEAST_FREE", "fail"), ("LITTLE_FREE", "warn")):
        with monkeypatch.context() as patched:
            patched.setattr(f"soonish.cli.checks.{free}", 2**60)
            code, checks = await examined(settings)
        assert code == (1 if state == "fail" else 0)
        is_told(checks["space"], state, "GiB free", "Free some space")


async def test_work_that_nobody_does(settings: dict[str, str]) -> None:
    url = settings["SOONISH_DATABASE_URL"]
    _, checks = await examined(settings)
    assert [checks[name]["state"] for name in ("overdue", "leases", "dead")] == ["ok"] * 3
    await execute(
        url,
        """INSERT INTO due.due (workspace_id, kind, key, lane, due_at, wake_at, lease_until, attempts)
           SELECT 1, 'test.thing', n::text, 0, now() - interval '1 hour', now() - interval '1 hour',
                  CASE WHEN n = 1 THEN now() - interval '30 minutes' END, 0 FROM generate_series(1, 3) AS n""",
    )
    await execute(
        url,
        """INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, created_at,
                                       finished_at, fate, reason) OVERRIDING SYSTEM VALUE
           VALUES (99, 1, 'test.thing', 'x', 0, now(), 1, 0, '{}', now(), now(), 'dead', 'budget')""",
    )
    code, checks = await examined(settings)
    assert code == 0
    is_told(checks["overdue"], "warn", "3 items, the oldest since ", "soonish due --overdue")
    is_told(checks["leases"], "warn", "1 have run out", "soonish work")
    is_told(checks["dead"], "warn", "1 of the last day", "soonish due retry ID")
