-- name: turn, short: claim
-- One turn of a loop in one round trip: write the results of the last batch, take the next, say how long to sleep.
-- Every part sees the table as it was when the statement began, so what is finished here is kept out of the taking by its id.
-- A result counts once: it needs the fence and a lease, which the first one ends (run out or not).
-- The first row is the head (jsonb), the others are items.
-- An idle loop has no results, and is in a hurry: to plan what stands in brackets would take most of its time.
WITH
-- [
done AS (
  DELETE FROM due.due d
  USING unnest(:done_ids::bigint[], :done_fences::int[]) AS r (id, fence)
  WHERE d.id = r.id AND d.attempts = r.fence AND d.lease_until IS NOT NULL
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.last_error, d.created_at, d.notes
), past AS (
  INSERT INTO due.due_past (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                            first_at, last_error, created_at, notes, finished_at)
  SELECT done.*, now() FROM done
), rest AS (
  SELECT r.*, coalesce(r.at, now() + make_interval(secs => r.wait)) AS wake_at
  FROM unnest(:rest_ids::bigint[], :rest_fences::int[], :rest_ats::timestamptz[], :rest_waits::float8[],
              :rest_errors::text[], :rest_spared::int[], :rest_fates::text[], :rest_reasons::text[])
       AS r (id, fence, at, wait, error, spared, fate, reason)
), back AS (
  UPDATE due.due d
  SET wake_at = coalesce(r.wake_at, d.wake_at), lease_until = NULL, spared = d.spared + r.spared,
      last_error = coalesce(r.error, d.last_error),
      -- The pause is locked, so that it cannot end before the one who ends it sees this row.
      -- A fate here is parked or none, and a comparison with none would not spare the look at the pauses.
      lane = d.lane % 10 + CASE WHEN r.fate IS NOT NULL AND EXISTS (
        SELECT FROM due.due_pause p WHERE p.workspace_id IN (0, d.workspace_id) AND p.kind IN ('*', d.kind)
          AND p.resumed_at IS NULL FOR SHARE) THEN 10 ELSE 0 END,
      first_at = CASE WHEN r.reason = 'unseen' THEN NULL ELSE d.first_at END
  FROM rest r
  WHERE d.id = r.id AND d.attempts = r.fence AND d.lease_until IS NOT NULL AND (r.fate IS NULL OR r.fate = 'parked')
    AND NOT coalesce(r.wake_at >= d.expires_at, false)
  RETURNING d.id, d.attempts, d.wake_at
), ended AS (
  DELETE FROM due.due d
  USING rest r
  WHERE d.id = r.id AND d.attempts = r.fence AND d.lease_until IS NOT NULL
    AND (r.fate <> 'parked' OR (r.fate IS NULL AND r.wake_at >= d.expires_at))
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, coalesce(r.error, d.last_error) AS last_error, d.created_at, d.notes,
            coalesce(r.fate, 'expired') AS fate, r.reason
), undone AS (
  INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                              first_at, last_error, created_at, notes, fate, reason, finished_at)
  SELECT ended.*, now() FROM ended
),
-- ]
near AS MATERIALIZED (
  SELECT d.id, d.wake_at, d.lease_until IS NOT NULL AS interrupted
  FROM due.due d
  WHERE d.lane = :lane AND d.wake_at <= CASE WHEN :until::timestamptz IS NULL THEN now() ELSE :until END
    AND d.wake_at >= coalesce(:watermark::timestamptz, '-infinity')
    AND (d.lease_until IS NULL OR d.lease_until <= now())
    AND d.kind = ANY(:kinds::text[])
    -- [
    AND d.id <> ALL(:done_ids::bigint[]) AND d.id <> ALL(:rest_ids::bigint[])
    -- ]
  ORDER BY d.wake_at
  LIMIT :k
  FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE due.due d
  SET lease_until = now() + :lease::interval, attempts = d.attempts + 1, first_at = coalesce(d.first_at, now())
  WHERE d.id = ANY(ARRAY(SELECT near.id FROM near))
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.attempts, d.spared, d.due_at, d.payload::text, d.expires_at,
            extract(epoch FROM d.first_at - d.due_at)::float8 AS late, d.first_at < now() AS seen
)
SELECT NULL::bigint AS id, NULL::bigint AS workspace_id, NULL::text AS kind, NULL::text AS key, NULL::int AS attempts,
  NULL::int AS spared, (SELECT max(near.wake_at) FROM near) AS due_at,
  jsonb_build_object(
    -- [
    'lost', CASE WHEN (SELECT count(*) FROM done) < cardinality(:done_ids::bigint[])
                   OR (SELECT count(*) FROM back) + (SELECT count(*) FROM ended) < cardinality(:rest_ids::bigint[]) THEN
      ARRAY(SELECT l.id || ':' || l.fence FROM (
        SELECT unnest(:done_ids::bigint[] || :rest_ids::bigint[]) AS id,
               unnest(:done_fences::int[] || :rest_fences::int[]) AS fence
        EXCEPT SELECT done.id, done.attempts FROM done EXCEPT SELECT back.id, back.attempts FROM back
        EXCEPT SELECT ended.id, ended.attempts FROM ended) l) END,
    'expired', CASE WHEN cardinality(:rest_ids::bigint[]) > 0 THEN
      ARRAY(SELECT ended.id FROM ended WHERE ended.fate = 'expired') END,
    -- ]
    'next', CASE WHEN (SELECT count(*) FROM near) < :k THEN least(
      (SELECT extract(epoch FROM d.wake_at - now()) FROM due.due d
       WHERE d.lane = :lane AND d.wake_at > now() AND d.wake_at < now() + interval '60 seconds'
         AND d.kind = ANY(:kinds::text[]) ORDER BY d.wake_at LIMIT 1),
      -- [
      (SELECT extract(epoch FROM min(back.wake_at) - now()) FROM back),
      -- ]
      -- In order, or the plan might read the whole table for rows that are not there.
      (SELECT 1.0 FROM due.due d
       WHERE d.lane = :lane AND d.wake_at <= now() AND d.wake_at >= coalesce(:watermark::timestamptz, '-infinity')
         AND d.kind = ANY(:kinds::text[])
         -- [
         AND d.id <> ALL(:done_ids::bigint[]) AND d.id <> ALL(:rest_ids::bigint[])
         -- ]
       ORDER BY d.wake_at LIMIT 1)) END
  )::text AS payload, NULL::timestamptz AS expires_at, NULL::float8 AS late, NULL::boolean AS seen,
  NULL::boolean AS interrupted, NULL::text AS stop
