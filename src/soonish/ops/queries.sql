-- name: enter
-- Go on in another workspace within the same transaction: the operator's work on what is the system's own.
SELECT set_config('soonish.workspace', :workspace, true);

-- name: undone
-- An item that did not end done. (Done ones of today have no index on their id; they are found by time.)
SELECT u.*, now() AS now FROM due.due_undone u WHERE u.id = :id;

-- name: lives_of
-- The items of one kind and key: the live one, those that ended undone, and the one that was done at this moment.
-- (Today's done ones have no index on their key; that moment is found by the index on time.)
SELECT d.id, d.due_at, d.first_at, d.attempts, d.spared, d.last_error, d.notes::text AS notes, NULL AS fate,
  d.lease_until > now() AS leased
FROM due.due d WHERE d.kind = :kind AND d.key = :key
UNION ALL
(SELECT u.id, u.due_at, u.first_at, u.attempts, u.spared, u.last_error, u.notes::text, u.fate, false FROM due.due_undone u
 WHERE u.kind = :kind AND u.key = :key ORDER BY u.finished_at DESC LIMIT 10)
UNION ALL
SELECT p.id, p.due_at, p.first_at, p.attempts, p.spared, p.last_error, p.notes::text, 'done', false FROM due.due_past p
WHERE p.finished_at = :ended_at::timestamptz AND p.kind = :kind AND p.key = :key;

-- name: dead
-- Dead items that wait for somebody's decision, newest first.
SELECT u.* FROM due.due_undone u
WHERE u.fate = 'dead' AND u.revived_at IS NULL
  AND (u.finished_at, u.id) < (coalesce(:after_at::timestamptz, 'infinity'), :after_id)
  AND (:kind::text IS NULL OR u.kind = :kind)
ORDER BY u.finished_at DESC, u.id DESC LIMIT :k;

-- name: dead_kinds
-- The kinds among the last 10,001 of them, so that one can retry all of a kind; with so many, each may have more.
SELECT d.kind, count(*) AS count FROM (
  SELECT u.kind FROM due.due_undone u WHERE u.fate = 'dead' AND u.revived_at IS NULL ORDER BY u.finished_at DESC LIMIT 10001
) d GROUP BY d.kind ORDER BY count(*) DESC, d.kind;

-- name: numbers
-- This workspace in figures, none counted beyond 10,000. `worked` are those of kinds that are known here.
SELECT now() AS now,
  (SELECT count(*) FROM (SELECT FROM due.due_undone u
    WHERE u.fate = 'dead' AND u.revived_at IS NULL LIMIT 10001) d) AS dead,
  (SELECT count(*) FROM (SELECT FROM due.due_undone u
    WHERE u.fate = 'dead' AND u.finished_at > now() - interval '24 hours' LIMIT 10001) d) AS dead_24h,
  count(o.wake_at) AS overdue, coalesce(extract(epoch FROM now() - min(o.wake_at)), 0)::float8 AS oldest_overdue_s,
  count(o.wake_at) FILTER (WHERE o.kind = ANY(:kinds::text[])) AS overdue_worked,
  coalesce(extract(epoch FROM now() - min(o.wake_at) FILTER (WHERE o.kind = ANY(:kinds::text[]))), 0)::float8
    AS oldest_worked_s
FROM unnest(ARRAY[0, 1, 2]::smallint[]) AS l (lane)
LEFT JOIN LATERAL (
  SELECT i.wake_at, i.kind FROM due.due i
  WHERE i.lane = l.lane AND i.wake_at <= now() AND (i.lease_until IS NULL OR i.lease_until <= now())
  ORDER BY i.wake_at LIMIT 10001
) o ON true;

-- name: estimate
-- For metrics: about how many items there are, and how long the oldest lease has been over without anybody taking the item.
SELECT greatest((SELECT c.reltuples FROM pg_class c WHERE c.oid = 'due.due'::regclass), 0)::float8 AS pending,
  coalesce((SELECT extract(epoch FROM now() - min(i.lease_until)) FROM (
    SELECT d.lease_until FROM due.due d WHERE d.lane < 10 AND d.wake_at <= now() LIMIT 100000
  ) i WHERE i.lease_until <= now()), 0)::float8 AS oldest_lease_s;

-- name: hold_pause
-- Keep a pause from ending while items are parked under it.
SELECT p.kind FROM due.due_pause p
WHERE p.workspace_id = :workspace_id AND p.kind = :kind AND p.resumed_at IS NULL FOR SHARE;

-- name: beat
-- This process lives.
INSERT INTO process AS p (name, role, lanes, version) VALUES (:name, :role, :lanes, :version)
ON CONFLICT (name) DO UPDATE SET lanes = excluded.lanes, seen_at = clock_timestamp();

-- name: leave
DELETE FROM process p WHERE p.name = ANY(:names::text[]);

-- name: of_host
SELECT p.name FROM process p WHERE starts_with(p.name, :host);

-- name: forget
-- Processes that nobody misses any more.
DELETE FROM process p WHERE p.name = ANY(ARRAY(
  SELECT q.name FROM process q WHERE q.seen_at < clock_timestamp() - interval '1 day' LIMIT :k));

-- name: processes
SELECT p.name, p.role, p.lanes, p.version, p.started_at,
  extract(epoch FROM clock_timestamp() - p.seen_at)::float8 AS seen_s
FROM process p ORDER BY p.started_at, p.name;

-- name: schema_version
SELECT v.version_num FROM alembic_version v;

-- name: take_space
-- Fails where the database has no space left; the table is gone with the transaction.
CREATE TEMPORARY TABLE space_probe ON COMMIT DROP AS SELECT repeat('soonish ', 512) FROM generate_series(1, 1000);

-- name: ring
-- Tell live pages of these workspaces that something was worked.
SELECT pg_notify('soonish_live', w.id || ':due') FROM unnest(:workspaces::bigint[]) AS w (id);

-- name: clock
SELECT now();

-- name: secret_keys
-- Under which keys values are stored. `installation` and `hmac_key` stand for the table and the column.
SELECT s.key_id, count(*) AS count
FROM (SELECT encode(substr(t.hmac_key, 3, get_byte(t.hmac_key, 1)), 'escape') AS key_id FROM installation t
      WHERE t.hmac_key IS NOT NULL) s
GROUP BY s.key_id;

-- name: stale_secrets
-- Values that are stored under another key than this one.
SELECT t.id, t.hmac_key AS sealed FROM installation t
WHERE t.id > :after AND t.hmac_key IS NOT NULL
  AND encode(substr(t.hmac_key, 3, get_byte(t.hmac_key, 1)), 'escape') <> :key_id
ORDER BY t.id LIMIT :k;

-- name: reseal
-- Only where the value is still the one that was read: whoever changed it meanwhile has sealed it under the new key.
UPDATE installation t SET hmac_key = r.fresh
FROM unnest(:ids::bigint[], :olds::bytea[], :news::bytea[]) AS r (id, old, fresh)
WHERE t.id = r.id AND t.hmac_key = r.old;

-- name: recent_past
-- A done item by its id, which has no index: among those of the last days, and no more of them than a look may take.
SELECT p.* FROM (
  SELECT h.* FROM due.due_past h WHERE h.finished_at > now() - interval '7 days' LIMIT 1000000
) p WHERE p.id = :id;
