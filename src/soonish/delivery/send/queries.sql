-- Sending: what one try must know, what it may take, and what is written about it.

-- name: cases
-- All that decides whether these deliveries are tried now, and what machines are told.
SELECT d.id, d.workspace_id, d.wire_id, d.cause, d.message_id, d.fact_id, d.person_id, d.address_id, d.endpoint_id, d.mailbox, d.channel,
  d.merge::text AS merge, d.state, d.due_at, d.expires_at, d.tries, d.steps, d.doubts, d.redirects,
  p.name, p.timezone, p.locale, p.quiet_start, p.quiet_end, p.quiet_critical, p.paused_until,
  p.id IS NOT NULL AND p.erased_at IS NULL AS person_here, coalesce(a.id, e.id) IS NOT NULL AS target_here,
  coalesce(a.active, e.active) AS active, coalesce(a.health, e.health) AS health, a.host,
  coalesce(a.version, e.version) AS target_version, coalesce(a.fails, e.fails) AS fails,
  coalesce(a.circuit_until, e.circuit_until) AS circuit_until, coalesce(a.circuit_step, e.circuit_step) AS circuit_step,
  coalesce(a.last_ok_at, e.last_ok_at) AS last_ok_at, e.rate_per_second, e.max_in_flight, m.level, m.hold,
  f.type AS fact_type, f.subject, f.data::text AS data, f.wire_id AS fact_wire_id, f.cause AS fact_cause, f.occurred_at,
  f.due_at AS fact_due_at, clock_timestamp() AS now
FROM delivery d
LEFT JOIN message m ON m.id = d.message_id
LEFT JOIN fact f ON f.id = d.fact_id
LEFT JOIN person p ON p.id = d.person_id
LEFT JOIN address a ON a.id = d.address_id
LEFT JOIN endpoint e ON e.id = d.endpoint_id
WHERE d.id = ANY(:ids::bigint[]);

-- name: house
SELECT w.slug, w.unknown_people, i.uid FROM workspace w, installation i WHERE w.id = (SELECT current_workspace());

-- name: letters
SELECT m.id, m.title, m.body, m.level, m.link, m.calendar FROM message m WHERE m.id = ANY(:ids::bigint[]);

-- name: addresses
SELECT a.id, a.version, a.target FROM address a WHERE a.id = ANY(:ids::bigint[]);

-- name: endpoints
SELECT e.id, e.version, e.kind, e.config::text AS config, e.secret_config FROM endpoint e WHERE e.id = ANY(:ids::bigint[]);

-- name: signing
-- Those that sign, the newest first; one whose end is ahead signs until then.
SELECT s.id, s.endpoint_id, s.secret, s.ends_at FROM endpoint_secret s
WHERE s.endpoint_id = ANY(:ids::bigint[]) AND coalesce(s.ends_at > now(), true) ORDER BY s.endpoint_id, s.id DESC;

-- name: slots
-- Reserve so many slots under each name: what is ahead of now when all of them are taken.
INSERT INTO rate_slot AS r (name, next_at)
SELECT n.name, now() + make_interval(secs => n.span) FROM unnest(:names::text[], :spans::float8[]) AS n (name, span)
ON CONFLICT (name) DO UPDATE SET next_at = greatest(r.next_at, now()) + (excluded.next_at - now())
RETURNING r.name, extract(epoch FROM r.next_at - now())::float8 AS ahead;

-- name: probe_address
-- The circuit's time is over: one delivery may probe, the others hold for as long as its try may take.
UPDATE address a SET circuit_until = now() + make_interval(secs => :seconds)
WHERE a.id = :id AND a.circuit_step > 0 AND a.circuit_until <= now() RETURNING a.circuit_until;

-- name: probe_endpoint
UPDATE endpoint e SET circuit_until = now() + make_interval(secs => :seconds)
WHERE e.id = :id AND e.circuit_step > 0 AND e.circuit_until <= now() RETURNING e.circuit_until;