UNION ALL
SELECT t.id, t.workspace_id, t.kind, t.key, t.attempts, t.spared, t.due_at, t.payload, t.expires_at, t.late, t.seen,
  t.id = ANY(ARRAY(SELECT near.id FROM near WHERE near.interrupted)),
  CASE WHEN t.expires_at <= now() THEN 'expired'
       WHEN EXISTS (SELECT FROM due.due_pause) AND EXISTS (
         SELECT FROM due.due_pause p WHERE p.workspace_id IN (0, t.workspace_id) AND p.kind IN ('*', t.kind)
           AND p.resumed_at IS NULL) THEN 'paused' END
FROM taken t;

-- name: extend
-- Keep the leases of running items; what does not come back has gone to somebody else, or was given back meanwhile.
-- One that a transaction holds, as that of its own handler may, is kept by that: nobody claims it, and nobody waits for it.
WITH mine AS MATERIALIZED (
  SELECT d.id, d.attempts FROM unnest(:ids::bigint[], :fences::int[]) AS r (id, fence)
  JOIN due.due d ON d.id = r.id AND d.attempts = r.fence AND d.lease_until IS NOT NULL
), free AS MATERIALIZED (
  SELECT d.id FROM due.due d WHERE d.id = ANY(ARRAY(SELECT mine.id FROM mine)) FOR UPDATE SKIP LOCKED
), kept AS (
  UPDATE due.due d SET lease_until = now() + :lease::interval
  FROM free, mine WHERE d.id = free.id AND d.id = mine.id AND d.attempts = mine.attempts
  RETURNING d.id
)
SELECT mine.id FROM mine;

-- name: held
-- Which of these another transaction holds: a result for such a one would keep a whole lane waiting.
WITH free AS MATERIALIZED (SELECT d.id FROM due.due d WHERE d.id = ANY(:ids::bigint[]) FOR UPDATE SKIP LOCKED)
SELECT d.id FROM due.due d WHERE d.id = ANY(:ids::bigint[]) AND d.id NOT IN (SELECT free.id FROM free);

