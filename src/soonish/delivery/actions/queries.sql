-- === facts: as users see them

-- name: known_endpoints
SELECT e.id FROM endpoint e WHERE e.id = ANY(:ids::bigint[]);

-- name: facts
SELECT f.id, f.wire_id, f.type, f.subject, f.cause, f.data, f.occurred_at, f.due_at, f.deliver_until
FROM fact f
WHERE f.id < coalesce(:before::bigint, 9223372036854775807) AND (:type::text IS NULL OR f.type = :type)
  AND (:family::text IS NULL OR starts_with(f.type, :family)) AND (:subject::text IS NULL OR f.subject = :subject)
  AND (:since::timestamptz IS NULL OR f.occurred_at >= :since)
  AND (:until::timestamptz IS NULL OR f.occurred_at < :until)
ORDER BY f.id DESC LIMIT :k;

-- name: fact
SELECT f.id, f.wire_id, f.type, f.subject, f.cause, f.data, f.occurred_at, f.due_at, f.deliver_until,
  (SELECT i.uid FROM installation i WHERE i.id = 1) AS uid
FROM fact f WHERE f.id = :id;

-- name: told_of_fact
SELECT count(*)::int AS total, count(*) FILTER (WHERE d.state = 'sent')::int AS sent,
  count(*) FILTER (WHERE d.state = 'pending')::int AS pending, count(*) FILTER (WHERE d.state = 'failed')::int AS failed,
  count(*) FILTER (WHERE d.state = 'unknown')::int AS unknown, count(*) FILTER (WHERE d.state = 'skipped')::int AS skipped
FROM delivery d WHERE d.fact_id = :id;

-- name: follow
-- In the order of their transactions. `settled`: none that is still under way can put a row before this one any more.
SELECT f.id, f.xid::text AS xid, f.wire_id, f.type, f.subject, f.cause, f.data, f.occurred_at, f.due_at,
  (SELECT i.uid FROM installation i WHERE i.id = 1) AS uid, f.xid < pg_snapshot_xmin(pg_current_snapshot()) AS settled
FROM fact f WHERE (f.xid, f.id) > (:xid::text::xid8, :id) ORDER BY f.xid, f.id LIMIT :k;

-- name: is_kept
SELECT EXISTS (SELECT FROM fact f WHERE f.id = :id);

-- name: heads
SELECT h.workspace_id, h.id FROM fact_heads() h;

-- === endpoints

-- name: place_of_endpoint
-- The id of a new row: its secrets are sealed under it.
SELECT nextval('endpoint_id_seq');

-- name: make_endpoint
INSERT INTO endpoint AS e (id, workspace_id, name, kind, config, secret_config, fact_types, active, rate_per_second,
                           max_in_flight)
OVERRIDING SYSTEM VALUE
VALUES (:id, (SELECT current_workspace()), :name, :kind, :config::text::jsonb, :secret_config, :fact_types, :active,
        :rate_per_second, :max_in_flight)
RETURNING e.*;

-- name: place_of_secret
SELECT nextval('endpoint_secret_id_seq');

-- name: add_secret
INSERT INTO endpoint_secret (id, workspace_id, endpoint_id, secret) OVERRIDING SYSTEM VALUE
VALUES (:id, (SELECT current_workspace()), :endpoint_id, :secret);

-- name: end_secrets
-- Those that end already keep their end. What has ended is of no use to anybody.
WITH over AS (
  DELETE FROM endpoint_secret s WHERE s.endpoint_id = :endpoint_id AND s.ends_at <= now()
), ended AS (
  UPDATE endpoint_secret s SET ends_at = now() + :overlap::interval
  WHERE s.endpoint_id = :endpoint_id AND s.ends_at IS NULL
)
SELECT now() + :overlap::interval;

-- name: live_secrets
SELECT count(*) FROM endpoint_secret s WHERE s.endpoint_id = :endpoint_id AND coalesce(s.ends_at > now(), true);

-- name: signing
-- When each secret that signs was made, and when it ends; the newest first.
SELECT s.created_at, s.ends_at FROM endpoint_secret s
WHERE s.endpoint_id = :endpoint_id AND coalesce(s.ends_at > now(), true) ORDER BY s.id DESC;

