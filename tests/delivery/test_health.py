"""How a target does is read off its tries: health, circuit, and when it is left for good."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soonish.db.pool import Database
from soonish.delivery.channel import SENT, Outcome, failed, refused, unknown
from soonish.delivery.model.health import Health, Limits, Noun, Tried, after_tries
from soonish.delivery.model.letters import Message, Recipient
from tests.support.ledger import Ledger
from tests.support.receiver import Receiver
from tests.support.sending import Sending

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
LIMITS = Limits(5, timedelta(seconds=30), timedelta(minutes=15), timedelta(days=5))
WELL = Health("ok", None, 0, 0, 0, None, None, 0, None, None, None)
BUSY, NO, DOUBT = failed("http_503", status=503), refused("http_404", status=404), unknown("timeout")
DAY = timedelta(days=1)


def after(*outcomes: Outcome, noun: Noun = "endpoint", before: Health = WELL, every: float = 1.0) -> Health:
    """After these tries, so many seconds apart."""
    tries = [Tried(one, NOW + timedelta(seconds=n * every), probe=False) for n, one in enumerate(outcomes)]
    return after_tries(before, tries, noun, LIMITS)


def test_one_failure_makes_it_failing_and_one_success_well_again() -> None:
    failing = after(BUSY, BUSY)
    assert (failing.health, failing.fails, failing.misses, failing.failing_since) == ("failing", 2, 2, NOW)
    assert (failing.last_failed_at, failing.last_error) == (NOW + timedelta(seconds=1), "http_503")
    well = after(SENT, before=failing)
    assert (well.health, well.fails, well.misses, well.failing_since, well.last_ok_at) == ("ok", 0, 0, None, NOW)


def test_five_failures_in_a_row_that_may_pass_open_the_circuit_and_permanent_ones_do_not() -> None:
    assert after(*[BUSY] * 4).circuit_until is None
    opened = after(*[BUSY, DOUBT, BUSY, DOUBT, BUSY])
    assert (opened.circuit_step, opened.circuit_until) == (1, NOW + timedelta(seconds=4 + 30))
    assert after(*[BUSY] * 4, NO, *[BUSY] * 4).circuit_until is None
    assert after(*[BUSY] * 4, SENT, *[BUSY] * 4).circuit_until is None


def test_each_probe_that_fails_doubles_the_wait_up_to_the_longest_and_one_that_succeeds_closes() -> None:
    state, waits = after(*[BUSY] * 5), []
    for n in range(7):
        at = NOW + n * DAY / 24
        state = after_tries(state, [Tried(BUSY, at, probe=True)], "endpoint", LIMITS)
        assert state.circuit_until
        waits.append((state.circuit_until - at).total_seconds())
    assert waits == [60, 120, 240, 480, 900, 900, 900]
    closed = after_tries(state, [Tried(SENT, NOW, probe=True)], "endpoint", LIMITS)
    assert (closed.circuit_until, closed.circuit_step, closed.misses) == (None, 0, 0)


def test_what_was_under_way_when_the_circuit_opened_makes_it_no_longer() -> None:
    opened = after(*[BUSY] * 5)
    assert after(BUSY, before=opened).circuit_until == opened.circuit_until
    assert after(BUSY, before=opened).circuit_step == 1


def test_who_asks_for_a_pause_is_left_alone_for_as_long() -> None:
    state = after(failed("http_429", status=429, retry_after=100))
    assert (state.circuit_until, state.circuit_step) == (NOW + timedelta(seconds=100), 1)


def test_five_refusals_in_a_row_disable_an_address_with_their_reason_and_no_endpoint() -> None:
    assert after(*[NO] * 4, noun="address").health == "failing"
    assert after(*[NO] * 4, BUSY, *[NO] * 4, noun="address").health == "failing"
    disabled = after(*[NO] * 5, noun="address")
    assert (disabled.health, disabled.disabled_reason, disabled.circuit_until) == ("disabled", "http_404", None)
    assert after(*[NO] * 9, noun="endpoint").health == "failing"
    assert after(BUSY, before=disabled, noun="address") == disabled, "what comes later says nothing new"


def test_an_endpoint_that_is_gone_says_so_itself() -> None:
    state = after(refused("http_410", status=410))
    assert (state.health, state.disabled_reason) == ("disabled", "gone")


@pytest.mark.parametrize(
    ("fails", "days", "health"),
    [(19, 6.0, "failing"), (20, 4.9, "failing"), (20, 5.0, "disabled"), (40, 5.0, "disabled")],
)
def test_an_endpoint_is_disabled_when_it_failed_for_days_and_often(fails: int, days: float, health: str) -> None:
    state = after(*[BUSY] * fails, every=days * 86_400 / (fails - 1))
    assert (state.health, state.disabled_reason) == (health, "failing" if health == "disabled" else None)
    assert state.fails == fails


async def test_an_address_that_keeps_refusing_is_disabled_told_of_and_skipped_from_then_on(db: Database) -> None:
    ledger = await Ledger.of(db)

    class Refusing:
        async def send(self, *_: Any) -> Outcome:
            return NO

        async def close(self) -> None:
            pass

    async with Receiver() as receiver:
        sending = Sending(ledger, channels={"apprise": Refusing()})
        ben = await ledger.person()
        phone = await ledger.address(ben, kind="apprise", target="json://127.0.0.1")
        await ledger.endpoint(receiver.url, fact_types=["address.*"])
        for n in range(6):
            async with db.transaction(1) as tx:
                await ledger.outbox.tell(tx, f"message/{n}", Message(title="a", body="b"), [Recipient(ben)])
            await sending.drain()
        await sending.drain()
        await sending.close()
    ends = [(one["state"], one["reason"]) for one in await ledger.deliveries() if one["person_id"]]
    assert ends == [*[("failed", "http_404")] * 5, ("skipped", "no_address")]
    assert await ledger.value("SELECT (health, disabled_reason) = ('disabled', 'http_404') FROM address")
    [fact] = await ledger.rows("SELECT data::text FROM fact WHERE type = 'address.disabled'")
    assert f'"address_id": {phone}' in fact["data"]
    assert f'"person_id": {ben}' in fact["data"]
    assert '"reason": "http_404"' in fact["data"]
    assert len(receiver.arrivals) == 1
