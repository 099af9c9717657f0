-- name: find_token
SELECT id, workspace_id FROM find_token(:purpose, :hash);

-- name: ended
SELECT t.purpose, t.hash FROM unnest(:purposes::text[], :hashes::bytea[]) AS t (purpose, hash)
WHERE NOT EXISTS (SELECT FROM find_token(t.purpose, t.hash));

-- name: key_caller
-- `stale`: its last use is to be noted, which is done once a minute at most. `left`: seconds until it expires.
SELECT k.role, w.slug, w.timezone, w.locale, extract(epoch FROM k.expires_at - now())::float8 AS left,
  coalesce(k.last_used_at < now() - interval '1 minute', true) AS stale
FROM api_key k JOIN workspace w ON w.id = k.workspace_id
WHERE k.id = :id AND k.revoked_at IS NULL;

-- name: sign_in_caller
SELECT s.role, s.person_id, s.csrf, w.slug, w.timezone, w.locale, s.seen_at < now() - interval '1 minute' AS stale
FROM sign_in s JOIN workspace w ON w.id = s.workspace_id
WHERE s.id = :id AND s.ended_at IS NULL;

-- name: touch_key
-- Nobody waits for another who notes the same.
UPDATE api_key k SET last_used_at = now()
WHERE k.id = (SELECT i.id FROM api_key i
              WHERE i.id = :id AND coalesce(i.last_used_at < now() - interval '1 minute', true) FOR UPDATE SKIP LOCKED);

-- name: touch_sign_in
UPDATE sign_in s SET seen_at = now()
WHERE s.id = (SELECT i.id FROM sign_in i
              WHERE i.id = :id AND i.seen_at < now() - interval '1 minute' FOR UPDATE SKIP LOCKED);

-- name: workspace
SELECT w.* FROM workspace w WHERE w.id = :id;

-- name: workspace_for_update
-- Also taken before the last admin key is looked for, so that two requests cannot revoke each other's.
SELECT w.* FROM workspace w WHERE w.id = :id FOR NO KEY UPDATE;

-- name: change_workspace
UPDATE workspace w
SET name = :name, timezone = :timezone, locale = :locale, email_trust = :email_trust, unknown_people = :unknown_people,
    version = w.version + 1, updated_at = now()
WHERE w.id = :id
RETURNING w.*;

-- name: workspaces
SELECT * FROM operator_workspaces(:before::bigint, :k::int);

-- name: make_workspace
SELECT * FROM operator_make_workspace(:slug, :name, :timezone, :locale);

-- name: find_workspace
SELECT * FROM operator_workspaces(least(:id::bigint, 9223372036854775806) + 1, 1) w WHERE w.id = :id::bigint;

-- name: close_workspace
SELECT * FROM operator_close_workspace(:id);

-- name: each_workspace
SELECT id FROM each_workspace() AS w (id);

-- name: closed_workspaces
SELECT id FROM closed_workspaces() AS w (id);

-- name: enter_workspace
SELECT set_config('soonish.workspace', :id, true);

-- name: drop_items
-- One stretch of a closed workspace's live items, by id, because the table has no index on the workspace.
WITH stretch AS (
  SELECT d.id, d.workspace_id FROM due.due d WHERE d.id > :after ORDER BY d.id LIMIT :k
), gone AS (
  DELETE FROM due.due d USING stretch s WHERE d.id = s.id
  RETURNING d.id, d.workspace_id, d.kind, d.key, d.lane, d.due_at, d.attempts, d.spared, d.payload, d.expires_at,
            d.first_at, d.last_error, d.created_at, d.notes
), undone AS (
  INSERT INTO due.due_undone (id, workspace_id, kind, key, lane, due_at, attempts, spared, payload, expires_at,
                              first_at, last_error, created_at, notes, fate, reason, finished_at)
  SELECT gone.*, 'dropped', :reason, now() FROM gone
)
SELECT max(s.id) FROM stretch s;

-- name: make_first_workspace
INSERT INTO workspace (id, slug, name) OVERRIDING SYSTEM VALUE VALUES (1, 'main', 'Main') ON CONFLICT DO NOTHING;

-- name: lock_first_start
-- One process of many makes what is made once; the others wait here and then find it made.
SELECT pg_advisory_xact_lock(hashtextextended('soonish.first_start', 0));

-- name: installation
SELECT made_first_key, hmac_key FROM installation WHERE id = 1;

-- name: note_first_key
UPDATE installation SET made_first_key = true WHERE id = 1;

-- name: keep_hmac_key
UPDATE installation SET hmac_key = :sealed WHERE id = 1;

-- name: make_key
INSERT INTO api_key AS k (workspace_id, name, hash, hint, role, expires_at)
VALUES (:workspace_id, :name, :hash, :hint, :role, :expires_at)
RETURNING k.id, k.name, k.role, k.hint, k.expires_at, k.last_used_at, k.created_at, k.expires_at <= now() AS over;

-- name: keys
SELECT k.id, k.name, k.role, k.hint, k.expires_at, k.last_used_at, k.created_at
FROM api_key k
WHERE k.revoked_at IS NULL AND k.id < coalesce(:before::bigint, 9223372036854775807)
ORDER BY k.id DESC LIMIT :k;

-- name: key
SELECT k.id, k.name, k.role, k.hint, k.expires_at, k.last_used_at, k.created_at
FROM api_key k WHERE k.id = :id AND k.revoked_at IS NULL;

-- name: key_names
SELECT k.id, k.name FROM api_key k WHERE k.id = ANY(:ids::bigint[]);

