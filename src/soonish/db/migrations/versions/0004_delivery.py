"""How it reaches them: endpoints, messages and facts, and the ledger of what was sent to whom, try by try."""

from soonish.db.migrations.wall import open_to_lookup, owned_by_lookup, run, wall_in

revision = "0004_delivery"
down_revision = "0003_people"


def upgrade() -> None:
    run(ENDPOINT)
    run(LEDGER)
    run(HELD)
    wall_in("endpoint", "endpoint_secret", "message", "fact", "delivery", "attempt")
    # Secrets are sealed under the id of their row, which is taken first; the cause of a message has its id.
    sequences = ("endpoint_id_seq", "endpoint_secret_id_seq", "delivery_id_seq", "message_id_seq")
    run(f"GRANT USAGE ON SEQUENCE {', '.join(sequences)} TO soonish_app")
    open_to_lookup("fact")
    run(HEADS)
    owned_by_lookup("fact_heads()")


ENDPOINT = """
CREATE TABLE endpoint (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL REFERENCES workspace,
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 60),
  kind text NOT NULL CHECK (kind IN ('webhook', 'amqp', 'sqs')),
  config jsonb NOT NULL,
  secret_config bytea,                              -- encrypted: what config shows as ***
  fact_types text[] NOT NULL CHECK (cardinality(fact_types) BETWEEN 1 AND 50),
  active boolean NOT NULL DEFAULT true,
  health text NOT NULL DEFAULT 'ok' CHECK (health IN ('ok', 'failing', 'disabled')),
  disabled_reason text,
  fails int NOT NULL DEFAULT 0,                     -- tries since it began to fail
  misses int NOT NULL DEFAULT 0,                    -- transient failures in a row: what opens the circuit
  failing_since timestamptz,
  circuit_until timestamptz,
  circuit_step int NOT NULL DEFAULT 0,
  rate_per_second int CHECK (rate_per_second BETWEEN 1 AND 10000),
  max_in_flight int NOT NULL DEFAULT 100 CHECK (max_in_flight BETWEEN 1 AND 1000),
  last_ok_at timestamptz,
  last_failed_at timestamptz,
  last_error text,
  version int NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, id)
);
CREATE TABLE endpoint_secret (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  endpoint_id bigint NOT NULL,
  secret bytea NOT NULL,                            -- encrypted
  ends_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  FOREIGN KEY (workspace_id, endpoint_id) REFERENCES endpoint (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX endpoint_secret_endpoint ON endpoint_secret (workspace_id, endpoint_id, id);
"""

