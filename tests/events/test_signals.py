"""What a workflow hears: rows and hands are told apart, nonsense is understood as far as it goes, the order is kept."""

from datetime import UTC, datetime
from typing import Any

import pytest

from soonish.errors import Invalid
from soonish.events.model import signals
from soonish.events.model.by_hand import announcement
from soonish.events.model.signals import Work, changed, end_of, schedule_id, together, work_of


@pytest.mark.parametrize(
    ("name", "payload", "work"),
    [
        ("cancel_event", {"seq": 3}, Work("cancel_event", 3)),
        ("cancel_event", {"seq": 3, "broadcast_id": 7}, Work("cancel_event", 3, broadcast_id=7)),
        ("participant_added", {"seq": 4, "subscription_id": 9, "user_id": 1}, Work("participant_added", 4, None, 9)),
        ("event_updated", {"seq": 5, "location": "Hall"}, Work("event_updated", 5)),
        ("event_updated", {"seq": 5, "start_date": "2026-12-04T18:00:00Z"}, Work("event_updated", 5, moments=True)),
        ("event_updated", {"seq": 5, "reminders_changed": True}, Work("event_updated", 5, moments=True)),
        ("event_updated", {"seq": 5, "broadcast_id": "7"}, Work("event_updated", 5)),
        ("event_updated", {"name": "Other"}, Work("look")),
        ("participant_removed", {"seq": -1}, Work("look")),
        ("participant_removed", {"seq": True}, Work("look")),
        ("cancel_event", {}, Work("cancel_by_hand", mark="m")),
        ("send_manual_notification", {"title": "A"}, Work("announce_by_hand", mark="m", asked={"title": "A"})),
    ],
)
def test_a_signal_is_work(name: str, payload: dict[str, Any], work: Work) -> None:
    assert work_of(name, payload, "m") == work


def test_rows_and_what_was_heard_are_put_in_the_order_of_their_numbers_each_once() -> None:
    hand = Work(signals.ANNOUNCE_BY_HAND, mark="m")
    heard = [Work("event_updated", 4), hand, Work("event_updated", 2)]
    rows = [Work("start", 1), Work("event_updated", 2), Work("event_updated", 3)]
    assert [work.seq for work in together(heard, rows)] == [1, 2, 3, 4, None]
    assert together(heard, rows)[-1] == hand


def test_what_changed_is_told_apart_from_the_rest() -> None:
    assert changed({"seq": 1, "end_date": None, "name": "B", "note": "x"}) == {"end_date": None, "name": "B"}


@pytest.mark.parametrize("said", [{}, {"effective_end_date": None}, {"effective_end_date": "soon"}])
def test_data_without_an_end_have_none(said: dict[str, Any]) -> None:
    assert end_of(said) is None
    assert end_of({"effective_end_date": "2026-12-04T18:00:00"}) is None  # somewhere
    assert end_of({"effective_end_date": "2026-12-04T18:00:00+00:00"}) == datetime(2026, 12, 4, 18, tzinfo=UTC)


def test_a_schedule_has_the_name_of_its_event_subscription_and_offset() -> None:
    assert schedule_id(12, 88, 3_600) == "event-12-sub-88-reminder-3600s"


def test_an_announcement_by_hand_has_the_limits_of_the_api() -> None:
    said = announcement({"title": " News ", "body": "Line\nline", "seq": None})
    assert said == {"title": "News", "body": "Line\nline", "notification_level": "info", "subscription_ids": None}
    wrong = {"title": "two\nlines", "body": "", "notification_level": "loud", "subscription_ids": [1, "2"]}
    with pytest.raises(Invalid) as refused:
        announcement(wrong)
    assert [error.field for error in refused.value.errors] == list(wrong)
