-- The due tables: what will happen, and what became of it.
-- The one source for `due.install` in another program and for the product's migration, so nothing here knows workspaces, roles or policies.
-- Every object is safe to make again. The schema name `due` is replaced where another one is asked for.

CREATE TABLE IF NOT EXISTS due.due (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace_id bigint NOT NULL DEFAULT 0,           -- 0 = the system's own
  kind text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  lane smallint NOT NULL,                           -- 0 control, 1 people, 2 bulk; parked: lane + 10
  due_at timestamptz NOT NULL,                      -- the promise: a retry never changes it
  wake_at timestamptz NOT NULL,                     -- when to look next
  lease_until timestamptz,                          -- not indexed: a claim touches no index
  attempts int NOT NULL DEFAULT 0,                  -- the fence: grows at every claim and every move, never falls
  spared int NOT NULL DEFAULT 0,                    -- attempts that do not count against the budget
  payload jsonb NOT NULL DEFAULT '{}',
  expires_at timestamptz,
  first_at timestamptz,
  last_error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  notes jsonb,                                      -- its last moves and pauses, which are no tries; null for most
  UNIQUE (kind, key)
) WITH (fillfactor = 50);                           -- room for the claim to stay on its page
CREATE INDEX IF NOT EXISTS due_lane_wake ON due.due (lane, wake_at);

-- What ended done. No btree on its open day: each one costs more than the row itself.
CREATE TABLE IF NOT EXISTS due.due_past (
  id bigint NOT NULL,
  workspace_id bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  lane smallint NOT NULL,
  due_at timestamptz NOT NULL,
  attempts int NOT NULL,
  spared int NOT NULL,
  payload jsonb NOT NULL,
  expires_at timestamptz,
  first_at timestamptz,
  last_error text,
  created_at timestamptz NOT NULL,
  notes jsonb,
  finished_at timestamptz NOT NULL
) PARTITION BY RANGE (finished_at);
CREATE TABLE IF NOT EXISTS due.due_past_other PARTITION OF due.due_past DEFAULT;

-- What ended otherwise. Small and fully indexed: this is where people look.
CREATE TABLE IF NOT EXISTS due.due_undone (
  id bigint PRIMARY KEY,
  workspace_id bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  lane smallint NOT NULL,
  due_at timestamptz NOT NULL,
  attempts int NOT NULL,
  spared int NOT NULL,
  payload jsonb NOT NULL,
  expires_at timestamptz,
  first_at timestamptz,
  last_error text,
  created_at timestamptz NOT NULL,
  notes jsonb,
  finished_at timestamptz NOT NULL,
  fate text NOT NULL CHECK (fate IN ('dropped', 'cancelled', 'expired', 'dead')),
  reason text,
  revived_at timestamptz
);
CREATE INDEX IF NOT EXISTS due_undone_kind_key ON due.due_undone (kind, key);
CREATE INDEX IF NOT EXISTS due_undone_finished ON due.due_undone (workspace_id, finished_at);
CREATE INDEX IF NOT EXISTS due_undone_dead ON due.due_undone (workspace_id, finished_at) WHERE fate = 'dead';

CREATE TABLE IF NOT EXISTS due.due_pause (
  workspace_id bigint NOT NULL,                     -- 0 = everyone
  kind text NOT NULL,                               -- '*' = all
  reason text,
  paused_at timestamptz NOT NULL DEFAULT now(),
  resumed_at timestamptz,                           -- set while its items are brought back; the row goes with the last of them
  PRIMARY KEY (workspace_id, kind)
);

CREATE OR REPLACE VIEW due.due_history WITH (security_invoker = true) AS
  SELECT id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at, first_at, last_error,
         created_at, notes, finished_at, 'done' AS fate, NULL::text AS reason, NULL::timestamptz AS revived_at
  FROM due.due_past
  UNION ALL
  SELECT id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at, first_at, last_error,
         created_at, notes, finished_at, fate, reason, revived_at
  FROM due.due_undone;

