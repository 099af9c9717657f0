"""Settings: read from an environment, refused all at once."""

import subprocess
import sys
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soonish.settings import SETTINGS, Settings, WrongSettings, reference
from soonish.spelling import Bind


def refusal(**environ: str) -> WrongSettings:
    with pytest.raises(WrongSettings) as refused:
        Settings.read({f"SOONISH_{name}": value for name, value in environ.items()})
    return refused.value


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.read({})
    assert (settings.database_url, settings.temporal_address, settings.secrets_keys) == (None, None, None)
    assert (settings.bind, settings.public_url) == (Bind("127.0.0.1", 8787), "http://127.0.0.1:8787")
    assert settings.url is None
    assert (settings.lane_control, settings.lane_people, settings.lane_bulk) == (32, 256, 64)
    assert (settings.lease, settings.backlog_after) == (timedelta(seconds=60), timedelta(minutes=5))
    assert (settings.trusted_proxies, settings.cors_origins, settings.testing) == ((), (), False)
    assert settings.data_dir == Path.home() / ".local/share/soonish"


def test_each_kind_of_value_is_read() -> None:
    settings = Settings.read(
        {
            "SOONISH_TRUSTED_PROXIES": "10.0.0.0/8, fd00::/8",
            "SOONISH_CORS_ORIGINS": "https://a.example,http://localhost:3000/",
            "SOONISH_RATE_API": "2.5",
            "SOONISH_LOG": "DEBUG",
            "SOONISH_TEMPORAL_TLS": "yes",
            "SOONISH_KEEP_DELIVERIES": "30d",
        }
    )
    assert settings.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert settings.cors_origins == ("https://a.example", "http://localhost:3000")
    assert (settings.rate_api, settings.log, settings.temporal_tls) == (2.5, "debug", True)
    assert settings.keep_deliveries == timedelta(days=30)


def test_all_wrong_and_unknown_settings_are_named_at_once() -> None:
    error = refusal(LAESE="5s", LEASE="0s", BIND="here", STREAMS="none", TRUSTED_PROXIES="10.0.0.1/8")
    assert [each.field for each in error.errors] == [
        "SOONISH_LAESE", "SOONISH_BIND", "SOONISH_TRUSTED_PROXIES", "SOONISH_STREAMS", "SOONISH_LEASE",
    ]  # fmt: skip
    assert all(each.field in error.message for each in error.errors)


def test_an_unknown_setting_is_told_what_is_allowed() -> None:
    error = refusal(LAESE="5s", FROBNICATE="1")
    assert "did you mean SOONISH_LEASE?" in error.message
    assert all(setting.variable in error.message for setting in SETTINGS)


def test_a_wrong_value_is_told_what_to_write() -> None:
    assert "'5 minutes' cannot be used; write a span from 1s to 1h" in refusal(LEASE="5 minutes").message


@pytest.mark.parametrize("name", [setting.name for setting in SETTINGS if setting.secret])
def test_a_secret_is_never_shown(name: str) -> None:
    secret = "postgresql://u:hunter2@h/d" if "DATABASE" in name else "hunter2"
    assert "hunter2" not in repr(Settings.read({f"SOONISH_{name}": secret}))
    assert "hunter2" not in refusal(DATABASE_URL="mysql://u:hunter2@h/d").message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://h/d"), ("BIND", "127.0.0.1"), ("BIND", "example.org:80"), ("BIND", "127.0.0.1:65536"),
        ("PUBLIC_URL", "https://a.example/path"), ("PUBLIC_URL", "ftp://a.example"), ("PUBLIC_URL", "https://u:p@a.example"),
        ("CORS_ORIGINS", "*"), ("RATE_API", "-1"), ("RATE_API", "nan"), ("STREAMS", "0"), ("STREAMS", "9" * 5000),
        ("LOG", "loud"), ("TESTING", "maybe"), ("TEMPORAL_ADDRESS", "temporal"), ("TEMPORAL_ADDRESS", "http://t:7233"),
        ("LANE_BULK", "0"), ("LEASE", "2h"), ("BACKLOG_AFTER", "-1s"), ("KEEP_DUE", "1.5"), ("KEEP_DELIVERIES", "3h"),
    ],
)  # fmt: skip
def test_what_a_setting_does_not_allow_is_refused(name: str, value: str) -> None:
    assert [each.field for each in refusal(**{name: value}).errors] == [f"SOONISH_{name}"]


