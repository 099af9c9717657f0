"""One try at most for each time that a delivery is due, and all that it means on record."""

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soonish.db.pool import Database
from soonish.delivery.model.letters import Message, Recipient
from soonish.delivery.model.tries import Ladders
from soonish.delivery.outbox import Fact
from soonish.delivery.send.sender import Pace
from tests.support.due import between
from tests.support.ledger import Ledger
from tests.support.receiver import Receiver, Reply
from tests.support.sending import Sending

DOORS = Message(title="Doors open", body="Hello {{name}}")
HOUR = timedelta(hours=1)


@pytest.fixture
async def ledger(db: Database) -> Ledger:
    return await Ledger.of(db)


@pytest.fixture
async def sending(ledger: Ledger) -> AsyncIterator[Sending]:
    one = Sending(ledger)
    yield one
    await one.close()


async def tell(ledger: Ledger, *people: Recipient, message: Message = DOORS, cause: str = "message/1") -> None:
    async with ledger.db.transaction(1) as tx:
        await ledger.outbox.tell(tx, cause, message, people)


async def state(ledger: Ledger, n: int = 1, **changed: Any) -> None:
    fact = {"cause": f"game/{n}", "type": "game.reminder_due", "subject": f"game/{n}", "data": {"n": n}} | changed
    async with ledger.db.transaction(1) as tx:
        await ledger.outbox.state(tx, Fact(**fact))


async def one_delivery(ledger: Ledger) -> dict[str, Any]:
    [delivery] = await ledger.deliveries()
    return delivery


async def facts(ledger: Ledger) -> list[tuple[str, str]]:
    return [(row["type"], row["subject"]) for row in await ledger.rows("SELECT type, subject FROM fact ORDER BY id")]


# --- people


async def test_a_message_in_an_inbox_is_sent_with_one_attempt(ledger: Ledger, sending: Sending) -> None:
    ben = await ledger.person()
    address = await ledger.address(ben)
    await tell(ledger, Recipient(ben))
    assert await sending.drain() == 1
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["reason"], delivery["tries"]) == ("sent", None, 1)
    assert delivery["first_at"] >= delivery["due_at"]
    assert delivery["next_at"] is None
    [attempt] = await sending.attempts()
    assert (attempt["n"], attempt["outcome"], attempt["code"], attempt["repeat"]) == (1, "sent", "ok", False)
    assert await ledger.due() == []
    assert await ledger.value("SELECT last_ok_at FROM address WHERE id = $1", address) is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("DELETE FROM address", "address_gone"),
        ("UPDATE address SET active = false", "address_inactive"),
        ("UPDATE address SET health = 'unverified'", "address_unverified"),
        ("UPDATE address SET health = 'disabled'", "address_disabled"),
        ("UPDATE person SET erased_at = now()", "person_gone"),
        ("UPDATE person SET paused_until = now() + interval '1 day'", "paused"),
    ],
)
async def test_what_changed_between_told_and_sent_is_looked_at_again(
    ledger: Ledger, sending: Sending, change: str, reason: str
) -> None:
    ben = await ledger.person()
    await ledger.address(ben)
    await tell(ledger, Recipient(ben))
    await ledger.run(change)
    await sending.drain()
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["reason"], delivery["tries"]) == ("skipped", reason, 0)
    assert await sending.attempts() == []
    assert await ledger.due() == []


async def test_a_confirmation_reaches_also_who_paused_all_else(ledger: Ledger, sending: Sending) -> None:
    ben = await ledger.person(paused_until=datetime.now(UTC) + HOUR)
    await ledger.address(ben)
    await tell(ledger, Recipient(ben), cause="confirm/7")
    await sending.drain()
    assert (await one_delivery(ledger))["state"] == "sent"


async def test_what_is_too_late_is_skipped_and_never_sent(ledger: Ledger, sending: Sending) -> None:
    ben = await ledger.person()
    await ledger.address(ben)
    await tell(ledger, Recipient(ben), message=Message(title="a", body="b", expires_at=datetime.now(UTC) - HOUR))
    await sending.drain()
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["reason"]) == ("skipped", "expired")