-- name: renew_endpoint
-- Senders keep what they know of a version.
UPDATE endpoint e SET version = e.version + 1, updated_at = now() WHERE e.id = :id;

-- name: endpoints
SELECT e.* FROM endpoint e WHERE e.id < coalesce(:before::bigint, 9223372036854775807) ORDER BY e.id DESC LIMIT :k;

-- name: endpoint
SELECT e.* FROM endpoint e WHERE e.id = :id;

-- name: endpoint_for_update
SELECT e.* FROM endpoint e WHERE e.id = :id FOR UPDATE;

-- name: change_endpoint
-- A machine that moved has no circuit: that was the memory of another one.
UPDATE endpoint e
SET name = :name, fact_types = :fact_types, active = :active, rate_per_second = :rate_per_second,
    max_in_flight = :max_in_flight, config = :config::text::jsonb, secret_config = :secret_config,
    misses = CASE WHEN :moved::boolean THEN 0 ELSE e.misses END,
    circuit_until = CASE WHEN :moved THEN NULL ELSE e.circuit_until END,
    circuit_step = CASE WHEN :moved THEN 0 ELSE e.circuit_step END, version = e.version + 1, updated_at = now()
WHERE e.id = :id
RETURNING e.*;

-- name: enable_endpoint
UPDATE endpoint e
SET health = 'ok', disabled_reason = NULL, fails = 0, misses = 0, failing_since = NULL, circuit_until = NULL,
    circuit_step = 0, version = e.version + 1, updated_at = now()
WHERE e.id = :id
RETURNING e.*;

-- name: remove_endpoint
DELETE FROM endpoint e WHERE e.id = :id;

-- name: delivery_of_fact
SELECT d.id FROM delivery d WHERE d.fact_id = :fact_id;

-- === replays

-- name: count_replayed
SELECT count(*) FROM (
  SELECT FROM delivery d
  WHERE d.endpoint_id = :endpoint_id AND d.state = ANY(:states::text[]) AND d.created_at >= :since
    AND (:until::timestamptz IS NULL OR d.created_at < :until)
  LIMIT :k) one;

-- === messages

-- name: put_message
-- Its cause has its own id, which nobody knows before. The database's clock judges its moments.
WITH place AS (SELECT nextval('message_id_seq') AS id)
INSERT INTO message AS m (id, workspace_id, cause, title, body, level, link, hold, to_people, send_at, expires_at, because)
OVERRIDING SYSTEM VALUE
SELECT p.id, (SELECT current_workspace()), 'message/' || p.id, :title, :body, :level, :link, :hold,
  :to_people::text::jsonb, coalesce(:send_at::timestamptz, now()),
  coalesce(:expires_at::timestamptz, coalesce(:send_at::timestamptz, now()) + :life::interval), :because::text::jsonb
FROM place p
RETURNING m.id, m.send_at, m.expires_at, m.send_at > now() + :ahead::text::interval AS too_far,
  m.expires_at <= greatest(m.send_at, now()) AS useless;

-- name: named_people
SELECT p.id, p.external_id FROM person p
WHERE p.erased_at IS NULL AND (p.id = ANY(:ids::bigint[]) OR p.external_id = ANY(:external_ids::text[]));

-- name: tagged_people
-- Who has an active address of this tag, in pages.
SELECT DISTINCT a.person_id AS id FROM address a
WHERE a.active AND a.tags @> ARRAY[:tag::text] AND a.person_id > :after
ORDER BY a.person_id LIMIT :k;

-- name: messages
SELECT m.* FROM message m WHERE m.id < coalesce(:before::bigint, 9223372036854775807) ORDER BY m.id DESC LIMIT :k;

-- name: message
SELECT m.* FROM message m WHERE m.id = :id;

-- name: message_for_update
SELECT m.* FROM message m WHERE m.id = :id FOR UPDATE;

-- name: cancel_message
UPDATE message m SET cancelled_at = now() WHERE m.id = :id RETURNING m.*;

