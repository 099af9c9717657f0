"""One stream of lines for all loggers, without secrets; one registry of metrics."""

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from soonish import telemetry
from soonish.telemetry import log, redact

SECRETS = [
    "sk_Jx0c-9_aVq3lWm0",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "postgresql://ana:hunter2@db.example.org/soonish",
    "https://hunter2@hooks.example.org/x",
    "GET /login/Jx0c9aVq3lWm0 200",
    "/p/confirm/eyJhIjoxfQ.c2lnbmVk",
    "Authorization: Bearer Jx0c9aVq3lWm0",
    "soonish_signin=Jx0c9aVq3lWm0; Path=/",
    '{"password": "hunter2"}',
    "k1:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
]
PART = re.compile(r"Jx0c|MfKQ|hunter2|c2lnbmVk|MDEy")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    telemetry.configure("info", stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_its_fact_its_fields_its_level_and_its_moment(stream: io.StringIO) -> None:
    log.info("due.claimed", item=7, late=True)
    [line] = lines(stream)
    assert (line["event"], line["item"], line["late"], line["level"]) == ("due.claimed", 7, True, "info")
    assert line["timestamp"].endswith("Z")


def test_what_the_standard_library_logs_flows_into_the_same_stream_as_fields(stream: io.StringIO) -> None:
    logging.getLogger("soonish.due").warning("due.lost item=%d kind=%s", 7, "a.b")
    logging.getLogger("elsewhere").warning("It rains", extra={"litres": 3})
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, second, third = lines(stream)
    assert (first["event"], first["item"], first["kind"]) == ("due.lost", 7, "a.b")
    assert (second["event"], second["litres"]) == ("It rains", 3)
    assert "DeprecationWarning" in third["event"]


def test_words_numbers_and_nothing_are_told_apart(stream: io.StringIO) -> None:
    line = "child.died why=%r restart_in_s=%.1f oldest=%s id=%s"
    logging.getLogger("soonish.embedded").warning(line, "ended by signal 9", 0.5, None, "007")
    [told] = lines(stream)
    assert told["event"] == "child.died"
    assert (told["why"], told["restart_in_s"], told["oldest"], told["id"]) == ("ended by signal 9", 0.5, None, "007")


def test_lines_below_the_level_are_left_out(stream: io.StringIO) -> None:
    log.debug("due.looked")
    logging.getLogger("elsewhere").debug("nothing")
    assert stream.getvalue() == ""


def test_the_level_and_the_stream_can_be_changed_later(stream: io.StringIO) -> None:
    log.info("before.it")
    later = io.StringIO()
    telemetry.configure("debug", later)
    log.debug("after.it")
    assert [line["event"] for line in lines(stream) + lines(later)] == ["before.it", "after.it"]


def test_a_line_names_the_request_that_it_belongs_to(stream: io.StringIO) -> None:
    token = telemetry.request_id.set("0b9f")
    log.info("http.answered")
    telemetry.request_id.reset(token)
    log.info("http.answered")
    assert [line.get("request_id") for line in lines(stream)] == ["0b9f", None]


@pytest.mark.parametrize("secret", SECRETS)
def test_no_line_holds_a_secret(stream: io.StringIO, secret: str) -> None:
    log.warning("it.failed", error=ValueError(secret), seen=[secret, {"in": (secret,)}])
    logging.getLogger("elsewhere").warning("It failed: %s", secret)
    try:
        raise RuntimeError(secret)
    except RuntimeError:
        log.exception("it.failed")
    assert len(lines(stream)) == 3
    assert PART.search(secret)
    assert not PART.search(stream.getvalue())


@pytest.mark.parametrize(
    "text",
    [
        "due.claimed lane=people item=7 late_ms=3",
        "GET /v1/api-keys/7",
        "task_runner",
        "https://example.org/@ben?a=b",
        "ask_me",
    ],
)
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_an_error_is_told_with_its_trace_but_without_values(stream: io.StringIO) -> None:
    def fail(letters: str) -> None:
        raise ValueError("boom")

    try:
        fail("private")
    except ValueError:
        log.exception("it.failed")
    [line] = lines(stream)
    assert "ValueError: boom" in line["exception"]
    assert "test_telemetry.py" in line["exception"]
    assert "letters = " not in line["exception"]


def test_a_terminal_gets_coloured_lines(stream: io.StringIO) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    telemetry.configure("info", terminal)
    log.info("due.claimed", item=7)
    assert "\x1b[" in terminal.getvalue()
    assert "due.claimed" in terminal.getvalue()


def test_metrics_are_exposed_under_the_name_of_the_product() -> None:
    telemetry.due_finished_total.labels("a.b", "done").inc(3)
    text = telemetry.expose().decode()
    assert 'soonish_due_finished_total{fate="done",kind="a.b"} 3.0' in text
    assert "soonish_build_info{" in text
    assert all(line.startswith(("#", "soonish_")) for line in text.splitlines())


def test_no_label_can_hold_an_id_a_person_or_a_url() -> None:
    labels = {label for metric in vars(telemetry).values() for label in getattr(metric, "_labelnames", ())}
    of_deliveries = {"channel", "state", "outcome"}
    assert labels == {"lane", "kind", "fate", "reason", "method", "route", "status", "child"} | of_deliveries
