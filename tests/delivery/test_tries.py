"""Whether a delivery is tried now, and what a try means for it: the first reason that holds, and the next step."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soonish.delivery.channel import Outcome, failed, refused, unknown
from soonish.delivery.model.tries import End, Hold, Step, after, before

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
SOON, PAST = NOW + timedelta(hours=1), NOW - timedelta(hours=1)
LADDER = (0.0, 10.0, 60.0)
FREE: dict[str, Any] = {
    "now": NOW, "expires_at": None, "tries": 0, "steps": 0, "doubts": 0, "redirects": 0, "cause": "message/1",
    "person_id": 7, "person_here": True, "paused_until": None, "address_id": 3, "endpoint_id": None,
    "target_here": True, "active": True, "health": "ok", "hold": "quiet", "level": "info",
    "quiet_critical": "send", "circuit_until": None,
}  # fmt: skip
# From the last that counts to the first: each is laid over those before it.
REASONS: list[tuple[dict[str, Any], datetime | None, Any]] = [
    ({"circuit_until": SOON}, None, Hold(SOON, "circuit_open")),
    ({}, SOON, Hold(SOON, "quiet_hours")),
    ({"health": "disabled"}, SOON, End("skipped", "address_disabled")),
    ({"health": "unverified"}, SOON, End("skipped", "address_unverified")),
    ({"active": False}, SOON, End("skipped", "address_inactive")),
    ({"target_here": False}, SOON, End("skipped", "address_gone")),
    ({"paused_until": SOON}, SOON, End("skipped", "paused")),
    ({"person_here": False}, SOON, End("skipped", "person_gone")),
    ({"expires_at": NOW}, SOON, End("skipped", "expired")),
    ({"tries": 1}, SOON, End("failed", "expired")),
]


def test_the_first_reason_of_all_that_hold_is_the_one_that_counts() -> None:
    row = FREE
    assert before(row, None) is None
    for change, quiet, expected in REASONS:
        row = {**row, **change}
        assert before(row, quiet) == expected


@pytest.mark.parametrize(
    ("change", "held"),
    [
        ({}, True),
        ({"hold": "never"}, False),
        ({"level": "critical"}, False),
        ({"level": "critical", "quiet_critical": "hold"}, True),
        ({"hold": "never", "level": "critical", "quiet_critical": "hold"}, False),
    ],
)
def test_quiet_hours_hold_what_may_wait(change: dict[str, Any], held: bool) -> None:
    assert before({**FREE, **change}, SOON) == (Hold(SOON, "quiet_hours") if held else None)


def test_what_is_of_no_use_after_the_quiet_hours_is_skipped_at_once() -> None:
    assert before({**FREE, "expires_at": SOON}, SOON) == End("skipped", "quiet_hours")
    assert before({**FREE, "expires_at": SOON + timedelta(seconds=1)}, SOON) == Hold(SOON, "quiet_hours")


def test_a_mailbox_and_a_machine_have_no_address_that_could_be_off() -> None:
    assert before({**FREE, "address_id": None, "target_here": False, "person_id": None}, None) is None
    machine = {**FREE, "person_id": None, "address_id": None, "endpoint_id": 5}
    assert before({**machine, "target_here": False}, None) == End("skipped", "endpoint_gone")
    assert before({**machine, "health": "disabled"}, None) == End("skipped", "endpoint_disabled")


def step(outcome: Outcome, unknown_people: Any = "retry_once", chance: float = 0.0, **change: Any) -> Step:
    return after({**FREE, **change}, outcome, LADDER, 120.0, unknown_people, chance)


@pytest.mark.parametrize(("steps", "chance", "wait"), [(0, 0.0, 10.0), (0, 1.0, 12.0), (1, 0.0, 60.0), (1, 0.5, 66.0)])
def test_waits_follow_the_ladder_up_to_a_fifth_longer_by_chance(steps: int, chance: float, wait: float) -> None:
    assert step(failed("http_503"), steps=steps, chance=chance) == Step("pending", "http_503", wait=wait)


def test_a_longer_pause_that_was_asked_for_takes_the_place_of_the_step_and_a_shorter_one_does_not() -> None:
    assert step(failed("http_429", retry_after=30.0)).wait == 30.0
    assert step(failed("http_429", retry_after=3.0)).wait == 10.0


def test_a_spent_ladder_ends_it_dead_and_a_refusal_ends_it_alive() -> None:
    assert step(failed("http_503"), steps=2) == Step("failed", "exhausted", dead=True)
    assert step(refused("http_404")) == Step("failed", "http_404")


def test_the_third_redirect_in_a_row_is_the_last() -> None:
    moved = failed("http_301", status=301)
    assert step(moved, redirects=1).state == "pending"
    assert step(moved, redirects=2) == Step("failed", "http_301")


def test_no_try_is_planned_for_when_it_is_of_no_use() -> None:
    assert step(failed("x"), expires_at=NOW + timedelta(seconds=10)) == Step("failed", "expired")
    assert step(failed("x"), expires_at=NOW + timedelta(seconds=11)).state == "pending"
    assert step(unknown("timeout"), expires_at=NOW + timedelta(seconds=60)) == Step("failed", "expired")


@pytest.mark.parametrize(
    ("setting", "doubts", "expected"),
    [
        ("retry_once", 0, Step("pending", "timeout", wait=120.0)),
        ("retry_once", 1, Step("unknown", "timeout")),
        ("never", 0, Step("unknown", "timeout")),
        ("retry", 1, Step("pending", "timeout", wait=10.0)),
    ],
)
def test_a_doubt_is_for_people_what_the_workspace_says(setting: str, doubts: int, expected: Step) -> None:
    assert step(unknown("timeout"), setting, doubts=doubts) == expected


@pytest.mark.parametrize("setting", ["retry_once", "never", "retry"])
def test_a_doubt_is_a_failed_try_for_machines_whatever_the_workspace_says(setting: str) -> None:
    assert step(unknown("timeout"), setting, endpoint_id=5, doubts=3) == Step("pending", "timeout", wait=10.0)