-- What happened to an item and was no try, the newest last and no more than twenty.
CREATE OR REPLACE FUNCTION due.due_noted(notes jsonb, fresh jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN fresh IS NULL THEN notes WHEN jsonb_array_length(notes) >= 20 THEN (notes - 0) || fresh
              ELSE coalesce(notes, '[]') || fresh END
$$;

-- The bell. Only for new rows; a statement that moves rows rings by itself, so claims and finishes never pay.
CREATE OR REPLACE FUNCTION due.due_ring() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM fresh WHERE wake_at < now() + interval '60 seconds' AND lane < 10) THEN
    PERFORM pg_notify('soonish_due', '');
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER due_ring AFTER INSERT ON due.due
  REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION due.due_ring();

-- Keeping the past, in steps that commit by themselves, so that no finish waits for more than a moment. They run as their
-- owner, because they make and drop tables.

-- Make the days ahead, and move into them what was finished before they were there.
CREATE OR REPLACE FUNCTION due.due_days(ahead int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
DECLARE
  day date;
  part text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('due.due_days'));
  FOR n IN 0 .. ahead LOOP
    day := (now() AT TIME ZONE 'UTC')::date + n;
    part := 'due_past_' || to_char(day, 'YYYYMMDD');
    CONTINUE WHEN to_regclass('due.' || part) IS NOT NULL;
    EXECUTE format('CREATE TABLE due.%I (LIKE due.due_past INCLUDING DEFAULTS)', part);
    EXECUTE format('WITH moved AS (DELETE FROM due.due_past_other WHERE finished_at >= %L AND finished_at < %L RETURNING *)
                    INSERT INTO due.%I SELECT * FROM moved', day, day + 1, part);
    EXECUTE format('CREATE INDEX ON due.%I USING brin (finished_at)', part);
    EXECUTE format('ALTER TABLE due.due_past ATTACH PARTITION due.%I FOR VALUES FROM (%L) TO (%L)', part, day, day + 1);
  END LOOP;
END $$;

-- The days that have a table.
CREATE OR REPLACE VIEW due.due_day AS
  SELECT c.relname::text AS part, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
  FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = 'due.due_past'::regclass AND c.relname ~ '^due_past_\d{8}$';

-- Index one day that is over, where nobody writes any more; answers which, or null where none is left.
CREATE OR REPLACE FUNCTION due.due_index() RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '10s' AS $$
DECLARE
  part text := (SELECT d.part FROM due.due_day d
                WHERE d.day < (now() AT TIME ZONE 'UTC')::date AND to_regclass('due.' || d.part || '_kind_key') IS NULL
                ORDER BY d.day LIMIT 1);
BEGIN
  IF part IS NOT NULL THEN
    EXECUTE format('CREATE INDEX %I ON due.%I (kind, key)', part || '_kind_key', part);
    EXECUTE format('CREATE INDEX %I ON due.%I (workspace_id, finished_at)', part || '_finished', part);
  END IF;
  RETURN part;
END $$;

-- Drop one day that is old; answers which, '' where a reader of the past holds it, or null where none is left.
-- While a drop waits for readers, every finish waits behind it: so it gives up at once, and is asked again later.
CREATE OR REPLACE FUNCTION due.due_drop(keep interval) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET lock_timeout = '100ms' AS $$
DECLARE
  part text := (SELECT d.part FROM due.due_day d WHERE d.day < (now() AT TIME ZONE 'UTC')::date - keep
                ORDER BY d.day LIMIT 1);
BEGIN
  IF part IS NOT NULL THEN
    EXECUTE format('DROP TABLE due.%I', part);
  END IF;
  RETURN part;
EXCEPTION WHEN lock_not_available THEN
  RETURN '';
END $$;

-- Remove some old rows that lie in no day of their own; answers how many.
CREATE OR REPLACE FUNCTION due.due_sweep(keep interval, k int) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH undone AS (
    DELETE FROM due.due_undone WHERE id = ANY(ARRAY(
      SELECT u.id FROM due.due_undone u WHERE u.finished_at < now() - keep LIMIT k)) RETURNING id
  ), stray AS (
    DELETE FROM due.due_past_other WHERE ctid = ANY(ARRAY(
      SELECT o.ctid FROM due.due_past_other o WHERE o.finished_at < now() - keep LIMIT k)) RETURNING id
  )
  SELECT greatest((SELECT count(*) FROM undone), (SELECT count(*) FROM stray))
$$;
