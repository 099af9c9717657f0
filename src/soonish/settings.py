"""The settings: SOONISH_* variables of the environment, read once, and all wrong ones named at once.

Each is declared once, as a field of `Settings`: its default as text, how it is read, and a sentence of help, from which
the reference is made. What a setting is for is known to those who use it.
"""
# ruff: noqa: RUF009 - `_declare` answers a dataclasses.field

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self

from soonish import spelling
from soonish.errors import FieldError, Invalid
from soonish.spelling import Bind, Network

PREFIX: Final = "SOONISH_"


class WrongSettings(Invalid):
    """Settings that cannot be used; `errors` names each, and the message all of them."""

    code = "wrong_settings"

    def __init__(self, *errors: FieldError) -> None:
        count = "1 setting is" if len(errors) == 1 else f"{len(errors)} settings are"
        lines = [f"  {error.field}: {error.message}" for error in errors]
        if any(error.code == "unknown_setting" for error in errors):
            lines.append(f"The settings are: {', '.join(each.variable for each in SETTINGS)}")
        super().__init__("\n".join([f"{count} wrong:", *lines]), *errors)


@dataclass(frozen=True, slots=True)
class Setting:
    """One declared setting, its name without the prefix. The value of a secret is never shown."""

    name: str
    default: str | None
    shown: str
    help: str
    read: Callable[[str], Any]
    instead: str | None
    secret: bool
    blank: bool

    @property
    def variable(self) -> str:
        return PREFIX + self.name

    def value(self, environ: Mapping[str, str]) -> Any:
        """What the environment says, or the default; raises ValueError with what is allowed."""
        text = self._given(environ)
        if text is None:
            return None
        try:
            return self.read(text)
        except ValueError as error:
            raise ValueError(f"{'its value' if self.secret else repr(text)} cannot be used; {error}") from error

    def _given(self, environ: Mapping[str, str]) -> str | None:
        """Its text; an empty variable counts as none, because compose files make such, unless it means something."""
        text, path = environ.get(self.variable), environ.get(f"{self.variable}_FILE")
        if text and path:
            raise ValueError(f"is set twice; keep it or {self.variable}_FILE")
        if path:
            return spelling.content(path)
        if text == "" and self.blank:
            return text
        return text or environ.get(self.instead or "") or self.default


