"""What a handler answers, and what becomes of the item."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from soonish import due
from soonish.due import Again, Drop, Item, Kind, Lane, Late, Put, queue
from soonish.due.model import Settled
from soonish.errors import LeaseLost, Unavailable
from tests.support.due import KIND, Handler, Watcher, between, ended, kind, live, now, pass_time, put, transaction, turn

HOUR = timedelta(hours=1)


async def test_done_moves_the_item_into_the_past(pool: Any) -> None:
    at = await now(pool) - timedelta(seconds=2)
    await put(pool, Put(KIND, "1", at, {"a": 1}))
    handler = Handler()
    before, count, after = await between(pool, due.drain(pool, [kind(handler)]))
    assert count == 1
    (item,) = handler.seen
    assert (item.kind, item.key, item.payload, item.attempts, item.tries) == (KIND, "1", {"a": 1}, 1, 1)
    assert (item.due_at, item.first, item.interrupted) == (at, True, False)
    assert before - at <= timedelta(seconds=item.late) <= after - at
    assert await live(pool) == []
    (row,) = await pool.fetch("SELECT * FROM due.due_past")
    assert (row["key"], row["due_at"], row["attempts"]) == ("1", at, 1)


async def test_drop_keeps_the_reason(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler(Drop("moved")))])
    assert await ended(pool) == [("1", "dropped", "moved")]


async def test_again_without_an_error_is_a_hold_and_costs_no_budget(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    handler = Handler(Again(after=0), Again(after=timedelta(0)), Again(after=0), due.DONE)
    await due.drain(pool, [kind(handler, tries=1)])
    assert [(item.attempts, item.tries, item.first) for item in handler.seen] == [
        (1, 1, True),
        (2, 1, False),
        (3, 1, False),
        (4, 1, False),
    ]
    assert await ended(pool) == [("1", "done", None)]


async def test_again_at_an_instant_waits_for_it_and_keeps_the_promise(pool: Any) -> None:
    promise = await now(pool)
    await put(pool, Put(KIND, "1", promise))
    await due.drain(pool, [kind(Handler(Again(at=promise + HOUR)))])
    (row,) = await live(pool)
    assert (row["due_at"], row["wake_at"]) == (promise, promise + HOUR)


async def test_an_exception_is_a_try_with_growing_waits_until_the_budget_is_spent(pool: Any) -> None:
    await put(pool, Put(KIND, "1"), Put(KIND, "other"))
    poison = Handler(RuntimeError("no luck"))
    declared = kind(poison, tries=3, first=timedelta(seconds=10))
    for ceiling in (10, 20):
        await due.drain(pool, [declared])
        row = (await live(pool))[0]
        assert row["last_error"] == "RuntimeError: no luck"
        wait = await pool.fetchval("SELECT extract(epoch FROM wake_at - now())::float8 FROM due.due LIMIT 1")
        assert wait <= ceiling
        await pass_time(pool, HOUR)
    await due.drain(pool, [declared])
    assert sorted(await ended(pool)) == [("1", "dead", "budget"), ("other", "dead", "budget")]
    async with transaction(pool) as tx:
        (row, _) = await due.dead(tx, kind=KIND)
    assert row["last_error"] == "RuntimeError: no luck"


def test_waits_are_uniform_under_a_ceiling_that_doubles_up_to_a_cap() -> None:
    declared = kind(Handler(), first=timedelta(seconds=1), cap=timedelta(seconds=60))
    for tries, ceiling in ((1, 1), (2, 2), (5, 16), (7, 60), (500, 60)):
        waits = [declared.wait(tries) for _ in range(400)]
        assert min(waits) >= 0.05
        assert ceiling * 0.8 < max(waits) <= ceiling


async def test_a_dead_item_is_retried_with_a_new_budget_and_without_its_late_policy(pool: Any) -> None:
    promise = await now(pool) - 3 * HOUR
    await put(pool, Put(KIND, "1", promise, {"a": 1}))
    await due.drain(pool, [kind(Handler(RuntimeError("x")), tries=1)])
    async with transaction(pool) as tx:
        assert await due.retry(tx, kind=KIND) == (1, 0)
        assert await due.retry(tx, kind=KIND) == (0, 0)
    handler = Handler()
    await due.drain(pool, [kind(handler, late=Late.skip())])
    (item,) = handler.seen
    assert (item.due_at, item.payload, item.tries) == (promise, {"a": 1}, 1)


async def test_retrying_a_dead_item_whose_key_lives_again_counts_as_superseded(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler(RuntimeError("x")), tries=1)])
    await put(pool, Put(KIND, "1", await now(pool) + HOUR))
    async with transaction(pool) as tx:
        (row,) = await due.dead(tx)
        assert await due.retry(tx, [row["id"]]) == (0, 1)
    assert len(await live(pool)) == 1


async def test_a_revived_item_has_no_deadline_that_is_past_and_its_kind_is_told(pool: Any) -> None:
    revived: list[Any] = []

    async def revive(_tx: Any, rows: Any) -> None:
        revived.extend(row["key"] for row in rows)

    await put(pool, Put(KIND, "1", expires_at=await now(pool) + HOUR))
    declared = Kind(KIND, Handler(RuntimeError("x")), tries=1, on_revive=revive)
    await due.drain(pool, [declared])
    await pool.execute("UPDATE due.due_undone SET expires_at = now() - interval '1 hour'")
    async with transaction(pool) as tx:
        await due.retry(tx, kind=KIND, kinds={KIND: declared})
    assert revived == ["1"]
    (row,) = await live(pool)
    assert row["expires_at"] is None


@pytest.mark.parametrize("nonsense", [None, "done", 17, due.DONE.__class__])
async def test_an_answer_that_is_no_fate_counts_as_an_error(pool: Any, nonsense: Any) -> None:
    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(Handler(nonsense), tries=1)])
    async with transaction(pool) as tx:
        (row,) = await due.dead(tx)
    assert "is no fate" in row["last_error"]


async def test_an_engine_that_is_away_holds_the_item_and_costs_no_budget(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    handler = Handler(Unavailable("Temporal is away"))
    loop = due.Loop(pool, [kind(handler, tries=1)])
    for expected in (1, 2, 4):
        before, _, after = await between(pool, loop.drain())
        (row,) = await live(pool)
        assert before <= row["wake_at"] - timedelta(seconds=expected) <= after
        await pass_time(pool, timedelta(seconds=expected))
    assert len(handler.seen) == 3
    assert [item.tries for item in handler.seen] == [1, 1, 1]


async def test_an_error_is_kept_redacted_and_cut_and_never_breaks_the_result(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    loop = due.Loop(
        pool,
        [kind(Handler(RuntimeError("sk_secret \x00 \ud800 " + "x" * 5_000)))],
        redact=lambda text: text.replace("sk_secret", "***"),
    )
    await loop.drain()
    (row,) = await live(pool)
    assert row["last_error"].startswith("RuntimeError: ***  ? xxx")
    assert len(row["last_error"]) == 2_000


async def test_an_item_claimed_after_its_deadline_expires_without_a_call(pool: Any) -> None:
    await put(pool, Put(KIND, "1", expires_at=await now(pool) + HOUR))
    await pass_time(pool, 2 * HOUR)
    handler = Handler()
    await due.drain(pool, [kind(handler)])
    assert handler.seen == []
    assert await ended(pool) == [("1", "expired", None)]


async def test_an_again_beyond_the_deadline_expires_at_once(pool: Any) -> None:
    watcher = Watcher()
    await put(pool, Put(KIND, "1", expires_at=await now(pool) + HOUR))
    await due.Loop(pool, [kind(Handler(Again(after=2 * HOUR, error="busy")))], observer=watcher).drain()
    assert await ended(pool) == [("1", "expired", None)]
    assert watcher.fates == [("1", "expired")]
    assert await pool.fetchval("SELECT last_error FROM due.due_undone") == "busy"


@pytest.mark.parametrize(
    ("policy", "late", "reason"),
    [
        (Late.send(), timedelta(days=400), None),
        (Late.send(HOUR), timedelta(minutes=59), None),
        (Late.send(HOUR), timedelta(minutes=61), "too_late"),
        (Late.skip(), timedelta(seconds=50), None),
        (Late.skip(), timedelta(seconds=70), "late"),
    ],
)
async def test_the_late_policy_is_judged_at_the_first_claim(
    pool: Any, policy: Late, late: timedelta, reason: str | None
) -> None:
    await put(pool, Put(KIND, "1", await now(pool) - late))
    await due.drain(pool, [kind(Handler(), late=policy)], grace=timedelta(minutes=1))
    assert await ended(pool) == [("1", "dropped", reason) if reason else ("1", "done", None)]


async def test_the_late_policy_is_not_judged_again_after_a_retry(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    handler = Handler(RuntimeError("x"), due.DONE)
    declared = kind(handler, late=Late.skip())
    await due.drain(pool, [declared])
    await pass_time(pool, 2 * HOUR)
    await due.drain(pool, [declared])
    assert len(handler.seen) == 2


async def test_the_late_policy_is_judged_where_the_first_holder_vanished_but_not_for_the_revived(
    pool: Any,
) -> None:
    handler = Handler(RuntimeError("x"), due.DONE)
    declared = kind(handler, late=Late.skip(), tries=1)
    await put(pool, Put(KIND, "late", await now(pool) - HOUR), Put(KIND, "on time"))
    await turn(pool)
    await pass_time(pool, timedelta(minutes=5))
    await due.drain(pool, [declared])
    assert sorted(await ended(pool)) == [("late", "dropped", "late"), ("on time", "dead", "budget")]
    await pass_time(pool, HOUR)
    async with transaction(pool) as tx:
        assert await due.retry(tx, kind=KIND) == (1, 0)
    await due.drain(pool, [declared])
    assert handler.keys == ["on time", "on time"]


async def test_a_finish_inside_the_handlers_transaction_commits_with_its_rows(pool: Any) -> None:
    await pool.execute("CREATE TABLE effect (n int)")

    async def handle(item: Item) -> due.Fate:
        async with transaction(pool) as tx:
            await tx.execute("INSERT INTO effect VALUES (1)")
            return await due.done_in(tx, item)

    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(handle)])
    assert await ended(pool) == [("1", "done", None)]
    assert await pool.fetchval("SELECT count(*) FROM effect") == 1


async def test_a_lost_lease_rolls_the_handlers_transaction_back(pool: Any) -> None:
    await pool.execute("CREATE TABLE effect (n int)")
    refused: list[LeaseLost] = []

    async def handle(item: Item) -> due.Fate:
        await put(pool, Put(KIND, "1", await now(pool) + HOUR))
        try:
            async with transaction(pool) as tx:
                await tx.execute("INSERT INTO effect VALUES (1)")
                return await due.done_in(tx, item)
        except LeaseLost as error:
            refused.append(error)
            raise

    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(handle)])
    assert len(refused) == 1
    assert await pool.fetchval("SELECT count(*) FROM effect") == 0
    assert len(await live(pool)) == 1


async def test_an_item_is_put_back_inside_the_handlers_transaction_with_a_new_payload(pool: Any) -> None:
    seen: list[dict[str, Any]] = []

    async def page(item: Item) -> due.Fate:
        seen.append(item.payload)
        if len(seen) == 3:
            return due.DONE
        async with transaction(pool) as tx:
            return await due.again_in(tx, item, Again(after=0), payload={"after": len(seen)})

    await put(pool, Put(KIND, "1"))
    await due.drain(pool, [kind(page, lane=Lane.BULK)])
    assert seen == [{}, {"after": 1}, {"after": 2}]


async def test_errors_told_inside_a_transaction_are_tries_that_wait_longer_and_end_dead(pool: Any) -> None:
    async def fail(item: Item) -> due.Fate:
        async with transaction(pool) as tx:
            return await due.again_in(tx, item, Again(error=f"not {item.tries}"), kind=declared)

    declared = kind(fail, tries=3, first=timedelta(hours=1))
    await put(pool, Put(KIND, "1"))
    for tries in (1, 2):
        await due.drain(pool, [declared])
        (row,) = await live(pool)
        assert (row["last_error"], row["wake_at"] > await now(pool)) == (f"not {tries}", True)
        await pass_time(pool, timedelta(days=1))
    await due.drain(pool, [declared])
    assert await ended(pool) == [("1", "dead", "budget")]


async def test_an_error_told_inside_a_transaction_needs_its_kind(pool: Any) -> None:
    await put(pool, Put(KIND, "1"))
    _, (item,) = await turn(pool)
    with pytest.raises(ValueError, match="name the kind"):
        async with transaction(pool) as tx:
            await due.again_in(tx, item, Again(error="no"))


async def test_a_victim_of_a_deadlock_is_run_again_without_a_try(pool: Any) -> None:
    import asyncpg

    await put(pool, Put(KIND, "1"))
    handler = Handler(asyncpg.DeadlockDetectedError("x"), asyncpg.SerializationError("x"), due.DONE)
    await due.drain(pool, [kind(handler, tries=1)])
    assert await ended(pool) == [("1", "done", None)]
    assert [item.attempts for item in handler.seen] == [1, 1, 1]


async def test_a_batch_kind_gets_the_items_of_one_workspace_of_one_claim(pool: Any) -> None:
    batches: list[list[str]] = []

    async def handle(items: Any) -> list[due.Fate]:
        batches.append([f"{item.workspace_id}:{item.key}" for item in items])
        return [Drop("odd") if int(item.key) % 2 else due.DONE for item in items]

    for workspace in (1, 2):
        async with transaction(pool) as tx:
            await due.put(tx, [Put(KIND, f"{workspace}{n}") for n in range(4)], workspace_id=workspace)
    await due.drain(pool, [kind(handle, batch=True)])
    assert sorted(map(sorted, batches)) == [
        ["1:10", "1:11", "1:12", "1:13"],
        ["2:20", "2:21", "2:22", "2:23"],
    ]
    assert [fate for _, fate, _ in sorted(await ended(pool))] == ["done", "dropped"] * 4


async def test_a_batch_that_raises_is_run_item_by_item_so_that_only_the_guilty_fails(pool: Any) -> None:
    async def handle(items: Any) -> list[due.Fate]:
        if any(item.key == "bad" for item in items):
            raise RuntimeError("poison")
        return [due.DONE] * len(items)

    await put(pool, *(Put(KIND, key) for key in ("a", "bad", "c")))
    await due.drain(pool, [kind(handle, batch=True, tries=1)])
    assert sorted(await ended(pool)) == [("a", "done", None), ("bad", "dead", "budget"), ("c", "done", None)]


async def test_a_handler_may_put_what_is_worked_in_the_same_drain(pool: Any) -> None:
    async def first(item: Item) -> due.Fate:
        await put(pool, Put("test.second", item.key))
        return due.DONE

    second = Handler()
    await put(pool, Put(KIND, "1"))
    assert await due.drain(pool, [kind(first), kind(second, "test.second", lane=Lane.PEOPLE)]) == 2
    assert second.keys == ["1"]


async def test_a_drain_until_a_later_moment_works_what_will_be_due_then(pool: Any) -> None:
    at = await now(pool)
    await put(pool, Put(KIND, "soon", at + HOUR), Put(KIND, "later", at + 3 * HOUR))
    handler = Handler()
    await due.drain(pool, [kind(handler)], until=at + 2 * HOUR)
    assert handler.keys == ["soon"]


async def test_neighbours_of_an_item_that_hangs_are_done_at_once(pool: Any) -> None:
    never = asyncio.Event()

    async def handle(item: Item) -> due.Fate:
        if item.key == "hangs":
            await never.wait()
        return due.DONE

    watcher = Watcher()
    await put(pool, *(Put(KIND, key) for key in ("a", "hangs", "c")))
    async with due.Loop(pool, [kind(handle, run_limit=timedelta(seconds=1), tries=1)], observer=watcher):
        await watcher.wait_until(lambda: len(watcher.fates) == 3)
    assert sorted(watcher.fates[:2]) == [("a", "done"), ("c", "done")]
    assert watcher.fates[2] == ("hangs", "dead")
    assert await pool.fetchval("SELECT last_error FROM due.due_undone") == "run_limit"


async def test_fates_of_many_items_are_written_in_one_transaction_and_those_lost_are_told(pool: Any) -> None:
    declared = kind(Handler())
    await put(pool, *(Put(KIND, key) for key in ("done", "again", "held", "dead", "lost")))
    _, items = await turn(pool)
    by = {item.key: item for item in items}
    async with transaction(pool) as tx:
        await due.cancel(tx, KIND, ["lost"])
    async with transaction(pool) as tx:
        lost = await queue.settle(
            tx,
            [
                Settled(by["done"]),
                Settled(by["again"], "again", after=3600, error="not yet"),
                Settled(by["held"], "again", at=await now(pool) + HOUR),
                Settled(by["dead"], "dead", error="spent"),
                Settled(by["lost"]),
            ],
        )
    assert lost == {by["lost"].id}
    assert sorted(await ended(pool)) == [
        ("dead", "dead", "budget"), ("done", "done", None), ("lost", "cancelled", "cancelled"),
    ]  # fmt: skip
    left = {row["key"]: (row["spared"], row["last_error"], row["lease_until"]) for row in await live(pool)}
    assert left == {"again": (0, "not yet", None), "held": (1, None, None)}
    await pass_time(pool, 2 * HOUR)
    assert await due.drain(pool, [declared]) == 2
