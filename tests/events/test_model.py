"""The rules of events by themselves: times, changes, offsets, defaults, facts."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from soonish.delivery.model.facts import FactTypes
from soonish.events.model import changes, facts, offsets, times
from soonish.events.model.defaults import UNSAID, holding
from soonish.events.model.events import Event
from soonish.events.model.subscriptions import Subscription
from soonish.events.model.terms import Terms
from soonish.reminders import leads

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TERMS = Terms(
    reminder_engine="due", reminder_offsets=(86_400, 3_600), default_duration=timedelta(days=1), coalesce=timedelta(),
    reminder_late=HOUR, merge_after=timedelta(seconds=30), reminder_hold="quiet", footer="email", max_notifications=100,
    resend=timedelta(seconds=30), round=timedelta(seconds=60), watch=HOUR, watch_grace=timedelta(seconds=60),
    join_ttl=timedelta(days=1), join_pause=timedelta(minutes=10), join_per_mailbox_day=5, join_per_event_hour=500,
)  # fmt: skip


def event(**more: Any) -> Event:
    start = more.get("start_date", NOW + 2 * HOUR)
    values: dict[str, Any] = dict.fromkeys(Event.__struct_fields__) | {
        "id": 12, "workspace_id": 1, "name": "Party", "description": "", "location": "Yard", "timezone": "UTC",
        "start_date": start, "effective_end_date": start + 24 * HOUR, "is_public": False, "state": "scheduled",
        "show_time_in": "event", "reminder_engine": "due", "uid": UUID(int=1), "sequence": 0, "link_generation": 0,
        "planned_at": NOW - HOUR, "version": 1, "created_at": NOW - HOUR, "updated_at": NOW - HOUR, "read_at": NOW,
    }  # fmt: skip
    return Event(**values | more)


def subscription(**more: Any) -> Subscription:
    values: dict[str, Any] = dict.fromkeys(Subscription.__struct_fields__) | {
        "id": 88, "event_id": 12, "person_id": 9, "state": "active", "source": "api", "activations": 1,
        "activated_at": NOW - HOUR, "asked_at": NOW - HOUR, "version": 1, "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip
    return Subscription(**values | more)


@pytest.mark.parametrize(
    ("state", "end", "is_open"),
    [("scheduled", HOUR, True), ("live", HOUR, True), ("live", -HOUR, False), ("live", 0 * HOUR, False)]
    + [(state, HOUR, False) for state in ("draft", "cancelled", "completed")],
)
def test_an_event_is_open_while_it_is_active_and_its_end_is_ahead(state: Any, end: timedelta, is_open: bool) -> None:
    assert event(state=state, effective_end_date=NOW + end).is_open is is_open


@pytest.mark.parametrize(
    ("start", "end", "fields"),
    [
        (HOUR, None, []),
        (-HOUR, 2 * HOUR, []),
        (-HOUR - timedelta(seconds=1), 2 * HOUR, [("start_date", "in_past")]),
        (3_654 * 24 * HOUR, None, [("start_date", "too_far")]),
        (HOUR, HOUR, [("end_date", "end_before_start")]),
        (-HOUR / 2, -HOUR / 4, [("end_date", "in_past")]),
        (HOUR, HOUR + timedelta(days=366), []),
        (HOUR, HOUR + timedelta(days=366, seconds=1), [("end_date", "too_far")]),
    ],
)
def test_times_lie_where_they_are_of_use(start: timedelta, end: timedelta | None, fields: list[Any]) -> None:
    at, until = NOW + start, None if end is None else NOW + end
    effective = until or at + timedelta(days=1)
    assert [(one.field, one.code) for one in times.complaints(NOW, at, until, effective)] == fields


def test_what_was_not_set_is_named_by_what_was() -> None:
    start, end = NOW + 3 * HOUR, NOW + 2 * HOUR
    [moved] = times.complaints(NOW, start, end, end, end_set=False)
    assert (moved.field, moved.code) == ("start_date", "end_before_start")
    [ended] = times.complaints(NOW, NOW - HOUR / 2, None, NOW - HOUR / 4, start_set=False)
    assert (ended.field, ended.code) == ("end_date", "in_past")
    assert list(times.complaints(NOW, NOW - 9 * HOUR, NOW - 8 * HOUR, NOW, start_set=False, end_set=False)) == []


def test_seconds_are_whole() -> None:
    some = NOW + timedelta(microseconds=1)
    assert (times.whole(some), times.next_whole(some)) == (NOW, NOW + timedelta(seconds=1))
    assert times.next_whole(NOW) == NOW


def test_a_change_is_what_differs_as_json_has_it() -> None:
    wish = {"name": "Party", "location": "Hall", "start_date": NOW, "reminder_offsets": [60], "is_public": False}
    found = changes.differing(event(), wish)
    assert found == {
        "location": {"old": "Yard", "new": "Hall"},
        "start_date": {"old": "2026-12-01T14:00:00Z", "new": "2026-12-01T12:00:00Z"},
        "reminder_offsets": {"old": None, "new": [60]},
    }
    assert list(changes.visible(found)) == ["start_date", "location"]
    assert changes.heard(found | {"description": {"old": "", "new": "x"}}) == {
        "start_date": "2026-12-01T12:00:00Z", "location": "Hall", "description_updated": True,
        "reminders_changed": True,
    }  # fmt: skip


def test_several_changes_become_what_is_left_of_them() -> None:
    def row(note: str | None, **fields: Any) -> dict[str, Any]:
        said = {name: {"old": old, "new": new} for name, (old, new) in fields.items()}
        return {"changes": msgspec.json.encode(said), "note": note}

    rows = [
        row("One", location=("Yard", "Hall"), name=("Old", "New")),
        row(None, location=("Hall", "Yard")),
        row("Two"),
    ]
    left = changes.gather(rows, event(name="Party"))
    assert left.changes == {"name": {"old": "Old", "new": "Party"}}
    assert left.notes == ["One", "Two"]


def test_offsets_come_from_the_subscription_the_event_or_the_default() -> None:
    default = [60]
    assert offsets.effective(subscription(), event(), default) == [60]
    assert offsets.effective(subscription(), event(reminder_offsets=[]), default) == []
    assert offsets.effective(subscription(reminder_offsets=[5]), event(reminder_offsets=[7]), default) == [5]
    assert offsets.effective(subscription(reminder_offsets=[]), event(reminder_offsets=[7]), default) == []
    assert [offsets.source(subscription(reminder_offsets=own), event(reminder_offsets=of_event)) for own, of_event in (
        ([1], [2]), (None, [2]), (None, None),
    )] == ["the subscription's own", "the event's", "the workspace's default"]  # fmt: skip


@pytest.mark.parametrize(
    ("ahead", "more", "state"),
    [
        (HOUR, {}, "planned"),
        (timedelta(), {}, "planned"),
        (-HOUR / 2, {"start_date": NOW + HOUR}, "planned"),
        (-HOUR / 2, {"start_date": NOW + HOUR, "planned_at": NOW}, "past"),
        (-2 * HOUR, {"planned_at": NOW - 9 * HOUR}, "past"),
        (HOUR, {"state": "cancelled"}, "past"),
        (HOUR, {"state": "draft"}, "planned"),
    ],
)
def test_a_reminder_is_planned_as_long_as_it_may_come(ahead: timedelta, more: dict[str, Any], state: str) -> None:
    party = event(**more)
    offset = int((party.start_date - NOW - ahead).total_seconds())
    [one] = offsets.reminders(subscription(reminder_offsets=[offset]), party, [], {}, HOUR)
    assert (one.moment, one.state) == (NOW + ahead, state)


def test_a_reminder_that_may_not_come_any_more_was_missed_and_the_ledger_knows_better() -> None:
    one, party = subscription(asked_at=NOW - 9 * HOUR, reminder_offsets=[0, 60]), event(
        start_date=NOW - HOUR / 2, planned_at=NOW - 9 * HOUR, state="live"
    )  # fmt: skip
    told = {60: {"state": "sent", "reason": None}}
    assert [each.state for each in offsets.reminders(one, party, [], {}, HOUR)] == ["missed", "missed"]
    assert [each.state for each in offsets.reminders(one, party, [], told, HOUR)] == ["missed", "sent"]


def test_a_lead_is_over_at_the_start_and_at_the_start_itself_a_while_later() -> None:
    assert leads.in_order([60, 0, 60, 3_600]) == [3_600, 60, 0]
    assert leads.moment(NOW, 60) == NOW - timedelta(seconds=60)
    assert [leads.is_over(NOW, lead, NOW) for lead in (1, 0)] == [True, False]
    late = NOW + leads.AT_THE_START
    assert [leads.is_over(NOW, 0, late + timedelta(seconds=n)) for n in (0, 1)] == [False, True]


def test_a_workspace_decides_and_else_the_operator() -> None:
    assert holding(None, TERMS) == holding(UNSAID, TERMS)
    own = msgspec.structs.replace(UNSAID, reminder_offsets=[], default_duration_s=60, coalesce_s=5)
    found = holding(own, TERMS)
    assert (found.reminder_offsets, found.duration, found.coalesce) == (
        [], timedelta(seconds=60), timedelta(seconds=5),
    )  # fmt: skip


def test_each_type_of_facts_has_an_example_of_its_schema() -> None:
    types = {one.name: one for one in FactTypes(facts.FACT_TYPES)}
    assert len(facts.FACT_TYPES) == 7
    for one in facts.FACT_TYPES:
        assert set(one.schema["required"]) == set(one.example)
        assert set(one.example["event"]) == set(facts.data_of(event())["event"])
        assert types[one.name].ladder == ("short" if one.name == facts.REMINDER_DUE else "long")


def test_a_change_that_is_too_much_for_a_fact_names_its_fields_alone() -> None:
    long = {"link": {"old": "x" * 9_000, "new": "y" * 9_000}, "description": {"old": "a", "new": "b"}}
    found = facts.updated(event(), long, told=True, broadcast_id=1, note=None)
    assert found["changes"] == {"link": {"changed": True}, "description": {"changed": True}}
    short = facts.updated(event(), {"name": {"old": "a", "new": "b"}}, told=False, broadcast_id=None, note="n")
    assert short["changes"] == {"name": {"old": "a", "new": "b"}}
