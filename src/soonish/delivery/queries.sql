-- === the outbox: what is asked for

-- name: letter
-- The message of a cause, written once. A second caller waits for the first and finds it.
INSERT INTO message AS m (workspace_id, cause, title, body, level, link, hold, calendar, send_at, expires_at, because)
VALUES ((SELECT current_workspace()), :cause, :title, :body, :level, :link, :hold, :calendar, :send_at, :expires_at,
        :because::text::jsonb)
ON CONFLICT (workspace_id, cause) DO UPDATE SET told_at = coalesce(m.told_at, now())
RETURNING m.id;

-- name: tell
-- A delivery for each address that the selectors choose and that counts; for a person without one, a row that says why.
WITH wanted AS (
  SELECT w.person_id, w.selectors::jsonb AS selectors, w.merge::jsonb AS merge, w.reason
  FROM unnest(:person_ids::bigint[], :selectors::text[], :merges::text[], :reasons::text[])
       AS w (person_id, selectors, merge, reason)
), chosen AS (
  SELECT w.person_id, a.id, a.kind, w.merge || coalesce(jsonb_build_object('ignored', (
      SELECT jsonb_agg(s.value -> 'address_id') FROM jsonb_array_elements(w.selectors) s
      WHERE s.value ? 'address_id' AND NOT EXISTS (
        SELECT FROM address o WHERE o.id = (s.value ->> 'address_id')::bigint AND o.person_id = w.person_id)
      HAVING count(*) > 0)), '{}') AS merge
  FROM wanted w JOIN address a ON a.person_id = w.person_id AND a.active AND a.health IN ('ok', 'failing')
  WHERE w.reason IS NULL AND (w.selectors IS NULL OR EXISTS (
    SELECT FROM jsonb_array_elements(w.selectors) s
    WHERE (s.value ->> 'address_id')::bigint = a.id OR s.value ->> 'tag' = ANY(a.tags)))
), target AS (
  SELECT c.person_id, c.id AS address_id, c.kind AS channel, c.merge, NULL AS reason FROM chosen c
  UNION ALL
  SELECT w.person_id, NULL, 'none', w.merge, coalesce(w.reason, CASE
    WHEN NOT EXISTS (SELECT FROM person p WHERE p.id = w.person_id AND p.erased_at IS NULL) THEN 'person_gone'
    WHEN w.selectors = '[]' THEN 'muted'
    WHEN EXISTS (SELECT FROM address a
                 WHERE a.person_id = w.person_id AND a.active AND a.health IN ('ok', 'failing')) THEN 'no_match'
    ELSE 'no_address' END)
  FROM wanted w WHERE NOT EXISTS (SELECT FROM chosen c WHERE c.person_id = w.person_id)
), written AS (
  INSERT INTO delivery AS d (workspace_id, cause, message_id, person_id, address_id, channel, merge, state, reason, due_at,
                             expires_at, next_at, ended_at)
  SELECT (SELECT current_workspace()), :cause, :message_id, t.person_id, t.address_id, t.channel, t.merge,
    CASE WHEN t.reason IS NULL THEN 'pending' ELSE 'skipped' END, t.reason, coalesce(:due_at::timestamptz, now()),
    :expires_at::timestamptz, CASE WHEN t.reason IS NULL THEN coalesce(:due_at::timestamptz, now()) END,
    CASE WHEN t.reason IS NOT NULL THEN now() END
  FROM target t ORDER BY t.person_id, t.address_id
  ON CONFLICT DO NOTHING
  RETURNING d.id, d.state, d.due_at
)
SELECT w.id, w.state, w.due_at, CASE WHEN w.id = min(w.id) OVER () THEN
  pg_notify('soonish_live', (SELECT current_workspace()) || ':deliveries') END FROM written w;

-- name: place_of_delivery
-- The id of a row whose mailbox is to be sealed under it.
SELECT nextval('delivery_id_seq') AS id, current_workspace() AS workspace_id;

