"""Who wants to hear: people, the ways to reach them, and the mails that confirm a way."""

from soonish.db.migrations.wall import run, wall_in

revision = "0003_people"
down_revision = "0002_access"


def upgrade() -> None:
    run(PEOPLE)
    wall_in("person", "address", "address_token")
    run("GRANT USAGE ON SEQUENCE address_id_seq TO soonish_app")  # a target is sealed under its row's id


PEOPLE = """
CREATE TABLE person (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL REFERENCES workspace,
  external_id text CHECK (char_length(external_id) BETWEEN 1 AND 200),
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 201),
  first_name text CHECK (char_length(first_name) BETWEEN 1 AND 100),
  last_name text CHECK (char_length(last_name) BETWEEN 1 AND 100),
  email text CHECK (char_length(email) BETWEEN 3 AND 254),
  email_key text GENERATED ALWAYS AS (lower(email)) STORED,   -- behind the wall an index on lower(email) is of no use
  sought text GENERATED ALWAYS AS (lower(name || E'\\n' || coalesce(email, ''))) STORED,   -- what a search looks into
  timezone text NOT NULL,
  locale text NOT NULL,
  date_of_birth date,
  quiet_start time,
  quiet_end time,
  quiet_critical text NOT NULL DEFAULT 'send' CHECK (quiet_critical IN ('send', 'hold')),
  paused_until timestamptz,
  erased_at timestamptz,
  version int NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, id),
  UNIQUE (workspace_id, external_id),
  UNIQUE (workspace_id, email_key),
  CHECK ((first_name IS NULL) = (last_name IS NULL)),
  CHECK ((quiet_start IS NULL) = (quiet_end IS NULL) AND quiet_start <> quiet_end)
);
CREATE TABLE address (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  person_id bigint NOT NULL,
  kind text NOT NULL CHECK (kind IN ('apprise', 'email', 'console')),
  label text NOT NULL CHECK (char_length(label) BETWEEN 1 AND 60),
  scheme text NOT NULL,                             -- of an Apprise URL; else the kind
  host text,                                        -- where it leads, for the rate of a host
  target bytea,                                     -- encrypted; none for the console
  target_hint text NOT NULL,
  target_print bytea NOT NULL,                      -- an HMAC, so that one target is known again and not read
  tags text[] NOT NULL DEFAULT '{}' CHECK (cardinality(tags) <= 20),
  active boolean NOT NULL DEFAULT true,
  health text NOT NULL DEFAULT 'ok' CHECK (health IN ('unverified', 'ok', 'failing', 'disabled')),
  disabled_reason text,
  fails int NOT NULL DEFAULT 0,                     -- failed tries in a row
  refusals int NOT NULL DEFAULT 0,                  -- permanent ones in a row: what disables it
  misses int NOT NULL DEFAULT 0,                    -- transient ones in a row: what opens the circuit
  last_ok_at timestamptz,
  last_failed_at timestamptz,
  last_error text,
  verified_at timestamptz,
  circuit_until timestamptz,
  circuit_step int NOT NULL DEFAULT 0,
  version int NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  UNIQUE (workspace_id, id),
  UNIQUE (person_id, target_print),
  UNIQUE (person_id, label),
  FOREIGN KEY (workspace_id, person_id) REFERENCES person (workspace_id, id) ON DELETE CASCADE
);
-- A browser may sign in as a person, whom access itself does not know.
ALTER TABLE login_link ADD FOREIGN KEY (workspace_id, person_id) REFERENCES person (workspace_id, id)
  ON DELETE SET NULL (person_id);
ALTER TABLE sign_in ADD FOREIGN KEY (workspace_id, person_id) REFERENCES person (workspace_id, id)
  ON DELETE SET NULL (person_id);
CREATE INDEX address_tags ON address USING gin (tags);
CREATE TABLE address_token (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL,
  address_id bigint NOT NULL,                       -- no foreign key: when it goes, its mails count on
  target_print bytea NOT NULL,                      -- of the mailbox it went to: another target is not confirmed by it
  expires_at timestamptz NOT NULL,
  used_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX address_token_print ON address_token (workspace_id, target_print, created_at);
"""
