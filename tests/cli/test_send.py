"""`soonish send`: a message from the shell, and what became of it, a line a delivery."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.service import Service
from tests.support.shell import Done, shell


@pytest.fixture
def mark() -> str:
    """What no other test's people have."""
    return f"s{uuid4().hex[:10]}"


def send(service: Service, to: str | int, *more: str) -> Done:
    words = ("--to", str(to), "--title", "Doors open", "--body", "Hello {{name}}")
    return shell("send", *words, *more, environ=service.settings)


async def make(service: Service, *labels: str, **fields: Any) -> int:
    """A person with console addresses of these labels; answers their id."""
    async with service.client() as soonish:
        made = await soonish.post("/v1/people", {"name": "Ben", **fields})
        for label in labels:
            await soonish.post(f"/v1/people/{made['id']}/addresses", {"kind": "console", "label": label})
        return int(made["id"])


async def test_a_message_at_once_prints_a_line_a_delivery(service: Service, mark: str) -> None:
    ben = await make(service, "desk", external_id=mark, email=f"{mark}@example.org")
    for to in (ben, mark, f"{mark}@example.org"):
        done = send(service, to)
        assert done.code == 0, done.err
        [line] = done.out.splitlines()
        channel, state, reason, late_ms = line.split()
        assert (channel, state, reason) == ("console", "sent", "-")
        assert int(late_ms) >= 0


async def test_what_reached_nobody_ends_with_1_and_the_way_to_the_reason(service: Service, mark: str) -> None:
    ann = await make(service, external_id=mark)
    done = send(service, mark)
    assert done.code == 1
    assert done.out.split() == ["none", "skipped", "no_address", "-"]
    async with service.client() as soonish:
        [delivery] = [one async for one in soonish.list("/v1/deliveries", person_id=ann)]
    assert f"soonish why delivery {delivery['id']}" in done.err


async def test_a_message_with_a_moment_is_put_and_not_waited_for(service: Service, mark: str) -> None:
    await make(service, "desk", external_id=mark)
    later = (datetime.now(UTC) + timedelta(hours=3)).isoformat()
    done = send(service, mark, "--level", "warning", "--at", later)
    assert done.code == 0, done.err
    label, number = done.out.split()
    assert label == "message"
    async with service.client() as soonish:
        message = await soonish.get(f"/v1/messages/{number}")
    assert (message["level"], message["told_at"]) == ("warning", None)


@pytest.mark.parametrize(
    ("to", "more", "said"),
    [
        ("nobody@example.org", (), "Nobody here has the email nobody@example.org"),
        ("nobody-of-that-id", (), "to.external_ids.0"),
        ("999999999", (), "to.person_ids.0"),
        ("1", ("--level", "loud"), "level"),
        ("1", ("--at", "tomorrow"), "send_at"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_sent(
    service: Service, to: str, more: tuple[str, ...], said: str
) -> None:
    done = send(service, to, *more)
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_without_a_server_it_says_so(nowhere: dict[str, str]) -> None:
    key = {"SOONISH_API_KEY": "sk_" + "a" * 43}
    done = shell("send", "--to", "1", "--title", "-", "--body", "-", environ=nowhere | key)
    assert done.code == 1
    assert "http://127.0.0.1:1" in done.err
