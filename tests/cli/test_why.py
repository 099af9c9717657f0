"""`soonish why`: of a delivery, a due item, a person; the sentence first, then the steps."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from soonish.due import Lane, Put
from tests.support.service import Service
from tests.support.shell import Done, shell


def why(service: Service, *words: str | int) -> Done:
    return shell("why", *map(str, words), environ=service.settings)


@pytest.fixture
async def told(service: Service) -> dict[str, Any]:
    """Ann, who was told and has no address; the delivery says so."""
    name = f"Ann {uuid4().hex[:8]}"
    async with service.client() as soonish:
        ann = await soonish.post("/v1/people", {"name": name})
        message = {"to": {"person_ids": [ann["id"]]}, "title": "Doors open", "body": "Come in"}
        made = await soonish.post("/v1/messages", message)
        while not (found := [one async for one in soonish.list("/v1/deliveries", message_id=made["id"])]):
            pass
    return {"name": name, "person": ann["id"], "delivery": found[0]["id"], "message": made["id"]}


async def test_of_a_delivery(service: Service, told: dict[str, Any]) -> None:
    done = why(service, "delivery", told["delivery"])
    assert done.code == 0, done.err
    sentence, empty, head, *steps = done.out.splitlines()
    assert sentence == f"{told['name']} was not told “Doors open”, on purpose: there is no address."
    assert (empty, head.split()) == ("", ["at", "what", "text"])
    assert [line.split()[1] for line in steps] == ["asked", "planned", "audience", "ended"]
    assert f"message {told['message']}" in steps[0]


async def test_of_a_person_and_of_what_they_did_not_hear(service: Service, told: dict[str, Any]) -> None:
    done = why(service, "person", told["person"])
    assert f"{told['name']} was not told 1 thing, on purpose." in done.out
    lost = why(service, "person", told["person"], "--cause", "game/17/reminder")
    assert lost.out.splitlines() == [
        f"{told['name']} was not told: nothing on record has a cause that begins with game/17/reminder."
    ]
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert "was told nothing yet" in why(service, "person", told["person"], "--since", later).out
    assert why(service, "person", told["person"], "--until", "soon").code == 1


async def test_of_a_due_item(service: Service) -> None:
    key = uuid4().hex[:8]
    await service.put([Put("test.note", key, datetime.now(UTC) + timedelta(hours=5), lane=Lane.PEOPLE)])
    async with service.client() as soonish:
        [item] = [one async for one in soonish.list("/v1/ops/due", kind="test.note", key_prefix=key)]
    done = why(service, "due", item["id"])
    assert done.out.startswith(f"“Test: note {key}” will happen at ")
    told = why(service, "due", item["id"], "--json")
    assert json.loads(told.out)["sentence"] == done.out.splitlines()[0]


def test_of_what_is_not_there(service: Service) -> None:
    done = why(service, "delivery", 999999)
    assert (done.code, done.out) == (1, "")
    assert "There is no delivery 999999 here" in done.err
    assert why(service, "delivery", 0).code == 2
    assert why(service, "nothing", 1).code == 2
