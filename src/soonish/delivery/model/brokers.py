"""Brokers as endpoints: what makes no sense in their configuration, and what an SQS queue wants to be told.

Pure: knows no connection. Types and lengths of a configuration are checked before; addresses are judged by the guard.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from soonish.errors import FieldError

BATCH: Final = 10  # entries of one request to SQS
BATCH_BYTES: Final = 262_144

_SHORT_STRING: Final = 255  # bytes of a name in AMQP
_GROUP: Final = re.compile(r"[\x21-\x7e]{1,128}")
_PREFIXES: Final = re.compile(r"^(AWS\.SimpleQueueService\.|.*#)")
_DENIED: Final = {
    "accessdenied", "accessdeniedexception", "authfailure", "incompletesignature", "invalidclienttokenid",
    "invalidsecurity", "kms.accessdeniedexception", "missingauthenticationtoken", "signaturedoesnotmatch",
    "unrecognizedclientexception",
}  # fmt: skip
_DENIED_STATUS: Final = (401, 403)
_FOR_NOW: Final = {"expiredtoken", "expiredtokenexception", "requestexpired", "requesttimetooskewed"}
_NO_QUEUE: Final = {"nonexistentqueue", "queuedoesnotexist"}
_TOO_LONG: Final = {"batchrequesttoolong", "messagetoolong"}
_LENGTH: Final = re.compile(r"shorter|longer|too long|exceed", re.IGNORECASE)
_THROTTLED: Final = re.compile(r"throttl|toomany|slowdown|overlimit|limitexceeded", re.IGNORECASE)


def amqp_errors(config: Mapping[str, Any]) -> Iterator[FieldError]:
    """What is wrong with the configuration of a RabbitMQ exchange."""
    parts = urlsplit(config["url"])
    if parts.query or parts.fragment:
        yield FieldError("config.url", "pattern", "write nothing after the virtual host; options are not taken")
    elif "/" in parts.path[1:]:
        yield FieldError("config.url", "pattern", "write one virtual host, with %2F for a slash in its name")
    if len(config["exchange"].encode()) > _SHORT_STRING:
        yield FieldError("config.exchange", "length", f"write at most {_SHORT_STRING} bytes")
    elif config["exchange"].startswith("amq.") and config["exchange"] != "amq.topic":
        yield FieldError("config.exchange", "pattern", "of the broker's own exchanges only amq.topic fits")


def sqs_errors(config: Mapping[str, Any], *, operator: bool) -> Iterator[FieldError]:
    """What is wrong with the configuration of an SQS queue. Only the operator's may do without keys."""
    parts = urlsplit(config["queue_url"])
    if not parts.path.strip("/") or parts.query or parts.fragment:
        yield FieldError("config.queue_url", "pattern", "write the queue's whole URL, as SQS shows it")
    given = [name for name in ("access_key_id", "secret_access_key") if config.get(name)]
    missing = next((name for name in ("access_key_id", "secret_access_key") if name not in given), None)
    if missing and given:
        yield FieldError(f"config.{missing}", "required", "give access_key_id and secret_access_key together")
    elif missing and not operator:
        yield FieldError("config.access_key_id", "required", "only the first workspace may use this server's own login")


def is_fifo(queue_url: str) -> bool:
    return urlsplit(queue_url).path.endswith(".fifo")


def service_of(queue_url: str, endpoint_url: str | None) -> str:
    """Where requests for a queue go: the server that its URL names, unless another is given."""
    if endpoint_url:
        return endpoint_url
    parts = urlsplit(queue_url)
    return f"{parts.scheme}://{parts.netloc}"


def group_of(subject: str, fact_type: str) -> str:
    """What is kept in order in a FIFO queue: the facts of one subject. A subject that SQS cannot read has a print."""
    name = subject or fact_type
    return name if _GROUP.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()


def refusal(code: str, text: str, status: int) -> tuple[str, bool]:
    """Our word for what SQS calls an error, and whether it will say so for ever."""
    plain = _PREFIXES.sub("", code).lower()
    if plain in _NO_QUEUE:
        return "no_such_queue", True
    if plain in _TOO_LONG or (plain == "invalidparametervalue" and _LENGTH.search(text)):
        return "too_long", True
    if plain == "invalidmessagecontents":
        return "rejected", True
    if _THROTTLED.search(plain):
        return "throttled", False
    if plain in _DENIED or (status in _DENIED_STATUS and plain not in _FOR_NOW):
        return "access_denied", True
    return f"http_{status}", False
