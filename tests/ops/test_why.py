"""Why: of a delivery, a due item, a person; as sentences, as steps in order, and over HTTP."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from soonish.due import Kind, Put, put
from soonish.due.loop.loop import drain
from soonish.ops.actions.handed import Ops
from soonish.ops.actions.why import why_delivery
from soonish.ops.actions.why_person import why_person
from soonish.ops.model.why import About, Step, Story, in_order, teller_of
from soonish.web.auth import Caller, Role
from tests.ops.conftest import KIND, at, dead, due
from tests.ops.test_pages import words
from tests.support.due import Handler
from tests.support.site import House, Site
from tests.support.telling import address, end, endpoint, on_record, person, state, tell

HOUR = timedelta(hours=1)


async def why(house: House, what: str, number: int, query: str = "") -> Any:
    answer = await house.read.get(f"/v1/why/{what}/{number}{query}")
    assert answer.status == 200, answer.body
    return answer.json


def texts(told: Any, what: str) -> list[str]:
    return [step["text"] for step in told["steps"] if step["what"] == what]


# --- a delivery


async def test_why_of_a_sent_delivery_names_asker_promise_target_tries_and_end(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    await on_record(acme, "make", "message/12")
    [one] = await tell(product, acme, "message/12", ben)
    await end(acme, one, "sent", late_ms=4)
    told = await why(acme, "delivery", one)
    assert re.fullmatch(
        r"Ben was told “Doors open” by phone at \d\d:\d\d:\d\d\.\d{3} Berlin on \w{3} \d+ \w{3} \d{4}, "
        r"4 ms after the moment, because key .+ made message 12\.",
        told["sentence"],
    )
    assert re.match(r"Key .* made message 12, by request [0-9a-f-]{36}\.", texts(told, "asked")[0])
    assert texts(told, "planned")[0].startswith("It was written, promised for ")
    assert texts(told, "audience") == ["Ben was among those to be told, by the address “phone”."]
    assert texts(told, "fired") == ["It came due, and was taken up 4 ms after the moment."]
    assert texts(told, "tried") == ["Try 1 went well after 81 ms."]
    assert texts(told, "ended") == ["It was sent."]
    moments = [step["at"] for step in told["steps"]]
    assert moments == sorted(moments)


async def test_why_of_a_failed_delivery_has_each_try_with_the_answer(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await end(acme, one, "pending", "http_503")
    await end(acme, one, "failed", "http_503")
    told = await why(acme, "delivery", one)
    assert "was not told “Doors open” by phone after 2 tries: the other side answered 503" in told["sentence"]
    assert "with “busy”" in told["sentence"]
    assert len(texts(told, "tried")) == 2
    assert texts(told, "tried")[0].startswith("Try 1 failed after 81 ms: the other side answered 503, with “busy”")
    assert texts(told, "ended") == ["It was given up: the other side answered 503."]


async def test_why_of_what_nobody_knows_says_so(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await end(acme, one, "unknown", "timeout")
    told = await why(acme, "delivery", one)
    assert told["sentence"].startswith("Ben may have been told “Doors open” by phone at ")
    assert told["sentence"].endswith("there was no answer in time, so nobody can know.")


async def test_why_of_a_skipped_delivery_is_its_reason(product: Site) -> None:
    acme = product.acme
    [one] = await tell(product, acme, "message/12", await person(acme, "Ann"))
    told = await why(acme, "delivery", one)
    assert told["sentence"] == "Ann was not told “Doors open”, on purpose: there is no address."
    assert texts(told, "audience") == ["Ann was among those to be told, but there is no address."]
    assert texts(told, "ended") == ["It was left out on purpose: there is no address."]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("quiet_hours", "Quiet hours hold it."),
        ("circuit_open", "Its target kept failing and is left alone for a while."),
        ("rate_limited", "There is more for its target at once than may be sent."),
    ],
)
async def test_why_of_a_held_delivery_says_what_holds_it_and_until_when(product: Site, reason: str, said: str) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await acme.run("UPDATE delivery SET reason = $2, next_at = now() + interval '3 hours' WHERE id = $1", one, reason)
    told = await why(acme, "delivery", one)
    assert texts(told, "held") == [f"{said} Then it is tried."]
    assert f"({said[0].lower()}{said[1:-1]})" in told["sentence"]
    assert told["sentence"].startswith("Ben will be told “Doors open” by phone at ")


async def test_a_pause_stands_among_the_steps_of_what_waits(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await acme.admin.post("/v1/ops/pauses", {"kind": "delivery.send", "reason": "mail server moves"})
    told = await why(acme, "delivery", one)
    assert texts(told, "held") == [
        "The kind delivery.send is paused (mail server moves); it waits until that is resumed."
    ]


async def test_an_endpoint_hears_a_fact_because_of_its_list(product: Site) -> None:
    acme = product.acme
    await endpoint(acme, "crm", "birthday.due", "game.*")
    [one] = await state(product, acme, "game/17/fact/60", "game.reminder_due")
    await end(acme, one, "sent")
    told = await why(acme, "delivery", one)
    assert told["sentence"].startswith("crm was told of game.reminder_due by webhook at ")
    assert told["sentence"].endswith("because it hears of game.*.")
    assert texts(told, "audience") == ["The endpoint “crm” hears of game.reminder_due."]


async def test_a_vanished_thing_is_told_from_what_was_noted(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    noted = {
        "rule": "Reminder 60 minutes before “Dragon night”.", "item": 7, "audience": "Ben had a seat.",
        "because": "he had a seat", "actor": "key:1", "request_id": "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f",
    }  # fmt: skip
    [one] = await tell(product, acme, "game/17/reminder/60", ben, because=noted)
    await acme.run("DELETE FROM address")
    await acme.run("DELETE FROM person")
    told = await why(acme, "delivery", one)
    assert told["sentence"].startswith(f"Person {ben} will be told “Doors open” by console now")
    assert told["sentence"].endswith("because he had a seat.")
    assert texts(told, "planned")[0] == noted["rule"] or noted["rule"] in texts(told, "planned")
    assert noted["audience"] in texts(told, "audience")
    assert re.match(r"Key .* asked for it, by request 6f2ab7c4", texts(told, "asked")[0])
    assert [step["ref"] for step in told["steps"] if step["text"] == noted["rule"]] == ["/why/due/7"]


async def test_a_retry_by_hand_is_among_the_steps(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await end(acme, one, "failed", "http_503")
    await acme.write.post(f"/v1/deliveries/{one}/retry")
    told = await why(acme, "delivery", one)
    assert re.match(rf"Key “Writer” retried delivery {one}, by request", texts(told, "asked")[-1])


async def test_a_slice_tells_its_own_causes(product: Site) -> None:
    acme, process = product.acme, product.process
    assert process
    ben = await person(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "game/17/reminder/60", ben)
    await end(acme, one, "sent")
    asked: list[About] = []

    async def teller(_tx: Any, about: About) -> Story | None:
        asked.append(about)
        step = Step(at=datetime(2020, 1, 1, tzinfo=UTC), what="planned", text="A rule of the guild: 60 minutes before.")
        return Story(because="he has a seat in “Dragon night”", steps=[step])

    ops = Ops(health=process.health, tellers={"game": teller})
    caller = Caller(workspace_id=acme.id, role=Role.READ, actor="key:1", person_id=None, request_id="-")
    told = await why_delivery(acme.db, ops, caller, one)
    assert told.sentence.endswith("because he has a seat in “Dragon night”.")
    assert told.steps[0].text == "A rule of the guild: 60 minutes before."
    assert [(about.name, about.person_id) for about in asked] == [("game/17/reminder/60", ben)]


async def test_why_of_others_is_not_there(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    [one] = await tell(product, acme, "message/12", ben)
    await acme.put(Put(KIND, "a", at(1)))
    [item] = await due(acme, f"?kind={KIND}")
    for path in (f"delivery/{one}", f"person/{ben}", f"due/{item['id']}"):
        assert (await product.main.admin.get(f"/v1/why/{path}")).status == 404
        assert (await acme.read.get(f"/v1/why/{path.partition('/')[0]}/999999")).status == 404


# --- a person


async def test_why_of_a_person_tells_what_came_what_did_not_and_what_is_due(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    nothing = await why(acme, "person", ben)
    assert nothing == {"sentence": "Ben was told nothing yet, and nothing is on its way.", "steps": []}
    [skipped] = await tell(product, acme, "message/1", ben, title="Early bird")
    await address(acme, ben)
    [sent] = await tell(product, acme, "message/2", ben)
    await end(acme, sent, "sent")
    [coming] = await tell(product, acme, "message/3", ben, title="Last call", send_at=at(2))
    told = await why(acme, "person", ben)
    assert told["sentence"].startswith(
        "Ben was told 1 thing, was not told 1 thing, on purpose, and will be told 1 thing. The first was written at "
    )
    assert [(step["what"], step["ref"]) for step in told["steps"]] == [
        ("ended", f"/why/delivery/{skipped}"),
        ("ended", f"/why/delivery/{sent}"),
        ("planned", f"/why/delivery/{coming}"),
    ]  # fmt: skip
    assert told["steps"][0]["text"] == "“Early bird” was not sent, on purpose: there is no address."
    assert told["steps"][1]["text"] == "“Doors open” was sent by phone, 4 ms after the moment."
    soon = datetime.now(UTC) + HOUR
    assert (await why(acme, "person", ben, f"?since={soon.isoformat().replace('+00:00', 'Z')}"))["steps"] == []
    assert len((await why(acme, "person", ben, "?cause_prefix=message/2"))["steps"]) == 1


async def test_a_message_that_waits_is_due_next_for_whom_it_names(product: Site) -> None:
    acme = product.acme
    ben, ann, cat = await person(acme), await person(acme, "Ann"), await person(acme, "Cat")
    await address(acme, ann, tags=["choir"])
    later = at(3).isoformat()
    for to in ({"person_ids": [ben]}, {"tag": "choir"}):
        message = {"to": to, "title": "Rehearsal", "body": "At eight", "send_at": later}
        assert (await acme.write.post("/v1/messages", message)).status == 202
    for one in (ben, ann):
        told = await why(acme, "person", one)
        assert told["sentence"].endswith("was told nothing yet, and will be told 1 thing.")
        assert texts(told, "planned") == ["“Rehearsal” will be told."]
    assert (await why(acme, "person", cat))["steps"] == []
    assert (await why(acme, "person", ben, "?cause_prefix=game/"))["steps"] == []


async def test_why_a_person_heard_nothing_is_the_step_at_which_the_chain_ended(product: Site) -> None:
    acme = product.acme
    ben, ann = await person(acme), await person(acme, "Ann")
    await address(acme, ann)
    await on_record(acme, "make", "message/12")
    await tell(product, acme, "message/12", ann)
    told = await why(acme, "person", ben, "?cause_prefix=message/12")
    assert told["sentence"].startswith("Ben was not told.")
    assert "“Doors open” was told to others; Ben was not among them." in texts(told, "audience")
    assert len(texts(told, "asked")) == 1
    lost = await why(acme, "person", ben, "?cause_prefix=game/17/reminder")
    assert lost["sentence"] == "Ben was not told: nothing on record has a cause that begins with game/17/reminder."


async def test_a_slice_says_where_its_chain_ended_and_what_it_will_tell(product: Site) -> None:
    acme, process = product.acme, product.process
    assert process
    ben = await person(acme)

    async def teller(_tx: Any, about: About) -> Story | None:
        assert about.person_id == ben
        return Story(steps=[Step(at=at(-1), what="audience", text="Ben had left the game.")])

    async def ahead(_tx: Any, person_id: int, _since: Any, _until: Any) -> list[Step]:
        return [Step(at=at(5), what="planned", text=f"A birthday of person {person_id}.")]

    ops = Ops(health=process.health, tellers={"game": teller}, ahead=[ahead])
    caller = Caller(workspace_id=acme.id, role=Role.READ, actor="key:1", person_id=None, request_id="-")
    told = await why_person(acme.db, ops, caller, ben, cause_prefix="game/17/reminder/60")
    assert told.sentence == "Ben was not told. The last that is on record: Ben had left the game."
    assert [step.text for step in told.steps] == ["Ben had left the game.", f"A birthday of person {ben}."]


async def test_an_erased_person_has_no_name_in_any_answer(product: Site) -> None:
    acme = product.acme
    ben = await person(acme, "Benjamin Button")
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await acme.run("UPDATE person SET erased_at = now()")
    for told in (await why(acme, "delivery", one), await why(acme, "person", ben)):
        assert "Benjamin" not in str(told)
        assert f"Person {ben}" in told["sentence"]


# --- a due item


async def test_why_of_an_item_that_died_was_pulled_and_lives_again(product: Site) -> None:
    acme = product.acme
    [died] = await dead(product, "a")
    told = await why(acme, "due", died)
    assert told["sentence"].startswith("“Shop: reminder a” died at ")
    assert told["sentence"].endswith(": its tries were used up.")
    assert "The try failed: RuntimeError: no luck" in texts(told, "tried")[0]
    await acme.write.post("/v1/ops/dead/retry", {"ids": [died]})
    told = await why(acme, "due", died)
    assert re.match(r"Key “Writer” retried due item \d+", texts(told, "asked")[0])
    assert texts(told, "ended")[0].endswith("It was let live again later.")


async def test_why_of_an_item_that_was_done_is_still_found(product: Site) -> None:
    acme = product.acme
    await acme.put(Put(KIND, "a"))
    [item] = await due(acme, f"?kind={KIND}")
    await drain(product.db.loops, [Kind(KIND, Handler())])
    told = await why(acme, "due", item["id"])
    assert "was done at" in told["sentence"]
    assert texts(told, "ended") == ["It was done."]


async def test_an_item_leads_to_the_deliveries_that_it_caused(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben, send_at=at(1))
    [item] = await due(acme, "?kind=delivery.send")
    assert (item["label"], item["link"]) == ("Tell Ben “Doors open” by phone", f"/deliveries/{one}")
    told = await why(acme, "due", item["id"])
    assert f"/why/delivery/{one}" in [step["ref"] for step in told["steps"]]
    await acme.put(Put("delivery.message", "12", at(1)))
    [item] = await due(acme, "?kind=delivery.message")
    told = await why(acme, "due", item["id"])
    assert f"/why/delivery/{one}" in [step["ref"] for step in told["steps"]]


async def test_the_operator_may_ask_of_the_systems_own(product: Site) -> None:
    async with product.db.transaction(0) as tx:
        await put(tx, [Put("system.housekeeping", "daily", at(3))])
    [item] = await product.main.admin.every("/v1/ops/due?system=true")
    answer = await product.main.admin.get(f"/v1/why/due/{item['id']}")
    assert answer.json["sentence"].startswith("“Tidy up")
    assert (await product.acme.admin.get(f"/v1/why/due/{item['id']}")).status == 404


# --- pages


async def test_the_pages_of_why_show_the_sentence_and_the_line_of_time(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    await on_record(acme, "make", "message/12")
    [one] = await tell(product, acme, "message/12", ben, send_at=at(1))
    [item] = await due(acme, "?kind=delivery.send")
    reader, admin = await acme.browser("read"), await acme.browser()
    for what, number in (("delivery", one), ("due", item["id"]), ("person", ben)):
        told = await why(acme, what, number)
        shown = await words(reader, f"/why/{what}/{number}")
        assert told["sentence"] in shown
        for step in told["steps"]:
            assert step["text"] in shown
    path = f"/why/delivery/{one}"
    record = 'href="/settings/record?entity=message/12"'
    assert record in (await admin.get(path, accept="text/html")).body.decode()
    assert record not in (await reader.get(path, accept="text/html")).body.decode()
    assert "nothing on record has a cause" in await words(reader, f"/why/person/{ben}?cause_prefix=game/1")


# --- rules


def test_steps_of_one_moment_stand_as_one_leads_to_another() -> None:
    steps = [Step(at=at_, what=what, text="-") for at_, what in ((at(1), "ended"), (None, "held"), (at(0), "planned"))]  # type: ignore[arg-type]
    moment = at(3)
    same = [Step(at=moment, what=what, text="-") for what in ("ended", "tried", "asked", "audience")]
    assert [step.what for step in in_order(steps)] == ["planned", "held", "ended"]
    assert [step.what for step in in_order(same)] == ["asked", "audience", "tried", "ended"]
    assert in_order([]) == []


def test_the_longest_prefix_of_whole_words_tells() -> None:
    async def one(_tx: Any, _about: About) -> None: ...

    async def two(_tx: Any, _about: About) -> None: ...

    tellers: Any = {"game": one, "game.reminder": two, "game/17": two}
    assert teller_of(tellers, "game.reminder") is two
    assert teller_of(tellers, "game.start") is one
    assert teller_of(tellers, "game/17/reminder") is two
    assert teller_of(tellers, "game/18") is one
    assert teller_of(tellers, "games/18") is None
