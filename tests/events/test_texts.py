"""What people are told of an event, word for word."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from soonish.events.model import texts
from soonish.events.model.events import Event

START = datetime(2026, 12, 4, 18, 0, tzinfo=UTC)
BERLIN = "Fri 4 Dec 2026, 19:00 CET (UTC+01:00)"


def event(**more: Any) -> Event:
    values: dict[str, Any] = {
        "id": 12, "workspace_id": 1, "organizer_id": 7, "name": "Garden party", "description": "", "location": "Yard",
        "link": None, "timezone": "Europe/Berlin", "start_date": START, "end_date": None,
        "effective_end_date": START + timedelta(days=1), "is_public": True, "reminder_offsets": None,
        "state": "scheduled", "show_time_in": "event", "reminder_engine": "due",
        "uid": UUID("0b9f0c1e-6f3a-4f0e-9a51-2f7c3f1d2a10"), "sequence": 0, "link_generation": 0,
        "cancel_message": None, "planned_at": START - timedelta(days=30), "published_at": None, "live_at": None,
        "completed_at": None, "cancelled_at": None, "closed_at": None, "version": 1,
        "created_at": START - timedelta(days=30), "updated_at": START - timedelta(days=30), "read_at": START,
    }  # fmt: skip
    return Event(**values | more)


def test_the_organizer_is_told_in_two_lines() -> None:
    assert texts.created(event()) == (
        "Event Created: Garden party", "Your event has been created and is now active.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "early", "title", "words"),
    [
        (86_400, 86_400, "Reminder: Garden party is tomorrow", "tomorrow"),
        (3_600, 3_600, "Starting Soon: Garden party", "in 1 hour"),
        (3_600, 3_570, "Starting Soon: Garden party", "in 1 hour"),
        (3_600, 3_569, "Reminder: Garden party", "in 59 minutes"),
        (5_400, 5_400, "Reminder: Garden party", "in 1 hour 30 minutes"),
        (90_000, 90_000, "Reminder: Garden party", "in 1 day 1 hour"),
        (90_060, 90_060, "Reminder: Garden party", "in 1 day 1 hour"),
        (172_800, 172_800, "Reminder: Garden party", "in 2 days"),
        (45, 45, "Reminder: Garden party", "in 45 seconds"),
        (90, 90, "Reminder: Garden party", "in 1 minute 30 seconds"),
        (0, 0, "Reminder: Garden party", "now"),
        (0, -4, "Reminder: Garden party", "now"),
        (0, -120, "Reminder: Garden party", "now"),
        (86_400, 7_265, "Reminder: Garden party", "in 2 hours 1 minute"),
        (86_400, 86_399 - 30, "Reminder: Garden party", "in 23 hours 59 minutes"),
        (3_600, 59, "Reminder: Garden party", "in 59 seconds"),
        (3_600, 1, "Reminder: Garden party", "in 1 second"),
    ],
)
def test_a_reminder_says_how_long_it_is_until_then(offset: int, early: int, title: str, words: str) -> None:
    found = texts.reminder(event(), offset, START - timedelta(seconds=early))
    assert found == (title, f"Garden party starts {words}.\n\nLocation: Yard\nTime: {BERLIN}")


def test_what_is_empty_has_no_line() -> None:
    bare = event(location="")
    assert texts.reminder(bare, 3_600, START - timedelta(hours=1)).body == (
        f"Garden party starts in 1 hour.\n\nTime: {BERLIN}"
    )
    assert texts.welcome(bare) == ("Subscribed: Garden party", f"Time: {BERLIN}")
    assert texts.welcome(event()).body == f"Time: {BERLIN}\nLocation: Yard"
    assert texts.cancelled(bare).body == texts.cancelled(bare, "").body
    assert texts.cancelled(bare).body == "This event has been cancelled by the organizer."


def test_a_snooze_knows_whether_it_has_begun() -> None:
    where = f"Location: Yard\nTime: {BERLIN}"
    assert texts.snoozed(event(), START - timedelta(seconds=3_599)) == (
        "Reminder: Garden party", f"Garden party starts in 59 minutes.\n\n{where}",
    )  # fmt: skip
    assert texts.snoozed(event(), START).body == f"Garden party has started.\n\n{where}"


def test_an_update_has_a_line_for_each_field_in_one_order_and_then_the_notes() -> None:
    later = "2026-12-04T20:00:00Z"
    changes: dict[str, dict[str, Any]] = {
        "description": {"changed": True},
        "link": {"old": None, "new": "https://x.org/y"},
        "location": {"old": "Yard", "new": ""},
        "timezone": {"old": "UTC", "new": "Europe/Berlin"},
        "end_date": {"old": None, "new": later},
        "start_date": {"old": "2026-12-04T18:00:00Z", "new": START + timedelta(hours=1)},
        "name": {"old": "Garden party", "new": "Barbecue"},
    }
    found = texts.updated(event(name="Barbecue"), changes, ["It will rain.", None, "", "Bring a coat."])
    assert found.title == "Event Update: Barbecue"
    assert found.body.split("\n") == [
        "Event details have been updated:",
        "• Name: Barbecue",
        f"• Start time: Fri 4 Dec 2026, 20:00 CET (UTC+01:00) (was {BERLIN})",
        "• End time: Fri 4 Dec 2026, 21:00 CET (UTC+01:00) (was none)",
        "• Time zone: Europe/Berlin",
        "• Location: none (was Yard)",
        "• Link: https://x.org/y",
        "• Description updated",
        "",
        "It will rain.",
        "",
        "Bring a coat.",
    ]
    gone = texts.updated(
        event(), {"end_date": {"old": later, "new": None}, "link": {"old": "https://x.org", "new": None}}
    )
    assert gone.body.endswith("• End time: none (was Fri 4 Dec 2026, 21:00 CET (UTC+01:00))\n• Link: none")


@pytest.mark.parametrize(
    ("zone", "at", "shown"),
    [
        ("Europe/Berlin", START, BERLIN),
        ("Europe/Berlin", datetime(2026, 7, 1, 18, 0, tzinfo=UTC), "Wed 1 Jul 2026, 20:00 CEST (UTC+02:00)"),
        ("UTC", START, "Fri 4 Dec 2026, 18:00 UTC (UTC+00:00)"),
        ("America/New_York", START, "Fri 4 Dec 2026, 13:00 EST (UTC-05:00)"),
        ("Asia/Kathmandu", START, "Fri 4 Dec 2026, 23:45 (UTC+05:45)"),
        ("America/St_Johns", START, "Fri 4 Dec 2026, 14:30 NST (UTC-03:30)"),
        ("UTC", START + timedelta(seconds=7), "Fri 4 Dec 2026, 18:00:07 UTC (UTC+00:00)"),
    ],
)
def test_a_moment_is_told_by_the_clock_there(zone: str, at: datetime, shown: str) -> None:
    assert texts.moment(event(timezone=zone), at) == shown


def test_times_for_each_reader_are_filled_in_when_it_is_sent() -> None:
    theirs = event(show_time_in="recipient")
    assert texts.welcome(theirs).body.startswith("Time: {{local:2026-12-04T18:00:00Z}}\n")


def test_a_long_title_is_cut_and_no_longer_one_is_ever_made() -> None:
    long = event(name="x" * 255)
    for found in (texts.created(long), texts.cancelled(long), texts.welcome(long), texts.reminder(long, 3_600, START)):
        assert (len(found.title), found.title[-1]) == (200, "…")
    exact = replace(long, name="x" * (200 - len("Subscribed: ")))
    assert texts.welcome(exact).title == f"Subscribed: {exact.name}"


def test_mails_to_a_mailbox_name_the_event_and_how_long_the_link_works() -> None:
    asked = texts.joining(event(), texts.span(86_400))
    assert asked.title == "Please confirm: Garden party"
    assert "{{join_url}}" in asked.body
    assert "works for 1 day." in asked.body
    assert "{{manage_url}}" in texts.joined_already(event()).body


def test_what_others_wrote_is_taken_as_it_is() -> None:
    odd = event(name="<b>&amp;</b> {x} %s", location="{{name}}")
    assert texts.reminder(odd, 3_600, START - timedelta(hours=1)).title == "Starting Soon: <b>&amp;</b> {x} %s"
    assert "Location: {{name}}" in texts.welcome(odd).body
