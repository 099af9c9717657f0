"""Mail as it arrives at a real server, and what becomes of a try when that server refuses or vanishes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from soonish.delivery.channel import SENT, Letter, Outcome, Target
from soonish.delivery.channels.console import Console
from soonish.delivery.channels.email import Email, Server, compose
from soonish.settings import Settings
from tests.support.smtp import PASSWORD, Post, mail_server, make_certificate

LETTER = Letter("dlv_" + "5f" * 16, "Doors open", "Hello Ben,\nit is <b>time</b> & more")
BEN = Target(1, 1, 1, "ben@example.org", {})
SENDER = "Soonish <soonish@example.com>"


@pytest.fixture
async def post() -> Post:
    return Post()


@pytest.fixture
def port(post: Post) -> Iterator[int]:
    with mail_server(post, auth_require_tls=False) as port:
        yield port


@pytest.fixture
async def email(port: int) -> AsyncIterator[Email]:
    email = plain(port)
    yield email
    await email.close()


def plain(port: int, **options: Any) -> Email:
    return Email(Server("127.0.0.1", port, sender=SENDER, tls="none"), **options)


def fate(outcome: Outcome) -> tuple[str, bool, str, int | None]:
    return outcome.result, outcome.permanent, outcome.code, outcome.status


def words(part: Any) -> str:
    """What a reader shows of a part."""
    return str(part.get_content()).replace("\r\n", "\n")


def letter(**changes: Any) -> Letter:
    return Letter(**{"wire_id": LETTER.wire_id, "title": LETTER.title, "body": LETTER.body, **changes})


async def test_a_letter_arrives_as_text_and_escaped_html_under_its_wire_id(email: Email, post: Post) -> None:
    assert await email.send(BEN, LETTER) == SENT
    taken = post.taken[0]
    assert (taken.sender, taken.recipients) == ("soonish@example.com", ["ben@example.org"])
    mail = taken.mail
    assert mail["message-id"] == f"<{LETTER.wire_id}@example.com>"
    assert (mail["subject"], mail["to"], mail["from"]) == ("Doors open", "ben@example.org", SENDER)
    assert (mail["auto-submitted"], mail["importance"]) == ("auto-generated", None)
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text and words(text).startswith("Hello Ben,\nit is <b>time</b> & more")
    assert html and "it is &lt;b&gt;time&lt;/b&gt; &amp; more" in words(html)


async def test_every_try_has_the_same_message_id(email: Email, post: Post) -> None:
    await email.send(BEN, LETTER)
    await email.send(BEN, LETTER)
    assert len({taken.mail["message-id"] for taken in post.taken}) == 1


async def test_a_critical_letter_is_of_high_importance_and_has_its_link(email: Email, post: Post) -> None:
    await email.send(BEN, letter(level="critical", link="https://example.org/a?b=1&c=2"))
    mail = post.taken[0].mail
    assert mail["importance"] == "high"
    html = mail.get_body(("html",))
    assert html and '<a href="https://example.org/a?b=1&amp;c=2">' in words(html)


async def test_a_calendar_is_attached_as_an_invitation(email: Email, post: Post) -> None:
    calendar = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n"
    await email.send(BEN, letter(calendar=calendar))
    (attachment,) = post.taken[0].mail.iter_attachments()
    assert attachment.get_filename() == "invite.ics"
    assert attachment.get_content_type() == "text/calendar"
    assert attachment.get_param("method") == "REQUEST"
    assert words(attachment) == calendar.replace("\r\n", "\n")


async def test_whoever_may_unsubscribe_can_do_it_by_header_and_footer(email: Email, post: Post) -> None:
    url = "https://example.org/p/unsubscribe/" + "a1" * 80
    manage = "https://example.org/p/subscription/b2"
    await email.send(BEN, letter(unsubscribe_url=url, manage_url=manage))
    mail = post.taken[0].mail
    assert f"List-Unsubscribe: <{url}>\r\n".encode() in post.taken[0].raw
    assert mail["list-unsubscribe-post"] == "List-Unsubscribe=One-Click"
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text and words(text).endswith(f"-- \nYour reminders: {manage}\nUnsubscribe: {url}\n")
    assert html and f'<a href="{manage}">Your reminders</a> · <a href="{url}">Unsubscribe</a>' in words(html)


async def test_nothing_in_a_letter_can_begin_another_header(email: Email, post: Post) -> None:
    wicked = "Hi\r\nBcc: all@example.org\u2028\r\n\r\n<script>"
    await email.send(BEN, letter(title=wicked, unsubscribe_url="https://example.org/x>\r\nBcc: b@example.org"))
    mail = post.taken[0].mail
    assert mail["bcc"] is None
    assert mail["subject"] == "Hi Bcc: all@example.org <script>"
    assert post.taken[0].recipients == ["ben@example.org"]
    assert "\nBcc" not in post.taken[0].raw.decode()


@pytest.mark.parametrize(
    "mailbox",
    [
        "ben@example.org\r\nRCPT TO:<eve@example.org>",
        "ben@example.org, eve@example.org",
        "Ben <ben@example.org>",
        "ben",
    ],
)
async def test_a_mailbox_that_is_none_is_refused_before_any_connection(email: Email, post: Post, mailbox: str) -> None:
    outcome = await email.send(Target(1, 1, 1, mailbox, {}), LETTER)
    assert fate(outcome) == ("failed", True, "bad_address", None)
    assert not post.taken


async def test_a_long_title_beyond_ascii_and_lines_with_dots_arrive_unchanged(email: Email, post: Post) -> None:
    title, body = "Grüße aus Köln \N{PARTY POPPER} " * 10, ".\n..\n" + "ä" * 3000 + "\n.end"
    await email.send(BEN, letter(title=title, body=body))
    mail = post.taken[0].mail
    assert mail["subject"] == " ".join(title.split())
    text = mail.get_body(("plain",))
    assert text and words(text) == body + "\n"
    assert max(map(len, post.taken[0].raw.split(b"\r\n"))) <= 998


def test_a_link_that_would_run_is_shown_and_not_linked() -> None:
    html = compose(letter(link="javascript:alert(1)"), SENDER, "ben@example.org").get_body(("html",))
    assert html and "<a" not in words(html)


@pytest.mark.parametrize(
    ("command", "answer", "expected"),
    [
        ("MAIL", "550 not you", ("failed", True, "smtp_550", 550)),
        ("RCPT", "550 5.1.1 nobody here", ("failed", True, "smtp_550", 550)),
        ("DATA", "554 looks like spam", ("failed", True, "smtp_554", 554)),
        ("MAIL", "421 too busy", ("failed", False, "smtp_421", 421)),
        ("RCPT", "450 try later", ("failed", False, "smtp_450", 450)),
        ("DATA", "452 full", ("failed", False, "smtp_452", 452)),
        ("MAIL", "cut", ("failed", False, "no_connection", None)),
        ("RCPT", "cut", ("failed", False, "no_connection", None)),
        ("DATA", "cut", ("unknown", False, "no_connection", None)),
    ],
)
async def test_a_refusal_is_for_good_by_its_number_and_a_loss_by_its_moment(
    email: Email, post: Post, command: str, answer: str, expected: tuple[Any, ...]
) -> None:
    post.answer(command, answer)
    assert fate(await email.send(BEN, LETTER)) == expected
    assert await email.send(BEN, LETTER) == SENT


async def test_what_the_server_says_is_kept(email: Email, post: Post) -> None:
    post.answer("RCPT", "550 nobody here")
    assert (await email.send(BEN, LETTER)).answer == "nobody here"


@pytest.mark.parametrize("title", ["=?utf-8?q?a=0D=0AX-Evil:_1?=", "a =?utf-8?b?DQpCY2M6IGV2aWxAZXhhbXBsZS5vcmc=?= b"])
async def test_words_that_spell_an_encoded_header_stay_words(email: Email, post: Post, title: str) -> None:
    assert (await email.send(BEN, replace(LETTER, title=title))).result == "sent"
    [taken] = post.taken
    assert {name.lower() for name in taken.mail} & {"x-evil", "bcc"} == set()
    assert taken.mail["subject"].replace("\u200b", "") == title
    refused = await email.send(replace(BEN, address="=?utf-8?q?a=0D=0Abcc=3A?=@example.org"), LETTER)
    assert (refused.result, refused.code) == ("failed", "bad_address")


async def test_the_mailbox_is_in_no_answer_that_is_kept(email: Email, post: Post) -> None:
    mailbox, _, domain = BEN.address.partition("@")
    post.answer("RCPT", f"550 5.1.1 <{mailbox.upper()}@{domain}>: {mailbox} is not here")
    said = (await email.send(BEN, LETTER)).answer
    assert mailbox not in said.lower() or len(mailbox) < 4
    assert BEN.address not in said.lower()
    assert said.startswith("5.1.1 <")


async def test_no_answer_in_time_after_the_mail_is_unknown_and_before_it_is_not(post: Post, port: int) -> None:
    email = plain(port, limit=1.0)
    post.answer("DATA", "hang")
    assert fate(await email.send(BEN, LETTER)) == ("unknown", False, "timeout", None)
    post.answer("RCPT", "hang")
    assert fate(await email.send(BEN, LETTER)) == ("failed", False, "timeout", None)
    await email.close()


async def test_a_server_that_is_away_is_tried_again() -> None:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    assert fate(await plain(port).send(BEN, LETTER)) == ("failed", False, "no_connection", None)


async def test_a_connection_is_kept_for_the_next_mail_and_replaced_when_it_is_gone(email: Email, post: Post) -> None:
    await email.send(BEN, LETTER)
    await email.send(BEN, LETTER)
    post.answer("RCPT", "cut")
    await email.send(BEN, LETTER)
    await email.send(BEN, LETTER)
    first, second, third = (taken.session for taken in post.taken)
    assert first == second != third


async def test_twenty_mails_at_once_all_arrive(email: Email, post: Post) -> None:
    sent = await asyncio.gather(*(email.send(Target(n, 1, 1, f"p{n}@example.org", {}), LETTER) for n in range(20)))
    assert sent == [SENT] * 20
    assert {taken.recipients[0] for taken in post.taken} == {f"p{n}@example.org" for n in range(20)}


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_mail_and_password_go_encrypted(
    post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: str
) -> None:
    certificate = make_certificate(tmp_path / "cert.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with mail_server(post, certificate, tls=tls == "tls", auth_require_tls=tls != "tls") as port:
        email = Email(Server("127.0.0.1", port, "me", PASSWORD.decode(), SENDER, tls))
        assert await email.send(BEN, LETTER) == SENT
        await email.close()
    assert post.taken[0].tls or tls == "tls"  # the sink knows only what STARTTLS began


async def test_a_certificate_that_nobody_vouches_for_gets_no_mail(post: Post, tmp_path: Path) -> None:
    with mail_server(post, make_certificate(tmp_path / "cert.pem")) as port:
        email = Email(Server("127.0.0.1", port, "me", PASSWORD.decode(), SENDER))
        assert fate(await email.send(BEN, LETTER)) == ("failed", False, "tls", None)
    assert not post.taken


async def test_a_server_without_tls_gets_neither_password_nor_mail(port: int, post: Post) -> None:
    email = Email(Server("127.0.0.1", port, "me", PASSWORD.decode(), SENDER))
    assert fate(await email.send(BEN, LETTER)) == ("failed", False, "tls", None)
    assert not post.taken


async def test_a_wrong_password_is_the_operators_to_mend_and_tried_again(post: Post, port: int) -> None:
    email = Email(Server("127.0.0.1", port, "me", "wrong", SENDER, "none"))
    assert fate(await email.send(BEN, LETTER)) == ("failed", False, "login", 535)


async def test_a_mailbox_beyond_ascii_needs_a_server_that_knows_such(post: Post, email: Email) -> None:
    bjorn = Target(1, 1, 1, "björn@example.org", {})
    assert fate(await email.send(bjorn, LETTER)) == ("failed", True, "no_smtputf8", None)
    with mail_server(post, enable_SMTPUTF8=True) as port:
        able = plain(port)
        assert await able.send(bjorn, LETTER) == SENT
        await able.close()
    assert post.taken[0].recipients == ["björn@example.org"]


def test_the_server_is_that_of_the_settings_and_shows_no_password() -> None:
    assert Server.of(Settings.read({})) is None
    given = {"SMTP_HOST": "mail.example.org", "SMTP_FROM": SENDER, "SMTP_USER": "me", "SMTP_PASSWORD": "hush"}
    server = Server.of(Settings.read({f"SOONISH_{name}": value for name, value in given.items()}))
    assert server == Server("mail.example.org", 587, "me", "hush", SENDER, "starttls")
    assert "hush" not in repr(server)


async def test_the_console_has_what_is_written_down() -> None:
    console = Console()
    assert await console.send(BEN, LETTER) == SENT
    await console.close()