# The ledger keeps ids and no foreign keys: what it names may go while its rows stay, and a key that is checked for each
# row would cost a broadcast more than the rows themselves.
LEDGER = """
CREATE TABLE message (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  cause text COLLATE "C" NOT NULL CHECK (char_length(cause) BETWEEN 1 AND 200),
  title text NOT NULL CHECK (char_length(title) BETWEEN 1 AND 300),
  body text NOT NULL CHECK (char_length(body) <= 20000),
  link text CHECK (char_length(link) <= 2000),
  level text NOT NULL DEFAULT 'info' CHECK (level IN ('info', 'warning', 'critical')),
  hold text NOT NULL DEFAULT 'quiet' CHECK (hold IN ('quiet', 'never')),
  calendar text CHECK (char_length(calendar) <= 65536),
  to_people jsonb,
  send_at timestamptz,
  expires_at timestamptz,
  cancelled_at timestamptz,
  told_at timestamptz,
  because jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, cause)
);
CREATE INDEX message_newest ON message (workspace_id, id);
CREATE TABLE fact (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  wire_id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
  cause text COLLATE "C" NOT NULL CHECK (char_length(cause) BETWEEN 1 AND 200),
  type text COLLATE "C" NOT NULL CHECK (char_length(type) <= 64),
  subject text COLLATE "C" NOT NULL CHECK (char_length(subject) <= 200),
  data jsonb NOT NULL,
  occurred_at timestamptz NOT NULL DEFAULT now(),
  due_at timestamptz,
  deliver_until timestamptz,
  because jsonb NOT NULL DEFAULT '{}',
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),   -- the order in which facts can be followed without a gap
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, cause)
);
CREATE INDEX fact_followed ON fact (workspace_id, xid, id);
CREATE INDEX fact_newest ON fact (workspace_id, id);
CREATE INDEX fact_subject ON fact (workspace_id, subject, id);
CREATE TABLE delivery (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  wire_id uuid NOT NULL DEFAULT gen_random_uuid(),
  cause text COLLATE "C" NOT NULL,
  message_id bigint,
  fact_id bigint,
  person_id bigint,
  address_id bigint,
  endpoint_id bigint,
  mailbox bytea,                                    -- encrypted: a mail to what is no address yet
  channel text NOT NULL CHECK (channel IN ('apprise', 'email', 'console', 'webhook', 'amqp', 'sqs', 'none')),
  merge jsonb NOT NULL DEFAULT '{}',
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'failed', 'unknown', 'skipped')),
  reason text,
  partial boolean NOT NULL DEFAULT false,
  due_at timestamptz NOT NULL,
  expires_at timestamptz,
  next_at timestamptz,
  tries int NOT NULL DEFAULT 0,                     -- of all ladders: the number of its last attempt
  steps int NOT NULL DEFAULT 0,                     -- of this ladder
  doubts int NOT NULL DEFAULT 0,                    -- of these, those whose end is not known
  redirects int NOT NULL DEFAULT 0,                 -- of these, answers 3xx in a row: the third is permanent
  holds jsonb,                                      -- what held it, from when until when; null for most
  first_at timestamptz,
  ended_at timestamptz,
  wrong text GENERATED ALWAYS AS (CASE WHEN state IN ('failed', 'unknown') THEN state END) STORED,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK (num_nonnulls(message_id, fact_id) = 1),
  UNIQUE NULLS NOT DISTINCT (workspace_id, cause, person_id, address_id, endpoint_id)
) WITH (fillfactor = 50);                           -- room for the ends of all on their page: no index learns of them
CREATE UNIQUE INDEX delivery_wire ON delivery (wire_id);
CREATE INDEX delivery_newest ON delivery (workspace_id, id DESC);
CREATE INDEX delivery_person ON delivery (person_id, id) WHERE person_id IS NOT NULL;
CREATE INDEX delivery_endpoint ON delivery (endpoint_id, id) WHERE endpoint_id IS NOT NULL;
CREATE INDEX delivery_message ON delivery (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX delivery_fact ON delivery (fact_id) WHERE fact_id IS NOT NULL;
CREATE INDEX delivery_mailbox ON delivery (workspace_id, id) WHERE mailbox IS NOT NULL;  -- few: what changes keys
CREATE INDEX delivery_wrong ON delivery (workspace_id, wrong, id) WHERE wrong IS NOT NULL;
CREATE TABLE attempt (
  workspace_id bigint NOT NULL,
  delivery_id bigint NOT NULL,
  n int NOT NULL,
  started_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('sent', 'partial', 'failed', 'unknown')),
  permanent boolean NOT NULL DEFAULT false,
  repeat boolean NOT NULL DEFAULT false,
  code text NOT NULL,
  status int,
  answer text NOT NULL DEFAULT '' CHECK (char_length(answer) <= 500),
  latency_ms int NOT NULL,
  PRIMARY KEY (delivery_id, n)
);
"""

# The holds of a delivery with one more. Where nothing came between it and the last one, they are one hold that lasts
# longer: a target that is away for a week leaves one line, not a thousand.
HELD = """
CREATE FUNCTION held(holds jsonb, before text, why text, until timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN before = why AND holds IS NOT NULL
    THEN (holds - -1) || (holds -> -1
           || jsonb_build_object('until', until, 'times', (holds -> -1 ->> 'times')::int + 1))
    ELSE due.due_noted(holds, jsonb_build_object('why', why, 'at', now(), 'until', until, 'times', 1)) END
$$;
"""

# What the safety look of live streams compares, over the wall: ids alone, one look into an index for each workspace.
HEADS = """
CREATE FUNCTION fact_heads() RETURNS TABLE (workspace_id bigint, id bigint)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT w.id, f.id FROM workspace w
  CROSS JOIN LATERAL (SELECT o.id FROM fact o WHERE o.workspace_id = w.id ORDER BY o.id DESC LIMIT 1) f
  WHERE w.closed_at IS NULL
$$;
"""
