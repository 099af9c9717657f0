"""Mail by the operator's own server, whose address is trusted: it is a setting, and not named by a user.

Writes the mail, and hands it over once. Knows nothing of confirmations, nor of who may be written to.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as LINES
from email.policy import EmailPolicy
from email.utils import format_datetime, parseaddr
from html import escape
from typing import Any, Final

import aiosmtplib
from aiosmtplib.errors import SMTPException, SMTPResponseException

from soonish.clock import utc_now
from soonish.delivery.channel import SENT, Letter, Outcome, Target, failed, hushed, refused, unknown
from soonish.settings import Settings

LIMIT: Final = 30.0  # seconds for one mail, connecting included
KEPT: Final = 10.0  # seconds that a connection waits for the next mail
CONNECTIONS: Final = 8

_OPERATORS: Final = ("tls", "login")  # steps that fail by settings

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")
_LEADING_DOT: Final = re.compile(rb"(?m)^\.")
_METHOD: Final = re.compile(r"^METHOD:([A-Z]{1,20})\s*$", re.MULTILINE)
_MAILBOX: Final = re.compile(r"[^\s<>()\[\],;:\\\"@]+@[A-Za-z0-9][A-Za-z0-9.-]*")


class _Policy(EmailPolicy):
    """Line ends and folding of SMTP; but identifiers and links stay in one piece, as no reader puts them together."""

    def fold_binary(self, name: str, value: Any) -> bytes:
        if name in ("Message-ID", "List-Unsubscribe"):
            return f"{name}: {value}\r\n".encode("ascii", "replace")
        return super().fold_binary(name, value)


_POLICY: Final = _Policy(linesep=LINES.linesep)


@dataclass(slots=True)
class _Step:
    """How far a try has come."""

    name: str = "connect"
    handed_over: bool = False  # the mail itself is on the wire


@dataclass(slots=True)
class _Idle:
    """A connection that waits, and what ends its wait."""

    client: aiosmtplib.SMTP
    end: asyncio.TimerHandle


@dataclass(frozen=True, slots=True)
class Server:
    """The operator's mail server, and who writes."""

    host: str
    port: int = 587
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    sender: str = "soonish@localhost"
    tls: str = "starttls"  # or tls, none

    @classmethod
    def of(cls, settings: Settings) -> "Server | None":
        """None where no mail is sent."""
        if not settings.smtp_host:
            return None
        user, password = settings.smtp_user, settings.smtp_password
        assert settings.smtp_from
        return cls(settings.smtp_host, settings.smtp_port, user, password, settings.smtp_from, settings.smtp_tls)


