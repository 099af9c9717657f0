"""Put, move, cancel and replan: what the table holds afterwards, and whether the bell rang."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from soonish import due
from soonish.due import Lane, Put
from soonish.due.model import BELL, BELL_HORIZON
from soonish.due.upkeep import install
from tests.support.due import KIND, Handler, ended, kind, live, now, pass_time, put, transaction

FAR = timedelta(days=30)


@pytest.fixture
async def bell(bare_url: str, pool: Any) -> AsyncIterator["Bell"]:
    connection = await asyncpg.connect(bare_url)
    heard = Bell(connection)
    await connection.add_listener(BELL, heard.rang)
    yield heard
    await connection.close()


class Bell:
    """How often it rang: asked in the connection's own order, so that nothing is still under way."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._rings: list[str] = []

    def rang(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        self._rings.append(payload)

    async def rings(self) -> list[str]:
        await self._connection.execute("SELECT 1")
        await asyncio.sleep(0)
        rings, self._rings = self._rings, []
        return rings


async def test_an_item_that_is_put_again_moves_or_stays_the_same(pool: Any) -> None:
    at = await now(pool) + FAR
    first = Put(KIND, "1", at, {"n": 1})
    assert await put(pool, first, Put(KIND, "2", at)) == (2, 0, 0)
    assert await put(pool, first, Put(KIND, "2", at + FAR), Put(KIND, "3", at)) == (1, 1, 1)
    assert await put(pool, Put(KIND, "1", at, {"n": 2})) == (0, 1, 0)
    assert await put(pool, Put(KIND, "1", at, {"n": 3}), only_new=True) == (0, 0, 1)


async def test_a_move_keeps_the_id_and_clears_the_record_of_tries(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    (before,) = await live(pool)
    await pool.execute("UPDATE due.due SET attempts = 5, spared = 1, first_at = now(), last_error = 'x'")
    await put(pool, Put(KIND, "1", await now(pool) + FAR))
    (after,) = await live(pool)
    assert (after["id"], after["attempts"], after["spared"]) == (before["id"], 6, 6)
    assert (after["first_at"], after["last_error"], after["lease_until"]) == (None, None, None)


async def test_without_a_moment_it_always_moves(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    assert await put(pool, Put(KIND, "1")) == (0, 1, 0)


async def test_of_two_wishes_for_one_key_in_one_call_the_later_counts(pool: Any) -> None:
    await put(pool, Put(KIND, "1", payload={"n": 1}), Put(KIND, "1", payload={"n": 2}))
    (row,) = await live(pool)
    assert row["payload"] == '{"n": 2}'


async def test_a_promise_in_the_past_keeps_its_date_and_is_looked_at_now(pool: Any) -> None:
    past = await now(pool) - timedelta(hours=1)
    await put(pool, Put(KIND, "1", past))
    (row,) = await live(pool)
    assert row["due_at"] == past
    assert row["wake_at"] > past + timedelta(minutes=59)


async def test_many_items_go_in_one_call_whatever_differs_among_them(pool: Any) -> None:
    at = await now(pool) + FAR
    items = [
        Put(f"test.k{n % 3}", str(n), at + timedelta(seconds=n), {"n": n}, Lane(n % 3), at + FAR) for n in range(2_500)
    ]
    assert await put(pool, *items) == (2_500, 0, 0)
    rows = {row["key"]: row for row in await live(pool)}
    assert {(int(key), row["lane"], row["payload"]) for key, row in rows.items()} == {
        (n, n % 3, f'{{"n": {n}}}') for n in range(2_500)
    }
    assert rows["7"]["due_at"] == at + timedelta(seconds=7)


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        (Put("nodot", "1"), "write it like"),
        (Put("Test.thing", "1"), "write it like"),
        (Put("a." + "b" * 70, "1"), "at most 64"),
        (Put(KIND, ""), "1 to 200"),
        (Put(KIND, "k" * 201), "1 to 200"),
        (Put(KIND, "1", payload={"text": "x" * 17_000}), "16384 bytes"),
        (Put(KIND, "1", payload={"text": "€" * 6_000}), "16384 bytes"),
        (Put(KIND, "1", payload={"n": float("nan")}), "JSON compliant"),
    ],
)
async def test_what_cannot_be_put_is_refused_before_anything_is_written(pool: Any, item: Put, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        await put(pool, item)
    assert await live(pool) == []


async def test_cancel_ends_live_items_by_key_or_prefix_leased_or_not(pool: Any) -> None:
    at = await now(pool) + FAR
    await put(pool, *(Put(KIND, key, at) for key in ("a", "a/1", "a/2", "b/1")), Put("test.other", "a/1", at))
    await pool.execute("UPDATE due.due SET lease_until = now() + interval '1 hour' WHERE key = 'a/2'")
    async with transaction(pool) as tx:
        assert await due.cancel(tx, KIND, prefix="a/", reason="gone") == 2
        assert await due.cancel(tx, KIND, ["b/1", "nothing"]) == 1
    assert sorted((row["kind"], row["key"]) for row in await live(pool)) == [("test.other", "a/1"), (KIND, "a")]
    assert sorted(await ended(pool)) == [
        ("a/1", "cancelled", "gone"),
        ("a/2", "cancelled", "gone"),
        ("b/1", "cancelled", "cancelled"),
    ]


async def test_a_replan_makes_what_lives_equal_to_what_is_wanted(pool: Any) -> None:
    at = await now(pool) + FAR
    await put(pool, *(Put(KIND, f"e1/{n}", at) for n in range(3)), Put(KIND, "e2/0", at))
    wanted = [
        Put(KIND, "e1/1", at),
        Put(KIND, "e1/2", at + timedelta(hours=1)),
        Put(KIND, "e1/3", at),
        Put(KIND, "e1/4", at - 2 * FAR),
    ]
    async with transaction(pool) as tx:
        plan = await due.replan(tx, KIND, "e1/", wanted)
    assert plan == ((1, 1, 1), 1, ["e1/4"])
    assert {row["key"]: row["due_at"] for row in await live(pool)} == {
        "e1/1": at,
        "e1/2": at + timedelta(hours=1),
        "e1/3": at,
        "e2/0": at,
    }


async def test_a_replan_leaves_an_overdue_item_of_the_same_moment_alone(pool: Any) -> None:
    at = await now(pool) + timedelta(seconds=1)
    await put(pool, Put(KIND, "e1/1", at))
    await pass_time(pool, timedelta(seconds=5))
    (row,) = await live(pool)
    async with transaction(pool) as tx:
        plan = await due.replan(tx, KIND, "e1/", [Put(KIND, "e1/1", row["due_at"])])
    assert plan == ((0, 0, 1), 0, [])


@pytest.mark.parametrize(
    ("wish", "complaint"),
    [(Put(KIND, "e2/1", datetime(2040, 1, 1, tzinfo=UTC)), "is not under"), (Put(KIND, "e1/1"), "no moment")],
)
async def test_a_replan_refuses_what_does_not_belong_to_it(pool: Any, wish: Put, complaint: str) -> None:
    async with transaction(pool) as tx:
        with pytest.raises(ValueError, match=complaint):
            await due.replan(tx, KIND, "e1/", [wish])


async def test_the_bell_rings_once_a_transaction_for_near_moments_and_never_for_far_ones(pool: Any, bell: Bell) -> None:
    at = await now(pool)
    await put(pool, *(Put(KIND, f"far/{n}", at + FAR) for n in range(1_500)))
    assert await bell.rings() == []
    async with transaction(pool) as tx:
        await due.put(tx, [Put(KIND, f"near/{n}", at + timedelta(seconds=BELL_HORIZON - 5)) for n in range(1_500)])
        await due.put(tx, [Put(KIND, "now")])
    assert await bell.rings() == [""]


async def test_the_bell_rings_for_items_that_are_moved_near_or_pulled_forward(pool: Any, bell: Bell) -> None:
    at = await now(pool)
    await put(pool, Put(KIND, "1", at + FAR), Put(KIND, "2", at + FAR))
    await bell.rings()
    await put(pool, Put(KIND, "1", at + 2 * FAR))
    assert await bell.rings() == []
    await put(pool, Put(KIND, "1", at + timedelta(seconds=1)))
    assert await bell.rings() == [""]
    (_, second) = await live(pool)
    async with transaction(pool) as tx:
        assert await due.queue.pull(tx, second["id"])
    assert await bell.rings() == [""]


async def test_claims_and_finishes_ring_no_bell(pool: Any, bell: Bell) -> None:
    await put(pool, Put(KIND, "1"))
    await bell.rings()
    await due.drain(pool, [kind(Handler(due.Again(after=3_600), due.DONE))])
    await pass_time(pool, timedelta(hours=2))
    await due.drain(pool, [kind(Handler())])
    assert await bell.rings() == []
    assert await ended(pool) == [("1", "done", None)]


async def test_the_horizon_is_one_constant_in_code_and_schema(pool: Any) -> None:
    source = await pool.fetchval("SELECT pg_get_functiondef('due.due_ring'::regproc)")
    assert f"interval '{BELL_HORIZON:.0f} seconds'" in source


async def test_two_puts_of_the_same_keys_at_once_do_not_deadlock(pool: Any) -> None:
    at = await now(pool) + FAR

    async def put_all(turn: int) -> None:
        keys = range(300) if turn % 2 else reversed(range(300))
        await put(pool, *(Put(KIND, str(n), at + timedelta(seconds=turn)) for n in keys))

    await asyncio.gather(*(put_all(turn) for turn in range(8)))
    assert len(await live(pool)) == 300


async def test_installing_twice_and_at_once_is_safe(bare_url: str) -> None:
    async with asyncpg.create_pool(bare_url, min_size=0) as pool:
        await asyncio.gather(*(install(pool, "mine") for _ in range(4)))
        assert await pool.fetchval("SELECT count(*) FROM mine.due") == 0
