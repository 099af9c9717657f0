"""A mail server on loopback that keeps what it takes, and refuses or vanishes where a test tells it to."""

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PASSWORD = b"open sesame"


class Taken(NamedTuple):
    """A mail that arrived."""

    sender: str
    recipients: list[str]
    raw: bytes
    tls: bool
    session: int

    @property
    def mail(self) -> EmailMessage:
        return message_from_bytes(self.raw, policy=policy.default)


class Post:
    """What a test tells the server to answer at a command, once each; and what arrived."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []
        self.answers: dict[str, list[str]] = {}
        self.seen = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def answer(self, command: str, *answers: str) -> None:
        """`cut` ends the connection there, `hang` never answers."""
        self.answers[command] = list(answers)

    async def handle_MAIL(self, server: SMTP, _s: Session, envelope: Envelope, address: str, _o: list[str]) -> str:  # noqa: N802
        envelope.mail_from = address
        return await self._say(server, "MAIL") or "250 go on"

    async def handle_RCPT(self, server: SMTP, _s: Session, envelope: Envelope, address: str, _o: list[str]) -> str:  # noqa: N802
        envelope.rcpt_tos.append(address)
        return await self._say(server, "RCPT") or "250 go on"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        sender, tls = envelope.mail_from or "", session.ssl is not None
        self.taken.append(Taken(sender, envelope.rcpt_tos, envelope.content, tls, id(session)))
        self._loop.call_soon_threadsafe(self.seen.set)
        return await self._say(server, "DATA") or "250 taken"

    async def _say(self, server: SMTP, command: str) -> str | None:
        answer = next(iter(self.answers.get(command, [])), None)
        if answer is None:
            return None
        self.answers[command].pop(0)
        if answer == "cut":
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
            await asyncio.sleep(60)
        if answer == "hang":
            await asyncio.sleep(60)
        return answer


def authenticate(_server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: Any) -> AuthResult:
    return AuthResult(success=data.password == PASSWORD, handled=False)


@contextmanager
def mail_server(post: Post, certificate: Path | None = None, *, tls: bool = False, **options: Any) -> Iterator[int]:
    """Its port. With a certificate it offers STARTTLS, and with `tls` it begins with TLS."""
    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)

    def accept() -> SMTP:
        return SMTP(post, authenticator=authenticate, tls_context=None if tls else context, **options)

    ports: Future[int] = Future()
    loop = asyncio.SelectorEventLoop()  # its STARTTLS knows the loop of the standard library alone
    thread = Thread(target=_serve, args=(loop, accept, context if tls else None, ports), name="mail server")
    thread.start()
    try:
        yield ports.result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _serve(
    loop: asyncio.AbstractEventLoop, accept: Callable[[], SMTP], context: ssl.SSLContext | None, ports: Future[int]
) -> None:
    asyncio.set_event_loop(loop)
    server = loop.run_until_complete(loop.create_server(accept, "127.0.0.1", 0, ssl=context))
    ports.set_result(server.sockets[0].getsockname()[1])
    loop.run_forever()
    server.close()
    for task in (tasks := asyncio.all_tasks(loop)):
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()


def make_certificate(path: Path) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, *form) + made.public_bytes(serialization.Encoding.PEM)
    )
    return path