def _declare(
    help: str,  # noqa: A002 - it is the help
    default: str | None = None,
    read: Callable[[str], Any] = spelling.plain,
    *,
    shown: str | None = None,
    instead: str | None = None,
    secret: bool = False,
    blank: bool = False,
) -> Any:
    """A field of Settings; `shown` tells a default that comes from elsewhere, `instead` a variable that also counts."""
    told = (default, shown or default or "none", help, read, instead, secret, blank)
    return field(metadata={"setting": told}, repr=not secret)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator decided. Secrets are not in its repr."""

    database_url: str | None = _declare(
        "The database. Without it PostgreSQL is started in the data directory.",
        read=spelling.database,
        shown="embedded",
        secret=True,
    )
    database_listen_url: str | None = _declare(
        "The same database without a transaction pooler between: for the bell, the due loops and migrations.",
        read=spelling.database,
        shown="as SOONISH_DATABASE_URL",
        secret=True,
    )
    data_dir: Path = _declare(
        "Where all is kept that has no other place.", read=spelling.folder, shown="$XDG_DATA_HOME/soonish"
    )
    bind: Bind = _declare("Where the API and the console listen.", "127.0.0.1:8787", spelling.bind)
    work_bind: Bind | None = _declare(
        "Where a work process answers /healthz, /readyz and /metrics.", read=spelling.bind
    )
    public_url: str = _declare(
        "How people's browsers reach it, for links. Needed where SOONISH_BIND is no loopback address.",
        read=spelling.origin,
        shown="from SOONISH_BIND",
    )
    secrets_keys: str | None = _declare(
        "The keys that secrets are encrypted under, id:base64[,id:base64] of 32 bytes: the first writes, all read.",
        shown="made in the data directory when embedded",
        secret=True,
    )
    metrics_token: str | None = _declare(
        "The bearer token of /metrics. Without it only this machine may read them.", secret=True
    )
    trusted_proxies: tuple[Network, ...] = _declare("The networks of your reverse proxies.", "", spelling.networks)
    cors_origins: tuple[str, ...] = _declare(
        "The origins whose pages may call the API from a browser.", "", spelling.origins
    )
    rate_api: float = _declare("Requests a second for each key and process; 0 = no limit.", "0", spelling.rate)
    streams: int = _declare("How many live streams a process serves at once.", "1000", spelling.number)
    log: str = _declare("The least level that is logged: debug, info, warning or error.", "info", spelling.level)
    testing: bool = _declare("Allows what only tests may do, such as SOONISH_FAILPOINTS.", "0", spelling.switch)
    failpoints: str = _declare(
        "Points at which the process ends, for crash tests: NAME=exit@N,...", "", spelling.failpoints
    )
    test_kinds: str = _declare(
        "For tests: MODULE:FUNCTION, which answers further kinds of due items for the loops of this process.",
        "",
        spelling.function,
    )
    url: str | None = _declare(
        "The service that the commands of the CLI speak to.",
        read=spelling.origin,
        shown="what runs on the data directory, else from SOONISH_BIND",
    )
    api_key: str | None = _declare(
        "The key that the commands of the CLI use.", shown="keys/admin-key in the data directory", secret=True
    )
    temporal_address: str | None = _declare(
        "The Temporal server. Without it one is started in the data directory.",
        read=spelling.address,
        shown="embedded",
        instead="TEMPORAL_ADDRESS",
    )
    temporal_namespace: str = _declare("The namespace in Temporal.", "default", instead="TEMPORAL_NAMESPACE")
    temporal_task_queue: str = _declare(
        "The task queue of the worker.", "soonish-task-queue", instead="TEMPORAL_TASK_QUEUE"
    )
    temporal_workflow_queue: str | None = _declare(
        "A queue for workflows alone; needs SOONISH_TEMPORAL_ACTIVITY_QUEUE beside it."
    )
    temporal_activity_queue: str | None = _declare(
        "A queue for activities alone; needs SOONISH_TEMPORAL_WORKFLOW_QUEUE beside it."
    )
    temporal_tls: bool = _declare("Speak TLS to Temporal; with an API key that is done anyway.", "0", spelling.switch)
    temporal_api_key: str | None = _declare("The API key for Temporal.", secret=True)
    temporal_ui: bool = _declare("Start Temporal's own web pages too, where it is embedded.", "0", spelling.switch)
    lane_control: int = _declare("How many items of planning run at once in a process.", "32", spelling.number)
    lane_people: int = _declare("How many items that reach people run at once in a process.", "256", spelling.number)
    lane_bulk: int = _declare("How many items of imports and backlogs run at once in a process.", "64", spelling.number)
    lease: timedelta = _declare("How long an item stays with a process that shows no life.", "60s", spelling.lease)
    late_grace: timedelta = _declare(
        "How late an item may be before a kind that skips late ones skips it.", "60s", spelling.span
    )
    backlog_after: timedelta = _declare("How long overdue an item stands aside for those on time.", "5m", spelling.span)
    bulk_audience: int = _declare(
        "From how many targets of one cause on they go by the bulk lane.", "1000", spelling.number
    )
    keep_due: int = _declare("How many months finished due items are kept.", "3", spelling.months)
    keep_deliveries: timedelta = _declare(
        "How long the audit, deliveries and messages are kept.", "400d", spelling.days
    )

    ladder_people: tuple[timedelta, ...] = _declare(
        "The waits before each try of a message to a person.", "0,10s,1m,5m,15m,1h,3h", spelling.spans
    )
    ladder_short: tuple[timedelta, ...] = _declare(
        "The same of facts that soon lose their worth.", "0,5s,1m,5m,30m,2h,6h", spelling.spans
    )
    ladder_long: tuple[timedelta, ...] = _declare(
        "The same of all other facts, to webhooks.", "0,5s,5m,30m,2h,5h,10h,14h,20h,24h", spelling.spans
    )
    ladder_broker: tuple[timedelta, ...] = _declare(
        "The same of facts to brokers.", "0,1s,5s,30s,2m,10m,30m,1h,2h,4h,8h,16h,24h", spelling.spans
    )
    unknown_pause: timedelta = _declare(
        "How long to wait before a person is told again what may have arrived.", "2m", spelling.span
    )
    circuit_after: int = _declare("After how many failures in a row a target is left alone.", "5", spelling.number)
    circuit_wait: tuple[timedelta, timedelta] = _declare(
        "For how long then: the first and the longest time.", "30s..15m", spelling.bounds
    )
    endpoint_disable_after: timedelta = _declare(
        "How long an endpoint may fail until it is disabled.", "5d", spelling.span
    )
    webhook_timeout: timedelta = _declare("How long a webhook may take.", "15s", spelling.timeout)
    webhook_4xx_tries: int = _declare("How many tries a webhook has that answers 4xx.", "1", spelling.number)
    rate_address: float = _declare(
        "Messages a second to one address, after 20 at once; 0 = no limit.", "1", spelling.rate
    )
    rate_host: float = _declare(
        "Messages a second to one host of people's addresses; 0 = no limit.", "20", spelling.rate
    )
    rate_workspace: float = _declare("Messages a second to people of one workspace; 0 = no limit.", "0", spelling.rate)
    egress_allow: tuple[Network, ...] = _declare(
        "Private networks that deliveries may reach all the same, such as 10.0.0.0/8.", "", spelling.networks
    )
    egress_plain_http: bool = _declare("Let webhooks go without TLS.", "0", spelling.switch)
    apprise_api_url: str | None = _declare(
        "An Apprise API server that sends in place of this program.", read=spelling.web_address
    )
    apprise_allow: frozenset[str] | None = _declare(
        "The schemes of Apprise addresses that are allowed, and no others.",
        read=spelling.schemes,
        shown="all that speak HTTP",
    )
    apprise_threads: int = _declare("How many Apprise messages are sent at once.", "32", spelling.threads)
    smtp_host: str | None = _declare("The mail server. Without it no mail is sent.")
    smtp_port: int = _declare("Its port.", "587", spelling.port)
    smtp_user: str | None = _declare("The name to log in there.")
    smtp_password: str | None = _declare("The password to log in there.", secret=True)
    smtp_from: str | None = _declare(
        "The sender of all mail. Needed with SOONISH_SMTP_HOST.", read=spelling.mail_address
    )
    smtp_tls: str = _declare("How to speak to the mail server: starttls, tls or none.", "starttls", spelling.encryption)

    reminder_engine: str = _declare(
        "How reminders fire: due, by a few due items an event; or temporal, by a schedule for each of them.",
        "due",
        spelling.one_of("due", "temporal"),
    )
    events_reminder_offsets: tuple[int, ...] = _declare(
        "Seconds before its start at which an event reminds, where nobody says otherwise; empty = never.",
        "86400,3600",
        spelling.offsets,
        blank=True,
    )
    events_default_duration: timedelta = _declare("How long an event without an end lasts.", "24h", spelling.lasting)
    events_coalesce: timedelta = _declare(
        "For how long changes of an event are gathered into one message; 0s = each is told by itself.",
        "0s",
        spelling.coalescing,
    )
    events_reminder_late: timedelta = _declare(
        "How late a reminder may come; later than this it is not sent.", "1h", spelling.span
    )
    events_merge_after: timedelta = _declare(
        "From what lateness on a reminder gives way to one that is nearer to the start.", "30s", spelling.span
    )
    events_reminder_hold: str = _declare(
        "Whether quiet hours hold reminders: quiet or never.", "quiet", spelling.one_of("quiet", "never")
    )
    events_footer: str = _declare(
        "What ends with the links to change and to end a subscription: email alone, or all messages of events.",
        "email",
        spelling.one_of("email", "all"),
    )
    events_max_notifications: int = _declare(
        "After how many messages the workflow of an event begins a new run.", "100", spelling.number
    )
    events_resend: timedelta = _declare(
        "How long a workflow has to act on a signal until it is sent again.", "30s", spelling.span
    )
    events_round: timedelta = _declare(
        "How long the workflow of an event waits before it tries again what failed.", "60s", spelling.span
    )
    events_watch: timedelta = _declare(
        "With the engine temporal: how often a workflow that is missing is looked for.", "1h", spelling.span
    )
    events_watch_grace: timedelta = _declare(
        "How long after an event's end its workflow may take to close it, until it is looked for.", "60s", spelling.span
    )
    events_join_ttl: timedelta = _declare("How long the link works by which one joins an event.", "24h", spelling.span)
    events_join_pause: timedelta = _declare(
        "How long a mailbox gets no second such mail of one event.", "10m", spelling.span
    )
    events_join_per_mailbox_day: int = _declare("How many such mails a mailbox gets in a day.", "5", spelling.number)
    events_join_per_event_hour: int = _declare("How many such mails an event sends in an hour.", "500", spelling.number)

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """The settings of an environment; raises WrongSettings naming all that cannot be used."""
        values: dict[str, Any] = {}
        errors = list(_unknown(environ))
        for setting in SETTINGS:
            try:
                values[setting.name.lower()] = setting.value(environ)
            except ValueError as error:
                errors.append(FieldError(setting.variable, "wrong_setting", str(error)))
        if errors := [*errors, *_contradictions(values)]:
            raise WrongSettings(*errors)
        return cls(**_filled(values, environ))


SETTINGS: Final = tuple(Setting(each.name.upper(), *each.metadata["setting"]) for each in fields(Settings))


def reference() -> str:
    """All settings as a table in Markdown."""
    rows = [f"| `{each.variable}` | {each.shown} | {each.help} |" for each in SETTINGS]
    return "\n".join(["| setting | default | what it is |", "|---|---|---|", *rows, ""])


def _unknown(environ: Mapping[str, str]) -> Iterator[FieldError]:
    known = {each.variable for each in SETTINGS}
    for name in sorted(environ):
        if name.startswith(PREFIX) and name.removesuffix("_FILE") not in known:
            like = get_close_matches(name, known, 1)
            hint = f"did you mean {like[0]}?" if like else "remove it"
            yield FieldError(name, "unknown_setting", f"is no setting; {hint}")


def _contradictions(values: Mapping[str, Any]) -> Iterator[FieldError]:
    """What goes alone, but not together; a value that could not be read is absent, and was named already."""
    bind = values.get("bind")
    needs = [
        ("public_url", bind and not bind.is_loopback, "SOONISH_BIND is no loopback address"),
        ("temporal_activity_queue", values.get("temporal_workflow_queue"), "SOONISH_TEMPORAL_WORKFLOW_QUEUE is set"),
        ("temporal_workflow_queue", values.get("temporal_activity_queue"), "SOONISH_TEMPORAL_ACTIVITY_QUEUE is set"),
        ("smtp_from", values.get("smtp_host"), "SOONISH_SMTP_HOST is set"),
        ("testing", values.get("failpoints") or values.get("test_kinds"), "only tests end or extend a process"),
    ]
    for name, condition, why in needs:
        if condition and not values.get(name, True):
            yield FieldError(PREFIX + name.upper(), "missing_setting", f"is needed, because {why}")


def _filled(values: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The same, with the defaults that come from other settings."""
    home = environ.get("XDG_DATA_HOME") or "~/.local/share"
    derived = {
        "database_listen_url": values["database_url"],
        "data_dir": spelling.folder(f"{home}/soonish"),
        "public_url": values["bind"].url,
    }
    return values | {name: value for name, value in derived.items() if values[name] is None}