-- name: post
INSERT INTO delivery AS d (id, workspace_id, cause, message_id, person_id, mailbox, channel, merge, due_at, expires_at, next_at)
OVERRIDING SYSTEM VALUE
VALUES (:id, (SELECT current_workspace()), :cause, :message_id, :person_id, :mailbox, 'email', :merge::text::jsonb,
        coalesce(:due_at::timestamptz, now()), :expires_at, coalesce(:due_at::timestamptz, now()))
ON CONFLICT DO NOTHING
RETURNING d.id, d.state, d.due_at;

-- name: state
-- Facts, once a cause, and a delivery for each endpoint whose list has the type, its first word with a star, or a star.
WITH wanted AS (
  SELECT w.* FROM unnest(:causes::text[], :types::text[], :subjects::text[], :datas::text[], :dues::timestamptz[],
                         :untils::timestamptz[], :becauses::text[], :endpoints::text[])
                  AS w (cause, type, subject, data, due_at, deliver_until, because, endpoints)
), stated AS (
  INSERT INTO fact AS f (workspace_id, cause, type, subject, data, due_at, deliver_until, because)
  SELECT (SELECT current_workspace()), w.cause, w.type, w.subject, w.data::jsonb, w.due_at, w.deliver_until, w.because::jsonb
  FROM wanted w
  ON CONFLICT (workspace_id, cause) DO NOTHING
  RETURNING f.id, f.cause, f.type, f.due_at, f.deliver_until
), heard AS (
  SELECT s.id AS fact_id, s.cause, s.due_at, s.deliver_until, e.id AS endpoint_id, e.kind,
    CASE WHEN NOT e.active THEN 'endpoint_inactive' WHEN e.health = 'disabled' THEN 'endpoint_disabled' END AS reason
  FROM stated s JOIN wanted w ON w.cause = s.cause
  JOIN endpoint e ON CASE WHEN w.endpoints IS NULL
    THEN e.fact_types && ARRAY[s.type, split_part(s.type, '.', 1) || '.*', '*']
    ELSE w.endpoints::jsonb @> to_jsonb(e.id) END
), written AS (
  INSERT INTO delivery AS d (workspace_id, cause, fact_id, endpoint_id, channel, state, reason, due_at, expires_at, next_at,
                             ended_at)
  SELECT (SELECT current_workspace()), h.cause, h.fact_id, h.endpoint_id, h.kind,
    CASE WHEN h.reason IS NULL THEN 'pending' ELSE 'skipped' END, h.reason, coalesce(h.due_at, now()), h.deliver_until,
    CASE WHEN h.reason IS NULL THEN coalesce(h.due_at, now()) END, CASE WHEN h.reason IS NOT NULL THEN now() END
  FROM heard h
  ON CONFLICT DO NOTHING
  RETURNING d.id, d.fact_id, d.state, d.due_at
)
SELECT s.cause, s.id AS fact_id, w.id, w.state, w.due_at, CASE WHEN s.id = max(s.id) OVER () THEN
  pg_notify('soonish_live', (SELECT current_workspace()) || ':facts') END
FROM stated s LEFT JOIN written w ON w.fact_id = s.id;

-- name: newest_delivery
-- What is told afterwards under the same prefix has a higher id, and is not withdrawn.
SELECT coalesce(max(d.id), 0) FROM delivery d;

-- name: withdraw_person
UPDATE delivery d SET state = 'skipped', reason = :reason, ended_at = now(), next_at = NULL
WHERE d.id = ANY(ARRAY(
  SELECT o.id FROM delivery o WHERE o.person_id = :person_id AND o.state = 'pending' AND o.id <= :until
  ORDER BY o.id LIMIT :k FOR UPDATE))
RETURNING d.id;

-- name: withdraw_endpoint
UPDATE delivery d SET state = 'skipped', reason = :reason, ended_at = now(), next_at = NULL
WHERE d.id = ANY(ARRAY(
  SELECT o.id FROM delivery o WHERE o.endpoint_id = :endpoint_id AND o.state = 'pending' AND o.id <= :until
  ORDER BY o.id LIMIT :k FOR UPDATE))
