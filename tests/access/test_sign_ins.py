"""Links sign in once; sign-ins end by themselves, by hand, or with their workspace."""

import asyncio
from datetime import timedelta

import pytest

from soonish.access.actions.callers import Callers
from soonish.access.actions.sign_ins import (
    check_link,
    end_sign_in,
    list_sign_ins,
    make_login_link,
    sign_in,
    sign_out,
)
from soonish.access.model import RoleName
from soonish.db.pool import Database
from soonish.errors import NotFound
from soonish.web.auth import Caller, Role
from tests.access.conftest import Tenant

REQUEST = "6f2ab7c4-1e1f-4c8e-9b77-0f4a3c1d2e3f"


async def link(db: Database, owner: Tenant, role: RoleName = "write") -> str:
    async with db.transaction(owner.id) as tx:
        made = await make_login_link(tx, owner.caller, "http://here", role)
    return made.url.removeprefix("http://here/login/")


async def signed_in(db: Database, owner: Tenant, role: RoleName = "write") -> str:
    return await sign_in(db, await link(db, owner, role), REQUEST)


async def find(db: Database, cookie: str) -> Caller | None:
    return await Callers(db).find("sign_in", cookie, REQUEST)


async def alter(db: Database, owner: Tenant, change: str) -> None:
    async with db.transaction(owner.id) as tx:
        await tx.execute(change)


async def test_looking_at_a_link_does_not_use_it_up(db: Database, acme: Tenant) -> None:
    token = await link(db, acme)
    await check_link(db, token)
    await check_link(db, token)
    assert await find(db, await sign_in(db, token, REQUEST)) is not None


async def test_a_link_signs_in_once_also_when_two_browsers_try_at_once(db: Database, acme: Tenant) -> None:
    token = await link(db, acme)
    results = await asyncio.gather(*[sign_in(db, token, REQUEST) for _ in range(8)], return_exceptions=True)
    assert [isinstance(result, str) for result in results].count(True) == 1
    assert {type(result) for result in results} == {str, NotFound}
    assert len(await list_sign_ins(db, acme.caller)) == 1


async def test_unknown_used_and_expired_links_look_the_same(db: Database, acme: Tenant) -> None:
    used, expired = await link(db, acme), await link(db, acme)
    await sign_in(db, used, REQUEST)
    await alter(db, acme, "UPDATE login_link SET expires_at = now() WHERE used_at IS NULL")
    messages = set()
    for token in (used, expired, "a" * 43, "short"):
        with pytest.raises(NotFound) as refused:
            await check_link(db, token)
        messages.add(refused.value.message)
        with pytest.raises(NotFound) as refused:
            await sign_in(db, token, REQUEST)
        messages.add(refused.value.message)
    assert len(messages) == 1


async def test_a_sign_in_has_the_role_of_its_link_and_a_token_for_forms(db: Database, acme: Tenant) -> None:
    caller = await find(db, await signed_in(db, acme, "read"))
    assert caller is not None
    assert (caller.workspace_id, caller.role) == (acme.id, Role.READ)
    assert (caller.timezone, caller.locale) == ("Europe/Berlin", "de")
    assert caller.csrf


async def test_an_admin_elsewhere_is_no_operator(db: Database, acme: Tenant) -> None:
    caller = await find(db, await signed_in(db, acme, "admin"))
    assert caller is not None
    assert caller.role is Role.ADMIN


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sign_in SET seen_at = now() - interval '7 days'",
        "UPDATE sign_in SET expires_at = now()",
        "UPDATE sign_in SET ended_at = now()",
    ],
)
async def test_a_sign_in_ends_without_use_by_age_or_by_hand(db: Database, acme: Tenant, change: str) -> None:
    cookie = await signed_in(db, acme)
    await alter(db, acme, change)
    assert await find(db, cookie) is None
    assert await list_sign_ins(db, acme.caller) == []


async def test_use_keeps_a_sign_in_alive_but_not_beyond_its_thirty_days(db: Database, acme: Tenant) -> None:
    cookie = await signed_in(db, acme)
    await alter(db, acme, "UPDATE sign_in SET seen_at = now() - interval '6 days'")
    assert await find(db, cookie) is not None
    async with db.transaction(acme.id, readonly=True) as tx:
        row = await tx.fetchrow("SELECT now() - seen_at AS idle, expires_at - created_at AS life FROM sign_in")
    assert row["idle"] < timedelta(minutes=1)
    assert timedelta(days=29) < row["life"] <= timedelta(days=30)


async def test_signing_out_ends_it_at_once_and_again_changes_nothing(db: Database, acme: Tenant) -> None:
    cookie = await signed_in(db, acme)
    callers = Callers(db)
    assert await callers.find("sign_in", cookie, REQUEST) is not None
    await sign_out(db, cookie, REQUEST)
    await sign_out(db, cookie, REQUEST)
    await sign_out(db, "no cookie of ours", REQUEST)
    assert await callers.find("sign_in", cookie, REQUEST) is None


async def test_a_sign_in_of_another_workspace_cannot_be_ended(db: Database, main: Tenant, acme: Tenant) -> None:
    cookie = await signed_in(db, main)
    theirs = (await list_sign_ins(db, main.caller))[0]
    with pytest.raises(NotFound):
        async with db.transaction(acme.id) as tx:
            await end_sign_in(tx, acme.caller, theirs.id)
    assert await find(db, cookie) is not None


async def test_signing_in_and_out_is_on_record_without_any_token(db: Database, acme: Tenant) -> None:
    token = await link(db, acme)
    cookie = await sign_in(db, token, REQUEST)
    await sign_out(db, cookie, REQUEST)
    async with db.transaction(acme.id, readonly=True) as tx:
        rows = await tx.fetch("SELECT * FROM audit ORDER BY id")
    assert [row["verb"] for row in rows] == ["make", "sign_in", "sign_out"]
    assert rows[1]["actor"] == rows[1]["entity"].replace("/", ":")
    assert str(rows[1]["request_id"]) == REQUEST
    assert token not in str(rows)
    assert cookie not in str(rows)
