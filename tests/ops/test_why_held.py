"""Why it waited: holds, pauses and moves that are over are told as steps of their own, and nothing else is noted."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from soonish.due import Again, Kind, Put
from soonish.due.loop.loop import drain
from soonish.vault import Vault, make_key
from tests.ops.conftest import KIND, at, due, work
from tests.ops.test_why import texts, why
from tests.support.due import Handler
from tests.support.receiver import Receiver
from tests.support.site import House, Site, site
from tests.support.telling import address, endpoint, person, state, tell

CLOCK = r"\d\d:\d\d:\d\d(\.\d{3})? Berlin on \w{3} \d+ \w{3} \d{4}"


@pytest.fixture
async def product(database_url: str, tmp_path: Path) -> AsyncIterator[Site]:
    async with site(database_url, tmp_path, egress_allow="127.0.0.0/8") as opened:
        yield opened


async def again(product: Site, change: str = "SELECT 1", *values: Any) -> None:
    """Something changes, and what waits is looked at now."""
    await product.acme.run(change, *values)
    await product.acme.run("UPDATE due.due SET wake_at = now() WHERE lane < 10")
    await work(product)


async def in_quiet_hours(house: House, **more: Any) -> int:
    """Somebody whose quiet hours began an hour ago and end in two."""
    now = datetime.now(UTC)
    quiet: dict[str, Any] = {
        "quiet_start": (now - timedelta(hours=1)).time(),
        "quiet_end": (now + timedelta(hours=2)).time(),
    }
    return await person(house, timezone="UTC", **(quiet | more))


async def test_each_hold_that_is_over_is_a_step_with_its_reason_and_until_when(product: Site) -> None:
    acme = product.acme
    ben = await in_quiet_hours(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await work(product)
    await again(product, "UPDATE person SET quiet_start = NULL, quiet_end = NULL")
    told = await why(acme, "delivery", one)
    [held] = texts(told, "held")
    assert re.fullmatch(f"Quiet hours held it until {CLOCK}\\.", held)
    whats = [step["what"] for step in told["steps"]]
    assert whats.index("fired") < whats.index("held") < whats.index("tried") < whats.index("ended")


async def test_holds_in_a_row_for_one_reason_are_one_that_lasts_longer(product: Site) -> None:
    acme = product.acme
    ben = await in_quiet_hours(acme)
    phone = await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await work(product)
    shut = "UPDATE address SET circuit_until = now() + $2::interval, circuit_step = 1 WHERE id = $1"
    await acme.run("UPDATE person SET quiet_start = NULL, quiet_end = NULL")
    for hours in (1, 2, 3):
        await again(product, shut, phone, timedelta(hours=hours))
    told = await why(acme, "delivery", one)
    assert [text.partition(" until ")[0] for text in texts(told, "held")] == [
        "Quiet hours held it",
        "Its target kept failing, and is left alone since then. It was looked at 3 times.",
        "Its target kept failing and is left alone for a while. Then it is tried.",
    ]  # fmt: skip
    await again(product, "UPDATE address SET circuit_until = NULL, circuit_step = 0")
    told = await why(acme, "delivery", one)
    quiet, circuit = texts(told, "held")
    assert quiet.startswith("Quiet hours held it until ")
    assert re.fullmatch(
        f"Its target kept failing and was left alone until {CLOCK}\\. It was looked at 3 times\\.", circuit
    )
    [row] = await acme.rows("SELECT jsonb_array_length(holds) AS n, state FROM delivery")
    assert (row["n"], row["state"]) == (2, "sent")


async def test_who_waits_for_a_slot_of_a_rate_is_told_so_after_it(product: Site) -> None:
    acme = product.acme
    async with Receiver() as receiver:
        config = f'{{"url": "{receiver.url}"}}'
        await endpoint(acme, "crm", "custom.*", config=config, rate_per_second=1)
        first, second = [(await state(product, acme, f"thing/{n}"))[0] for n in range(2)]
        await work(product)
        await again(product)
    told = [texts(await why(acme, "delivery", one), "held") for one in (first, second)]
    assert sorted(map(len, told)) == [0, 1]
    [[held]] = [one for one in told if one]
    assert held.startswith("There was more for its target at once than may be sent: it waited for its turn until ")


async def test_whom_a_message_was_for_is_told_as_it_was_asked(product: Site) -> None:
    acme = product.acme
    ben, ann = await person(acme), await person(acme, "Ann")
    phone = await address(acme, ben, tags=["choir", "loud"])
    await address(acme, ann)
    tagged, named = "everybody who has an address with the tag “choir” when it is told", "one person, by name"
    asked: list[tuple[dict[str, Any], Any, str]] = [
        ({"tag": "choir"}, None, f"{tagged}, by all of their addresses."),
        ({"person_ids": [ben, ann]}, [{"tag": "loud"}], "2 people, by name, by the addresses “loud”."),
        ({"person_ids": [ben]}, [{"address_id": phone}], f"{named}, by the addresses number {phone}."),
        ({"person_ids": [ben]}, [], f"{named}, and muted: it chooses no address."),
    ]
    for to, selectors, words in asked:
        body = {"title": "a", "body": "b", "to": to, "selectors": selectors}
        made = await acme.write.post("/v1/messages", body)
        await work(product)
        [one] = await acme.rows(
            "SELECT id FROM delivery WHERE message_id = $1 AND person_id = $2", made.json["id"], ben
        )
        audience = texts(await why(acme, "delivery", one["id"]), "audience")
        assert f"It is for {words}" in audience


async def test_what_was_never_held_has_no_note_of_it_anywhere(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    [one] = await tell(product, acme, "message/12", ben)
    await work(product)
    assert texts(await why(acme, "delivery", one), "held") == []
    [row] = await acme.rows("SELECT d.holds, p.notes FROM delivery d JOIN due.due_past p ON p.key = d.id::text")
    assert (row["holds"], row["notes"]) == (None, None)


@pytest.mark.parametrize("everywhere", [False, True])
async def test_a_pause_that_is_over_is_a_step_of_what_it_kept(product: Site, everywhere: bool) -> None:
    acme = product.acme
    ben = await person(acme)
    await address(acme, ben)
    who, where = (product.main, "?everywhere=true") if everywhere else (acme, "")
    pause = {"kind": "delivery.send", "reason": "mail server moves"} | ({"everywhere": True} if everywhere else {})
    assert (await who.admin.post("/v1/ops/pauses", pause)).status == 201
    await work(product)
    [one] = await tell(product, acme, "message/12", ben)
    [far] = await tell(product, acme, "message/13", ben, send_at=at(5))
    assert (await who.admin.delete(f"/v1/ops/pauses/delivery.send{where}")).status == 204
    await work(product)
    told = await why(acme, "delivery", one)
    [held] = texts(told, "held")
    assert re.fullmatch(
        f"It stood still until {CLOCK}, for delivery\\.send was paused \\(mail server moves\\)\\.", held
    )
    assert texts(await why(acme, "delivery", far), "held") == []
    [row] = await acme.rows("SELECT id FROM due.due_past WHERE kind = 'delivery.send'")
    assert held in texts(await why(acme, "due", row["id"]), "held")


async def test_what_waits_for_a_key_that_is_missing_says_so(product: Site) -> None:
    acme = product.acme
    ben = await person(acme)
    phone = await address(acme, ben, kind="apprise", scheme="json")
    stranger = Vault.from_setting(make_key())
    sealed = stranger.seal(b"json://127.0.0.1:9/", (acme.id, "address", "target", phone))
    await acme.run("UPDATE address SET target = $1", sealed)
    [one] = await tell(product, acme, "message/12", ben)
    await work(product)
    [held] = texts(await why(acme, "delivery", one), "held")
    assert held.startswith("It was put back once without a try, the last time for Unavailable: ")
    await acme.run("UPDATE due.due SET wake_at = now() + interval '1 hour'")  # whatever passes until it is looked at
    [item] = await due(acme, "?kind=delivery.send")
    told = await why(acme, "due", item["id"])
    assert held in texts(told, "held")
    assert texts(told, "tried") == []
    assert " is held at " in told["sentence"]


async def test_an_item_tells_its_moves_and_its_holds_apart(product: Site) -> None:
    acme = product.acme
    for hours in (1, 2, 3):
        await acme.put(Put(KIND, "a", at(hours)))
    [item] = await due(acme, f"?kind={KIND}")
    told = await why(acme, "due", item["id"])
    moves = [text for text in texts(told, "planned") if "moved" in text]
    assert len(moves) == 2
    assert all(re.fullmatch(f"It was moved from {CLOCK} to {CLOCK}\\.", text) for text in moves)
    assert texts(told, "planned")[0].startswith("It was put, promised for ")
    assert texts(told, "held") == []
    await acme.put(Put(KIND, "a", at(-1)))
    handler = Handler(Again(after=0), Again(after=0), RuntimeError("no luck"))
    await drain(product.db.loops, [Kind(KIND, handler)])
    told = await why(acme, "due", item["id"])
    assert texts(told, "held") == ["It was put back 2 times without a try, for want of a place or on its own wish."]
    assert texts(told, "tried") == ["The try failed: RuntimeError: no luck"]
    assert len([text for text in texts(told, "planned") if "moved" in text]) == 3
