"""How a target does: its health, and the circuit that leaves it alone for a while.

Pure: what happened comes in, in its order, and the new state goes out. What is put aside meanwhile is not known here.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias

from soonish.delivery.channel import Outcome

Noun: TypeAlias = Literal["address", "endpoint"]

REFUSALS: Final = 5  # permanent failures in a row that disable an address
FAILS: Final = 20  # failed tries without which no endpoint is disabled for failing long
GONE: Final = "http_410"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the operator decided."""

    circuit_after: int
    circuit_first: timedelta
    circuit_most: timedelta
    disable_after: timedelta


@dataclass(frozen=True, slots=True)
class Health:
    """An address or an endpoint, as far as its tries change it."""

    health: str
    disabled_reason: str | None
    fails: int
    refusals: int
    misses: int
    failing_since: datetime | None
    circuit_until: datetime | None
    circuit_step: int
    last_ok_at: datetime | None
    last_failed_at: datetime | None
    last_error: str | None


class Tried(NamedTuple):
    """One try: how it ended, when, and whether it was the probe of an open circuit."""

    outcome: Outcome
    at: datetime
    probe: bool


def after_tries(before: Health, tries: Iterable[Tried], noun: Noun, limits: Limits) -> Health:
    """The state after some tries."""
    state = before
    for tried in tries:
        if tried.outcome.result in ("sent", "partial"):
            state = _after_success(state, tried.at)
        elif state.health != "disabled":
            state = _after_failure(state, tried, noun, limits)
    return state


def _after_success(state: Health, at: datetime) -> Health:
    health = "ok" if state.health == "failing" else state.health
    return replace(
        state, health=health, fails=0, refusals=0, misses=0, failing_since=None, circuit_until=None, circuit_step=0,
        last_ok_at=at,
    )  # fmt: skip


def _after_failure(state: Health, tried: Tried, noun: Noun, limits: Limits) -> Health:
    outcome, permanent = tried.outcome, tried.outcome.permanent
    state = replace(
        state,
        health="failing" if state.health == "ok" else state.health,
        fails=state.fails + 1,
        refusals=state.refusals + 1 if permanent else 0,
        misses=0 if permanent else state.misses + 1,
        failing_since=state.failing_since or tried.at,
        last_failed_at=tried.at,
        last_error=outcome.code,
    )
    if reason := _disabled_for(state, tried, noun, limits):
        return replace(state, health="disabled", disabled_reason=reason, circuit_until=None, circuit_step=0)
    return _circuit(state, tried, limits)


def _disabled_for(state: Health, tried: Tried, noun: Noun, limits: Limits) -> str | None:
    if noun == "address":
        return tried.outcome.code if state.refusals >= REFUSALS else None
    if tried.outcome.code == GONE:
        return "gone"
    long = state.failing_since is not None and tried.at - state.failing_since >= limits.disable_after
    return "failing" if long and state.fails >= FAILS else None


def _circuit(state: Health, tried: Tried, limits: Limits) -> Health:
    """Open it, or leave it as it is: what was under way when it opened says nothing new."""
    open_already = state.circuit_until is not None and state.circuit_until > tried.at
    until = state.circuit_until
    step = state.circuit_step
    if tried.probe or (not open_already and state.misses >= limits.circuit_after):
        step += 1
        until = tried.at + min(limits.circuit_first * 2 ** (step - 1), limits.circuit_most)
    if tried.outcome.retry_after:
        asked = tried.at + timedelta(seconds=tried.outcome.retry_after)
        until, step = max(until or asked, asked), max(step, 1)
    return replace(state, circuit_until=until, circuit_step=step)
