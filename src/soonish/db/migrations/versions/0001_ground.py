"""The ground: the wall's own functions, the due tables behind it, and what the installation as a whole remembers."""

from pathlib import Path

from soonish.db.migrations.wall import ALL, grant, open_to_loops, run, wall_in

revision = "0001_ground"
down_revision = None

DUE = Path(__file__).parents[3] / "due" / "schema.sql"


def upgrade() -> None:
    run("GRANT SELECT ON alembic_version TO soonish_app")
    run(WORKSPACE)
    run(f"CREATE SCHEMA due; GRANT USAGE ON SCHEMA due TO soonish_app; {DUE.read_text()}")
    run(DAYS)
    # A partition has no rights of its own: its rows are reached through due_past, and so through its policies.
    wall_in("due.due")
    wall_in("due.due_past", rights="SELECT, INSERT")
    wall_in("due.due_undone", rights="SELECT, INSERT, UPDATE")
    grant("SELECT", "due.due_history")
    open_to_loops("due.due", "due.due_past", "due.due_undone")
    run(PAUSE)
    run(INSTALLATION)
    grant("SELECT, UPDATE", "installation")
    grant(ALL, "process", "rate_slot")


WORKSPACE = """
CREATE FUNCTION current_workspace() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
  RETURN nullif(nullif(current_setting('soonish.workspace', true), ''), '*')::bigint;
CREATE FUNCTION every_workspace() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
  RETURN coalesce(current_setting('soonish.workspace', true) = '*', false);
"""

# They make and drop tables as their owner, whom the wall stops like anybody else: called where the workspace is '*'.
DAYS = """
REVOKE EXECUTE ON FUNCTION due.due_days(int), due.due_index(), due.due_drop(interval), due.due_sweep(interval, int)
  FROM PUBLIC;
GRANT EXECUTE ON FUNCTION due.due_days(int), due.due_index(), due.due_drop(interval), due.due_sweep(interval, int)
  TO soonish_app;
SELECT due.due_days(7);
"""

# A pause of workspace 0 holds for everyone, so everyone sees it, and locks it while putting an item (for which
# PostgreSQL asks the policy for UPDATE); but only its own workspace may change it: the check refuses the new row, and
# `workspace_id` cannot be written.
PAUSE = """
ALTER TABLE due.due_pause ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE (reason, paused_at, resumed_at), DELETE ON due.due_pause TO soonish_app;
CREATE POLICY seen ON due.due_pause FOR SELECT
  USING (workspace_id IN (0, (SELECT current_workspace())) OR (SELECT every_workspace()));
CREATE POLICY locked ON due.due_pause FOR UPDATE
  USING (workspace_id IN (0, (SELECT current_workspace())) OR (SELECT every_workspace()))
  WITH CHECK (workspace_id = (SELECT current_workspace()) OR (SELECT every_workspace()));
CREATE POLICY made ON due.due_pause FOR INSERT
  WITH CHECK (workspace_id = (SELECT current_workspace()) OR (SELECT every_workspace()));
CREATE POLICY ended ON due.due_pause FOR DELETE
  USING (workspace_id = (SELECT current_workspace()) OR (SELECT every_workspace()));
"""

INSTALLATION = """
CREATE TABLE installation (
  id bigint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
  uid uuid NOT NULL DEFAULT gen_random_uuid(),
  made_first_key boolean NOT NULL DEFAULT false,
  hmac_key bytea,                                   -- encrypted; made at the first start
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO installation DEFAULT VALUES;

CREATE TABLE process (
  name text PRIMARY KEY,                            -- host, pid and start
  role text NOT NULL,
  lanes jsonb NOT NULL DEFAULT '{}',
  version text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE rate_slot (
  name text PRIMARY KEY,
  next_at timestamptz NOT NULL
);
"""
