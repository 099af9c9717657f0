"""What may be an Apprise URL: one service, of a scheme that is allowed, without parameters that reach beyond a message.

Pure: whether a service of that scheme exists, and takes this URL, is known to the library that speaks it.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from soonish.delivery.channel import Letter, hushed
from soonish.errors import Invalid

LENGTH: Final = 2_000

# What would speak to the machine that we run on, and to nobody else.
NEVER: Final = frozenset({"syslog", "dbus", "kde", "qt", "glib", "gio", "gnome", "macosx", "windows", "blink1"})
MAIL: Final = frozenset({"mailto", "mailtos", "deltachat", "deltachats"})
# These start threads of their own, where no guard would stand: they are for an Apprise API server alone.
THREADED: Final = frozenset({"mqtt", "mqtts", "nostr", "xmpp", "xmpps"})
# What speaks no HTTP: only where the operator names it.
SOCKETS: Final = THREADED | {"irc", "ircs", "growl", "smpp", "smpps", "rsyslog", "amqp", "amqps", "aprs"}
REFUSED: Final = frozenset(
    {"template", "keyfile", "subfile", "smtp", "redirect", "verify", "attach", "file_url", "include", "config"}
)
_PGP: Final = "pgp"  # and all that begins like this
_TELLING: Final = 6  # characters from which on a word of a URL tells something

_URL: Final = re.compile(r"([a-z0-9][a-z0-9+.-]{0,39})://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)
_PLACE: Final = re.compile(r"(?:\[([0-9a-f:.]*)\]|([^:\[\]]*))(?::(\d{0,5}))?")
_NUMERIC: Final = re.compile(r"(?=.*\d)[0-9a-fx.:]+")
_ANOTHER: Final = re.compile(r"[\s,;]+[a-z0-9]{1,32}://", re.IGNORECASE)
_UNSEEN: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class AppriseUrl:
    """What may be known of a target: its scheme, whom its messages burden, and what is shown of it."""

    scheme: str
    host: str
    hint: str
    port: int | None = None

    @property
    def is_address(self) -> bool:
        """Whether the host looks like a number of some kind, which the library may read in a way of its own."""
        return _NUMERIC.fullmatch(self.host) is not None


def check_apprise(url: str, allowed: frozenset[str] | None) -> AppriseUrl:
    """What a URL says of itself; raises Invalid for what is no target. `allowed`: None = all that speak HTTP."""
    found = _parsed(url)
    scheme = found[1].lower()
    if why := _complaint(scheme, allowed):
        raise Invalid(why, code="apprise_scheme")
    if names := refused_parameters(url):
        raise Invalid(
            f"The parameter {names[0]!r} is not allowed here; leave it out of the URL", code="apprise_parameter"
        )
    host, port = _place(found[2])
    return AppriseUrl(scheme, host or scheme, f"{scheme}://***", port)


def refused_parameters(url: str) -> list[str]:
    """The parameters that are not allowed, read as Apprise reads them: parted by `;` too, in any case of letters."""
    query = url.partition("?")[2]
    names = [part.partition("=")[0] for part in re.split("[&;]", query)]
    read = [unquote(name[:1] + name[1:].replace("+", " ")).strip().lower() for name in names]
    return [name for name in read if is_refused(name)]


def is_refused(name: str) -> bool:
    return name in REFUSED or name.startswith(_PGP)


def is_allowed(scheme: str, allowed: frozenset[str] | None) -> bool:
    return _complaint(scheme, allowed) is None


def _parsed(url: str) -> re.Match[str]:
    if len(url) > LENGTH:
        raise Invalid(f"An Apprise URL has at most {LENGTH} characters", code="apprise_url")
    if _ANOTHER.search(url):
        raise Invalid("These are several URLs; make an address of each", code="apprise_url")
    found = _URL.fullmatch(url)
    if found is None or _UNSEEN.search(url):
        raise Invalid("Write one Apprise URL, like 'ntfys://ntfy.sh/topic'", code="apprise_url")
    return found


def _place(authority: str) -> tuple[str, int | None]:
    """Host and port, as far as that is what stands there: many services have a token in this place."""
    where = _PLACE.fullmatch(unquote(authority.rpartition("@")[2]).lower())
    if where is None:
        return "", None
    port = where[3]
    return where[1] or where[2], int(port) if port else None


def _complaint(scheme: str, allowed: frozenset[str] | None) -> str | None:
    if scheme in MAIL:
        return "Mail has a kind of its own: use kind email"
    if scheme in NEVER:
        return f"{scheme!r} would speak to this server's own machine; choose another service"
    if scheme in SOCKETS and allowed is None:
        return f"{scheme!r} does not speak HTTP; the operator can allow it with SOONISH_APPRISE_ALLOW"
    if allowed is not None and scheme not in allowed:
        return f"{scheme!r} is none of the schemes that the operator allows: {', '.join(sorted(allowed))}"
    return None


# --- what a service is told, and what it may tell --------------------------------------------------------------------

_TYPES: Final = {"info": "info", "warning": "warning", "critical": "failure"}


def apprise_type(level: str) -> str:
    """Apprise's word for a level."""
    return _TYPES.get(level, "info")


def apprise_text(letter: Letter) -> tuple[str, str]:
    """Title and body, the link below it. A body there must be: without one, the title is it."""
    body = "\n\n".join(part for part in (letter.body, letter.link) if part)
    return (letter.title, body) if body else ("", letter.title)


def masked(answer: str, url: str) -> str:
    """What a service answered, without the words of its URL: they are tokens, or lead to somebody."""
    said = re.split(r"[/?#&=@:,;]+", url.partition("://")[2])
    words = {form for word in said for form in (word, unquote(word)) if len(form) >= _TELLING}
    return hushed(answer, words)
