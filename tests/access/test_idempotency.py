"""One key, one effect: in one answer that commits with it, whatever dies on the way."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from soonish.access.actions.idempotency import Idempotency
from soonish.access.actions.keys import list_keys, make_key
from soonish.db.pool import Database
from soonish.errors import Conflict, Invalid, Unavailable
from soonish.vault import Vault
from soonish.vault import make_key as make_secret
from soonish.web.plan import Stored
from tests.access.conftest import Tenant

ANSWER = Stored(status=201, headers={"location": "/v1/api-keys/2", "content-type": "application/json"}, body=b'{"a":1}')
PRINT = b"f" * 32


@pytest.fixture
def answers() -> Idempotency:
    return Idempotency(Vault.from_setting(make_secret()))


async def ask(db: Database, answers: Idempotency, owner: Tenant, key: str = "k", fingerprint: bytes = PRINT) -> Any:
    """A whole request: its effect is a key."""
    async with db.transaction(owner.id) as tx:
        if stored := await answers.begin(tx, owner.caller, key, fingerprint):
            return stored
        await make_key(tx, owner.caller, "Robot", "read")
        await answers.store(tx, owner.caller, key, fingerprint, ANSWER)
    return "first"


def begun(db: Database, owner: Tenant) -> AbstractAsyncContextManager[Any]:
    return db.transaction(owner.id)


async def effects(db: Database, owner: Tenant) -> int:
    return len(await list_keys(db, owner.caller)) - 1


async def test_a_repeat_gets_the_first_answer_and_has_no_effect(
    db: Database, acme: Tenant, answers: Idempotency
) -> None:
    assert await ask(db, answers, acme) == "first"
    assert await ask(db, answers, acme) == ANSWER
    assert await effects(db, acme) == 1


async def test_of_twenty_at_once_one_has_the_effect_and_the_others_its_answer_or_a_conflict(
    db: Database, acme: Tenant, answers: Idempotency
) -> None:
    results = await asyncio.gather(*[ask(db, answers, acme) for _ in range(20)], return_exceptions=True)
    assert results.count("first") == 1
    others = [result for result in results if result != "first"]
    assert all(isinstance(result, Conflict) or result == ANSWER for result in others)
    assert {error.code for error in others if isinstance(error, Conflict)} <= {"idempotency_in_flight"}
    assert await effects(db, acme) == 1


async def test_another_request_with_the_same_key_is_refused(db: Database, acme: Tenant, answers: Idempotency) -> None:
    await ask(db, answers, acme)
    with pytest.raises(Invalid) as refused:
        await ask(db, answers, acme, fingerprint=b"g" * 32)
    assert refused.value.code == "idempotency_mismatch"


async def test_while_the_first_is_running_the_second_is_told_so(
    db: Database, acme: Tenant, answers: Idempotency
) -> None:
    async with begun(db, acme) as tx:
        assert await answers.begin(tx, acme.caller, "k", PRINT) is None
        with pytest.raises(Conflict) as refused:
            await ask(db, answers, acme)
        assert refused.value.code == "idempotency_in_flight"
        assert await ask(db, answers, acme, key="another") == "first"


async def test_a_process_that_dies_before_the_commit_leaves_nothing_behind(
    db: Database, acme: Tenant, answers: Idempotency
) -> None:
    with pytest.raises(Unavailable):
        async with begun(db, acme) as tx:
            await answers.begin(tx, acme.caller, "k", PRINT)
            await make_key(tx, acme.caller, "Robot", "read")
            await answers.store(tx, acme.caller, "k", PRINT, ANSWER)
            tx.terminate()  # as the kernel does with the socket of a killed process
            await tx.execute("SELECT 1")
    for _ in range(1_000):  # the server finds out in its own time
        try:
            assert await ask(db, answers, acme) == "first"
            break
        except Conflict:
            await asyncio.sleep(0.02)
    assert await effects(db, acme) == 1


async def test_a_request_that_failed_stores_nothing_and_may_come_again(
    db: Database, acme: Tenant, answers: Idempotency
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with begun(db, acme) as tx:
            await answers.begin(tx, acme.caller, "k", PRINT)
            raise ZeroDivisionError
    assert await ask(db, answers, acme) == "first"


async def test_keys_of_two_actors_and_of_two_workspaces_do_not_meet(
    db: Database, main: Tenant, acme: Tenant, answers: Idempotency
) -> None:
    assert await ask(db, answers, main) == "first"
    assert await ask(db, answers, acme) == "first"


async def test_an_answer_is_forgotten_after_a_day(db: Database, acme: Tenant, answers: Idempotency) -> None:
    await ask(db, answers, acme)
    async with db.transaction(acme.id) as tx:
        await tx.execute("UPDATE idempotency SET created_at = now() - interval '24 hours'")
    assert await ask(db, answers, acme, fingerprint=b"g" * 32) == "first"
    assert await ask(db, answers, acme, fingerprint=b"g" * 32) == ANSWER
    assert await effects(db, acme) == 2


async def test_the_body_is_kept_encrypted_and_opens_in_its_own_row_only(
    db: Database, acme: Tenant, answers: Idempotency
) -> None:
    await ask(db, answers, acme)
    await ask(db, answers, acme, key="other")
    async with db.transaction(acme.id) as tx:
        bodies = [row["body"] for row in await tx.fetch("SELECT body FROM idempotency ORDER BY id")]
        await tx.execute("UPDATE idempotency SET body = $1 WHERE key = 'other'", bodies[0])
    assert ANSWER.body not in bodies[0]
    with pytest.raises(Unavailable):
        await ask(db, answers, acme, key="other")
