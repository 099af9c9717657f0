"""What goes wrong around a try stays with its delivery: no neighbour waits, nothing is made twice unmarked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from time import monotonic
from typing import Any

import asyncpg
import pytest

from soonish import failpoints
from soonish.db.pool import Database
from soonish.delivery.channel import SENT, Outcome
from soonish.delivery.model.letters import Message, Recipient
from soonish.delivery.on_due import kinds
from soonish.delivery.outbox import SEND, Fact
from soonish.delivery.send import sender
from soonish.due import Loop
from soonish.errors import Unavailable
from soonish.vault import Vault, make_key
from tests.support.ledger import Ledger
from tests.support.receiver import Receiver, Reply
from tests.support.sending import Sending

DOORS = Message(title="Doors open", body="Hello {{name}}")


@pytest.fixture
async def ledger(db: Database) -> Ledger:
    return await Ledger.of(db)


class Scripted:
    """A channel that does what it is told, in turn, and remembers how often it was asked."""

    def __init__(self, *answers: Outcome | BaseException) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def send(self, *_: Any) -> Outcome:
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else SENT
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self) -> None:
        pass


@pytest.fixture
async def ben(ledger: Ledger) -> int:
    person = await ledger.person()
    await ledger.address(person, "phone", "apprise", target="json://127.0.0.1/")
    return person


async def tell(ledger: Ledger, person: int, cause: str = "message/1") -> None:
    async with ledger.db.transaction(1) as tx:
        await ledger.outbox.tell(tx, cause, DOORS, [Recipient(person)])


async def ends(ledger: Ledger) -> list[tuple[str, str | None]]:
    return [(one["state"], one["reason"]) for one in await ledger.deliveries()]


async def test_a_channel_that_raises_may_have_sent_and_is_recorded_so(ledger: Ledger, ben: int) -> None:
    channel = Scripted(RuntimeError("a bug"))
    sending = Sending(ledger, channels={"apprise": channel})
    await tell(ledger, ben)
    await sending.drain()
    assert await ends(ledger) == [("pending", "error")]
    assert [(one["outcome"], one["answer"]) for one in await sending.attempts()] == [("unknown", "RuntimeError")]
    await sending.later(minutes=3)
    assert await ends(ledger) == [("sent", None)]


async def test_a_target_that_no_key_opens_holds_its_own_delivery_and_no_other(ledger: Ledger, ben: int) -> None:
    ann = await ledger.person("Ann")
    mine, ledger.vault = ledger.vault, Vault.from_setting(make_key())
    await ledger.address(ann, "phone", "apprise", target="json://127.0.0.1/")
    other, ledger.vault = ledger.vault, mine
    sending = Sending(ledger, channels={"apprise": Scripted()})
    await tell(ledger, ann)
    await tell(ledger, ben, "message/2")
    await sending.drain()
    assert await ends(ledger) == [("pending", None), ("sent", None)]
    [item] = await ledger.due()
    assert (item["spared"], "put that back" in item["last_error"]) == (item["attempts"], True)
    assert other.writing_key_id in item["last_error"]
    assert [one["delivery_id"] for one in await sending.attempts()] == [(await ledger.deliveries())[1]["id"]]


async def test_a_target_that_changes_while_it_is_read_is_read_again_and_not_given_up(
    ledger: Ledger, ben: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = Sending(ledger, channels={"apprise": Scripted()})
    loader, changes = sending.sender._loader, ["once"]
    real = loader._open_targets

    async def changed_meanwhile(*args: Any) -> None:
        if changes:
            changes.pop()
            await ledger.run("UPDATE address SET version = version + 1")
        await real(*args)

    monkeypatch.setattr(loader, "_open_targets", changed_meanwhile)
    await tell(ledger, ben)
    await sending.drain()
    assert await ends(ledger) == [("sent", None)]
    assert [one["outcome"] for one in await sending.attempts()] == ["sent"]


async def test_what_was_sent_while_the_database_went_away_is_written_when_it_is_back(ledger: Ledger, ben: int) -> None:
    channel = Scripted()
    sending = Sending(ledger, channels={"apprise": channel})
    recorder = sending.sender._recorder
    real, away = recorder._commit, [Unavailable("away"), Unavailable("away")]

    async def commit(*args: Any) -> set[int]:
        if away:
            raise away.pop()
        return await real(*args)

    recorder._commit = commit  # type: ignore[method-assign, assignment]
    await tell(ledger, ben)
    await sending.drain()
    assert await ends(ledger) == [("sent", None)]
    assert channel.asked == 1


async def test_what_went_to_somebody_else_meanwhile_is_not_recorded_and_what_ended_beside_it_is(
    ledger: Ledger, ben: int
) -> None:
    await ledger.address(ben, "tablet", "apprise", target="json://127.0.0.2/")
    await tell(ledger, ben)
    first, _ = sorted(one["id"] for one in await ledger.deliveries())

    class Moving(Scripted):
        async def send(self, *args: Any) -> Outcome:
            await ledger.run("UPDATE due.due SET attempts = attempts + 1 WHERE key = $1 AND attempts = 1", str(first))
            return await super().send(*args)

    channel = Moving()
    sending = Sending(ledger, channels={"apprise": channel})
    await sending.drain()
    assert channel.asked == 2
    assert await ends(ledger) == [("pending", None), ("sent", None)]
    assert [one["n"] for one in await sending.attempts() if one["delivery_id"] == first] == []
    assert len(await sending.attempts()) == 1


async def test_one_that_cannot_be_read_harms_no_other_of_its_claim(ledger: Ledger, ben: int) -> None:
    await ledger.address(ben, "tablet", "apprise", target="json://127.0.0.2/")
    await tell(ledger, ben)
    first, second = sorted(one["id"] for one in await ledger.deliveries())
    sending = Sending(ledger, channels={"apprise": Scripted()})
    loader = sending.sender._loader
    real = loader.cases

    async def cases(workspace_id: int, ids: Any) -> Any:
        if first in ids:
            raise ValueError("poison")
        return await real(workspace_id, ids)

    loader.cases = cases  # type: ignore[method-assign]
    await sending.drain()
    states = {one["id"]: one["state"] for one in await ledger.deliveries()}
    assert states == {first: "pending", second: "sent"}
    rows = await ledger.rows("SELECT key, last_error FROM due.due")
    assert [(row["key"], row["last_error"]) for row in rows] == [(str(first), "ValueError: poison")]


async def test_one_whose_record_fails_harms_no_other_that_ended_with_it(
    ledger: Ledger, ben: int, database_url: str
) -> None:
    await ledger.address(ben, "tablet", "apprise", target="json://127.0.0.2/")
    await tell(ledger, ben)
    first, second = sorted(one["id"] for one in await ledger.deliveries())
    sending = Sending(ledger, channels={"apprise": Scripted()})
    owner = await asyncpg.connect(database_url)
    await owner.execute(f"ALTER TABLE attempt ADD CHECK (delivery_id <> {first})")
    await owner.close()
    await sending.drain()
    states = {one["id"]: one["state"] for one in await ledger.deliveries()}
    assert states == {first: "pending", second: "sent"}
    assert [one["delivery_id"] for one in await sending.attempts()] == [second]


async def test_nobody_is_told_who_was_removed_while_they_stood_in_line(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "FRESH", 0.0)
    sending, removed = Sending(ledger), asyncio.Event()
    async with Receiver(Reply(after=removed)) as receiver:
        await ledger.endpoint(receiver.url, max_in_flight=1)
        for n in range(3):
            async with ledger.db.transaction(1) as tx:
                await ledger.outbox.state(tx, Fact(cause=f"a/{n}", type="a.b", subject="", data={"n": n}))
        working = asyncio.create_task(sending.drain())
        await receiver.wait(1)
        await ledger.run("UPDATE endpoint SET active = false")
        removed.set()
        await working
        assert len(receiver.arrivals) == 1
    assert sorted(await ends(ledger)) == [
        ("sent", None), ("skipped", "endpoint_inactive"), ("skipped", "endpoint_inactive"),
    ]  # fmt: skip
    await sending.close()


LOST = "UPDATE due.due SET lease_until = now() - interval '1 s' WHERE lease_until IS NOT NULL"
"""The lease of whoever holds something runs out."""


class Slow(Scripted):
    """Ends when it is let go, unless it is cut short before."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def send(self, *args: Any) -> Outcome:
        self.begun.set()
        await self.go.wait()
        return await super().send(*args)