-- name: release
-- Give items back untried, for another process to take at once.
WITH free AS (
  UPDATE due.due d SET lease_until = NULL, spared = d.spared + 1
  FROM unnest(:ids::bigint[], :fences::int[]) AS r (id, fence)
  WHERE d.id = r.id AND d.attempts = r.fence AND d.lease_until IS NOT NULL
  RETURNING d.id
)
SELECT count(*), pg_notify('soonish_due', '') FROM free HAVING count(*) > 0;

-- name: done_in
WITH done AS (
  DELETE FROM due.due d WHERE d.id = :id AND d.attempts = :fence AND d.lease_until IS NOT NULL
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.last_error, d.created_at, d.notes
)
INSERT INTO due.due_past (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                          first_at, last_error, created_at, notes, finished_at)
SELECT done.*, now() FROM done;

-- name: again_in
-- Put the item back inside the handler's own transaction; a hold spares the attempt.
WITH back AS (
  UPDATE due.due d
  SET wake_at = least(coalesce(:at::timestamptz, now() + make_interval(secs => :wait)), d.expires_at), lease_until = NULL,
      spared = d.spared + :spared, last_error = coalesce(:error, d.last_error), payload = coalesce(:payload::text::jsonb, d.payload)
  WHERE d.id = :id AND d.attempts = :fence AND d.lease_until IS NOT NULL
  RETURNING d.wake_at
)
SELECT count(*), CASE WHEN min(wake_at) < now() + interval '60 seconds' THEN pg_notify('soonish_due', '') END
FROM back HAVING count(*) > 0;

-- name: settle
-- Many fates at once, inside a transaction of their handlers; what was lost is not among those answered.
WITH done AS (
  DELETE FROM due.due d
  USING unnest(:done_ids::bigint[], :done_fences::int[]) AS r (id, fence)
  WHERE d.id = r.id AND d.attempts = r.fence AND d.lease_until IS NOT NULL
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.last_error, d.created_at, d.notes
), past AS (
  INSERT INTO due.due_past (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                            first_at, last_error, created_at, notes, finished_at)
  SELECT done.*, now() FROM done
), rest AS (
  SELECT r.* FROM unnest(:rest_ids::bigint[], :rest_fences::int[], :rest_ats::timestamptz[], :rest_waits::float8[],
                         :rest_errors::text[], :rest_dead::bool[], :rest_reasons::text[], :rest_payloads::text[])
                  AS r (id, fence, at, wait, error, dead, reason, payload)
), back AS (
  UPDATE due.due d
  SET wake_at = coalesce(r.at, clock_timestamp() + make_interval(secs => r.wait)), lease_until = NULL,
      payload = coalesce(r.payload::jsonb, d.payload),
      spared = d.spared + CASE WHEN r.error IS NULL THEN 1 ELSE 0 END, last_error = coalesce(r.error, d.last_error)
  FROM rest r
  WHERE d.id = r.id AND d.attempts = r.fence AND d.lease_until IS NOT NULL AND NOT r.dead
  RETURNING d.id, d.wake_at
), ended AS (
  DELETE FROM due.due d USING rest r
  WHERE d.id = r.id AND d.attempts = r.fence AND d.lease_until IS NOT NULL AND r.dead
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.created_at, d.notes, coalesce(r.error, d.last_error) AS last_error,
            coalesce(r.reason, 'budget') AS reason
), undone AS (
  INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                              first_at, created_at, notes, last_error, reason, fate, finished_at)
  SELECT ended.*, 'dead', now() FROM ended
)
SELECT ARRAY(SELECT done.id FROM done UNION ALL SELECT back.id FROM back UNION ALL SELECT ended.id FROM ended) AS written,
  CASE WHEN (SELECT min(back.wake_at) FROM back) < now() + interval '60 seconds' THEN pg_notify('soonish_due', '') END;

-- name: dead_in
-- The budget of the item is spent, said inside the handler's own transaction.
WITH gone AS (
  DELETE FROM due.due d WHERE d.id = :id AND d.attempts = :fence AND d.lease_until IS NOT NULL
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.created_at, d.notes
)
INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                            first_at, created_at, notes, last_error, fate, reason, finished_at)
SELECT gone.*, :error, 'dead', 'budget', now() FROM gone RETURNING id;