@pytest.mark.parametrize(
    ("level", "critical", "hold", "held"),
    [
        ("warning", "send", "quiet", True),
        ("critical", "send", "quiet", False),
        ("critical", "hold", "quiet", True),
        ("info", "send", "never", False),
    ],
)
async def test_quiet_hours_hold_what_may_wait_until_their_end(
    ledger: Ledger, sending: Sending, level: Any, critical: str, hold: Any, held: bool
) -> None:
    now = datetime.now(UTC)
    around: dict[str, Any] = {"quiet_start": (now - HOUR).time(), "quiet_end": (now + HOUR).time()}
    ben = await ledger.person(timezone="UTC", quiet_critical=critical, **around)
    await ledger.address(ben)
    await tell(ledger, Recipient(ben), message=Message(title="a", body="b", level=level, hold=hold))
    await sending.drain()
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["reason"]) == (("pending", "quiet_hours") if held else ("sent", None))
    if held:
        [item] = await ledger.due()
        assert item["wake_at"].time() == around["quiet_end"]
        assert (item["spared"], delivery["tries"]) == (item["attempts"], 0)
        await ledger.run("UPDATE person SET quiet_start = NULL, quiet_end = NULL")
        await sending.later(hours=2)
        assert (await one_delivery(ledger))["state"] == "sent"


async def test_what_expires_before_the_quiet_hours_end_is_skipped_at_once(ledger: Ledger, sending: Sending) -> None:
    now = datetime.now(UTC)
    ben = await ledger.person(timezone="UTC", quiet_start=(now - HOUR).time(), quiet_end=(now + HOUR).time())
    await ledger.address(ben)
    soon = now + HOUR / 2
    await tell(ledger, Recipient(ben), message=Message(title="a", body="b", expires_at=soon))
    await sending.drain()
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["reason"]) == ("skipped", "quiet_hours")


# --- machines


async def test_a_fact_arrives_in_its_envelope_under_the_wire_id_of_its_delivery(
    ledger: Ledger, sending: Sending
) -> None:
    async with Receiver() as receiver:
        await ledger.endpoint(receiver.url, secret=b"s" * 32)
        await state(ledger)
        await sending.drain()
    [arrival] = receiver.arrivals
    delivery = await one_delivery(ledger)
    assert delivery["state"] == "sent"
    assert arrival.headers["webhook-id"] == arrival.headers["x-idempotency-key"] == f"dlv_{delivery['wire_id'].hex}"
    assert arrival.headers["webhook-signature"].startswith("v1,")
    assert b'"type":"game.reminder_due"' in arrival.body
    assert b":main" in arrival.body


async def test_failures_follow_the_ladder_under_one_id_with_equal_bytes(ledger: Ledger, sending: Sending) -> None:
    async with Receiver(503, 503, 200) as receiver:
        await ledger.endpoint(receiver.url)
        await state(ledger)
        before, _, after = await between(ledger.db.loops, sending.drain())
        delivery = await one_delivery(ledger)
        assert (delivery["state"], delivery["reason"], delivery["steps"]) == ("pending", "http_503", 1)
        assert before <= delivery["next_at"] - timedelta(seconds=5) <= after
        await sending.later(seconds=6)
        assert len(receiver.arrivals) == 2
        await sending.later(minutes=6)
    assert len(set(receiver.ids)) == 1
    assert len({arrival.body for arrival in receiver.arrivals}) == 1
    assert [arrival.headers["soonish-attempt"] for arrival in receiver.arrivals] == ["1", "2", "3"]
    assert [one["code"] for one in await sending.attempts()] == ["http_503", "http_503", "ok"]
    assert (await one_delivery(ledger))["state"] == "sent"


async def test_a_spent_ladder_fails_the_delivery_and_leaves_a_dead_item_that_can_live_again(
    ledger: Ledger, sending: Sending
) -> None:
    async with Receiver(500) as receiver:
        await ledger.endpoint(receiver.url)
        await state(ledger)
        for _ in range(3):
            await sending.later(hours=1)
        delivery = await one_delivery(ledger)
        assert (delivery["state"], delivery["reason"], delivery["tries"]) == ("failed", "exhausted", 3)
        [dead] = await ledger.rows("SELECT * FROM due.due_undone")
        assert (dead["fate"], dead["reason"], dead["last_error"]) == ("dead", "budget", "http_500")
        receiver.answer(200)
        async with ledger.db.transaction(1) as tx:
            from soonish.due import retry

            assert await retry(tx, [dead["id"]], kinds={"delivery.send": sending.kind}) == (1, 0)
        await sending.drain()
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["tries"]) == ("sent", 4)
    assert len(set(receiver.ids)) == 1