RETURNING d.id;

-- name: let_go
UPDATE delivery d SET state = 'skipped', reason = 'cancelled', ended_at = now(), next_at = NULL
WHERE d.id = ANY(:ids::bigint[]) AND d.state = 'pending';

-- name: withdraw
UPDATE delivery d SET state = 'skipped', reason = :reason, ended_at = now(), next_at = NULL
WHERE d.id = ANY(ARRAY(
  SELECT o.id FROM delivery o
  WHERE o.cause >= :first AND o.cause < :past AND o.state = 'pending' AND o.id <= :until
    AND (:person_id::bigint IS NULL OR o.person_id = :person_id)
    AND (:of::text IS NULL OR (:of = 'endpoints') = (o.endpoint_id IS NOT NULL))
  ORDER BY o.id LIMIT :k FOR UPDATE))
RETURNING d.id;

-- name: retry_cause
-- Due now; the promise of the delivery stays, and so does all that was tried.
UPDATE delivery d
SET state = 'pending', reason = NULL, partial = false, steps = 0, doubts = 0, redirects = 0, next_at = now(), ended_at = NULL,
  expires_at = :until::timestamptz
WHERE d.id = ANY(ARRAY(
  SELECT o.id FROM delivery o
  WHERE o.cause >= :first AND o.cause < :past AND o.state = ANY(:states::text[]) AND o.id > :after
    AND (:of::text IS NULL OR (:of = 'endpoints') = (o.endpoint_id IS NOT NULL))
    AND (o.mailbox IS NOT NULL OR EXISTS (SELECT FROM address a WHERE a.id = o.address_id)
         OR EXISTS (SELECT FROM endpoint e WHERE e.id = o.endpoint_id))
  ORDER BY o.id LIMIT :k FOR UPDATE))
RETURNING d.id, d.state, NULL::timestamptz AS due_at;

-- === the ledger: what one looks at, and lets go again

