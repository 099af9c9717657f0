"""Secrets told to every door of a running product, and looked for in all that it keeps, says and answers."""

import asyncio
import base64
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from soonish.web.auth import COOKIE
from tests.support import smtp
from tests.support.canaries import Canaries
from tests.support.due import until
from tests.support.http import NOTHING, Answer, Client
from tests.support.receiver import Arrival, Receiver, Reply
from tests.support.service import Service, embedded_url

KEYS = frozenset({"keys"})  # the folder that is there to hold some of them
PAGES = ("/", "/people", "/deliveries", "/endpoints", "/facts", "/due", "/settings", "/settings/record", "/due/past")


class Echo(Receiver):
    """Fails, and tells the sender all that it was told: the worst that a receiver can do to a record of answers."""

    async def _note(self, arrival: Arrival) -> None:
        told = "\n".join([arrival.path, *(f"{name}: {value}" for name, value in arrival.headers.items())])
        self.answer(Reply(500, {"content-type": "text/plain"}, told.encode("latin-1") + arrival.body))
        await super()._note(arrival)


@dataclass
class Talk:
    """All that was answered, with the names of the secrets that this answer is there to tell."""

    client: Client
    birds: Canaries
    answers: list[tuple[str, Answer, frozenset[str]]] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: Any = NOTHING, *tells: str, **headers: str) -> Answer:
        answer = await self.client.ask(method, path, body, **headers)
        self.answers.append((f"{method} {path} {answer.status}", answer, frozenset(tells)))
        return answer

    async def make(self, path: str, body: Any, *tells: str, **headers: str) -> Any:
        answer = await self.ask("POST", path, body, *tells, **headers)
        assert answer.status in (200, 201, 202), answer.body
        return answer.json

    def leaks(self) -> list[str]:
        """Secrets in answers that are not there to tell them, and in problems also names, mails and birthdays."""
        found = []
        for name, answer, tells in self.answers:
            data = answer.body + b"\n".join(f"{a}: {b}".encode() for a, b in answer.headers.items())
            told = self.birds.found_in(data, personal=answer.status >= 400, but=tells)
            found += [f"{one} in {name}" for one in told]
        return found


@asynccontextmanager
async def running(birds: Canaries, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Service, Talk, smtp.Post]]:
    post = smtp.Post()
    password = birds.make("smtp password")
    monkeypatch.setattr(smtp, "PASSWORD", password.encode())
    with smtp.mail_server(post, auth_require_tls=False, auth_required=True) as port:
        settings = {
            "SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(port), "SMTP_TLS": "none", "SMTP_FROM": "soon@example.org",
            "SMTP_USER": "soonish", "SMTP_PASSWORD": password, "METRICS_TOKEN": birds.make("metrics token"),
            "EGRESS_ALLOW": "127.0.0.0/8", "RATE_ADDRESS": "0", "LOG": "debug", "LADDER_PEOPLE": "0,1s",
            "LADDER_LONG": "0,1s", "LADDER_SHORT": "0,1s", "LADDER_BROKER": "0,1s", "UNKNOWN_PAUSE": "1s",
            "CIRCUIT_AFTER": "1000",
        }  # fmt: skip
        named: Any = {f"SOONISH_{name}": value for name, value in settings.items()}
        service = Service(**named)
        try:
            await asyncio.to_thread(service.start)
            async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
                yield service, Talk(Client(session, service.url, service.key), birds), post
        finally:
            service.remove()


