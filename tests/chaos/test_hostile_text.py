"""Hostile text in every place of every operation, header and form: refused, or text and nothing else wherever it shows.

Which operations there are is read from the document and from the pages, so a new one is tried without a word here; what
a good body looks like, from the contract, and one that is missing there fails.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from email import message_from_bytes, policy
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from soonish.delivery.channel import Letter
from soonish.delivery.channels.email import compose
from soonish.web.plan import Operation
from tests.support.contract import BODIES
from tests.support.due import until
from tests.support.hostile import MARKUP, TEXTS, places, with_text
from tests.support.http import NOTHING
from tests.support.town import Town, at_once, filled, forms, pages, town, wrong_with

ALLOWANCE = 100 << 20  # bytes by which the process may grow
HEADERS = (
    "if-match", "if-none-match", "idempotency-key", "x-request-id", "accept", "content-type", "cookie", "authorization",
    "last-event-id", "x-csrf-token", "x-forwarded-for", "origin", "host",
)  # fmt: skip
MAIL_HEADERS = {
    "from", "to", "subject", "date", "message-id", "auto-submitted", "importance", "mime-version", "content-type",
    "list-unsubscribe", "list-unsubscribe-post",
}  # fmt: skip
MAILBOXES = (
    "ben@example.org\r\nBcc: evil@example.org", "ben@evil\0.org", "<ben@example.org>", "ben", "@", "ben@exa mple.org",
    "ben@example.org, evil@example.org", "ben@example.org>\r\nRCPT TO:<evil@example.org", "bén@example.org",
    "=?utf-8?q?a=0D=0AX-Evil:_1?=@example.org", "=?utf-8?q?a=0D=0A=0D=0Aevil?=@example.org",
)  # fmt: skip


@pytest.fixture
async def here() -> AsyncIterator[Town]:
    async with town() as one:
        yield one


async def test_hostile_text_in_every_place_is_refused_or_is_text_and_nothing_else(
    here: Town, say: Callable[..., None]
) -> None:
    before, tried = here.memory(), Counter[str]()
    for each in (in_bodies, in_queries_and_paths, in_headers, in_forms):
        await each(here, tried)
    await until(lambda: _all_heard(here), seconds=120)
    shown = await all_pages(here)
    mails = [problem for taken in here.post.taken for problem in mail_problems(taken.raw)]
    evil = [arrival for arrival in here.receiver.arrivals if "x-evil" in arrival.headers]
    broken_log = [line for line in here.service.log.splitlines() if not line.startswith("{")]
    say(
        **tried,
        **{f"status_{status}": count for status, count in sorted(here.counts.items())},
        pages=shown,
        mails=len(here.post.taken),
        webhooks=len(here.receiver.arrivals),
        grown_mb=(here.memory() - before) >> 20,
        complaints=len(here.complaints),
    )
    assert here.complaints == []
    assert (mails, evil, broken_log) == ([], [], [])
    assert here.post.taken
    assert here.receiver.arrivals
    assert here.memory() - before < ALLOWANCE


async def _all_heard(here: Town) -> bool:
    """Those who can be reached have heard all; others were made up on the way."""
    ours = ("channel=email", "channel=console", "endpoint_id=1")
    found = [await here.client.get(f"/v1/deliveries?state=pending&limit=1&{one}") for one in ours]
    return not any(one.json["items"] for one in found)


async def in_bodies(here: Town, tried: Counter[str]) -> None:
    for method, path, said, schema, good in here.bodies():
        assert good is not None, f"{method} {path}: write a good body into the contract"
        found = sorted(set(places(here.document, schema)), key=str)
        jobs = [
            here.ask(said, method, filled(path), _json(with_text(good, place, text)), f"{place} {name}")
            for place in found
            for name, text in TEXTS.items()
        ]
        await at_once(jobs)
        tried["places"] += len(found)
        tried["bodies"] += len(jobs)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


async def in_queries_and_paths(here: Town, tried: Counter[str]) -> None:
    texts = [quote(text, safe="", errors="surrogatepass") for name, text in TEXTS.items() if name != "long"]
    for method, path, said in here.document.operations():
        if method == "DELETE" or "text/event-stream" in str(said["responses"].get("200")):
            continue
        names = [one["name"] for one in said["parameters"] if one["in"] == "query"]
        asked = [f"{filled(path)}?{name}={text}" for name in names for text in texts]
        asked += [filled(path, text) for text in texts if text and "{" in path]
        [body, *_] = BODIES.get(f"{method} {path}") or [NOTHING]
        await at_once([here.ask(said, method, one, body, "in the URL") for one in asked])
        tried["urls"] += len(asked)


async def in_headers(here: Town, tried: Counter[str]) -> None:
    """By hand, for no client would send them; an answer it must be, and none of it may come back as a header."""
    lines = [f"{name}: {text}".encode("utf-8", "replace") for name in HEADERS for text in TEXTS.values()]
    lines = [line for line in lines if not set(line) & set(b"\r\n\0") and len(line) < 10_000]
    lines += [b"if-match: " + b"x" * 60_000, b"a" * 70_000 + b": 1", b"content-length: -1", b"content-length: 1e9"]
    lines += [b"transfer-encoding: chunked, chunked", b"expect: 100-continue\r\nexpect: x", b"x: 1\r\n folded: 2"]
    for first in ("GET /v1/me", "POST /v1/people"):
        for line in lines:
            answer = (await _by_hand(here, first, line)).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
            status = answer.partition(b" ")[2][:3].decode()
            here.counts[status] += 1
            tried["headers"] += 1
            if not status.startswith(("2", "3", "4")) or b"\nx-evil" in answer.partition(b"\r\n\r\n")[0].lower():
                here.complaints.append(f"{first} with {line[:80]!r}: {answer[:200]!r}")


async def _by_hand(here: Town, first: str, line: bytes) -> bytes:
    reader, writer = await here.client.connect()
    name = line.partition(b":")[0].decode()
    own = {"connection": "close", "content-type": "application/json", "content-length": "2", "host": "here"}
    own["authorization"] = f"Bearer {here.client.key}"
    own.pop("content-length" if name == "transfer-encoding" else name, None)
    lines = [f"{first} HTTP/1.1", *(f"{one}: {value}" for one, value in own.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n" + line + b"\r\n\r\n{}")
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionResetError:  # it said 4xx and closed before it had read all of ours
        return b"HTTP/1.1 400 reset"
    finally:
        writer.close()


async def in_forms(here: Town, tried: Counter[str]) -> None:
    """In each field of each form of the console, and in all of them together."""
    for one in forms():
        names = list(one.form.of.__struct_fields__) if one.form else []
        chosen = [*([name] for name in names), names]
        texts = [text.encode("utf-8", "replace").decode() for text in TEXTS.values()]
        await at_once([_form(here, one, dict.fromkeys(some, text)) for text in texts for some in chosen])
        tried["forms"] += len(texts) * len(chosen)


async def _form(here: Town, one: Operation, fields: dict[str, str]) -> None:
    answer = await here.browser.form(filled(one.path), urlencode({"csrf": here.csrf, **fields}))
    here.counts[str(answer.status)] += 1
    found = [*wrong_with(answer), *(["shows markup"] if MARKUP.encode() in answer.body else [])]
    here.complaints += [f"{one.path} {list(fields)}: {wrong}" for wrong in found]


async def all_pages(here: Town) -> int:
    """Every page, with what is there now: nothing of it is markup."""
    paths, marks = pages(range(1, 8)), (b"<script>evil", b'onerror="evil', b'href="javascript:', b"<img src=x")
    for path in paths:
        answer = await here.browser.get(path, accept="text/html")
        evil = [one for one in marks if one in answer.body]
        here.complaints += [f"page {path}: {one}" for one in (*wrong_with(answer), *evil)]
    return len(paths)


# --- mails


def mail_problems(raw: bytes) -> Iterator[str]:
    """What a mail must not be, however its words were meant."""
    head = raw.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    mail = message_from_bytes(raw, policy=policy.default)
    names = [name.lower() for name in mail]
    if len(set(names)) < len(names) or not set(names) <= MAIL_HEADERS:
        yield f"has the headers {names}"
    if any(len(line) > 998 for line in raw.splitlines()):
        yield "has a line that is too long"
    if not head.isascii():
        yield "has a head that is not ASCII"
    if set(str(mail["subject"])) & set("\r\n\0\x0b\x85\u2028"):
        yield "has more than one line of subject"
    html: Any = mail.get_body(("html",))
    if html and "<script" in html.get_content():
        yield "has a script"


@pytest.mark.parametrize("place", ["title", "body", "link", "calendar", "unsubscribe_url", "sender", "mailbox"])
def test_no_words_make_a_mail_what_it_is_not(place: str, say: Callable[..., None]) -> None:
    counts: Counter[str] = Counter()
    ours = place in ("sender", "unsubscribe_url")  # a setting, and a link that is made here: none is that long
    texts = [text for name, text in TEXTS.items() if not (ours and name == "long")]
    for text in (*texts, *(MAILBOXES if place == "mailbox" else ())):
        words: dict[str, Any] = {"title": "a", "body": "b", place: text}
        sender = f"{words.pop('sender', 'Soonish')} <soon@example.org>"
        mailbox = words.pop("mailbox", "ben@example.org")
        try:
            mail = compose(Letter("dlv_1", level="critical", **words), sender, mailbox)
        except ValueError:
            assert place in ("mailbox", "sender"), text
            counts["refused"] += 1
            continue
        counts["made"] += 1
        utf8 = not mailbox.isascii()
        lines: Any = mail.policy
        raw = mail.as_bytes(policy=lines.clone(utf8=utf8))
        assert [one for one in mail_problems(raw) if not (utf8 and "ASCII" in one)] == [], text
    say(**counts)