-- name: ledger
-- The newest deliveries that fit. Candidates come by the index that `paths` names, no more than `reach` of them, so that
-- no filter walks the whole ledger: `looked` and `oldest` tell where the next look goes on.
WITH candidate AS MATERIALIZED (
  SELECT c.id FROM (
    (SELECT d.id FROM delivery d WHERE 'newest' = ANY(:paths::text[]) AND d.id < :before AND d.id >= :from_id
     ORDER BY d.id DESC LIMIT :reach)
    UNION ALL
    (SELECT d.id FROM delivery d
     WHERE 'failed' = ANY(:paths) AND d.wrong = 'failed' AND d.id < :before AND d.id >= :from_id
     ORDER BY d.id DESC LIMIT :reach)
    UNION ALL
    (SELECT d.id FROM delivery d
     WHERE 'unknown' = ANY(:paths) AND d.wrong = 'unknown' AND d.id < :before AND d.id >= :from_id
     ORDER BY d.id DESC LIMIT :reach)
    UNION ALL
    (SELECT d.id FROM delivery d
     WHERE 'person' = ANY(:paths) AND d.person_id = :person_id AND d.id < :before AND d.id >= :from_id
     ORDER BY d.id DESC LIMIT :reach)
    UNION ALL
    (SELECT d.id FROM delivery d
     WHERE 'endpoint' = ANY(:paths) AND d.endpoint_id = :endpoint_id AND d.id < :before AND d.id >= :from_id
     ORDER BY d.id DESC LIMIT :reach)
    UNION ALL
    -- The sum keeps the planner from walking the newest in search of what one message or one cause has written.
    (SELECT d.id FROM delivery d
     WHERE 'message' = ANY(:paths) AND d.message_id = :message_id AND d.id < :before AND d.id >= :from_id
     ORDER BY d.id + 0 DESC LIMIT :reach)
    UNION ALL
    (SELECT d.id FROM delivery d
     WHERE 'fact' = ANY(:paths) AND d.fact_id = :fact_id AND d.id < :before AND d.id >= :from_id
     ORDER BY d.id + 0 DESC LIMIT :reach)
    UNION ALL
    (SELECT d.id FROM delivery d
     WHERE 'cause' = ANY(:paths) AND d.cause >= :cause_first AND d.cause < :cause_past
       AND d.id < :before AND d.id >= :from_id
     ORDER BY d.id + 0 DESC LIMIT :reach)
  ) c ORDER BY c.id DESC LIMIT :reach
)
SELECT s.looked, s.oldest, one.*
FROM (SELECT count(*) AS looked, min(c.id) AS oldest FROM candidate c) s
LEFT JOIN LATERAL (
  SELECT d.*, coalesce(m.title, f.type) AS title, m.level, CASE WHEN p.erased_at IS NULL THEN p.name END AS person_name,
    a.label AS address_label, e.name AS endpoint_name, d.mailbox IS NOT NULL AS is_mailbox
  -- Each by its id: a join would rather read the whole table than look up so many.
  FROM candidate c CROSS JOIN LATERAL (SELECT o.* FROM delivery o WHERE o.id = c.id LIMIT 1) d
  LEFT JOIN message m ON m.id = d.message_id LEFT JOIN fact f ON f.id = d.fact_id
  LEFT JOIN person p ON p.id = d.person_id LEFT JOIN address a ON a.id = d.address_id
  LEFT JOIN endpoint e ON e.id = d.endpoint_id
  WHERE (:states::text[] IS NULL OR d.state = ANY(:states)) AND (:reason::text IS NULL OR d.reason = :reason)
    AND (:channel::text IS NULL OR d.channel = :channel) AND (:person_id::bigint IS NULL OR d.person_id = :person_id)
    AND (:address_id::bigint IS NULL OR d.address_id = :address_id)
    AND (:endpoint_id::bigint IS NULL OR d.endpoint_id = :endpoint_id)
    AND (:message_id::bigint IS NULL OR d.message_id = :message_id)
    AND (:fact_id::bigint IS NULL OR d.fact_id = :fact_id) AND (:fact_type::text IS NULL OR f.type = :fact_type)
    AND (:cause_first::text IS NULL OR (d.cause >= :cause_first AND d.cause < :cause_past))
    AND (:since::timestamptz IS NULL OR d.created_at >= :since)
    AND (:until::timestamptz IS NULL OR d.created_at < :until)
    AND (:late_over_ms::float8 IS NULL OR d.first_at - d.due_at > make_interval(secs => :late_over_ms / 1000))
  ORDER BY d.id DESC LIMIT :k
) one ON true
ORDER BY one.id DESC;

-- name: written_at
-- The first delivery written at this instant or later, by halving the ids: they grow with time, and time has no index.
WITH RECURSIVE half AS (
  SELECT (SELECT min(d.id) FROM delivery d) AS low, (SELECT max(d.id) + 1 FROM delivery d) AS high
  UNION ALL
  SELECT CASE WHEN one.created_at < :at::timestamptz + :slack::interval THEN one.id + 1 ELSE h.low END,
    CASE WHEN one.created_at < :at::timestamptz + :slack::interval THEN h.high ELSE (h.low + h.high) / 2 END
  FROM half h LEFT JOIN LATERAL (
    SELECT d.id, d.created_at FROM delivery d WHERE d.id >= (h.low + h.high) / 2 ORDER BY d.id LIMIT 1
  ) one ON true
  WHERE h.low < h.high
)
SELECT h.low FROM half h WHERE h.low >= h.high LIMIT 1;

-- name: crowded_cause
-- Whether a cause has so many deliveries that to sort them all would take longer than to walk the newest.
SELECT count(*) > :most FROM (
  SELECT FROM delivery d WHERE d.cause >= :first AND d.cause < :past LIMIT :most + 1) d;

-- name: person_of_address
SELECT a.person_id FROM address a WHERE a.id = :id;