async def test_no_try_is_planned_beyond_the_deadline(ledger: Ledger) -> None:
    sending = Sending(ledger, ladders=Ladders(people=(0,), short=(0,), long=(0, 3600), broker=(0,), unknown_pause=1))
    async with Receiver(500) as receiver:
        await ledger.endpoint(receiver.url)
        await state(ledger, deliver_until=datetime.now(UTC) + HOUR / 2)
        await sending.drain()
    await sending.close()
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["reason"], delivery["tries"]) == ("failed", "expired", 1)


@pytest.mark.parametrize(
    ("answers", "tries", "reason"), [([422], 1, "http_422"), ([301, 301, 301], 3, "http_301"), ([404], 1, "http_404")]
)
async def test_what_is_refused_for_good_is_not_tried_again(
    ledger: Ledger, sending: Sending, answers: list[int], tries: int, reason: str
) -> None:
    async with Receiver(*answers) as receiver:
        await ledger.endpoint(receiver.url)
        await state(ledger)
        for _ in range(tries + 1):
            await sending.later(hours=1)
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["reason"], delivery["tries"]) == ("failed", reason, tries)
    assert len(receiver.arrivals) == tries
    assert await ledger.rows("SELECT FROM due.due_undone") == []


async def test_who_asks_for_a_pause_gets_it_and_others_to_it_hold_too(ledger: Ledger, sending: Sending) -> None:
    async with Receiver(Reply(429, headers={"Retry-After": "100"}), 200) as receiver:
        await ledger.endpoint(receiver.url)
        await state(ledger, 1)
        await sending.drain()
        await state(ledger, 2)
        await sending.drain()
        first, second = await ledger.deliveries()
        assert first["next_at"] - datetime.now(UTC) > timedelta(seconds=90)
        assert (second["reason"], second["tries"]) == ("circuit_open", 0)
        assert len(receiver.arrivals) == 1
        await sending.later(seconds=130)
        await sending.drain()
    assert [one["state"] for one in await ledger.deliveries()] == ["sent", "sent"]


async def test_410_disables_the_endpoint_and_skips_what_waits_for_it(ledger: Ledger, sending: Sending) -> None:
    async with Receiver(410) as receiver, Receiver() as other:
        gone = await ledger.endpoint(receiver.url, fact_types=["game.*"])
        await ledger.endpoint(other.url, fact_types=["endpoint.*"])
        await state(ledger, 1)
        await state(ledger, 2, due_at=datetime.now(UTC) + HOUR)
        await sending.drain()
        assert len(receiver.arrivals) == 1
        [told] = other.arrivals
    rows = [(one["state"], one["reason"]) for one in await ledger.deliveries() if one["endpoint_id"] == gone]
    assert rows == [("failed", "http_410"), ("skipped", "endpoint_disabled")]
    assert await ledger.value("SELECT disabled_reason FROM endpoint WHERE id = $1", gone) == "gone"
    assert b'"type":"endpoint.disabled"' in told.body
    assert ("endpoint.disabled", f"endpoint/{gone}") in await facts(ledger)


async def test_failures_in_a_row_open_the_circuit_one_probes_and_then_all_arrive(ledger: Ledger) -> None:
    patient = Ladders(people=(0,), short=(0,), long=(0.0, *[3600.0] * 5), broker=(0,), unknown_pause=1)
    sending = Sending(ledger, ladders=patient)
    async with Receiver(500) as receiver, Receiver() as well:
        bad = await ledger.endpoint(receiver.url)
        await ledger.endpoint(well.url)
        for n in range(5):
            await state(ledger, n)
            await sending.drain()
        assert await ledger.value("SELECT circuit_step FROM endpoint WHERE id = $1", bad) == 1
        for n in range(5, 15):
            await state(ledger, n)
        await sending.drain()
        assert (len(receiver.arrivals), len(well.arrivals)) == (5, 15)
        held = await ledger.rows("SELECT tries FROM delivery WHERE reason = 'circuit_open'")
        assert [row["tries"] for row in held] == [0] * 10
        await sending.later(seconds=31)
        assert len(receiver.arrivals) == 6
        assert await ledger.value("SELECT circuit_step FROM endpoint WHERE id = $1", bad) == 2
        receiver.answer(200)
        await sending.later(seconds=61)
        await sending.later(seconds=61)
        await sending.later(hours=2)
    assert await ledger.value("SELECT (circuit_step, health) = (0, 'ok') FROM endpoint WHERE id = $1", bad)
    assert {one["state"] for one in await ledger.deliveries()} == {"sent"}
    await sending.close()