-- name: withdraw_message
UPDATE delivery d SET state = 'skipped', reason = :reason, ended_at = now(), next_at = NULL
WHERE d.id = ANY(ARRAY(
  SELECT o.id FROM delivery o WHERE o.message_id = :id AND o.state = 'pending' AND o.id > :after
  ORDER BY o.id LIMIT :k FOR UPDATE))
RETURNING d.id;

-- name: summary
-- A person counts once: an address that was reached, else what is still to come, else what failed.
WITH one AS (
  SELECT bool_or(d.state = 'sent') AS sent, bool_or(d.state = 'pending') AS pending,
    bool_or(d.state = 'failed') AS failed, bool_or(d.state = 'unknown') AS unknown
  FROM delivery d WHERE d.message_id = :id GROUP BY coalesce(d.person_id, -d.id)
)
SELECT count(*)::int AS total, count(*) FILTER (WHERE o.sent)::int AS delivered,
  count(*) FILTER (WHERE o.pending AND NOT o.sent)::int AS pending,
  count(*) FILTER (WHERE o.failed AND NOT (o.sent OR o.pending))::int AS failed,
  count(*) FILTER (WHERE o.unknown AND NOT (o.sent OR o.pending OR o.failed))::int AS unknown,
  count(*) FILTER (WHERE NOT (o.sent OR o.pending OR o.failed OR o.unknown))::int AS skipped
FROM one o;

-- === what is not kept for ever: ids grow with time, so the oldest stand at the beginning of the index

-- name: sweep_deliveries
WITH gone AS (
  DELETE FROM delivery d WHERE d.id = ANY(ARRAY(
    SELECT o.id FROM (SELECT i.id, i.state, i.ended_at, i.created_at FROM delivery i ORDER BY i.id LIMIT :reach) o
    WHERE o.state <> 'pending' AND coalesce(o.ended_at, o.created_at) <= now() - :keep::interval LIMIT :k))
  RETURNING d.id
), tries AS (
  DELETE FROM attempt a USING gone g WHERE a.delivery_id = g.id
)
SELECT count(*) FROM gone;

-- name: sweep_messages
WITH gone AS (
  DELETE FROM message m WHERE m.id = ANY(ARRAY(
    SELECT o.id FROM (SELECT i.id, greatest(i.created_at, i.send_at, i.expires_at) AS last FROM message i
                      ORDER BY i.id LIMIT :reach) o
    WHERE o.last <= now() - :keep::interval AND NOT EXISTS (SELECT FROM delivery d WHERE d.message_id = o.id) LIMIT :k))
  RETURNING m.id
)
SELECT count(*) FROM gone;

-- name: sweep_facts
WITH gone AS (
  DELETE FROM fact f WHERE f.id = ANY(ARRAY(
    SELECT o.id FROM (SELECT i.id, greatest(i.created_at, i.due_at) AS last FROM fact i ORDER BY i.id LIMIT :reach) o
    WHERE o.last <= now() - :keep::interval AND NOT EXISTS (SELECT FROM delivery d WHERE d.fact_id = o.id) LIMIT :k))
  RETURNING f.id
)
SELECT count(*) FROM gone;

-- name: sweep_slots
-- A slot whose moment is long over says no more than a name that nobody has used yet.
DELETE FROM rate_slot r
WHERE r.name = ANY(ARRAY(SELECT o.name FROM rate_slot o WHERE o.next_at < now() - interval '1 day' LIMIT :k FOR UPDATE));

-- === the page of an endpoint

-- name: last_answers
SELECT d.id AS delivery_id, f.type, d.state, d.reason, d.tries, d.due_at, d.next_at, a.started_at AS tried_at, a.code,
  a.status, a.answer, a.latency_ms
FROM (SELECT o.* FROM delivery o WHERE o.endpoint_id = :endpoint_id ORDER BY o.id DESC LIMIT :k) d
JOIN fact f ON f.id = d.fact_id LEFT JOIN attempt a ON a.delivery_id = d.id AND a.n = d.tries
ORDER BY d.id DESC;
