"""How settings are written: texts of the environment, and the values that they stand for.

Each reader answers the value or raises ValueError with what is allowed. Which settings there are is not known here.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from soonish.clock import parse_span
from soonish.errors import Invalid

Network: TypeAlias = IPv4Network | IPv6Network

_ORIGIN: Final = re.compile(r"https?://([^\s/?#@:\[\]]+|\[[0-9a-f:]+\])(:\d{1,5})?/?", re.IGNORECASE)
_FAILPOINTS: Final = re.compile(r"[a-z_.]+=exit@[1-9]\d*(,[a-z_.]+=exit@[1-9]\d*)*", re.ASCII)
_LEVELS: Final = ("debug", "info", "warning", "error")
_SWITCH: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


class Bind(NamedTuple):
    """Where to listen."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or ip_address(self.host).is_loopback

    @property
    def url(self) -> str:
        """How a program on this machine reaches it."""
        if self.host != "localhost" and ip_address(self.host).is_unspecified:
            return f"http://127.0.0.1:{self.port}"
        return f"http://{self}"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def content(path: str) -> str:
    try:
        text = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file {path} cannot be read; check that it is there and yours") from error
    if not text:
        raise ValueError(f"the file {path} is empty")
    return text


def plain(text: str) -> str:
    return text


def switch(text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise ValueError("write 1 or 0")
    return _SWITCH[text.lower()]


def number(text: str, least: int = 1, most: int = 1_000_000) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not least <= int(text) <= most:
        raise ValueError(f"write a whole number from {least} to {most}")
    return int(text)


def rate(text: str) -> float:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text, re.ASCII):
        raise ValueError("write a number a second, 0 for no limit")
    return float(text)


def span(text: str, least: str = "0s", most: str = "36500d") -> timedelta:
    try:
        if parse_span(least) <= (span := parse_span(text)) <= parse_span(most):
            return span
    except Invalid:
        pass
    raise ValueError(f"write a span from {least} to {most}, such as 15s, 5m or 3d")


def level(text: str) -> str:
    if text.lower() not in _LEVELS:
        raise ValueError(f"write one of {', '.join(_LEVELS)}")
    return text.lower()


def folder(text: str) -> Path:
    return Path(text).expanduser().absolute()


def bind(text: str) -> Bind:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        if host != "localhost":
            ip_address(host)
        return Bind(host, number(port, 0, 65535))
    except ValueError:
        raise ValueError("write ADDRESS:PORT, such as 127.0.0.1:8787 or [::1]:8787") from None


def address(text: str) -> str:
    if not re.fullmatch(r"[^\s/@:]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}", text, re.ASCII):
        raise ValueError("write HOST:PORT")
    return text


def origin(text: str) -> str:
    if not _ORIGIN.fullmatch(text):
        raise ValueError("write it like https://soonish.example.org, without a path")
    return text.lower().rstrip("/")


def database(text: str) -> str:
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("write postgresql://USER:PASSWORD@HOST:PORT/DATABASE")
    return text


def failpoints(text: str) -> str:
    if text and not _FAILPOINTS.fullmatch(text):
        raise ValueError("write NAME=exit@N, with commas between several")
    return text


def function(text: str) -> str:
    if text and not re.fullmatch(r"\w+(\.\w+)*:\w+", text, re.ASCII):
        raise ValueError("write MODULE:FUNCTION")
    return text


def network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}; write it like 10.0.0.0/8") from error


def each(text: str, read: Callable[[str], Any]) -> tuple[Any, ...]:
    return tuple(read(part.strip()) for part in text.split(",") if part.strip())


def spans(text: str) -> tuple[timedelta, ...]:
    """The waits of a ladder."""
    found: tuple[timedelta, ...] = each(text, lambda part: span("0s" if part == "0" else part))
    if not 1 <= len(found) <= 30:
        raise ValueError("write 1 to 30 spans with commas between, such as 0,10s,1m")
    return found


def bounds(text: str) -> tuple[timedelta, timedelta]:
    """A least and a greatest span."""
    least, dots, most = text.partition("..")
    if not dots or (found := (span(least, "1ms"), span(most, "1ms")))[0] > found[1]:
        raise ValueError("write two spans, such as 30s..15m")
    return found


def web_address(text: str) -> str:
    """Where a service listens, a path allowed."""
    if not re.fullmatch(r"https?://[^\s?#@]+", text, re.ASCII | re.IGNORECASE):
        raise ValueError("write it like http://127.0.0.1:8000")
    return text.rstrip("/")


def mail_address(text: str) -> str:
    if not re.fullmatch(r"(?:[^<>@\r\n]* <)?[^\s<>@]+@[^\s<>@]+>?", text):
        raise ValueError("write soonish@example.org, or Soonish <soonish@example.org>")
    return text


def one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"write {', '.join(words[:-1])} or {words[-1]}")
        return text.lower()

    return read


def offsets(text: str) -> tuple[int, ...]:
    """Seconds before a start, each once, the largest first; none at all is good too."""
    found = sorted(set(each(text, partial(number, least=0, most=31_622_400))), reverse=True)
    if len(found) > 20:
        raise ValueError("write at most 20 numbers of seconds, such as 86400,3600")
    return tuple(found)


def schemes(text: str) -> frozenset[str]:
    found = frozenset(each(text.lower(), str))
    if strange := [one for one in sorted(found) if not re.fullmatch(r"[a-z][a-z0-9+.-]*", one)]:
        raise ValueError(f"{strange[0]!r} is no scheme; write names such as ntfys,discord")
    return found


encryption = one_of("starttls", "tls", "none")
networks = partial(each, read=network)
origins = partial(each, read=origin)
months = partial(number, most=1_200)
lease = partial(span, least="1s", most="1h")
days = partial(span, least="1d")
port = partial(number, most=65_535)
threads = partial(number, most=1_000)
coalescing = partial(span, most="1d")
lasting = partial(span, least="1s", most="366d")
timeout = partial(span, least="100ms", most="5m")
