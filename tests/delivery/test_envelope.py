"""The envelope of a fact, the types of facts, and the placeholders of a message: pure, held to their words."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soonish.clock import zone
from soonish.delivery.model.facts import (
    DATA_BYTES,
    ENVELOPE_BYTES,
    KERNEL,
    FactType,
    FactTypes,
    envelope,
    subscriptions,
    too_large,
)
from soonish.delivery.model.texts import fill, left, local
from tests.support.schema import Document

UID = UUID("0b9f6f4e-5c2b-4a55-9a6c-0f8f3f3a4e21")
WIRE = UUID("3a1e0000000040008000000000000001")
AT = datetime(2026, 12, 1, 17, tzinfo=UTC)
ROW: dict[str, Any] = {
    "wire_id": WIRE, "type": "game.reminder_due", "subject": "game/17", "cause": "game/17/fact/reminder_due/60/g1",
    "occurred_at": AT, "due_at": AT, "data": '{"game_id": 17, "reminder_minutes": 60}',
}  # fmt: skip


# --- the envelope


def test_the_envelope_is_compact_and_in_the_order_of_the_contract() -> None:
    assert envelope(ROW, UID, "main") == (
        b'{"specversion":"1.0","id":"fct_3a1e0000000040008000000000000001",'
        b'"source":"urn:soonish:0b9f6f4e-5c2b-4a55-9a6c-0f8f3f3a4e21:main","type":"game.reminder_due",'
        b'"time":"2026-12-01T17:00:00Z","timestamp":"2026-12-01T17:00:00Z","subject":"game/17",'
        b'"cause":"game/17/fact/reminder_due/60/g1","dueat":"2026-12-01T17:00:00Z",'
        b'"datacontenttype":"application/json","data":{"game_id":17,"reminder_minutes":60}}'
    )


def test_what_a_fact_has_not_is_left_out_for_no_attribute_of_an_event_may_be_empty() -> None:
    sent = json.loads(envelope({**ROW, "subject": "", "due_at": None}, UID, "main"))
    assert not {"subject", "dueat"} & set(sent)


def test_numbers_and_letters_of_the_data_stay_as_the_database_wrote_them() -> None:
    data = '{"a": 1.10, "b": 12345678901234567890123, "c": "Zoë \\" \\\\ ☂", "d": [ ], "e": {"f": null}}'
    sent = envelope({**ROW, "data": data}, UID, "main")
    assert sent.endswith(
        '"data":{"a":1.10,"b":12345678901234567890123,"c":"Zoë \\" \\\\ ☂","d":[],"e":{"f":null}}}'.encode()
    )


def test_two_tries_have_the_same_bytes() -> None:
    assert envelope(dict(ROW), UID, "main") == envelope(dict(reversed(ROW.items())), str(UID), "main")


def test_an_envelope_of_the_greatest_fact_fits() -> None:
    data = json.dumps({"a": "x" * (DATA_BYTES - 10)})
    assert not too_large(json.loads(data))
    row = {**ROW, "data": data, "cause": "\U0001f382" * 200, "subject": "\U0001f382" * 200}
    assert len(envelope(row, UID, "w" * 40)) <= ENVELOPE_BYTES


@pytest.mark.parametrize(
    "data", [{"a": "x" * DATA_BYTES}, {"a": "☂" * 6000}, {"a": [1e300] * 60}, {"a": [1e-300] * 60}]
)
def test_data_beyond_sixteen_kib_is_too_large_counted_as_the_database_keeps_it(data: dict[str, Any]) -> None:
    assert too_large(data)


# --- types


def test_every_example_of_a_type_is_as_its_schema_says() -> None:
    for one in FactTypes():
        assert list(Document({}).misfits(one.schema, one.example, one.name)) == []


def test_the_kernel_states_what_the_contract_lists() -> None:
    fields = {one.name: sorted(one.schema["properties"]) for one in KERNEL}
    person, endpoint = ["changed", "person_id"], ["endpoint_id", "reason"]
    delivery = ["cause", "delivery_id", "person_id", "reason"]
    assert fields == {
        "person.created": person, "person.updated": person, "person.removed": person,
        "address.disabled": ["address_id", "person_id", "reason"],
        "endpoint.disabled": endpoint, "endpoint.enabled": endpoint,
        "delivery.failed": delivery, "delivery.unknown": delivery,
        "due.dead": ["due_id", "key", "kind", "reason"], "soonish.test": ["endpoint_id"],
    }  # fmt: skip


def reminder(name: str = "game.reminder_due") -> FactType:
    return FactType(name=name, ladder="short", schema={"type": "object"}, example={})


def test_an_endpoint_may_ask_for_a_type_a_family_all_and_what_users_make_up() -> None:
    types = FactTypes([reminder()])
    known = ["*", "game.*", "game.reminder_due", "person.*", "custom.*", "custom.sale", "custom.sale.made"]
    assert [one for one in known if not types.knows(one)] == []
    unknown = [
        "",
        "**",
        ".*",
        "game",
        "game.*.x",
        "gam.*",
        "game.reminder",
        "custom",
        "custom.Sale",
        "custom.a.b.c",
        "g*",
    ]
    assert [one for one in unknown if types.knows(one)] == []


def test_a_fact_fits_its_type_its_family_and_all() -> None:
    assert subscriptions("game.reminder_due") == ["game.reminder_due", "game.*", "*"]
    assert subscriptions("custom.sale.made") == ["custom.sale.made", "custom.*", "*"]


def test_ladders_are_told_by_the_type_and_are_long_for_what_users_make_up() -> None:
    types = FactTypes([reminder()])
    assert (types.ladder("game.reminder_due"), types.ladder("custom.sale"), types.ladder("person.created")) == (
        "short", "long", "long",
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", ["game", "Game.due", "custom.mine", "game.due.at.noon", "game." + "x" * 60, "person.created"]
)
def test_a_type_that_cannot_be_one_is_refused_when_it_is_registered(name: str) -> None:
    with pytest.raises(ValueError, match="fact type"):
        FactTypes([reminder(name)])


# --- placeholders


def told(text: str, *, now: datetime = AT, locale: str = "en", **merge: Any) -> str:
    return fill(text, now=now, name="Ben", zone=zone("Europe/Berlin"), locale=locale, merge=merge)


def test_a_person_is_called_by_name_and_told_the_time_of_their_wall() -> None:
    text = "Hello {{name}}, at {{local:2026-12-01T18:00:00Z}}"
    assert told(text) == "Hello Ben, at Tue 1 Dec 2026 19:00 CET"
    assert told(text, locale="de") == "Hello Ben, at 01.12.2026 19:00 CET"
    assert told(text, locale="en-US") == "Hello Ben, at Tue Dec 1 2026 7:00 PM CET"
    assert told("{{local:2026-07-01T18:00:00+00:00}}", locale="xx") == "2026-07-01 20:00 CEST"


def test_a_zone_without_a_name_for_its_time_is_told_from_utc() -> None:
    assert local(AT, zone("America/Sao_Paulo"), "pt-BR") == "01/12/2026 14:00 UTC-03"


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (timedelta(seconds=-5), "0 seconds"),
        (timedelta(seconds=1), "1 second"),
        (timedelta(seconds=45), "45 seconds"),
        (timedelta(seconds=59.996), "1 minute"),
        (timedelta(seconds=119), "1 minute"),
        (timedelta(minutes=14, seconds=59.99), "15 minutes"),
        (timedelta(hours=1), "1 hour"),
        (timedelta(hours=2, minutes=5), "2 hours 5 minutes"),
        (timedelta(hours=47, minutes=59), "47 hours 59 minutes"),
        (timedelta(hours=48), "2 days"),
        (timedelta(days=3, hours=4, minutes=50), "3 days 4 hours"),
    ],
)
def test_what_is_left_is_told_in_one_unit_or_two(gap: timedelta, words: str) -> None:
    assert left(gap) == words
    assert told(f"{{{{left:{(AT + gap).isoformat()}}}}}") == words


def test_merged_words_are_filled_and_unknown_ones_stay() -> None:
    assert told("{{game}} {{ seats }} {{other}} {{local:soon}} {{left:}} {{name:x}}", game="Chess", seats=4) == (
        "Chess 4 {{other}} {{local:soon}} {{left:}} {{name:x}}"
    )


def test_what_a_value_brings_along_is_not_filled_again() -> None:
    assert told("{{game}}", game="{{name}} {{secret}}", secret="x") == "{{name}} {{secret}}"


@given(st.text(alphabet="{}: nameleftlocal2026-01T:Z\n", max_size=60))
def test_no_text_can_break_the_filling(text: str) -> None:
    assert isinstance(told(text), str)