-- name: record
-- What became of some deliveries: their tries, if there were any, and where they stand now.
WITH told AS (
  SELECT r.* FROM unnest(:ids::bigint[], :states::text[], :reasons::text[], :partials::bool[], :waits::float8[],
      :ats::timestamptz[], :outcomes::text[], :permanents::bool[], :repeats::bool[], :codes::text[], :statuses::int[],
      :answers::text[], :starts::timestamptz[], :ends::timestamptz[], :latencies::int[], :doubts::int[], :redirects::int[])
    AS r (id, state, reason, partial, wait, at, outcome, permanent, repeat, code, status, answer, started_at, ended_at,
          latency_ms, doubts, redirects)
), stood AS (
  UPDATE delivery d
  SET state = t.state, reason = t.reason, partial = t.partial,
    next_at = CASE WHEN t.state = 'pending' THEN coalesce(t.at, clock_timestamp() + make_interval(secs => t.wait)) END,
    ended_at = CASE WHEN t.state <> 'pending' THEN now() END,
    tries = d.tries + CASE WHEN t.outcome IS NULL THEN 0 ELSE 1 END,
    steps = d.steps + CASE WHEN t.outcome IS NULL THEN 0 ELSE 1 END,
    doubts = t.doubts, redirects = t.redirects, first_at = coalesce(d.first_at, t.started_at),
    holds = CASE WHEN t.outcome IS NULL AND t.state = 'pending'
      THEN held(d.holds, d.reason, t.reason, coalesce(t.at, clock_timestamp() + make_interval(secs => t.wait)))
      ELSE d.holds END
  FROM told t WHERE d.id = t.id
  RETURNING d.id, d.workspace_id, d.tries
)
INSERT INTO attempt (workspace_id, delivery_id, n, started_at, ended_at, outcome, permanent, repeat, code, status, answer,
                     latency_ms)
SELECT s.workspace_id, s.id, s.tries, t.started_at, t.ended_at, t.outcome, t.permanent, t.repeat, t.code, t.status,
  t.answer, t.latency_ms
FROM told t JOIN stood s ON s.id = t.id WHERE t.outcome IS NOT NULL;

-- name: address_health
SELECT a.id, a.health, a.disabled_reason, a.fails, a.refusals, a.misses, NULL::timestamptz AS failing_since,
  a.circuit_until, a.circuit_step, a.last_ok_at, a.last_failed_at, a.last_error, a.person_id
FROM address a WHERE a.id = ANY(:ids::bigint[]) ORDER BY a.id FOR NO KEY UPDATE;

-- name: endpoint_health
SELECT e.id, e.health, e.disabled_reason, e.fails, 0 AS refusals, e.misses, e.failing_since, e.circuit_until, e.circuit_step,
  e.last_ok_at, e.last_failed_at, e.last_error
FROM endpoint e WHERE e.id = ANY(:ids::bigint[]) ORDER BY e.id FOR NO KEY UPDATE;

-- name: keep_address_health
UPDATE address a
SET health = h.health, disabled_reason = h.disabled_reason, fails = h.fails, refusals = h.refusals, misses = h.misses,
  circuit_until = h.circuit_until, circuit_step = h.circuit_step, last_ok_at = h.last_ok_at,
  last_failed_at = h.last_failed_at, last_error = h.last_error
FROM unnest(:ids::bigint[], :health::text[], :disabled_reason::text[], :fails::int[], :refusals::int[], :misses::int[],
            :circuit_until::timestamptz[], :circuit_step::int[], :last_ok_at::timestamptz[], :last_failed_at::timestamptz[],
            :last_error::text[])
  AS h (id, health, disabled_reason, fails, refusals, misses, circuit_until, circuit_step, last_ok_at, last_failed_at,
        last_error)
WHERE a.id = h.id;

-- name: keep_endpoint_health
UPDATE endpoint e
SET health = h.health, disabled_reason = h.disabled_reason, fails = h.fails, misses = h.misses,
  failing_since = h.failing_since, circuit_until = h.circuit_until, circuit_step = h.circuit_step,
  last_ok_at = h.last_ok_at, last_failed_at = h.last_failed_at, last_error = h.last_error
FROM unnest(:ids::bigint[], :health::text[], :disabled_reason::text[], :fails::int[], :misses::int[],
            :failing_since::timestamptz[], :circuit_until::timestamptz[], :circuit_step::int[], :last_ok_at::timestamptz[],
            :last_failed_at::timestamptz[], :last_error::text[])
  AS h (id, health, disabled_reason, fails, misses, failing_since, circuit_until, circuit_step, last_ok_at, last_failed_at,
        last_error)
WHERE e.id = h.id;

-- name: held_by_circuit
-- What waits for a circuit that has just closed.
SELECT d.id FROM delivery d
WHERE d.state = 'pending' AND d.reason = 'circuit_open'
  AND (d.endpoint_id = :endpoint_id OR (d.address_id = :address_id AND d.person_id = :person_id))
ORDER BY d.id LIMIT 10000;

-- name: ring
SELECT pg_notify('soonish_live', s.stream) FROM unnest(:streams::text[]) AS s (stream);

-- name: line
-- What waits for an endpoint, among its newest deliveries: where it is flooded, they are the flood.
SELECT n.id FROM (
  SELECT d.id, d.state, d.next_at FROM delivery d WHERE d.endpoint_id = :endpoint_id ORDER BY d.id DESC LIMIT 100000) n
WHERE n.state = 'pending' AND coalesce(n.next_at <= now(), true) ORDER BY n.id LIMIT :k;