def test_an_empty_variable_counts_as_none() -> None:
    assert Settings.read({"SOONISH_LEASE": "", "SOONISH_DATABASE_URL": ""}) == Settings.read({})


def test_every_setting_can_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_text("postgresql://u:p@h/d\n")
    assert Settings.read({"SOONISH_DATABASE_URL_FILE": str(file)}).database_url == "postgresql://u:p@h/d"
    assert "is set twice" in refusal(DATABASE_URL="postgresql://h/d", DATABASE_URL_FILE=str(file)).message
    file.write_text("")
    assert "is empty" in refusal(API_KEY_FILE=str(file)).message
    assert "cannot be read" in refusal(API_KEY_FILE=str(tmp_path)).message


def test_temporals_own_variables_count_where_ours_are_unset() -> None:
    environ = {"TEMPORAL_ADDRESS": "t:7233", "TEMPORAL_NAMESPACE": "theirs", "SOONISH_TEMPORAL_NAMESPACE": "ours"}
    settings = Settings.read(environ)
    assert (settings.temporal_address, settings.temporal_namespace) == ("t:7233", "ours")


def test_the_listener_uses_the_database_unless_told_otherwise() -> None:
    assert Settings.read({"SOONISH_DATABASE_URL": "postgresql://h/d"}).database_listen_url == "postgresql://h/d"


def test_a_bind_that_others_reach_needs_a_public_url() -> None:
    assert [each.field for each in refusal(BIND="0.0.0.0:80").errors] == ["SOONISH_PUBLIC_URL"]
    settings = Settings.read({"SOONISH_BIND": "0.0.0.0:80", "SOONISH_PUBLIC_URL": "https://Soon.example/"})
    assert (settings.public_url, settings.bind.url) == ("https://soon.example", "http://127.0.0.1:80")


def test_workflows_and_activities_are_parted_together() -> None:
    assert [each.field for each in refusal(TEMPORAL_WORKFLOW_QUEUE="w").errors] == ["SOONISH_TEMPORAL_ACTIVITY_QUEUE"]


def test_what_ends_or_extends_a_process_works_only_in_tests() -> None:
    assert [each.field for each in refusal(FAILPOINTS="due.claimed=exit@3").errors] == ["SOONISH_TESTING"]
    assert [each.field for each in refusal(TEST_KINDS="my.kinds:make").errors] == ["SOONISH_TESTING"]
    assert Settings.read({"SOONISH_TESTING": "1", "SOONISH_FAILPOINTS": "a=exit@1,b=exit@2"}).failpoints
    assert "exit@N" in refusal(TESTING="1", FAILPOINTS="due.claimed=boom").message


@pytest.mark.parametrize(
    ("text", "url"),
    [("[::1]:8787", "http://[::1]:8787"), ("localhost:1", "http://localhost:1"), ("127.0.0.1:0", "http://127.0.0.1:0")],
)
def test_a_bind_tells_how_it_is_reached(text: str, url: str) -> None:
    settings = Settings.read({"SOONISH_BIND": text})
    assert (settings.bind.url, str(settings.bind)) == (url, text)


@given(st.sampled_from([setting.name for setting in SETTINGS if setting.name != "DATA_DIR"]), st.text(max_size=40))
def test_no_text_breaks_the_reading(name: str, text: str) -> None:
    try:
        Settings.read({f"SOONISH_{name}": text})
    except WrongSettings as error:
        assert f"SOONISH_{name}" in error.message


def test_the_reference_tells_of_every_setting() -> None:
    text = reference()
    assert all(f"`{setting.variable}`" in text and setting.help in text for setting in SETTINGS)


def test_reading_settings_loads_nothing_heavy() -> None:
    heavy = "asyncpg alembic cryptography litestar msgspec prometheus_client structlog sqlalchemy temporalio"
    code = f"import sys, soonish.settings; print(*[name for name in {heavy.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