class Email:
    """Hands mails to one server, several at once, and keeps a connection for those that follow soon."""

    def __init__(self, server: Server, *, limit: float = LIMIT, kept: float = KEPT) -> None:
        self._server = server
        self._limit = limit
        self._kept = kept
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[_Idle] = []
        self._context: ssl.SSLContext | None = None

    async def send(self, target: Target, what: Letter) -> Outcome:
        """Try once. Waiting for room is no part of the time that a try has."""
        try:
            mail = compose(what, self._server.sender, target.address)
        except (ValueError, MessageError):
            return refused("bad_address", "The mailbox cannot be written to; check its spelling.")
        step = _Step()
        async with self._room:
            return await self._try(target.address, mail, step)

    async def close(self) -> None:
        while self._idle:
            idle = self._idle.pop()
            idle.end.cancel()
            with suppress(SMTPException, OSError, TimeoutError):
                await idle.client.quit(timeout=1)

    async def _try(self, mailbox: str, mail: EmailMessage, step: _Step) -> Outcome:
        try:
            async with asyncio.timeout(self._limit), self._connected(step) as client:
                return await _hand_over(client, parseaddr(self._server.sender)[1], mailbox, mail, step)
        except SMTPResponseException as error:
            return _answered(error, mailbox, step)
        except TimeoutError:
            return _lost(step, "timeout")
        except (SMTPException, OSError) as error:
            return _lost(step, "tls" if isinstance(error.__cause__ or error, ssl.SSLError) else "no_connection")

    @asynccontextmanager
    async def _connected(self, step: _Step) -> AsyncIterator[aiosmtplib.SMTP]:
        """A connection that waited or a new one; kept if all went well, and else closed without a word."""
        client = await self._revived() or await self._opened(step)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        if client.is_connected:
            self._keep(client)

    async def _revived(self) -> aiosmtplib.SMTP | None:
        while self._idle:
            idle = self._idle.pop()
            idle.end.cancel()
            with suppress(SMTPException, OSError):
                await idle.client.rset()
                return idle.client
            idle.client.close()
        return None

    async def _opened(self, step: _Step) -> aiosmtplib.SMTP:
        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.tls == "tls",
            start_tls=False,  # each step is taken here, so that it is known which one failed
            timeout=self._limit,
            tls_context=await self._trust(),
            local_hostname=_domain(server.sender),
        )
        try:
            await client.connect()
            if server.tls == "starttls":
                step.name = "tls"
                await client.starttls()
            if server.user:
                step.name = "login"
                await client.login(server.user, server.password or "")
        except BaseException:
            client.close()
            raise
        return client

    async def _trust(self) -> ssl.SSLContext | None:
        """Read once, and aside: it is a file of some hundred certificates."""
        if self._context is None and self._server.tls != "none":
            self._context = await asyncio.to_thread(ssl.create_default_context)
        return self._context

    def _keep(self, client: aiosmtplib.SMTP) -> None:
        end = asyncio.get_running_loop().call_later(self._kept, self._forget, client)
        self._idle.append(_Idle(client, end))

    def _forget(self, client: aiosmtplib.SMTP) -> None:
        self._idle = [idle for idle in self._idle if idle.client is not client]
        client.close()


async def _hand_over(client: aiosmtplib.SMTP, sender: str, mailbox: str, mail: EmailMessage, step: _Step) -> Outcome:
    """The dialogue of one mail."""
    step.name = "sender"
    utf8 = not mailbox.isascii()
    if utf8 and client.is_ehlo_or_helo_needed:
        await client.ehlo()
    if utf8 and not client.supports_extension("smtputf8"):
        return refused("no_smtputf8", "The mail server takes no mailboxes with letters beyond ASCII.")
    await client.mail(sender, options=["SMTPUTF8"] if utf8 else [])
    step.name = "recipient"
    await client.rcpt(mailbox, encoding="utf-8" if utf8 else "ascii")
    step.name = "data"
    return await _write(client, mail.as_bytes(policy=_POLICY.clone(utf8=utf8)), step)


async def _write(client: aiosmtplib.SMTP, mail: bytes, step: _Step) -> Outcome:
    """The mail itself. Not by the client's own `data`: that does not tell a loss before the mail from one after it."""
    go_ahead = await client.execute_command(b"DATA")
    if go_ahead.code != 354:
        raise SMTPResponseException(go_ahead.code, go_ahead.message)
    if client.protocol is None:
        raise aiosmtplib.SMTPServerDisconnected("Connection lost")
    step.handed_over = True
    client.protocol.write(_LEADING_DOT.sub(b"..", mail) + b".\r\n")
    answer = await client.protocol.read_response()
    if answer.code != 250:
        raise SMTPResponseException(answer.code, answer.message)
    return SENT


def _answered(error: SMTPResponseException, mailbox: str, step: _Step) -> Outcome:
    """The server said no. Only what it says of this mail is for good: the rest is the operator's to mend."""
    if not 400 <= error.code <= 599:
        return _lost(step, "bad_answer")
    of_this_mail = step.name in ("sender", "recipient", "data")
    say = refused if of_this_mail and error.code >= 500 else failed
    code = step.name if step.name in _OPERATORS else f"smtp_{error.code}"
    # Whom it was for stays sealed with the address.
    said = hushed(error.message.encode("utf-8", "replace").decode(), [mailbox, mailbox.rpartition("@")[0]])
    return say(code, said, status=error.code)


def _lost(step: _Step, code: str) -> Outcome:
    if step.handed_over:
        return unknown(code, "The connection ended after the mail was written, before the server's answer.")
    return failed(step.name if step.name in _OPERATORS and code != "timeout" else code)


# --- the mail itself -------------------------------------------------------------------------------------------------