async def test_no_secret_is_in_a_dump_a_log_a_history_or_an_answer(
    say: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    birds = Canaries()
    async with AsyncExitStack() as stack:
        service, talk, post = await stack.enter_async_context(running(birds, monkeypatch))
        echo = await stack.enter_async_context(Echo())
        birds.keep("admin key", service.key)
        birds.keep("vault key", (service.folder / "keys" / "secrets-keys").read_text().strip().partition(":")[2])
        await who_may_ask(talk)
        person_id = await people(talk, echo, post)
        await machines(talk, echo)
        await wrong(talk)
        await until(lambda: everything_tried(talk), seconds=120)
        await everything_shown(talk, person_id)
        commands = command_lines(service.pid)
        rows, dumped = await dump(service, birds)
        metrics = await talk.client.by(birds.hidden["metrics token"]).get("/metrics")
        assert metrics.status == 200
        code, _ = await asyncio.to_thread(service.stop)
        assert code == 0
        size, kept = birds.found_under(service.folder, KEYS)
        log = service.log.encode()
        logs = log + b"".join(file.read_bytes() for file in (service.folder / "logs").rglob("*") if file.is_file())
        histories = b"".join(file.read_bytes() for file in (service.folder / "temporal").rglob("*") if file.is_file())
    leaks = {
        "answers": talk.leaks(),
        "dump": dumped,
        "files": kept,
        "logs": birds.found_in(logs, personal=True),
        "histories": birds.found_in(histories, personal=True),
        "metrics": birds.found_in(metrics.body, personal=True),
        "commands": birds.found_in(commands, personal=True),
    }
    say(
        secrets=len(birds.hidden),
        personal=len(birds.personal),
        answers=len(talk.answers),
        rows=rows,
        files_mb=size >> 20,
        log_lines=log.count(b"\n"),
        histories_kb=len(histories) >> 10,
        found=sum(map(len, leaks.values())),
    )
    assert not any(leaks.values()), {name: found for name, found in leaks.items() if found}
    assert log.count(b"\n") > 20
    assert histories


async def who_may_ask(talk: Talk) -> None:
    """Keys, stored answers, links and sign-ins."""
    birds = talk.birds
    wanted = {"name": "robot", "role": "admin"}
    for _ in range(2):
        made = await talk.make("/v1/api-keys", wanted, "robot key", Idempotency_Key="once")
        birds.keep("robot key", made["key"])
    link = await talk.make("/v1/login-links", {"role": "admin"}, "login token")
    token = birds.keep("login token", link["url"].rpartition("/")[2])
    anybody = talk.client.by(None)
    await anybody.get(f"/login/{token}", accept="text/html")
    signed = await anybody.form(f"/login/{token}")
    birds.keep("cookie", signed.headers["set-cookie"].partition(";")[0].partition("=")[2])
    stranger = talk.client.by("sk_" + birds.make("wrong key", "{}" + "a" * 17))
    assert (await stranger.get("/v1/me")).status == 401
    assert (await talk.client.by(None).get("/login/" + birds.make("wrong token", "{}" + "b" * 17))).status == 404


async def people(talk: Talk, echo: Echo, post: smtp.Post) -> int:
    """Somebody with every kind of address, told something by each."""
    birds = talk.birds
    name, external = birds.person("name"), birds.person("external id")
    body = {
        "name": name, "external_id": external, "email": birds.person("email", "{}@example.org"),
        "date_of_birth": "1990-02-28", "timezone": "Europe/Berlin",
    }  # fmt: skip
    person_id = (await talk.make("/v1/people", body))["id"]
    here = f"/v1/people/{person_id}/addresses"
    url = f"json://{birds.make('apprise user')}:{birds.make('apprise password')}@127.0.0.1:{echo.port}/"
    target = birds.keep("apprise url", url + birds.make("apprise token") + "?+X-Token=" + birds.make("apprise header"))
    await talk.make(here, {"kind": "apprise", "label": "phone", "target": target, "tags": ["x"]})
    await talk.make(here, {"kind": "email", "label": "mail", "target": birds.make("mailbox", "{}@example.net")})
    await talk.make(here, {"kind": "console", "label": "here"})
    await until(lambda: _taken(post, 1), seconds=60)
    asked = post.taken[0].mail.get_body(("plain",))
    assert asked
    [path] = re.findall(r"/p/confirm/[\w.-]+", str(asked.get_content()))
    birds.keep("confirm token", path.rpartition("/")[2])
    await talk.client.by(None).get(path, accept="text/html")
    assert (await talk.client.by(None).form(path)).status == 200
    post.answer("RCPT", f"550 5.1.1 <{birds.hidden['mailbox'].upper()}>: no such user")
    await talk.make(
        "/v1/messages", {"to": {"person_ids": [person_id]}, "title": "Doors open", "body": "Hello {{name}}"}
    )
    return int(person_id)


async def _taken(post: smtp.Post, count: int) -> bool:
    return len(post.taken) >= count


async def machines(talk: Talk, echo: Echo) -> None:
    """An endpoint of each kind, none of which takes what it gets; and a change and a rotation of their secrets."""
    birds = talk.birds
    given = birds.keep("given secret", "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())
    webhook = {
        "url": f"http://{birds.make('webhook user')}:{birds.make('webhook password')}@127.0.0.1:{echo.port}/in",
        "headers": {"X-Team": birds.make("webhook header")},
    }
    amqp = {"url": f"amqp://soonish:{birds.make('amqp password')}@127.0.0.1:1/"}
    keys = {"access_key_id": "AKIA1", "secret_access_key": birds.make("sqs secret"), "region": "eu-west-1"}
    here = f"http://127.0.0.1:{echo.port}"
    made = await talk.make(
        "/v1/endpoints",
        {"name": "crm", "kind": "webhook", "fact_types": ["*"], "config": webhook, "secret": given},
        "given secret",
    )
    for kind, config in (("amqp", amqp), ("sqs", {"queue_url": f"{here}/1/q", "endpoint_url": here, **keys})):
        await talk.make("/v1/endpoints", {"name": kind, "kind": kind, "fact_types": ["*"], "config": config})
    rotated = await talk.make(f"/v1/endpoints/{made['id']}/rotate", {}, "rotated secret")
    birds.keep("rotated secret", rotated["secret"])
    await talk.ask("PATCH", f"/v1/endpoints/{made['id']}", {"config": made["config"] | {"headers": {"X-Team": "***"}}})
    await talk.make("/v1/facts", {"type": "custom.thing", "data": {"n": 1}})
    await talk.make(f"/v1/endpoints/{made['id']}/test", {})


async def wrong(talk: Talk) -> None:
    """Secrets in bodies that are refused."""
    birds, people = talk.birds, "/v1/people/1/addresses"
    bodies: list[tuple[str, str, Any]] = [
        ("POST", people, {"kind": "apprise", "label": "a", "target": birds.make("no url")}),
        ("POST", people, {"kind": "apprise", "label": "a", "target": f"nosuch://{birds.make('no scheme')}"}),
        ("POST", people, {"kind": "apprise", "label": "a", "target": f"tgram://{birds.make('bad token')}/"}),
        ("POST", people, {"kind": "email", "label": "a", "target": birds.make("no mailbox")}),
        ("POST", people, {"kind": "apprise", "label": "phone", "target": birds.hidden["apprise url"]}),
        ("POST", "/v1/endpoints", _endpoint({"url": f"http://u:{birds.make('bad scheme')}@x.example:1/"})),
        ("POST", "/v1/endpoints", _endpoint({"url": f"https://u:{birds.make('bad port')}@x.example:99999/"})),
        ("POST", "/v1/endpoints", _endpoint({"url": f"https://u:{birds.make('inner')}@169.254.169.254/"})),
        ("POST", "/v1/endpoints", _endpoint({"url": "https://x.example/", "headers": {"Host": birds.make("host")}})),
        ("POST", "/v1/endpoints", _endpoint({"url": "https://x.example/"}) | {"secret": birds.make("no secret")}),
        ("POST", "/v1/endpoints", b'{"secret": "' + birds.make("broken json").encode()),
        ("POST", "/v1/people", {"name": birds.person("long name") * 20, "email": birds.person("no email")}),
        ("POST", "/v1/people", {"name": "B", "email": birds.personal["email"]}),
        ("PUT", f"/v1/people/external/{birds.person('twice')}", {"name": "B", "email": birds.personal["email"]}),
    ]  # fmt: skip
    for method, path, body in bodies:
        answer = await talk.ask(method, path, body)
        assert 400 <= answer.status < 500, (path, body, answer.body)
    answer = await talk.client.get("/v1/me", Cookie=f"{COOKIE}={birds.make('wrong cookie')}")
    assert answer.status == 200, "the key goes before"


def _endpoint(config: dict[str, Any]) -> dict[str, Any]:
    return {"name": "x", "kind": "webhook", "fact_types": ["*"], "config": config}


async def everything_tried(talk: Talk) -> bool:
    """Nothing is on its way any more."""
    pending, failed = [await talk.client.get(f"/v1/deliveries?state={state}") for state in ("pending", "failed")]
    return not pending.json["items"] and bool(failed.json["items"])


async def everything_shown(talk: Talk, person_id: int) -> None:
    """Every operation that only looks, with each id there is; and the pages, signed in."""
    described = (await talk.client.by(None).get("/openapi.json")).json
    pages = [*PAGES, f"/people/{person_id}"]
    for path, operations in described["paths"].items():
        if "get" not in operations or "stream" in path or path == "/metrics":
            continue
        for number in range(1, 13) if "{" in path else (1,):
            await talk.ask("GET", re.sub(r"\{\w+\}", str(number), path))
    for number in range(1, 13):
        pages += [f"/deliveries/{number}", f"/endpoints/{number}", f"/facts/{number}", f"/why/delivery/{number}"]
    browser = talk.client.by(None, cookie=f"{COOKIE}={talk.birds.hidden['cookie']}")
    for path in pages:
        answer = await browser.get(path, accept="text/html")
        talk.answers.append((f"page {path} {answer.status}", answer, frozenset()))


async def dump(service: Service, birds: Canaries) -> tuple[int, list[str]]:
    """Each row of each table as text, past all walls; how many there were, and what was found."""
    con = await asyncpg.connect(embedded_url(service.folder))
    count, found = 0, list[str]()
    try:
        for row in await con.fetch("SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r'"):
            rows = await con.fetch(f"SELECT t::text AS row FROM {row['name']} t")
            count += len(rows)
            # What is personal stands in the rows of people; the record of changes must not have it.
            personal = row["name"] in ("audit", "due.due", "due.due_undone", "idempotency", "fact")
            text = "\n".join(one["row"] for one in rows).encode()
            found += [f"{name} in {row['name']}" for name in birds.found_in(text, personal=personal)]
    finally:
        await con.close()
    return count, found


def command_lines(pid: int) -> bytes:
    """Those of the process and of all that it started."""
    parents = {int(one.name): _parent(one) for one in Path("/proc").iterdir() if one.name.isdecimal()}
    mine, more = {pid}, {pid}
    while more := {one for one, parent in parents.items() if parent in more} - mine:
        mine |= more
    return b"\n".join(file.read_bytes() for one in mine if (file := Path(f"/proc/{one}/cmdline")).exists())


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
