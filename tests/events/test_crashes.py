"""Workers that are killed at the worst points of a telling: whoever comes next goes on, and nobody is told twice."""

from pathlib import Path

import pytest

from tests.support.lives import KILLED_PATIENCE, another, lives
from tests.support.temporal import Server

AUDIENCE = 12_000


@pytest.mark.timeout(600)
async def test_one_that_dies_after_a_signal_and_one_between_two_pages_leave_nothing_out_and_nothing_twice(
    database_url: str, tmp_path: Path, temporal: Server
) -> None:
    async with lives(database_url, tmp_path, temporal, "serve") as life:
        event_id = await life.event(organizer_id=await life.person("Ann"))
        await life.crowd(event_id, AUDIENCE)
        await life.dies_at("events.signal_sent")
        broadcast_id = await life.announce(event_id)
        await life.dies_at("events.page_told")
        cause = f"event/{event_id}/broadcast/{broadcast_id}"
        told = "SELECT count(*) FROM delivery WHERE cause = $1"
        assert 0 < await life.value(told, cause) < AUDIENCE
        async with another(life):
            await life.until("SELECT state = 'told' FROM broadcast WHERE id = $1", broadcast_id, within=KILLED_PATIENCE)
            await life.all_handled(event_id)
        people = "SELECT count(DISTINCT person_id) FROM delivery WHERE cause = $1"
        assert (await life.value(told, cause), await life.value(people, cause)) == (AUDIENCE, AUDIENCE)
        assert await life.value("SELECT total FROM broadcast WHERE id = $1", broadcast_id) == AUDIENCE
        assert await life.value(told, f"event/{event_id}/created") == 1
