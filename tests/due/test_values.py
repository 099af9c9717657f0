"""What may be put: instants, payloads and keys arrive as they were given, or are refused before anything is written."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from soonish import due
from soonish.due import Lane, Put
from tests.support.due import KIND, Handler, kind, live, now, put, transaction

FAR = timedelta(days=30)
BERLIN = ZoneInfo("Europe/Berlin")
TOP = "\U0010ffff"


async def keys(pool: Any) -> list[str]:
    return sorted(row["key"] for row in await live(pool))


async def test_two_instants_of_one_zone_that_differ_in_their_fold_stay_an_hour_apart(pool: Any) -> None:
    first = datetime(2040, 10, 28, 2, 30, tzinfo=BERLIN)
    second = first.replace(fold=1)
    await put(pool, Put(KIND, "1", first, expires_at=first), Put(KIND, "2", second, expires_at=second))
    one, two = await live(pool)
    assert two["due_at"] - one["due_at"] == two["expires_at"] - one["expires_at"] == timedelta(hours=1)


async def test_payloads_that_python_calls_equal_stay_what_they_are(pool: Any) -> None:
    await put(pool, Put(KIND, "1", payload={"n": 1}), Put(KIND, "2", payload={"n": True}))
    assert [json.loads(row["payload"]) for row in await live(pool)] == [{"n": 1}, {"n": True}]
    assert (await live(pool))[1]["payload"] == '{"n": true}'


@pytest.mark.parametrize("at", [datetime(2040, 1, 1), datetime(1990, 1, 1)])
async def test_an_instant_without_offset_is_refused_as_moment_and_as_deadline(pool: Any, at: datetime) -> None:
    for wish in (Put(KIND, "1", at), Put(KIND, "1", expires_at=at)):
        with pytest.raises(ValueError, match="needs its offset"):
            await put(pool, wish)
    assert await live(pool) == []


async def test_one_instant_in_two_zones_is_the_same_instant(pool: Any) -> None:
    at = datetime(2040, 7, 1, 12, tzinfo=UTC)
    await put(pool, Put(KIND, "1", at))
    assert await put(pool, Put(KIND, "1", at.astimezone(BERLIN))) == (0, 0, 1)


@pytest.mark.parametrize("at", [datetime(1, 1, 2, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=BERLIN)])
async def test_a_moment_of_the_far_past_is_due_at_once_and_keeps_its_date(pool: Any, at: datetime) -> None:
    await put(pool, Put(KIND, "1", at))
    handler = Handler()
    await due.drain(pool, [kind(handler)])
    (item,) = handler.seen
    assert item.due_at == at
    assert item.late > 1e9


async def test_a_payload_may_be_sixteen_kibibytes_however_many_bytes_a_character_has(pool: Any) -> None:
    frame = len(b'{"text":""}')
    for letter in ("x", "é", "€", "🎂"):
        width = len(letter.encode())
        fits = letter * ((16_384 - frame) // width)
        await put(pool, Put(KIND, letter, payload={"text": fits}))
        with pytest.raises(ValueError, match="16384 bytes"):
            await put(pool, Put(KIND, letter, payload={"text": fits + letter}))
        handler = Handler()
        await due.drain(pool, [kind(handler)])
        assert handler.seen[0].payload == {"text": fits}


@pytest.mark.parametrize(
    ("wish", "complaint"),
    [
        (Put(KIND, "a\x00b"), "none of them NUL"),
        (Put(KIND, "1", payload={"text": "a\x00b"}), "no NUL"),
        (Put(KIND, "1", payload={"text": "\\\x00"}), "no NUL"),
        (Put(KIND, "\ud800"), "surrogates not allowed"),
        (Put(KIND, "1", payload={"text": "\ud800"}), "surrogates not allowed"),
        (Put(KIND, "1", payload={"n": float("inf")}), "JSON compliant"),
    ],
    ids=["nul key", "nul", "nul behind a backslash", "half key", "half a character", "infinite"],
)
async def test_what_no_table_can_keep_is_refused_and_leaves_the_callers_transaction_alive(
    pool: Any, wish: Put, complaint: str
) -> None:
    async with transaction(pool) as tx:
        await due.put(tx, [Put(KIND, "before")])
        with pytest.raises(ValueError, match=complaint):
            await due.put(tx, [wish])
    assert await keys(pool) == ["before"]


async def test_words_that_only_look_like_nul_are_kept(pool: Any) -> None:
    await put(pool, Put(KIND, "1", payload={"text": "\\u0000 \\\\u0000"}))
    handler = Handler()
    await due.drain(pool, [kind(handler)])
    assert handler.seen[0].payload == {"text": "\\u0000 \\\\u0000"}


async def test_keys_are_taken_literally_and_a_prefix_is_a_prefix(pool: Any) -> None:
    names = ["a%b", "a_b", "axb", "a%", "a\\b", "A%b", "ä%"]
    await put(pool, *(Put(KIND, name) for name in names))
    async with transaction(pool) as tx:
        assert await due.cancel(tx, KIND, prefix="a%") == 2
        assert await due.cancel(tx, KIND, prefix="a_") == 1
        assert [row["key"] for row in await due.peek(tx, prefix="a\\")] == ["a\\b"]
    assert await keys(pool) == sorted(["axb", "a\\b", "A%b", "ä%"])


async def test_a_prefix_reaches_to_the_highest_character_there_is(pool: Any) -> None:
    names = ["a", f"a{TOP}", f"a{TOP}{TOP}", f"a{TOP}x", "a" + TOP * 199, "b", TOP, f"{TOP}{TOP}"]
    await put(pool, *(Put(KIND, name) for name in names))
    async with transaction(pool) as tx:
        assert len(await due.peek(tx, prefix="a")) == 5
        assert await due.cancel(tx, KIND, prefix=f"a{TOP}") == 4
        assert await due.cancel(tx, KIND, prefix=TOP) == 2
        assert await due.cancel(tx, KIND, prefix="") == 2


async def test_the_lane_is_the_kinds_own_unless_another_is_given(pool: Any) -> None:
    kind(Handler(), lane=Lane.BULK)
    await put(pool, Put(KIND, "1"), Put(KIND, "2", lane=Lane.PEOPLE), Put("test.undeclared", "3"))
    assert [row["lane"] for row in await live(pool)] == [2, 1, 0]


async def test_a_change_of_lane_or_deadline_alone_is_a_move(pool: Any) -> None:
    at = await now(pool) + FAR
    await put(pool, Put(KIND, "1", at))
    assert await put(pool, Put(KIND, "1", at, lane=Lane.BULK)) == (0, 1, 0)
    assert await put(pool, Put(KIND, "1", at, lane=Lane.BULK, expires_at=at + FAR)) == (0, 1, 0)
    assert await put(pool, Put(KIND, "1", at, lane=Lane.BULK, expires_at=at + FAR)) == (0, 0, 1)


async def test_a_finished_item_that_is_put_again_is_a_new_one(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    handler = Handler()
    await due.drain(pool, [kind(handler)])
    assert await put(pool, Put(KIND, "1")) == (1, 0, 0)
    await due.drain(pool, [kind(handler)])
    assert handler.seen[0].id != handler.seen[1].id
    assert [item.attempts for item in handler.seen] == [1, 1]


async def test_only_new_leaves_an_item_alone_that_is_worked_on(pool: Any) -> None:
    async def handle(item: due.Item) -> due.Fate:
        assert await put(pool, Put(KIND, "1", payload={"n": 2}), only_new=True) == (0, 0, 1)
        return due.DONE

    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(handle, tries=1)])
    assert await pool.fetchval("SELECT payload FROM due.due_past") == "{}"


async def test_what_is_put_in_a_transaction_that_rolls_back_was_never_there(pool: Any) -> None:
    with pytest.raises(RuntimeError):
        async with transaction(pool) as tx:
            await due.put(tx, [Put(KIND, "1")])
            raise RuntimeError
    assert await live(pool) == []


async def test_nothing_to_put_writes_nothing(pool: Any) -> None:
    assert await put(pool) == (0, 0, 0)


async def test_a_plan_whose_moments_are_all_equal_is_put_and_moved_as_one(pool: Any) -> None:
    at = await now(pool) + FAR
    plan = [Put(KIND, f"e/{n}", at) for n in range(3)]
    async with transaction(pool) as tx:
        assert await due.replan(tx, KIND, "e/", plan) == ((3, 0, 0), 0, [])
        assert await due.replan(tx, KIND, "e/", [wish._replace(at=at + FAR) for wish in plan]) == ((0, 3, 0), 0, [])
        assert await due.replan(tx, KIND, "e/", []) == ((0, 0, 0), 3, [])


async def test_a_plan_whose_moment_moved_into_the_past_cancels_and_says_so(pool: Any) -> None:
    at = await now(pool)
    await put(pool, Put(KIND, "e/1", at + FAR))
    async with transaction(pool) as tx:
        assert await due.replan(tx, KIND, "e/", [Put(KIND, "e/1", at - FAR)], reason="moved") == ((0, 0, 0), 1, ["e/1"])
    assert await live(pool) == []