async def test_what_a_vanished_holder_tried_stays_marked_while_nothing_can_be_read(ledger: Ledger, ben: int) -> None:
    channel = Scripted()
    sending = Sending(ledger, channels={"apprise": channel})
    await tell(ledger, ben)
    await ledger.run("UPDATE due.due SET attempts = 1, lease_until = now() - interval '1 s', first_at = now()")
    loader, away = sending.sender._loader, [Unavailable("away")]
    real = loader.cases

    async def cases(*args: Any) -> Any:
        if away:
            raise away.pop()
        return await real(*args)

    loader.cases = cases  # type: ignore[method-assign, assignment]
    await sending.drain()
    await sending.later(seconds=5)
    await ledger.run(LOST)
    await sending.drain()
    assert [(one["outcome"], one["code"]) for one in await sending.attempts()] == [("unknown", "interrupted")]
    assert channel.asked == 0
    await sending.later(minutes=3)
    assert [one["repeat"] for one in await sending.attempts()] == [False, True]


async def test_it_stays_marked_also_where_no_key_opens_its_target(ledger: Ledger) -> None:
    ann, mine = await ledger.person("Ann"), ledger.vault
    ledger.vault = Vault.from_setting(make_key())
    await ledger.address(ann, "phone", "apprise", target="json://127.0.0.1/")
    ledger.vault = mine
    sending = Sending(ledger, channels={"apprise": Scripted()})
    await tell(ledger, ann)
    await ledger.run("UPDATE due.due SET attempts = 1, lease_until = now() - interval '1 s', first_at = now()")
    await sending.drain()
    assert [one["code"] for one in await sending.attempts()] == ["interrupted"]