-- name: put
-- New items, and moves of live ones. Arrays hold what differs, scalars what is equal for all.
-- A pause that is seen is locked, so that it cannot end before these rows are visible to the one who ends it.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS at, coalesce(:workspace_id::bigint,
    nullif(nullif(current_setting('soonish.workspace', true), ''), '*')::bigint, 0) AS workspace_id
), paused AS MATERIALIZED (
  SELECT p.kind FROM due.due_pause p
  WHERE p.workspace_id IN (0, (SELECT workspace_id FROM clock)) AND p.resumed_at IS NULL FOR SHARE
), written AS (
  INSERT INTO due.due AS d (workspace_id, kind, key, lane, due_at, wake_at, payload, expires_at)
  SELECT (SELECT workspace_id FROM clock), coalesce(i.kind, :kind), i.key,
    coalesce(i.lane, :lane) + CASE WHEN EXISTS (SELECT FROM paused) AND EXISTS (
      SELECT FROM paused p WHERE p.kind IN ('*', coalesce(i.kind, :kind))) THEN 10 ELSE 0 END,
    coalesce(i.due_at, :due_at, (SELECT at FROM clock)),
    greatest(coalesce(i.due_at, :due_at), (SELECT at FROM clock)),
    coalesce(i.payload, :payload::text)::jsonb, coalesce(i.expires_at, :expires_at)
  FROM unnest(:keys::text[], :kinds::text[], :lanes::smallint[], :due_ats::timestamptz[], :payloads::text[],
              :expires_ats::timestamptz[]) AS i (key, kind, lane, due_at, payload, expires_at)
  ON CONFLICT (kind, key) DO UPDATE
  SET lane = excluded.lane, due_at = excluded.due_at, wake_at = excluded.wake_at, payload = excluded.payload,
      expires_at = excluded.expires_at, attempts = d.attempts + 1, spared = d.attempts + 1, lease_until = NULL,
      first_at = NULL, last_error = NULL, notes = due.due_noted(d.notes, jsonb_build_object(
        'what', 'moved', 'at', (SELECT at FROM clock), 'from', d.due_at, 'fence', d.attempts + 1))
  WHERE NOT :only_new AND (d.due_at, d.payload, d.lane % 10, d.expires_at)
    IS DISTINCT FROM (excluded.due_at, excluded.payload, excluded.lane % 10, excluded.expires_at)
  RETURNING d.xmax = 0 AS fresh, d.wake_at, d.lane
)
SELECT count(*) FILTER (WHERE fresh) AS new, count(*) FILTER (WHERE NOT fresh) AS moved,
  CASE WHEN bool_or(NOT fresh AND lane < 10 AND wake_at < now() + interval '60 seconds')
       THEN pg_notify('soonish_due', '') END
FROM written;

-- name: cancel
-- Leased or not: a holder of the lease finds its result lost.
WITH gone AS (
  DELETE FROM due.due d
  WHERE d.kind = :kind AND (d.key = ANY(:keys::text[]) OR (d.key >= :first AND d.key < :past))
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.last_error, d.created_at, d.notes
)
INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                            first_at, last_error, created_at, notes, fate, reason, finished_at)
SELECT gone.*, 'cancelled', :reason, now() FROM gone;

-- name: cancel_ids
WITH gone AS (
  DELETE FROM due.due d
  WHERE d.id = ANY(:ids::bigint[]) AND (:force OR d.lease_until IS NULL OR d.lease_until <= now())
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.last_error, d.created_at, d.notes
)
INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                            first_at, last_error, created_at, notes, fate, reason, finished_at)
SELECT gone.*, 'cancelled', :reason, now() FROM gone;

