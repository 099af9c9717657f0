"""The promise of reminders against a model: whatever people do and in whichever order, each gets their own, once."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from soonish.due import Put, put
from tests.support.parties import Parties

# The clock goes in steps of 100 seconds; no start, no moment and no limit of lateness lies near a step, so that the
# seconds that a slow machine takes for the test itself change nothing.
LEADS = (90, 190, 290, 390, 490)
BESIDE = 30
STEPS = 40


@dataclass
class Wish:
    """What one person wants: None = as the event says."""

    leads: list[int] | None
    asked: int
    active: bool = True


@dataclass
class Model:
    """The rules in a few lines: seconds since the test began stand for moments."""

    start: int
    leads: list[int]
    planned: int = 0
    now: int = 0
    wishes: dict[str, Wish] = field(default_factory=dict)
    told: Counter[tuple[str, int]] = field(default_factory=Counter)
    merged: Counter[tuple[str, int]] = field(default_factory=Counter)

    def pass_time(self, seconds: int) -> None:
        before, self.now = self.now, self.now + seconds
        if self.now >= self.start:
            return
        for name, wish in self.wishes.items():
            wanted = self.leads if wish.leads is None else wish.leads
            for lead in wanted if wish.active else ():
                moment = self.start - lead
                if before < moment <= self.now and moment >= max(wish.asked, self.planned):
                    nearer = any(other < lead and self.start - other <= self.now for other in wanted)
                    (self.merged if nearer else self.told)[name, lead] += 1


@dataclass
class Play:
    """The same moves over HTTP and in the model."""

    parties: Parties
    event: dict[str, Any]
    model: Model
    dice: random.Random
    people: dict[str, int]
    subscriptions: dict[str, int] = field(default_factory=dict)

    def some_leads(self) -> list[int]:
        return sorted(self.dice.sample(LEADS, self.dice.randrange(4)), reverse=True)

    def path(self, name: str) -> str:
        return f"/v1/events/{self.event['id']}/subscriptions/{self.subscriptions[name]}"

    async def join(self, name: str) -> None:
        wish = self.model.wishes.get(name)
        leads = self.dice.choice([None, self.some_leads()])
        if wish is None or not wish.active:
            made = await self.parties.subscribe(self.event, self.people[name], reminder_offsets=leads)
            self.subscriptions[name] = made["id"]
            self.model.wishes[name] = Wish(leads, self.model.now)
        elif wish.leads != leads:
            await self.parties.api.patch(self.path(name), {"reminder_offsets": leads})
            self.model.wishes[name] = Wish(leads, self.model.now)

    async def leave(self, name: str) -> None:
        if name in self.subscriptions:
            await self.parties.api.delete(self.path(name))
            self.model.wishes[name].active = False

    async def move(self, _name: str) -> None:
        ahead = 100 * self.dice.randrange(1, 9) + BESIDE
        answer = await self.parties.change(self.event, start_date=await self.parties.at(ahead), notify=False)
        assert answer.status == 200, answer.body
        self.model.start, self.model.planned = self.model.now + ahead, self.model.now

    async def offer(self, _name: str) -> None:
        leads = self.some_leads()
        await self.parties.change(self.event, reminder_offsets=leads)
        if leads != self.model.leads:
            self.model.leads, self.model.planned = leads, self.model.now

    async def repeat(self, _name: str) -> None:
        """Items that fire once more, for this start or another one, tell nobody anything."""
        shown = (await self.parties.api.get(f"/v1/events/{self.event['id']}")).json
        start = self.dice.choice([shown["start_date"], await self.parties.at(60)])
        lead = self.dice.choice(LEADS)
        if self.model.start - lead <= self.model.now:
            payload = {"start_date": start, "offset_seconds": lead}
            wish = Put("events.reminder", f"{self.event['id']}/{lead}", await self.parties.now(), payload)
            async with self.parties.house.db.transaction(self.parties.house.id) as tx:
                await put(tx, [wish], only_new=True)
            await self.parties.work()

    async def wait(self, _name: str) -> None:
        seconds = 100 * self.dice.randrange(1, 4)
        self.model.pass_time(seconds)
        await self.parties.later(seconds)


@pytest.mark.parametrize("seed", [1, 109])
async def test_each_gets_their_own_reminders_once_and_nobody_elses(parties: Parties, seed: int) -> None:
    dice = random.Random(seed)
    people = {name: await parties.guest(name) for name in ("Ann", "Ben", "Cid", "Dan")}
    event = await parties.event(800 + BESIDE, 86_000, reminder_offsets=[290, 90])
    play = Play(parties, event, Model(800 + BESIDE, [290, 90]), dice, people)
    for name in people:
        await play.join(name)
    moves = [play.join, play.join, play.leave, play.move, play.offer, play.repeat, *[play.wait] * 5]
    for _ in range(STEPS):
        await dice.choice(moves)(dice.choice(list(people)))
        assert await _ledger(parties, "d.state = 'sent'") == play.model.told
    assert await _ledger(parties, "d.reason = 'merged'") == play.model.merged
    assert play.model.told
    rows = await parties.house.rows(
        """SELECT FROM delivery d JOIN subscription s ON s.id = (d.merge ->> 'subscription_id')::bigint
           WHERE s.person_id <> d.person_id"""
    )
    assert rows == []


async def _ledger(parties: Parties, condition: str) -> Counter[tuple[str, int]]:
    """Who has what on record: name and lead."""
    rows = await parties.house.rows(
        f"SELECT d.person_id, d.cause FROM delivery d WHERE {condition} AND d.cause LIKE 'event/%/reminder/%'"
    )
    return Counter((parties.names[row["person_id"]], int(row["cause"].split("/")[3])) for row in rows)