# --- doubts


@pytest.mark.parametrize(
    ("setting", "codes", "state"),
    [("retry_once", 2, "unknown"), ("never", 1, "unknown"), ("retry", 3, "failed")],
)
async def test_what_nobody_knows_of_is_repeated_to_people_as_the_workspace_says(
    ledger: Ledger, setting: str, codes: int, state: str
) -> None:
    class Doubtful:
        async def send(self, *_: Any) -> Any:
            from soonish.delivery.channel import unknown

            return unknown("timeout")

        async def close(self) -> None:
            pass

    sending = Sending(ledger, channels={"apprise": Doubtful()})
    await ledger.run("UPDATE workspace SET unknown_people = $1", setting)
    ben = await ledger.person()
    await ledger.address(ben, kind="apprise", target="json://127.0.0.1")
    await tell(ledger, Recipient(ben))
    for _ in range(4):
        await sending.later(hours=1)
    delivery = await one_delivery(ledger)
    assert (delivery["state"], delivery["tries"]) == (state, codes)
    assert [one["repeat"] for one in await sending.attempts()] == [False, *[True] * (codes - 1)]
    assert (f"delivery.{state}", f"delivery/{delivery['id']}") in await facts(ledger)


async def test_a_machine_that_hangs_after_reading_is_tried_again_with_the_same_id(ledger: Ledger) -> None:
    hasty, patient = Sending(ledger, timeout=1.0), Sending(ledger)
    async with Receiver(Reply(way="hang"), 200) as receiver:
        await ledger.endpoint(receiver.url)
        await state(ledger)
        await hasty.drain()
        assert [one["outcome"] for one in await hasty.attempts()] == ["unknown"]
        await patient.later(seconds=10)
    assert len(set(receiver.ids)) == 1
    assert (await one_delivery(ledger))["state"] == "sent"
    for one in (hasty, patient):
        await one.close()


async def test_a_try_whose_holder_vanished_is_on_record_before_the_next_one(ledger: Ledger, sending: Sending) -> None:
    async with Receiver() as receiver:
        await ledger.endpoint(receiver.url)
        await state(ledger)
        await ledger.run("UPDATE due.due SET attempts = 1, lease_until = now() - interval '1 s', first_at = now()")
        await sending.drain()
        assert receiver.arrivals == []
        [attempt] = await sending.attempts()
        assert (attempt["outcome"], attempt["code"]) == ("unknown", "interrupted")
        await sending.later(seconds=10)
        assert len(receiver.arrivals) == 1
    assert (await one_delivery(ledger))["state"] == "sent"


# --- pace


async def test_an_address_is_told_no_faster_than_its_rate_after_a_burst(ledger: Ledger) -> None:
    class Fast:
        seen = 0

        async def send(self, *_: Any) -> Any:
            from soonish.delivery.channel import SENT

            Fast.seen += 1
            return SENT

        async def close(self) -> None:
            pass

    slow = Pace(address=0.01, host=0, workspace=0, share=100)  # slower than any machine
    sending = Sending(ledger, pace=slow, channels={"apprise": Fast()})
    ben = await ledger.person()
    await ledger.address(ben, kind="apprise", target="json://127.0.0.1")
    for n in range(25):
        await tell(ledger, Recipient(ben), cause=f"message/{n}")
    await sending.drain()
    assert Fast.seen == 20
    waiting = await ledger.rows("SELECT * FROM delivery WHERE state = 'pending' ORDER BY next_at")
    assert [one["reason"] for one in waiting] == ["rate_limited"] * 5
    gaps = [b["next_at"] - a["next_at"] for a, b in itertools.pairwise(waiting)]
    assert all(timedelta(seconds=90) < gap < timedelta(seconds=110) for gap in gaps)
    await sending.later(seconds=1000)
    assert Fast.seen == 25
