"""Logs and metrics: how a process tells what it does, without telling anybody's secrets.

One stream of lines, JSON or coloured on a terminal, for structlog and the standard library's logging alike; and one
registry of counters. What is logged and counted is decided at the seams that do it. No label holds an id, a person or
a URL.
"""

import logging
import re
import sys
from collections.abc import MutableMapping
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Final, TextIO, TypeAlias

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)

Event: TypeAlias = MutableMapping[str, Any]

log = structlog.stdlib.get_logger("soonish")
request_id: ContextVar[str] = ContextVar("request_id", default="")

_SECRETS: Final = (
    (re.compile(r"\b(sk_|whsec_)[\w+/=-]+"), r"\1***"),
    (re.compile(r"(\w://)[^\s/?#@]+@"), r"\1***@"),
    (re.compile(r"(/login/|/p/[\w-]+/)[\w.=-]+"), r"\1***"),
    (re.compile(r"(?i)\b(bearer|basic) [\w.~+/=-]+"), r"\1 ***"),
    (
        re.compile(r"(?i)\b(soonish_signin|password|passwd|token|secret|api[-_]?key)(\"?'?[=:] ?\"?'?)[^\s&,;\"'}]+"),
        r"\1\2***",
    ),
    (re.compile(r"\b([\w-]{1,32}):[A-Za-z0-9+/_-]{43}=(?!\w)"), r"\1:***"),
)
# The standard library's lines have their fields in the text: `due.claimed lane=people item=7 error='not now'`.
_FIELD: Final = re.compile(r" (\w+)=('[^']*'|\S*)")
_FACT: Final = re.compile(rf"[a-z_]+(\.[a-z_]+)+({_FIELD.pattern})+")
_NUMBER: Final = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d+)?")

# --- metrics -------------------------------------------------------------------------------------------------------

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY: Final = CollectorRegistry()
_IN: Final[dict[str, Any]] = {"namespace": "soonish", "registry": REGISTRY}

due_pending = Gauge("due_pending", "Items that wait or run, estimated.", **_IN)
due_overdue = Gauge("due_overdue", "Items that are due and that nobody works on.", **_IN)
due_oldest_overdue_seconds = Gauge("due_oldest_overdue_seconds", "How long the oldest of them is overdue.", **_IN)
due_oldest_lease_seconds = Gauge("due_oldest_lease_seconds", "How long the oldest lease has run out.", **_IN)
due_last_claim_timestamp_seconds = Gauge(
    "due_last_claim_timestamp_seconds", "When a lane last looked for due items.", ["lane"], **_IN
)
due_lateness_seconds = Histogram(
    "due_lateness_seconds",
    "How long after its moment an item was first claimed.",
    ["lane"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 3600),
    **_IN,
)
due_finished_total = Counter(
    "due_finished_total", "Items that came to an end, or were put back.", ["kind", "fate"], **_IN
)
due_lease_expired_total = Counter("due_lease_expired_total", "Items whose holder vanished.", ["kind"], **_IN)
due_lost_results_total = Counter("due_lost_results_total", "Results that came after their lease.", ["kind"], **_IN)
due_wakes_total = Counter("due_wakes_total", "Why a sleeping lane looked.", ["reason"], **_IN)
due_unknown_kind_items = Gauge("due_unknown_kind_items", "Due items of kinds that this process does not know.", **_IN)
deliveries_total = Counter("deliveries_total", "Deliveries that came to an end.", ["channel", "state"], **_IN)
attempt_seconds = Histogram(
    "attempt_seconds",
    "How long one try of a delivery took.",
    ["channel", "outcome"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 30),
    **_IN,
)
circuits_open = Gauge("circuits_open", "Targets that this process leaves alone because they kept failing.", **_IN)
bell_reconnects_total = Counter("bell_reconnects_total", "Times the bell was heard again after a silence.", **_IN)
http_requests_total = Counter("http_requests_total", "Requests answered.", ["method", "route", "status"], **_IN)
http_request_seconds = Histogram("http_request_seconds", "How long a request took.", ["method", "route"], **_IN)
sse_streams = Gauge("sse_streams", "Live streams that are open.", **_IN)
child_restarts_total = Counter("child_restarts_total", "Restarts of an embedded server.", ["child"], **_IN)
database_up = Gauge("database_up", "1 while the database answers.", **_IN)
temporal_up = Gauge("temporal_up", "1 while Temporal answers.", **_IN)
build = Info("build", "What runs here.", **_IN)


def expose() -> bytes:
    """All metrics, as Prometheus reads them."""
    build.info({"version": version("soonish"), "python": ".".join(map(str, sys.version_info[:3]))})
    return generate_latest(REGISTRY)


# --- logs ----------------------------------------------------------------------------------------------------------


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send every line of this process to one stream (stderr), from this level on. May be called again."""
    stream = stream or sys.stderr
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_request,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(stream, [*shared, structlog.stdlib.ExtraAdder(), _spread]))
    logging.captureWarnings(True)
    for quiet in ("alembic", "uvicorn"):  # what they did is told by those who asked
        logging.getLogger(quiet).setLevel(logging.WARNING)
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def redact(text: str) -> str:
    """The same text, with what looks like a secret masked."""
    for pattern, mask in _SECRETS:
        text = pattern.sub(mask, text)
    return text


def _formatter(stream: TextIO, foreign: list[Any]) -> logging.Formatter:
    plain = structlog.dev.plain_traceback  # the rich one would print the values of variables
    show: Any = structlog.processors.JSONRenderer(default=str)
    if stream.isatty():
        show = structlog.dev.ConsoleRenderer(exception_formatter=plain)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=foreign,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _redact_all,
            show,
        ],
    )


def _add_request(_logger: Any, _method: str, event: Event) -> Event:
    if request := request_id.get():
        event.setdefault("request_id", request)
    return event


def _spread(_logger: Any, _method: str, event: Event) -> Event:
    """Make fields of those that stand in the text."""
    if _FACT.fullmatch(text := event["event"]):
        event["event"] = text.partition(" ")[0]
        event.update((name, _value(value)) for name, value in _FIELD.findall(text))
    return event


def _value(text: str) -> Any:
    """A number, nothing, or words without their quotes."""
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return None if text == "None" else text.strip("'")


def _redact_all(_logger: Any, _method: str, event: Event) -> Event:
    return {name: _redacted(value) for name, value in event.items()}


def _redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _redacted(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set):
        return [_redacted(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else redact(str(value))
