"""The pages of operations as they come from the server, without a browser: figures, words, and what is offered."""

import re

from soonish.db.pool import Database
from soonish.due import Put, put
from soonish.ops.model.health import MOST_COUNTED
from soonish.ops.routes.pages import retried
from tests.ops.conftest import KIND, at
from tests.support.http import Client
from tests.support.site import Site

LATER = at(1)


async def words(browser: Client, path: str) -> str:
    """What a page says, without its tags."""
    answer = await browser.get(path, accept="text/html")
    assert answer.status == 200, answer.body
    text = re.sub(r"<[^>]+>", " ", answer.body.decode())
    return re.sub(r"\s+", " ", text)


async def die(db: Database, workspace_id: int, count: int = 1, kind: str = KIND) -> None:
    """So many dead items, written at once."""
    async with db.transaction(workspace_id) as tx:
        await tx.execute(
            """INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload,
                 created_at, finished_at, fate, reason)
               SELECT 1000000 * ($1::bigint + 1) + n, $1, $3, n::text, 0, now(), 1, 0, '{}',
                 now(), now(), 'dead', 'budget'
               FROM generate_series(1, $2::int) n""",
            workspace_id,
            count,
            kind,
        )


async def test_the_pages_of_the_operator_show_the_systems_own_beside_the_rest_as_now_does(product: Site) -> None:
    await die(product.db, product.main.id)
    await die(product.db, 0, kind="system.rekey")
    async with product.db.transaction(0) as tx:
        await put(tx, [Put("system.housekeeping", "daily", LATER)])
    await product.main.put(Put(KIND, "ours", LATER))
    operator, admin = await product.main.browser(), await product.acme.browser()
    of_system = {"next": "Tidy up", "past": "Encrypt every secret"}
    ours = {"next": "Shop: reminder ours", "past": "Shop: reminder 1"}
    for path, when in (("/", "next"), ("/due", "next"), ("/", "past"), ("/due/past", "past"), ("/due/dead", "past")):
        shown = await words(operator, path)
        assert of_system[when] in shown, path
        assert ours[when] in shown, path
        assert of_system[when] not in await words(admin, path)
    assert "Dead 2 Paused" in await words(operator, "/due")
    assert "Shop: reminder ours" not in await words(operator, "/due?system=true")
    assert "Tidy up" not in await words(operator, "/due?system=false")


async def test_what_is_paused_says_when_it_happens_and_offers_no_now(product: Site) -> None:
    await product.acme.put(Put(KIND, "a", LATER))
    browser = await product.acme.browser("write")
    [item] = await product.acme.read.every("/v1/ops/due")
    paths = ("/due", f"/due/{item['id']}")
    for path in paths:
        assert b">Now</button>" in (await browser.get(path, accept="text/html")).body, path
    await product.acme.run("UPDATE due.due SET lane = lane + 10")
    for path in paths:
        page = (await browser.get(path, accept="text/html")).body
        assert (b"when resumed" in page, b">Now</button>" in page, b"Cancel it" in page) == (True, False, True), path
    assert "when resumed" in await words(browser, "/")


async def test_no_page_offers_to_cancel_what_keeps_the_system_in_order(product: Site) -> None:
    async with product.db.transaction(0) as tx:
        await put(tx, [Put("system.housekeeping", "daily", LATER)])
    browser = await product.main.browser()
    [item] = await product.main.admin.every("/v1/ops/due")
    for path in ("/due", f"/due/{item['id']}"):
        page = (await browser.get(path, accept="text/html")).body
        assert (b">Now</button>" in page, b"Cancel it" in page) == (True, False), path


# --- health


async def test_settings_lead_an_admin_to_health_which_tells_what_machines_are_told(product: Site) -> None:
    await product.acme.put(Put("nobody.knows", "x", at(-1)))
    await product.acme.admin.post("/v1/ops/pauses", {"kind": KIND})  # due itself, to be carried out
    await die(product.db, product.acme.id, 2)
    browser = await product.acme.browser()
    assert b'href="/settings/health"' in (await browser.get("/settings", accept="text/html")).body
    told, shown = (await browser.get("/v1/ops/health")).json, await words(browser, "/settings/health")
    assert f"All of the figures {told['troubles'][0]}" in await words(browser, "/settings")
    for text in (
        "Something is wrong in this workspace.",
        *told["troubles"],
        "Overdue 2 , the oldest for ",
        "Dead 2 ; 2 died in the last 24 h",
        "Of unknown kinds 1 of nobody.knows",
        f"Paused {KIND}",
        f"Soonish {told['version']}",
        f"Time zone rules {told['tzdata']}",
    ):
        assert text in shown, text
    assert not [one for one in ("Lanes", "Processes", "Recovery") if one in shown]
    assert (await (await product.acme.browser("write")).get("/settings/health")).status == 403


async def test_the_operator_also_sees_lanes_processes_and_recovery(product: Site) -> None:
    assert product.process
    await product.process.health.beat()
    await product.db.loops.execute(
        """INSERT INTO process (name, role, version, lanes, seen_at)
           VALUES ('there:1:1', 'work', '0.0.9', '{"bulk": {"running": 0, "last_claim_s": 2}}', now() - interval '5 s'),
                  ('there:2:1', 'work', '0.0.9', '{}', now() - interval '40 s')"""
    )
    shown = await words(await product.main.browser(), "/settings/health")
    for text in (
        "bulk 0 0 none 7 s ago",
        "control 0 0 none nobody works it",
        "there:1:1 work bulk 0.0.9",
        "40 s ago silent",
    ):
        assert text in shown, text
    assert "It works no lane, so there was nothing for it to recover." in shown


# --- figures


async def test_up_to_ten_thousand_dead_items_are_counted_exactly(product: Site) -> None:
    await die(product.db, product.acme.id, MOST_COUNTED)
    shown = await words(await product.acme.browser(), "/due/dead")
    assert "10,000 dead items." in shown
    assert "Dead 10,000 Paused" in shown
    assert f"Retry all 10,000 of {KIND}" in shown


async def test_beyond_ten_thousand_no_figure_passes_for_an_exact_one(product: Site) -> None:
    await die(product.db, product.acme.id, MOST_COUNTED + 1)
    shown = await words(await product.acme.browser(), "/due/dead")
    assert "More than 10,000 dead items." in shown
    assert "Dead 10,000+ Paused" in shown
    assert f"Retry up to 10,000 of {KIND}" in shown
    assert "10,001" not in shown


def test_a_retry_says_how_many_live_again_and_whether_there_may_be_more() -> None:
    assert retried(0, 0) == "Nothing was dead there any more."
    assert retried(1, 2) == "1 item lives again, due now. 2 stay, for the same lives already."
    assert retried(9_998, 1).endswith("1 stay, for the same lives already.")
    assert retried(9_998, 2).endswith("There may be more: press again, for no more are taken at once.")
