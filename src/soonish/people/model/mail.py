"""Mail addresses: written in one way, and shown so that nobody learns them. Pure."""

import re
from typing import Final

import idna

from soonish.errors import Invalid

MOST: Final = 254
_LOCAL: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")


def normal_email(text: str) -> str:
    """The address with its domain in small letters and in ASCII, as mail servers want it."""
    local, _, domain = text.rpartition("@")
    try:
        found = f"{local}@{idna.encode(domain, uts46=True).decode()}"
    except (idna.IDNAError, UnicodeError):
        found = ""
    if not found or not _LOCAL.fullmatch(local) or len(local) > 64:
        raise Invalid("This is no mail address; write one like 'ben@example.org'", code="pattern")
    if len(found) > MOST:
        raise Invalid(f"A mail address has at most {MOST} characters", code="length")
    return found


def masked(email: str) -> str:
    """Enough to know one's own address again: b***@example.org."""
    local, _, domain = email.rpartition("@")
    return f"{local[:1]}***@{domain}"


def domain(email: str) -> str:
    return email.rpartition("@")[2]