-- name: key_among_admins
-- The key, whether it is one that could let an admin in, and whether another one could.
SELECT k.id, k.role = 'admin' AND coalesce(k.expires_at > now(), true) AS lets_in, EXISTS (
  SELECT FROM api_key o WHERE o.id <> k.id AND o.role = 'admin' AND o.revoked_at IS NULL
    AND coalesce(o.expires_at > now(), true)) AS others
FROM api_key k WHERE k.id = :id AND k.revoked_at IS NULL;

-- name: revoke_key
UPDATE api_key k SET revoked_at = now() WHERE k.id = :id AND k.revoked_at IS NULL;

-- name: make_link
INSERT INTO login_link AS l (workspace_id, hash, role, person_id, expires_at)
VALUES (:workspace_id, :hash, :role, :person_id, now() + make_interval(mins => :minutes))
RETURNING l.id, l.role, l.person_id, l.expires_at, l.used_at;

-- name: link
SELECT l.id, l.role, l.person_id, l.expires_at, l.used_at FROM login_link l WHERE l.id = :id;

-- name: use_link
-- Once: the second of two waits for the first, and then finds it used.
UPDATE login_link l SET used_at = now()
WHERE l.id = :id AND l.used_at IS NULL AND l.expires_at > now()
RETURNING l.role, l.person_id;

-- name: make_sign_in
INSERT INTO sign_in AS s (workspace_id, hash, role, person_id, csrf, expires_at)
VALUES (:workspace_id, :hash, :role, :person_id, :csrf, now() + :life::interval)
RETURNING s.id;

-- name: sign_ins
SELECT s.id, s.role, s.person_id, s.created_at, s.seen_at, s.expires_at
FROM sign_in s
WHERE s.ended_at IS NULL AND s.expires_at > now() AND s.seen_at > now() - interval '7 days'
  AND s.id < coalesce(:before::bigint, 9223372036854775807) AND (:person_id::bigint IS NULL OR s.person_id = :person_id)
ORDER BY s.id DESC LIMIT :k;

-- name: end_sign_in
UPDATE sign_in s SET ended_at = now() WHERE s.id = :id AND s.ended_at IS NULL;

-- name: void_links
-- A link that is being used at this moment is waited for; its sign-in is then found by the next statement.
UPDATE login_link l SET expires_at = now()
WHERE l.person_id = ANY(:person_ids::bigint[]) AND l.used_at IS NULL AND l.expires_at > now();

-- name: end_sign_ins
UPDATE sign_in s SET ended_at = now() WHERE s.person_id = ANY(:person_ids::bigint[]) AND s.ended_at IS NULL;

-- name: try_answer_lock
-- A lock and not a row says that the first is still running: it goes with its transaction, however that ends.
SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 0));

-- name: answer
SELECT i.id, i.fingerprint, i.status, i.headers, i.body FROM idempotency i
WHERE i.actor = :actor AND i.key = :key AND i.created_at > now() - :life::interval;

-- name: place_for_answer
-- The id for a new answer (its body is sealed under it); an old one that is over makes room.
WITH over AS (DELETE FROM idempotency i WHERE i.actor = :actor AND i.key = :key)
SELECT nextval('idempotency_id_seq');

-- name: keep_answer
INSERT INTO idempotency (id, workspace_id, actor, key, fingerprint, status, headers, body) OVERRIDING SYSTEM VALUE
VALUES (:id, :workspace_id, :actor, :key, :fingerprint, :status, :headers, :body);

-- name: record
INSERT INTO audit (workspace_id, actor, request_id, verb, entity, changes)
VALUES (:workspace_id, :actor, :request_id, :verb, :entity, :changes);

-- name: audit
SELECT a.id, a.at, a.actor, a.request_id, a.verb, a.entity, a.changes
FROM audit a
WHERE a.id < coalesce(:before::bigint, 9223372036854775807) AND (:entity::text IS NULL OR a.entity = :entity)
  AND (:actor::text IS NULL OR a.actor = :actor) AND (:since::timestamptz IS NULL OR a.at >= :since)
  AND (:until::timestamptz IS NULL OR a.at < :until)
ORDER BY a.id DESC LIMIT :k;

-- name: sweep_answers
DELETE FROM idempotency i
WHERE i.id = ANY(ARRAY(SELECT o.id FROM idempotency o WHERE o.created_at <= now() - :keep::interval
                       ORDER BY o.created_at LIMIT :k));

-- name: sweep_audit
-- Ids grow with time, so the oldest stand at the beginning of the index.
DELETE FROM audit a
WHERE a.id = ANY(ARRAY(
  SELECT o.id FROM (SELECT i.id, i.at FROM audit i ORDER BY i.id LIMIT :k) o WHERE o.at <= now() - :keep::interval));

-- name: sweep_links
DELETE FROM login_link l
WHERE l.id = ANY(ARRAY(SELECT o.id FROM login_link o WHERE o.expires_at <= now() - :keep::interval LIMIT :k));

-- name: sweep_sign_ins
DELETE FROM sign_in s
WHERE s.id = ANY(ARRAY(
  SELECT o.id FROM sign_in o
  WHERE coalesce(o.ended_at, least(o.expires_at, o.seen_at + interval '7 days')) <= now() - :keep::interval LIMIT :k));

-- name: sweep_keys
DELETE FROM api_key k
WHERE k.id = ANY(ARRAY(SELECT o.id FROM api_key o WHERE o.revoked_at <= now() - :keep::interval LIMIT :k));
