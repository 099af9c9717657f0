"""The words and verdicts, without a database."""

from datetime import UTC, datetime, timedelta

import pytest

from soonish.ops.model import health, items, pages, upkeep
from soonish.ops.model.health import Check, Facts, ProcessHealth
from soonish.ops.model.items import Pause

NOW = datetime(2026, 12, 1, 18, 0, tzinfo=UTC)
SILENT = ProcessHealth(
    name="a:1:2", role="work", version="1", lanes=["people"], started_at=NOW, seen_s=300.0, silent=True
)


def row(**more: object) -> dict[str, object]:
    return {"leased": False, "lane": 0, "wait": 60.0, "last_error": None} | more


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "waiting"),
        ({"wait": -1.0}, "overdue"),
        ({"last_error": "boom"}, "retrying"),
        ({"last_error": "boom", "wait": -1.0}, "overdue"),
        ({"lane": 11, "wait": -1.0}, "paused"),
        ({"leased": True, "lane": 1, "wait": -1.0}, "leased"),
    ],
)
def test_a_live_item_is_in_one_state(changed: dict[str, object], state: str) -> None:
    assert items.state_of(row(**changed)) == state


def test_a_parked_item_keeps_the_name_of_its_lane() -> None:
    assert [items.lane_name(lane) for lane in (0, 1, 2, 10, 11, 12)] == ["control", "people", "bulk"] * 2


def test_the_explainer_of_the_longest_prefix_of_whole_words_counts() -> None:
    async def explain(tx: object, rows: object) -> list[items.Label]:
        return []

    explainers = {"game": explain, "game.reminder": explain}
    assert items.prefix_of(explainers, "game.reminder.early") == "game.reminder"
    assert items.prefix_of(explainers, "game.reminders") == "game"
    assert items.prefix_of(explainers, "gamer.reminder") is None


def test_lateness_is_counted_to_the_promise_and_absent_where_nobody_claimed() -> None:
    assert items.late_ms(NOW, NOW + timedelta(milliseconds=4)) == 4
    assert items.late_ms(NOW, None) is None


def test_the_worst_check_decides_how_ready_a_process_is() -> None:
    good, waits, bad = Check("ok", ""), Check("degraded", ""), Check("down", "")
    assert health.readiness({"a": good}).status == "ok"
    assert health.readiness({"a": good, "b": waits}).status == "degraded"
    assert health.readiness({"a": bad, "b": waits}).status == "down"


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (health.check_database(False), "down"),
        (health.check_schema("current"), "ok"),
        (health.check_schema("behind"), "down"),
        (health.check_schema("ahead"), "down"),
        (health.check_schema(None), "down"),
        (health.check_loops({}), "ok"),
        (health.check_loops({"people": 59.0}), "ok"),
        (health.check_loops({"people": 61.0}), "down"),
        (health.check_bell(None), "ok"),
        (health.check_bell(False), "degraded"),
        (health.check_temporal(False), "degraded"),
        (health.check_keys(["k1"]), "degraded"),
        (health.check_disk(None), "ok"),
        (health.check_disk(200 * 2**20), "ok"),
        (health.check_disk(200 * 2**20 - 1), "down"),
        (health.check_disk(2**40, refused=True), "down"),
    ],
)
def test_only_database_schema_loops_and_disk_take_a_process_down(check: Check, status: str) -> None:
    assert check.status == status


def test_where_nothing_is_wrong_there_is_no_trouble() -> None:
    assert health.troubles(Facts()) == []
    assert health.verdict([]) == "ok"


def test_each_trouble_names_its_remedy_and_the_worst_comes_first() -> None:
    found = health.troubles(
        Facts(
            dead=2,
            system_dead=1,
            overdue=3,
            oldest_overdue_s=600.0,
            unworked=["bulk"],
            silent=[SILENT],
            pauses=[Pause(kind="*", reason="moving house", everywhere=True)],
            checks={"bell": health.check_bell(False), "disk": health.check_disk(0)},
        )
    )
    assert all(trouble.text and trouble.remedy for trouble in found)
    tones = [trouble.tone for trouble in found]
    assert tones == sorted(tones)
    assert health.verdict(found) == "down"
    assert "2 dead items." in [trouble.text for trouble in found]
    assert "Everything is paused in every workspace: moving house." in [trouble.text for trouble in found]


def test_what_nobody_knows_hides_nothing_of_what_is_late() -> None:
    found = health.troubles(Facts(overdue=2, oldest_overdue_s=600.0, unknown_kinds={"nobody.knows": 1}))
    assert [(one.tone, one.text) for one in found] == [
        ("bad", "1 due item of nobody.knows, a kind that is not known here."),
        ("warn", "2 items overdue, the oldest for 10 min."),
    ]


def test_a_figure_at_which_nobody_counted_on_is_told_as_more() -> None:
    facts = Facts(dead=10_001, system_dead=10_000, overdue=12_000, oldest_overdue_s=600.0)
    assert [one.text for one in health.troubles(facts)] == [
        "More than 10,000 dead items.",
        "10,000 dead items of the system itself.",
        "More than 10,000 items overdue, the oldest for 10 min.",
    ]
    unknown = health.troubles(Facts(unknown_kinds={"a.b": 9_999, "a.c": 1}))
    assert [one.text.partition(" of ")[0] for one in unknown] == ["At least 9,999 due items", "At least 1 due item"]


def test_what_is_dead_silent_or_paused_has_a_red_bar_and_of_these_only_death_takes_the_whole_down() -> None:
    for facts, text, word in (
        (Facts(dead=1), "1 dead item.", "down"),
        (Facts(silent=[SILENT]), "The process a:1:2 (work) has been silent for 5 min.", "degraded"),
        (
            Facts(pauses=[Pause(kind="shop.reminder", reason=None, everywhere=False)]),
            "shop.reminder is paused.",
            "degraded",
        ),
    ):
        [found] = health.troubles(facts)
        assert (found.tone, found.text, health.verdict([found])) == ("bad", text, word)


def test_housekeeping_comes_strictly_after_now_at_03_17_utc() -> None:
    at = datetime(2026, 12, 1, 3, 17, tzinfo=UTC)
    assert upkeep.next_housekeeping(at - timedelta(seconds=1)) == at
    assert upkeep.next_housekeeping(at) == at + timedelta(days=1)


def test_a_registered_secret_is_a_table_and_a_column_and_nothing_else() -> None:
    assert upkeep.Secret("installation", "hmac_key").context(0, 1) == (0, "installation", "hmac_key", 1)
    with pytest.raises(ValueError, match="table and a column"):
        upkeep.Secret("installation; DROP TABLE due", "hmac_key")


def test_the_url_of_a_page_has_the_filters_that_are_set() -> None:
    assert pages.url("/due", {"kind": "a.b", "lane": None, "system": None}) == "/due?kind=a.b"
    assert pages.url("/due", {"system": False}) == "/due?system=false"
    assert pages.url("/due", {"lane": None}) == "/due"