-- name: surplus
-- What lives under the prefix and is not wanted there goes; answers which wanted moments have passed and do not live.
WITH wanted AS (
  SELECT w.key, w.at FROM unnest(:keys::text[], :ats::timestamptz[]) AS w (key, at)
), gone AS (
  DELETE FROM due.due d
  WHERE d.kind = :kind AND d.key >= :first AND d.key < :past
    AND NOT EXISTS (SELECT FROM wanted w WHERE w.key = d.key AND (w.at > now() OR w.at = d.due_at))
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.last_error, d.created_at, d.notes
), undone AS (
  INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                              first_at, last_error, created_at, notes, fate, reason, finished_at)
  SELECT gone.*, 'cancelled', :reason, now() FROM gone
)
SELECT (SELECT count(*) FROM gone) AS cancelled,
  ARRAY(SELECT w.key FROM wanted w WHERE w.at <= now()
        AND NOT EXISTS (SELECT FROM due.due d WHERE d.kind = :kind AND d.key = w.key AND d.due_at = w.at)) AS passed,
  ARRAY(SELECT w.key FROM wanted w JOIN due.due d ON d.kind = :kind AND d.key = w.key AND d.due_at = w.at
        WHERE w.at <= now()) AS running;

-- name: peek
-- Live items, soonest first: each lane by its index, then merged.
SELECT d.*, extract(epoch FROM d.wake_at - now())::float8 AS wait, coalesce(d.lease_until > now(), false) AS leased
FROM unnest(:lanes::smallint[]) AS l (lane)
CROSS JOIN LATERAL (
  SELECT i.* FROM due.due i
  WHERE i.lane = l.lane AND (i.wake_at, i.id) > (coalesce(:after_at::timestamptz, '-infinity'), :after_id)
    AND (:kind::text IS NULL OR i.kind = :kind) AND (:first::text IS NULL OR (i.key >= :first AND i.key < :past))
    AND (:before::timestamptz IS NULL OR i.wake_at < :before)
    AND (:state::text IS NULL OR :state = CASE
      WHEN i.lease_until > now() THEN 'leased' WHEN i.lane >= 10 THEN 'paused'
      WHEN i.last_error IS NOT NULL AND i.wake_at > now() THEN 'retrying'
      WHEN i.wake_at <= now() THEN 'overdue' ELSE 'waiting' END)
  ORDER BY i.wake_at, i.id LIMIT :k
) d
ORDER BY d.wake_at, d.id LIMIT :k;

-- name: find
SELECT d.*, extract(epoch FROM d.wake_at - now())::float8 AS wait, coalesce(d.lease_until > now(), false) AS leased
FROM due.due d WHERE d.id = :id;

-- name: leased
-- Which of these live items somebody is working on.
SELECT d.key FROM due.due d WHERE d.kind = :kind AND d.key = ANY(:keys::text[]) AND d.lease_until > now();

-- name: history
-- What became of items, newest first.
SELECT h.* FROM due.due_history h
WHERE (h.finished_at, h.id) < (coalesce(:after_at::timestamptz, 'infinity'), :after_id)
  AND (:kind::text IS NULL OR h.kind = :kind) AND (:first::text IS NULL OR (h.key >= :first AND h.key < :past))
  AND (:fate::text IS NULL OR h.fate = :fate) AND h.finished_at >= coalesce(:since::timestamptz, '-infinity')
  AND h.finished_at < coalesce(:until::timestamptz, 'infinity')
ORDER BY h.finished_at DESC, h.id DESC LIMIT :k;

-- name: undone
-- The same without the done ones: the small, indexed table, where the dead are.
SELECT u.* FROM due.due_undone u
WHERE (u.finished_at, u.id) < (coalesce(:after_at::timestamptz, 'infinity'), :after_id)
  AND (:kind::text IS NULL OR u.kind = :kind) AND (:first::text IS NULL OR (u.key >= :first AND u.key < :past))
  AND u.fate = :fate AND u.finished_at >= coalesce(:since::timestamptz, '-infinity')
  AND u.finished_at < coalesce(:until::timestamptz, 'infinity') AND (:revived OR u.revived_at IS NULL)
ORDER BY u.finished_at DESC, u.id DESC LIMIT :k;

-- name: pull
-- Look at an item now instead of later; one that is being worked on is left alone.
WITH pulled AS (
  UPDATE due.due d SET wake_at = least(d.wake_at, now())
  WHERE d.id = :id AND (d.lease_until IS NULL OR d.lease_until <= now()) RETURNING d.id
)
SELECT pulled.id, pg_notify('soonish_due', '') FROM pulled;

-- name: pull_keys
WITH pulled AS (
  UPDATE due.due d SET wake_at = least(d.wake_at, now())
  WHERE d.kind = :kind AND d.key = ANY(:keys::text[]) AND (d.lease_until IS NULL OR d.lease_until <= now())
  RETURNING d.id
)
SELECT count(*), pg_notify('soonish_due', '') FROM pulled HAVING count(*) > 0;