-- name: one_delivery
SELECT d.*, coalesce(m.title, f.type) AS title, m.level, CASE WHEN p.erased_at IS NULL THEN p.name END AS person_name,
  a.label AS address_label, e.name AS endpoint_name, d.mailbox IS NOT NULL AS is_mailbox,
  coalesce(m.because, f.because) AS because, coalesce(m.created_at, f.created_at) AS asked_at,
  coalesce(a.circuit_until, e.circuit_until) > now() AS circuit_open, e.fact_types, now() AS now
FROM delivery d
LEFT JOIN message m ON m.id = d.message_id LEFT JOIN fact f ON f.id = d.fact_id
LEFT JOIN person p ON p.id = d.person_id LEFT JOIN address a ON a.id = d.address_id
LEFT JOIN endpoint e ON e.id = d.endpoint_id
WHERE d.id = :id;

-- name: letters_of_cause
-- What was to be told under a cause, whoever heard of it.
SELECT m.id, m.cause, m.title, m.created_at, m.send_at, m.told_at, m.cancelled_at, EXISTS (
  SELECT FROM delivery d WHERE d.message_id = m.id) AS told
FROM message m WHERE m.cause >= :first AND m.cause < :past ORDER BY m.cause LIMIT 20;

-- name: letters_ahead
-- Messages that wait for their moment and name this person, or a tag that an address of theirs has now.
SELECT m.id, m.title, m.send_at
FROM (SELECT d.key::bigint AS id FROM due.due d WHERE d.kind = 'delivery.message' LIMIT 1000) i
JOIN message m ON m.id = i.id
WHERE m.cancelled_at IS NULL AND m.told_at IS NULL
  AND (m.to_people -> 'person_ids' @> to_jsonb(:person_id::bigint) OR EXISTS (
    SELECT FROM address a WHERE a.person_id = :person_id AND a.active AND m.to_people ->> 'tag' = ANY(a.tags)))
ORDER BY m.send_at, m.id;

-- name: name_of_person
-- One row for anybody of this workspace; the name of who was removed is none.
SELECT CASE WHEN p.erased_at IS NULL THEN p.name END AS name FROM person p WHERE p.id = :id;

-- name: names_of
-- What some deliveries are about, for a list of due items.
SELECT d.*, coalesce(m.title, f.type) AS title, m.level, CASE WHEN p.erased_at IS NULL THEN p.name END AS person_name,
  a.label AS address_label, e.name AS endpoint_name, d.mailbox IS NOT NULL AS is_mailbox
FROM delivery d
LEFT JOIN message m ON m.id = d.message_id LEFT JOIN fact f ON f.id = d.fact_id
LEFT JOIN person p ON p.id = d.person_id LEFT JOIN address a ON a.id = d.address_id
LEFT JOIN endpoint e ON e.id = d.endpoint_id
WHERE d.id = ANY(:ids::bigint[]);

-- name: titles_of
SELECT m.id, m.title FROM message m WHERE m.id = ANY(:ids::bigint[]);

-- name: inbox
-- What came to the console addresses of a person, newest first.
SELECT d.id, d.ended_at, d.merge::text AS merge, m.title, m.body, m.link, m.level
FROM delivery d JOIN message m ON m.id = d.message_id
WHERE d.person_id = :person_id AND d.channel = 'console' AND d.state = 'sent'
ORDER BY d.id DESC LIMIT :k;

-- name: tries_of
SELECT a.* FROM attempt a WHERE a.delivery_id = :id ORDER BY a.n;

-- name: hold_delivery
-- Its state, which nobody changes until this transaction ends; and whether there is still somewhere to send it.
SELECT d.state, d.mailbox IS NOT NULL OR EXISTS (SELECT FROM address a WHERE a.id = d.address_id)
  OR EXISTS (SELECT FROM endpoint e WHERE e.id = d.endpoint_id) AS has_target
FROM delivery d WHERE d.id = :id FOR UPDATE OF d;

-- name: reopen
-- On its way again, under the same wire id, from the first step of the ladder. A deadline that has passed is none.
UPDATE delivery d
SET state = 'pending', reason = NULL, partial = false, steps = 0, doubts = 0, redirects = 0, next_at = now(),
    ended_at = NULL, expires_at = CASE WHEN d.expires_at > now() AND NOT :endless THEN d.expires_at END
