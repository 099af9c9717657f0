"""Who may ask: workspaces, keys, login links, sign-ins, stored answers, and the record of who changed what."""

from soonish.db.migrations.wall import open_to_lookup, owned_by_lookup, run, wall_in

revision = "0002_access"
down_revision = "0001_ground"


def upgrade() -> None:
    run(WORKSPACE)
    wall_in("workspace", rights="SELECT, INSERT, UPDATE", column="id")
    run(ACCESS)
    wall_in("api_key", "login_link", "sign_in", "idempotency")
    wall_in("audit", rights="SELECT, INSERT, DELETE")
    run("GRANT USAGE ON SEQUENCE idempotency_id_seq TO soonish_app")  # a body is sealed under its row's id
    open_to_lookup("workspace", "api_key", "login_link", "sign_in")
    run(LOOKUP)
    owned_by_lookup("find_token(text, bytea)", "each_workspace()", "closed_workspaces()")
    run(OPERATOR)
    owned_by_lookup(
        "operator_workspaces(bigint, int)",
        "operator_make_workspace(text, text, text, text)",
        "operator_close_workspace(bigint)",
    )


# Workspace 1 is the operator's. Only the first start makes it, so no number is ever lost to one that was rolled back.
WORKSPACE = """
CREATE TABLE workspace (
  id bigint GENERATED ALWAYS AS IDENTITY (START WITH 2) PRIMARY KEY,
  slug text NOT NULL UNIQUE CHECK (slug ~ '^[a-z][a-z0-9-]{1,39}$'),
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 100),
  timezone text NOT NULL DEFAULT 'UTC',
  locale text NOT NULL DEFAULT 'en',
  email_trust text NOT NULL DEFAULT 'confirm' CHECK (email_trust IN ('confirm', 'trusted')),
  unknown_people text NOT NULL DEFAULT 'retry_once' CHECK (unknown_people IN ('retry_once', 'never', 'retry')),
  closed_at timestamptz CHECK (closed_at IS NULL OR id > 1),
  version int NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""

# Of every secret only the SHA-256 is kept. `idempotency` and `audit` are written by every changing request and a
# workspace is never deleted, so they do without a foreign key, which would lock the workspace's row each time.
ACCESS = """
CREATE TABLE api_key (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL REFERENCES workspace,
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 60),
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  hint text NOT NULL CHECK (char_length(hint) = 7),
  role text NOT NULL CHECK (role IN ('admin', 'write', 'read')),
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, id)
);
CREATE TABLE login_link (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL REFERENCES workspace,
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  role text NOT NULL CHECK (role IN ('admin', 'write', 'read')),
  person_id bigint,
  expires_at timestamptz NOT NULL,
  used_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, id)
);
CREATE TABLE sign_in (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL REFERENCES workspace,
  hash bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  role text NOT NULL CHECK (role IN ('admin', 'write', 'read')),
  person_id bigint,
  csrf bytea NOT NULL,                              -- the half that stays here; the other half is the cookie
  seen_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  ended_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, id)
);
CREATE TABLE idempotency (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  actor text NOT NULL,
  key text NOT NULL CHECK (char_length(key) BETWEEN 1 AND 200),
  fingerprint bytea NOT NULL,
  status int NOT NULL CHECK (status BETWEEN 200 AND 299),
  headers jsonb NOT NULL,
  body bytea NOT NULL,                              -- encrypted
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, actor, key)
);
CREATE INDEX idempotency_created ON idempotency (workspace_id, created_at);
CREATE TABLE audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  actor text NOT NULL,
  request_id uuid NOT NULL,
  verb text NOT NULL,
  entity text NOT NULL,
  changes jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX audit_entity ON audit (workspace_id, entity, id);
CREATE INDEX audit_newest ON audit (workspace_id, id);
"""

# What must be found before anybody knows in which workspace it is. They answer ids, never a row.
LOOKUP = """
CREATE FUNCTION find_token(purpose text, token_hash bytea)
  RETURNS TABLE (id bigint, workspace_id bigint, role text, expires_at timestamptz)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT found.id, found.workspace_id, found.role, found.expires_at FROM (
    SELECT k.id, k.workspace_id, k.role, k.expires_at FROM api_key k
    WHERE purpose = 'key' AND k.hash = token_hash AND k.revoked_at IS NULL
      AND (k.expires_at IS NULL OR k.expires_at > now())
    UNION ALL
    SELECT s.id, s.workspace_id, s.role, s.expires_at FROM sign_in s
    WHERE purpose = 'sign_in' AND s.hash = token_hash AND s.ended_at IS NULL
      AND s.expires_at > now() AND s.seen_at > now() - interval '7 days'
    UNION ALL
    SELECT l.id, l.workspace_id, l.role, l.expires_at FROM login_link l
    WHERE purpose = 'login_link' AND l.hash = token_hash AND l.used_at IS NULL AND l.expires_at > now()
  ) found
  JOIN workspace w ON w.id = found.workspace_id AND w.closed_at IS NULL
$$;
CREATE FUNCTION each_workspace() RETURNS SETOF bigint
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT w.id FROM workspace w WHERE w.closed_at IS NULL ORDER BY w.id
$$;
CREATE FUNCTION closed_workspaces() RETURNS SETOF bigint
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT w.id FROM workspace w WHERE w.closed_at IS NOT NULL
$$;
"""

# The operator's calls reach every workspace, and do so from workspace 1 alone.
OPERATOR = """
GRANT INSERT (slug, name, timezone, locale), UPDATE (closed_at, version, updated_at) ON workspace TO soonish_lookup;
CREATE POLICY operator_makes ON workspace FOR INSERT TO soonish_lookup WITH CHECK ((SELECT current_workspace()) = 1);
CREATE POLICY operator_closes ON workspace FOR UPDATE TO soonish_lookup
  USING ((SELECT current_workspace()) = 1) WITH CHECK (closed_at IS NOT NULL);
CREATE FUNCTION operator_workspaces(before bigint, k int) RETURNS SETOF workspace
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT w.* FROM workspace w
  WHERE (SELECT current_workspace()) = 1 AND (before IS NULL OR w.id < before) ORDER BY w.id DESC LIMIT k
$$;
CREATE FUNCTION operator_make_workspace(slug text, name text, timezone text, locale text) RETURNS SETOF workspace
  LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  INSERT INTO workspace AS w (slug, name, timezone, locale) VALUES ($1, $2, $3, $4)
  ON CONFLICT (slug) DO NOTHING RETURNING w.*
$$;
CREATE FUNCTION operator_close_workspace(workspace_id bigint) RETURNS SETOF workspace
  LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
  UPDATE workspace w SET closed_at = now(), version = w.version + 1, updated_at = now()
  WHERE w.id = $1 AND w.closed_at IS NULL AND (SELECT current_workspace()) = 1 RETURNING w.*
$$;
"""