-- name: put_off
-- What nobody works on is looked at later; what was to be looked at still later stays.
UPDATE due.due d SET wake_at = now() + make_interval(secs => o.wait)
FROM unnest(:keys::text[], :waits::float8[]) AS o (key, wait)
WHERE d.kind = :kind AND d.key = o.key AND (d.lease_until IS NULL OR d.lease_until <= now())
  AND d.wake_at < now() + make_interval(secs => o.wait);

-- name: revive
-- Dead items live again with a new budget; where the same (kind, key) lives already, it goes before.
-- They count as begun on time: no late policy holds for what somebody wants in spite of it.
WITH dead AS (
  SELECT u.* FROM due.due_undone u
  WHERE u.fate = 'dead' AND u.revived_at IS NULL AND (:ids::bigint[] IS NULL OR u.id = ANY(:ids::bigint[]))
    AND (:kind::text IS NULL OR u.kind = :kind) AND u.finished_at >= coalesce(:since::timestamptz, '-infinity')
    AND u.finished_at < coalesce(:until::timestamptz, 'infinity')
  ORDER BY u.finished_at LIMIT :k FOR UPDATE
), newest AS (
  SELECT DISTINCT ON (dead.kind, dead.key) dead.* FROM dead ORDER BY dead.kind, dead.key, dead.finished_at DESC, dead.id DESC
), risen AS (
  INSERT INTO due.due (workspace_id, kind, key, lane, due_at, wake_at, payload, expires_at, first_at)
  SELECT n.workspace_id, n.kind, n.key, n.lane % 10, n.due_at, now(), n.payload,
    CASE WHEN n.expires_at > now() THEN n.expires_at END, n.due_at
  FROM newest n
  ON CONFLICT (kind, key) DO NOTHING
  RETURNING kind, key, workspace_id, payload
), marked AS (
  UPDATE due.due_undone u SET revived_at = now()
  -- By CASE, because a join of two parts of a statement has no figures to plan by, and may take each with each.
  WHERE u.id = ANY(ARRAY(
    SELECT CASE WHEN (dead.kind, dead.key) IN (SELECT r.kind, r.key FROM risen r) THEN dead.id END FROM dead))
)
SELECT (SELECT count(*) FROM dead) AS found, r.kind, r.key, r.workspace_id, r.payload
FROM (SELECT) AS one LEFT JOIN risen r ON true;

-- name: pause
INSERT INTO due.due_pause AS p (workspace_id, kind, reason) VALUES (:workspace_id, :kind, :reason)
ON CONFLICT (workspace_id, kind) DO UPDATE SET reason = excluded.reason, resumed_at = NULL,
  paused_at = CASE WHEN p.resumed_at IS NULL THEN p.paused_at ELSE excluded.paused_at END
RETURNING p.workspace_id;

-- name: park
-- Out of the way of every claim. What is being worked on comes here when it is handed back.
UPDATE due.due d SET lane = d.lane + 10
WHERE d.id = ANY(ARRAY(
  SELECT i.id FROM due.due i
  WHERE i.lane < 10 AND (i.lease_until IS NULL OR i.lease_until <= now())
    AND (:workspace_id = 0 OR i.workspace_id = :workspace_id) AND (:kind = '*' OR i.kind = :kind)
  LIMIT :k FOR UPDATE SKIP LOCKED));

-- name: resume
UPDATE due.due_pause p SET resumed_at = now() WHERE p.workspace_id = :workspace_id AND p.kind = :kind RETURNING p.kind;

-- name: resuming
SELECT p.workspace_id, p.kind FROM due.due_pause p WHERE p.resumed_at IS NOT NULL;