async def test_a_try_that_a_stop_cuts_short_is_on_record_and_made_again_by_the_rules_of_doubt(
    ledger: Ledger, ben: int
) -> None:
    channel = Slow()
    sending = Sending(ledger, channels={"apprise": channel})
    await tell(ledger, ben)
    async with asyncio.timeout(30):
        loop = Loop(ledger.db.loops, [sending.kind])
        await loop.start()
        await channel.begun.wait()
        await loop.stop(patience=0.1)
    assert [(one["outcome"], one["code"]) for one in await sending.attempts()] == [("unknown", "interrupted")]
    channel.go.set()
    await sending.drain()
    assert channel.asked == 0
    await sending.later(minutes=3)
    assert [(one["outcome"], one["repeat"]) for one in await sending.attempts()][1:] == [("sent", True)]


async def test_a_channel_that_cancels_itself_keeps_nobody_waiting(ledger: Ledger, ben: int) -> None:
    sending = Sending(ledger, channels={"apprise": Scripted(asyncio.CancelledError())})
    await tell(ledger, ben)
    async with asyncio.timeout(30):
        await sending.drain()
    assert [one["outcome"] for one in await sending.attempts()] == ["unknown"]


@pytest.mark.parametrize("answer", ["no\0thing", "half \ud800 a character"])
async def test_an_answer_that_no_table_can_keep_is_kept_without_that(ledger: Ledger, ben: int, answer: str) -> None:
    sending = Sending(ledger, channels={"apprise": Scripted(Outcome("failed", "http_500", answer=answer))})
    await tell(ledger, ben)
    await sending.drain()
    [attempt] = await sending.attempts()
    assert attempt["answer"] in ("nothing", "half ? a character")


async def test_a_try_that_cannot_be_recorded_is_not_made_again_as_if_it_had_not_been(
    ledger: Ledger, ben: int, database_url: str
) -> None:
    channel = Scripted()
    sending = Sending(ledger, channels={"apprise": channel})
    await tell(ledger, ben)
    owner = await asyncpg.connect(database_url)
    await owner.execute("ALTER TABLE attempt ADD CONSTRAINT never CHECK (outcome <> 'sent')")
    await sending.drain()
    await sending.later(minutes=1)
    assert channel.asked == 1
    await owner.execute("ALTER TABLE attempt DROP CONSTRAINT never")
    await owner.close()
    await ledger.run(LOST)
    await sending.drain()
    assert [one["code"] for one in await sending.attempts()] == ["interrupted"]
    assert channel.asked == 1


async def test_what_was_sent_waits_longer_for_its_record_than_any_handler_may_run(
    ledger: Ledger, ben: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, away, asked = Scripted(), asyncio.Event(), asyncio.Event()
    sending = Sending(ledger, channels={"apprise": channel})
    recorder = sending.sender._recorder
    real = recorder._commit

    async def commit(*args: Any) -> set[int]:
        asked.set()
        if not away.is_set():
            raise Unavailable("away")
        return await real(*args)

    recorder._commit = commit  # type: ignore[method-assign, assignment]
    [kind] = [one for one in kinds(ledger.db, ledger.outbox, sending.sender) if one.name == SEND]
    await tell(ledger, ben)
    async with asyncio.timeout(30), Loop(ledger.db.loops, [kind]) as loop:
        await asked.wait()
        with monkeypatch.context() as later:
            later.setattr("soonish.due.loop.loop.monotonic", lambda: monotonic() + 3600)
            loop._end_overlong()
        away.set()
    assert await ends(ledger) == [("sent", None)]
    assert channel.asked == 1


@pytest.fixture
async def passed() -> AsyncIterator[list[str]]:
    """The points of a delivery, as they are passed."""
    seen: list[str] = []
    with ExitStack() as stack:
        for point in ("delivery.before_send", "delivery.after_send", "delivery.recorded"):
            stack.enter_context(failpoints.listen(point, partial(seen.append, point)))
        yield seen


async def test_the_points_of_a_delivery_are_passed_in_their_order(ledger: Ledger, ben: int, passed: list[str]) -> None:
    await tell(ledger, ben)
    await Sending(ledger, channels={"apprise": Scripted()}).drain()
    assert passed == ["delivery.before_send", "delivery.after_send", "delivery.recorded"]


async def test_a_death_of_a_message_to_a_person_is_told_as_a_fact_too(ledger: Ledger, ben: int) -> None:
    failing = [Outcome("failed", "http_500", status=500)] * 3
    sending = Sending(ledger, channels={"apprise": Scripted(*failing)})
    await tell(ledger, ben)
    for _ in range(3):
        await sending.later(hours=1)
    types = [row["type"] for row in await ledger.rows("SELECT type FROM fact ORDER BY type")]
    assert types == ["delivery.failed", "due.dead"]


async def test_a_channel_that_is_not_set_up_fails_for_good_and_says_so(ledger: Ledger, ben: int) -> None:
    await tell(ledger, ben)
    await Sending(ledger).drain()
    assert await ends(ledger) == [("failed", "no_channel")]
