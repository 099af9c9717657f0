"""Every statement fits the schema it is meant for, and the hot ones use the index that was made for them.

Statements are planned, not run: as the program's own role, behind the wall between workspaces.
"""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from soonish.db.pool import Database
from soonish.db.sql import Statement, load
from soonish.due import queue
from soonish.due.model import BELL_HORIZON, Lane
from tests.rules.repository import ROOT, text, under

FILES = under("src/soonish/", suffix="/queries.sql")
PLAN = """
CREATE FUNCTION pg_temp.plan(statement text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  answer json;
BEGIN
  EXECUTE 'EXPLAIN (GENERIC_PLAN, FORMAT JSON) ' || statement INTO answer;
  RETURN answer;
END $$"""

PENDING, OVERDUE, KINDS = 50_000, 500, 20


def statements(path: str) -> list[Statement]:
    return list(load(str(ROOT / path)))


@pytest.fixture
async def app(db: Database) -> AsyncIterator[asyncpg.Connection]:
    """A session as the program has it in one workspace."""
    con = await db.connect()
    await con.execute("SET ROLE soonish_app; SET soonish.workspace = '1'")
    await con.execute(PLAN)
    yield con
    await con.close()


@pytest.fixture
async def crowded(db: Database) -> AsyncIterator[asyncpg.Connection]:
    """A session of the due loops on a full table: most items lie far ahead, some are overdue."""
    async with db.loops.acquire() as con:
        await con.execute(
            """INSERT INTO due.due (workspace_id, kind, key, lane, due_at, wake_at)
               SELECT n % 50, 'rules.kind_' || n % $3, n::text, 0, at, at
               FROM generate_series(1, $1::int) n,
                    LATERAL (SELECT now() + make_interval(secs => n - $2::int + 0.5) AS at) moment""",
            PENDING,
            OVERDUE,
            KINDS,
        )
    analyst = await db.connect()
    await analyst.execute("ANALYZE due.due")
    await analyst.close()
    async with db.loops.acquire() as con:
        yield con


@pytest.mark.parametrize("path", FILES)
async def test_every_statement_can_be_planned(app: asyncpg.Connection, path: str) -> None:
    failures = []
    for statement in statements(path):
        try:
            await app.execute("SELECT pg_temp.plan($1)", statement.text)
        except asyncpg.PostgresError as error:
            failures.append(f"{statement.name}: {error}")
    assert failures == []


@pytest.mark.parametrize("path", FILES)
def test_every_statement_is_used(path: str) -> None:
    folder = path.rpartition("/")[0]
    code = "\n".join(map(text, under(f"{folder}/", suffix=".py")))
    assert [s.name for s in statements(path) if f".{s.name}" not in code] == []


@pytest.mark.parametrize("name", ["turn", "claim"])
@pytest.mark.parametrize("watermark", ["NULL", "max(wake_at)"])
async def test_a_turn_never_walks_past_what_is_due(crowded: asyncpg.Connection, watermark: str, name: str) -> None:
    newest = await crowded.fetchval(f"SELECT {watermark} FROM due.due WHERE wake_at <= now()")
    scans = await due_scans(crowded, name, **turn(watermark=newest))
    assert {scan["Node Type"] for scan in scans} == {"Index Scan"}
    walks = [scan for scan in scans if scan["Index Name"] == "due_lane_wake"]
    # As a filter it would be judged row by row, over all items of the future.
    assert [walk["Filter"] for walk in walks if "wake_at" in walk.get("Filter", "")] == []
    assert len([walk for walk in walks if "wake_at <=" in walk["Index Cond"]]) == 2
    assert [walk for walk in walks if "wake_at >= " in walk["Index Cond"]] != []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("extend", {"lease": timedelta(60), "ids": [1, 2, 3], "fences": [1, 1, 1]}),
        ("release", {"ids": [1, 2, 3], "fences": [1, 1, 1]}),
        ("done_in", {"id": 7, "fence": 1}),
        ("find", {"id": 7}),
        ("cancel", {"kind": "rules.kind_1", "keys": ["1"], "first": None, "past": None, "reason": "cancelled"}),
        ("cancel", {"kind": "rules.kind_1", "keys": [], "first": "12", "past": "13", "reason": "cancelled"}),
        ("leased", {"kind": "rules.kind_1", "keys": ["1", "21"]}),
        ("overdue", {}),
        ("lanes", {}),
    ],
)
async def test_no_look_at_the_queue_reads_the_whole_table(
    crowded: asyncpg.Connection, name: str, values: dict[str, Any]
) -> None:
    scans = await due_scans(crowded, name, **values)
    assert {scan["Node Type"] for scan in scans} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}
    assert scans != []


def test_the_horizon_of_the_bell_is_one_number() -> None:
    horizon = f"interval '{BELL_HORIZON:.0f} seconds'"
    for path in ("src/soonish/due/schema.sql", "src/soonish/due/queries.sql"):
        spans = [line for line in text(path).splitlines() if "< now() + interval" in line]
        assert spans
        assert [line for line in spans if horizon not in line] == []


def turn(**others: Any) -> dict[str, Any]:
    """What a loop gives its statement: the results of a batch, and what it wants next."""
    rest = ("ids", "fences", "ats", "waits", "errors", "spared", "fates", "reasons")
    nothing: dict[str, Any] = {f"rest_{name}": [] for name in rest}
    wanted = {
        "lane": Lane.CONTROL,
        "kinds": [f"rules.kind_{n}" for n in range(KINDS)],
        "k": 100,
        "lease": timedelta(60),
    }
    return (
        nothing | wanted | {"done_ids": [1, 2, 3], "done_fences": [1, 1, 1], "until": None, "watermark": None} | others
    )


async def due_scans(con: asyncpg.Connection, name: str, **values: Any) -> list[dict[str, Any]]:
    """How the plan reads the table of live items."""
    plan = await custom_plan(con, name, **values)
    return [node for node in nodes(plan) if node.get("Relation Name") == "due" and node["Node Type"] != "ModifyTable"]


async def custom_plan(con: asyncpg.Connection, name: str, **values: Any) -> dict[str, Any]:
    """The plan for these very values, as the loops ask for it."""
    statement = getattr(load(queue.__file__), name)
    rows = await con.fetchval(f"EXPLAIN (FORMAT JSON) {statement.text}", *[values[p] for p in statement.params])
    return json.loads(rows)[0]["Plan"]  # type: ignore[no-any-return]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)