-- name: unpark
-- Back into the lanes, but for what another pause still covers. What would have happened meanwhile keeps a note of it.
WITH free AS (
  UPDATE due.due d
  SET lane = d.lane - 10, notes = CASE WHEN d.wake_at > now() THEN d.notes ELSE due.due_noted(d.notes, (
    SELECT jsonb_build_object('what', 'paused', 'at', greatest(d.wake_at, p.paused_at), 'until', now(), 'kind', p.kind,
                              'why', p.reason)
    FROM due.due_pause p WHERE p.workspace_id = :workspace_id AND p.kind = :kind)) END
  WHERE d.id = ANY(ARRAY(
    SELECT i.id FROM due.due i
    WHERE i.lane >= 10 AND (:workspace_id = 0 OR i.workspace_id = :workspace_id) AND (:kind = '*' OR i.kind = :kind)
      AND NOT EXISTS (SELECT FROM due.due_pause p WHERE p.resumed_at IS NULL
                      AND p.workspace_id IN (0, i.workspace_id) AND p.kind IN ('*', i.kind))
    LIMIT :k FOR UPDATE SKIP LOCKED))
  RETURNING d.id
)
SELECT count(*) AS freed, pg_notify('soonish_due', '') FROM free;

-- name: resumed
-- Not while a row that somebody had locked is still parked: nobody would come back for it.
DELETE FROM due.due_pause p
WHERE p.workspace_id = :workspace_id AND p.kind = :kind AND p.resumed_at IS NOT NULL AND NOT EXISTS (
  SELECT FROM due.due i
  WHERE i.lane >= 10 AND (:workspace_id = 0 OR i.workspace_id = :workspace_id) AND (:kind = '*' OR i.kind = :kind)
    AND NOT EXISTS (SELECT FROM due.due_pause o WHERE o.resumed_at IS NULL
                    AND o.workspace_id IN (0, i.workspace_id) AND o.kind IN ('*', i.kind)));

-- name: pauses
SELECT p.workspace_id, p.kind, p.reason FROM due.due_pause p WHERE p.resumed_at IS NULL ORDER BY p.workspace_id, p.kind;

-- name: backlog
-- Never-claimed items that are long overdue stand aside in bulk, so that what is on time does not queue behind an outage.
WITH aside AS (
  UPDATE due.due d SET lane = 2
  WHERE d.id = ANY(ARRAY(
    SELECT i.id FROM due.due i
    WHERE i.lane = 1 AND i.wake_at < now() - :after::interval AND i.first_at IS NULL AND i.lease_until IS NULL
    ORDER BY i.wake_at LIMIT :k FOR UPDATE SKIP LOCKED))
  RETURNING d.id
)
SELECT count(*), pg_notify('soonish_due', '') FROM aside HAVING count(*) > 0;

-- name: overdue
-- The recovery report: by lane, never counting beyond 100,000.
SELECT l.lane, count(d.due_at) AS count, min(d.due_at) AS oldest, max(d.due_at) AS newest
FROM unnest(ARRAY[0, 1, 2]::smallint[]) AS l (lane)
LEFT JOIN LATERAL (
  SELECT i.due_at FROM due.due i WHERE i.lane = l.lane AND i.wake_at <= now() ORDER BY i.wake_at LIMIT 100000
) d ON true
GROUP BY l.lane ORDER BY l.lane;

-- name: lanes
-- The state of each lane, for health and metrics.
SELECT l.lane, count(d.id) FILTER (WHERE d.lease_until IS NULL OR d.lease_until <= now()) AS overdue,
  count(d.id) FILTER (WHERE d.lease_until > now()) AS running,
  coalesce(extract(epoch FROM now() - min(d.wake_at) FILTER (WHERE d.lease_until IS NULL OR d.lease_until <= now())), 0)::float8
    AS oldest_overdue_s
FROM unnest(ARRAY[0, 1, 2]::smallint[]) AS l (lane)
LEFT JOIN LATERAL (
  SELECT i.id, i.wake_at, i.lease_until FROM due.due i
  WHERE i.lane = l.lane AND i.wake_at <= now() ORDER BY i.wake_at LIMIT 100000
) d ON true
GROUP BY l.lane ORDER BY l.lane;

-- name: unknown
-- Items that are due and that no handler here knows.
SELECT i.kind, count(*) AS count FROM (
  SELECT d.kind FROM due.due d WHERE d.lane < 10 AND d.wake_at <= now() AND d.kind <> ALL(:kinds::text[]) LIMIT 10000
) i GROUP BY i.kind;

-- name: days
SELECT due.due_days(:ahead::int);

-- name: index_day
SELECT due.due_index();

-- name: drop_day
SELECT due.due_drop(:keep::interval);

-- name: sweep_past
SELECT due.due_sweep(:keep::interval, :k::int);