WHERE d.id = ANY(:ids::bigint[]) AND d.state = ANY(:states::text[])
  AND (d.mailbox IS NOT NULL OR EXISTS (SELECT FROM address a WHERE a.id = d.address_id)
       OR EXISTS (SELECT FROM endpoint e WHERE e.id = d.endpoint_id))
RETURNING d.id, d.expires_at;

-- === what comes due

-- name: message_to_tell
SELECT m.cause, m.title, m.body, m.level, m.link, m.hold, m.calendar, m.send_at, m.expires_at, m.to_people::text AS to_people,
  m.because::text AS because, m.cancelled_at, coalesce(m.expires_at <= now(), false) AS over
FROM message m WHERE m.id = :id FOR UPDATE;

-- name: replay_some
SELECT d.id FROM delivery d
WHERE d.endpoint_id = :endpoint_id AND d.id > :after AND d.state = ANY(:states::text[])
  AND d.created_at >= :since AND d.created_at < coalesce(:until::timestamptz, 'infinity')
ORDER BY d.id LIMIT :k;

-- === what is kept of people

-- name: erase_deliveries
-- The rows, causes and times stay; what was said of the person in them goes.
UPDATE delivery d SET merge = '{}', mailbox = NULL
WHERE d.id = ANY(ARRAY(
  SELECT o.id FROM delivery o
  WHERE o.person_id = :person_id AND (o.merge <> '{}' OR o.mailbox IS NOT NULL) LIMIT :k FOR UPDATE));

-- name: erase_answers
UPDATE attempt a SET answer = ''
WHERE a.answer <> '' AND a.delivery_id = ANY(ARRAY(
  SELECT o.id FROM delivery o JOIN attempt t ON t.delivery_id = o.id AND t.answer <> ''
  WHERE o.person_id = :person_id LIMIT :k));

-- name: erase_messages
-- Those that were for nobody else.
UPDATE message m SET title = 'Removed', body = '', link = NULL, calendar = NULL, because = '{}'
WHERE m.id = ANY(ARRAY(
  SELECT o.id FROM message o
  WHERE o.body <> '' AND o.id IN (SELECT d.message_id FROM delivery d WHERE d.person_id = :person_id)
    AND NOT EXISTS (SELECT FROM delivery d WHERE d.message_id = o.id AND d.person_id IS DISTINCT FROM :person_id)
  LIMIT :k FOR UPDATE));

-- name: erase_facts
UPDATE fact f SET data = '{}', because = '{}'
WHERE f.id = ANY(ARRAY(
  SELECT o.id FROM fact o WHERE o.subject = :subject AND (o.data <> '{}' OR o.because <> '{}') LIMIT :k FOR UPDATE));

-- name: deliveries_of_person
SELECT d.id, d.cause, d.channel, d.state, d.reason, d.due_at, d.first_at, d.ended_at, d.tries, m.title, m.body, m.level,
  d.merge::text AS merge
FROM delivery d LEFT JOIN message m ON m.id = d.message_id
WHERE d.person_id = :person_id ORDER BY d.id;

-- === deaths

-- name: deaths
-- Items that died lately and of which no fact was stated yet; those of deliveries are told by their own facts.
SELECT u.id, u.kind, u.key, u.reason, u.attempts FROM due.due_undone u
WHERE u.fate = 'dead' AND u.kind <> 'delivery.send' AND u.finished_at > now() - interval '1 day'
  AND u.workspace_id = (SELECT current_workspace())
  AND NOT EXISTS (SELECT FROM fact f WHERE f.workspace_id = u.workspace_id
                  AND f.cause = 'due/' || u.id || '/dead/' || u.attempts)
ORDER BY u.id LIMIT 1000;

-- === trying an address

-- name: address_to_try
SELECT a.id, a.person_id, a.kind, a.health, a.active FROM address a WHERE a.id = :id FOR SHARE;

-- name: delivery_of_message
SELECT max(d.id) FROM delivery d WHERE d.message_id = :message_id;