def compose(letter: Letter, sender: str, mailbox: str) -> EmailMessage:
    """The mail of a letter; raises ValueError or MessageError for a mailbox that is none."""
    if not _MAILBOX.fullmatch(mailbox) or _CONTROL.search(mailbox) or "=?" in mailbox:
        raise ValueError("no mailbox")
    mail = EmailMessage(policy=_POLICY)
    for name, value in _headers(letter, sender, mailbox):
        mail[name] = value
    mail.set_content(_text(letter), cte="quoted-printable")
    mail.add_alternative(_html(letter), subtype="html", cte="quoted-printable")
    if letter.calendar:
        _attach(mail, letter.calendar)
    return mail


def _headers(letter: Letter, sender: str, mailbox: str) -> list[tuple[str, Any]]:
    name, address = parseaddr(sender)
    found: list[tuple[str, Any]] = [
        ("From", Address(_line(name), addr_spec=address)),
        ("To", Address("", *mailbox.split("@"))),
        ("Subject", _line(letter.title)),
        ("Date", format_datetime(utc_now())),
        ("Message-ID", f"<{letter.wire_id}@{_domain(sender)}>"),
        ("Auto-Submitted", "auto-generated"),
    ]
    if letter.level == "critical":
        found.append(("Importance", "high"))
    if letter.unsubscribe_url:
        found.append(("List-Unsubscribe", f"<{_url(letter.unsubscribe_url)}>"))
        found.append(("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"))
    return found


def _attach(mail: EmailMessage, calendar: str) -> None:
    method = _METHOD.search(calendar)
    mail.add_attachment(
        _clean(calendar),
        subtype="calendar",
        filename="invite.ics",
        cte="base64",
        params={"method": method[1]} if method else {},
    )


def _text(letter: Letter) -> str:
    parts = [letter.body, letter.link or ""]
    if ways := _ways_out(letter):
        parts.append("\n".join(["-- ", *(f"{words}: {url}" for words, url in ways)]))
    return "\n\n".join(_clean(part) for part in parts if part) + "\n"


def _html(letter: Letter) -> str:
    body = _escaped(letter.body).replace("\n", "<br>\n")
    parts = [f"<p>{body}</p>"]
    if letter.link:
        parts.append(f"<p>{_anchor(letter.link, letter.link)}</p>")
    if ways := _ways_out(letter):
        anchors = " · ".join(_anchor(url, words) for words, url in ways)
        parts.append(f"<hr>\n<p><small>{anchors}</small></p>")
    head = f'<head><meta charset="utf-8"><title>{_escaped(_line(letter.title))}</title></head>'
    return "\n".join(["<!DOCTYPE html>", "<html>", head, "<body>", *parts, "</body>", "</html>", ""])


def _ways_out(letter: Letter) -> list[tuple[str, str]]:
    """What stands below the text: how its reader changes what they hear, or ends it."""
    found = [("Your reminders", letter.manage_url), ("Unsubscribe", letter.unsubscribe_url)]
    return [(words, _url(url)) for words, url in found if url]


def _anchor(url: str, words: str) -> str:
    """A link; one that a browser would run instead of following it is shown as text."""
    if not url.lower().startswith(("https://", "http://")):
        return _escaped(url)
    return f'<a href="{_escaped(url)}">{_escaped(words)}</a>'


def _escaped(text: str) -> str:
    return escape(_clean(text))


def _line(text: str) -> str:
    """One line without control characters: nothing in it can begin another header.

    The mail library reads what is encoded (`=?utf-8?q?...?=`) also in plain words, line ends included; so that what
    begins like it is no such thing any more, something that nobody sees stands in it.
    """
    return " ".join(_clean(text).split()).replace("=?", "=\u200b?")


def _clean(text: str) -> str:
    return _CONTROL.sub(" ", text.replace("\r\n", "\n")).encode("utf-8", "replace").decode()


def _url(url: str) -> str:
    plain = "".join(character for character in url if "!" <= character <= "~" and character not in "<>")
    return plain.replace("=?", "=%3F")  # see _line


def _domain(sender: str) -> str:
    return parseaddr(sender)[1].rpartition("@")[2]
