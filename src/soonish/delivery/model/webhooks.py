"""What a webhook carries beside its body: who signed it, headers of the receiver's own, and the pause it asks for.

Signatures are those of Standard Webhooks. Pure: knows no connection.
"""

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from soonish.errors import FieldError, Invalid

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the beginning of all of them
SECRET_BYTES: Final = range(24, 65)
HEADERS: Final = 10
HEADER_LENGTH: Final = 500
LONGEST_PAUSE: Final = timedelta(hours=24)

_RESERVED: Final = re.compile(
    r"host|connection|transfer-encoding|x-idempotency-key|(content|webhook|soonish)-.*", re.IGNORECASE
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def new_secret() -> bytes:
    return secrets.token_bytes(32)


def show_secret(secret: bytes) -> str:
    """As a receiver takes it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def read_secret(text: str) -> bytes:
    """The bytes that a secret stands for."""
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(SECRET_PREFIX) or len(secret) not in SECRET_BYTES:
        raise Invalid(
            f"A secret is {SECRET_PREFIX} and {SECRET_BYTES[0]} to {SECRET_BYTES[-1]} bytes in base64", code="pattern"
        )
    return secret


def signature(secrets: Iterable[bytes], wire_id: str, timestamp: int, body: bytes) -> str:
    """One signature a secret, the newest first, so that a receiver may know either."""
    signed = b"%s.%d.%s" % (wire_id.encode(), timestamp, body)
    return " ".join("v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode() for secret in secrets)


def reserved_header(name: str) -> bool:
    """Whether a header is ours to set."""
    return _RESERVED.fullmatch(name) is not None


def header_errors(headers: Mapping[str, str], field: str = "config.headers") -> Iterator[FieldError]:
    """What is wrong with a receiver's own headers."""
    if len(headers) > HEADERS:
        yield FieldError(field, "length", f"write at most {HEADERS} headers")
    if len({name.lower() for name in headers}) < len(headers):
        yield FieldError(field, "pattern", "write each header once; upper and lower case are alike")
    for name, value in headers.items():
        yield from _header_errors(f"{field}.{name}", name, value)


def pause(retry_after: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After asks for, a day at most; None where it says nothing that can be read."""
    if not retry_after:
        return None
    if re.fullmatch(r"\s*\d{1,9}\s*", retry_after, re.ASCII):
        seconds = float(retry_after)
    else:
        try:
            until = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        seconds = (until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds()
    return min(max(seconds, 0.0), LONGEST_PAUSE.total_seconds())


def _header_errors(field: str, name: str, value: str) -> Iterator[FieldError]:
    if not _TOKEN.fullmatch(name):
        yield FieldError(field, "pattern", "a header's name is letters, digits and dashes")
    elif reserved_header(name):
        yield FieldError(field, "reserved_header", "this header is set here; choose another name, such as X-Team")
    if len(value) > HEADER_LENGTH:
        yield FieldError(field, "length", f"write at most {HEADER_LENGTH} characters")
    elif value and not _VALUE.fullmatch(value):
        yield FieldError(field, "control_character", "write visible ASCII, without spaces at the ends")
