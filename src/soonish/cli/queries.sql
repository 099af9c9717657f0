-- name: role
SELECT session_user::text AS login, r.rolname::text AS name, r.rolsuper OR r.rolbypassrls AS over_the_wall
FROM pg_roles r WHERE r.rolname = current_user;

-- name: ring
SELECT pg_notify('soonish_doctor', :word);

-- name: clock
SELECT clock_timestamp();

-- name: sealed
SELECT i.hmac_key FROM installation i WHERE i.id = 1;

-- name: leases
-- Leased items are due ones, so the index finds them; never counting beyond 100,000 a lane.
SELECT count(*) FILTER (WHERE d.lease_until > now()) AS running, count(*) FILTER (WHERE d.lease_until <= now()) AS over,
  coalesce(extract(epoch FROM now() - min(d.lease_until)), 0)::float8 AS longest_over_s
FROM unnest(ARRAY[0, 1, 2]::smallint[]) AS l (lane)
CROSS JOIN LATERAL (
  SELECT i.lease_until FROM due.due i WHERE i.lane = l.lane AND i.wake_at <= now() ORDER BY i.wake_at LIMIT 100000
) d;

-- name: dead
SELECT count(*) FROM due.due_undone u
WHERE u.fate = 'dead' AND u.revived_at IS NULL AND u.finished_at > now() - interval '24 hours';

-- name: counting
-- A statement that counts the rows of every table of ours; partitions are counted with their whole.
SELECT string_agg(format('SELECT %L AS name, count(*) AS rows FROM %I.%I', n.nspname || '.' || c.relname, n.nspname, c.relname),
                  ' UNION ALL ' ORDER BY n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('public', 'due') AND c.relkind IN ('r', 'p') AND NOT c.relispartition;

-- name: snapshot
SELECT pg_export_snapshot();

-- name: schema
SELECT v.version_num FROM alembic_version v;

-- name: enter_everywhere
SELECT set_config('soonish.workspace', '*', true);
