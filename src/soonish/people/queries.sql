-- name: place
-- What holds in the workspace where nothing else is said, and the moment by this clock.
SELECT w.timezone, w.locale, w.email_trust = 'trusted' AS trusted, now() AS now FROM workspace w WHERE w.id = :id;

-- name: make_people
-- In their order; those whose external id or mail address somebody has are left out.
INSERT INTO person AS p (workspace_id, external_id, name, first_name, last_name, email, timezone, locale, date_of_birth,
                         quiet_start, quiet_end, quiet_critical, paused_until)
SELECT :workspace_id, u.external_id, u.name, u.first_name, u.last_name, u.email, u.timezone, u.locale, u.date_of_birth,
       u.quiet_start, u.quiet_end, u.quiet_critical, u.paused_until
FROM unnest(
  :external_id::text[], :name::text[], :first_name::text[], :last_name::text[], :email::text[], :timezone::text[],
  :locale::text[], :date_of_birth::date[], :quiet_start::time[], :quiet_end::time[], :quiet_critical::text[],
  :paused_until::timestamptz[]) WITH ORDINALITY
  AS u (external_id, name, first_name, last_name, email, timezone, locale, date_of_birth, quiet_start, quiet_end,
        quiet_critical, paused_until, n)
ORDER BY u.n
ON CONFLICT DO NOTHING
RETURNING p.*;

-- name: change_people
UPDATE person p
SET external_id = u.external_id, name = u.name, first_name = u.first_name, last_name = u.last_name, email = u.email,
    timezone = u.timezone, locale = u.locale, date_of_birth = u.date_of_birth, quiet_start = u.quiet_start,
    quiet_end = u.quiet_end, quiet_critical = u.quiet_critical, paused_until = u.paused_until,
    version = p.version + 1, updated_at = now()
FROM unnest(
  :id::bigint[], :external_id::text[], :name::text[], :first_name::text[], :last_name::text[], :email::text[],
  :timezone::text[], :locale::text[], :date_of_birth::date[], :quiet_start::time[], :quiet_end::time[],
  :quiet_critical::text[], :paused_until::timestamptz[])
  AS u (id, external_id, name, first_name, last_name, email, timezone, locale, date_of_birth, quiet_start, quiet_end,
        quiet_critical, paused_until)
WHERE p.id = u.id
RETURNING p.*;

-- name: who_has
-- Whoever has one of these external ids or mail addresses.
SELECT p.id, p.external_id, p.email_key FROM person p WHERE p.external_id = ANY(:external_ids::text[])
UNION ALL
SELECT p.id, p.external_id, p.email_key FROM person p WHERE p.email_key = ANY(:emails::text[]);

-- name: person
SELECT p.* FROM person p WHERE p.id = :id AND p.erased_at IS NULL;

-- name: names
SELECT p.id, p.name FROM person p WHERE p.id = ANY(:ids::bigint[]) AND p.erased_at IS NULL;

-- name: person_for_update
SELECT p.* FROM person p WHERE p.id = :id AND p.erased_at IS NULL FOR NO KEY UPDATE;

-- name: by_external_id
-- In the order of ids, so that two imports of the same people wait for each other and cannot deadlock.
SELECT p.* FROM person p WHERE p.external_id = ANY(:external_ids::text[]) ORDER BY p.id FOR NO KEY UPDATE;

-- name: people
SELECT p.* FROM person p
WHERE p.erased_at IS NULL AND p.id < coalesce(:before::bigint, 9223372036854775807)
  AND (:part::text IS NULL OR p.sought LIKE lower(:part) OR starts_with(p.external_id, :q))
  AND (:external_id::text IS NULL OR p.external_id = :external_id)
  AND (:email::text IS NULL OR p.email_key = :email)
  AND (:tag::text IS NULL OR p.id IN (SELECT a.person_id FROM address a WHERE a.active AND :tag = ANY(a.tags)))
ORDER BY p.id DESC LIMIT :k;

-- name: erase_person
-- What tells who it was goes at once; the row stays for all that speaks of it.
UPDATE person p
SET external_id = NULL, name = :name, first_name = NULL, last_name = NULL, email = NULL, date_of_birth = NULL,
    quiet_start = NULL, quiet_end = NULL, quiet_critical = 'send', paused_until = NULL,
    erased_at = now(), version = p.version + 1, updated_at = now()
WHERE p.id = :id;

-- name: remove_addresses
DELETE FROM address a WHERE a.person_id = :person_id;

-- name: next_address_id
SELECT nextval('address_id_seq');

-- name: add_address
-- Nothing where the person has this target or label already.
INSERT INTO address AS a (id, workspace_id, person_id, kind, label, scheme, host, target, target_hint, target_print, tags,
                          active, health, verified_at)
OVERRIDING SYSTEM VALUE
VALUES (:id, :workspace_id, :person_id, :kind, :label, :scheme, :host, :target, :target_hint, :target_print, :tags,
        :active, :health, CASE WHEN :trusted::boolean THEN now() END)
ON CONFLICT DO NOTHING
RETURNING a.*;

-- name: clash
-- Whether another address of the person has this target; if none has, then its label stands in the way, or nothing does.
SELECT a.target_print = :target_print AS same_target FROM address a
WHERE a.person_id = :person_id AND a.id <> :id AND (a.target_print = :target_print OR a.label = :label)
ORDER BY 1 DESC LIMIT 1;

-- name: address
SELECT a.* FROM address a WHERE a.id = :id;

-- name: address_for_update
SELECT a.* FROM address a WHERE a.id = :id FOR NO KEY UPDATE;

-- name: addresses
SELECT a.* FROM address a WHERE a.person_id = ANY(:person_ids::bigint[]) ORDER BY a.id;

-- name: change_address
UPDATE address a SET label = :label, tags = :tags, active = :active, version = a.version + 1, updated_at = now()
WHERE a.id = :id
RETURNING a.*;

-- name: retarget
-- A new target begins anew: what was known of the old one says nothing about it.
UPDATE address a
SET scheme = :scheme, host = :host, target = :target, target_hint = :target_hint, target_print = :target_print,
    health = :health, disabled_reason = NULL, fails = 0, refusals = 0, misses = 0, last_ok_at = NULL,
    last_failed_at = NULL, last_error = NULL, verified_at = CASE WHEN :trusted::boolean THEN now() END,
    circuit_until = NULL, circuit_step = 0
WHERE a.id = :id;

-- name: enable_address
UPDATE address a
SET health = CASE WHEN a.kind = 'email' AND a.verified_at IS NULL THEN 'unverified' ELSE 'ok' END,
    disabled_reason = NULL, fails = 0, refusals = 0, misses = 0, circuit_until = NULL, circuit_step = 0,
    version = a.version + 1, updated_at = now()
WHERE a.id = :id
RETURNING a.*;

-- name: remove_address
DELETE FROM address a WHERE a.id = :id;

-- name: silent
-- Whether the person has no active address any more.
SELECT NOT EXISTS (SELECT FROM address a WHERE a.person_id = :person_id AND a.active);

-- name: targets
SELECT a.id, a.target FROM address a WHERE a.id = ANY(:ids::bigint[]);

-- name: own_addresses
SELECT a.id FROM address a WHERE a.person_id = :person_id AND a.id = ANY(:ids::bigint[]);

-- name: mails_of_today
-- How many confirmation mails went to this mailbox in 24 hours, and how long until there is room for one more.
SELECT count(*) AS count, ceil(extract(epoch FROM min(t.created_at) + interval '1 day' - now()))::int AS wait FROM (
  SELECT o.created_at FROM address_token o
  WHERE o.target_print = :target_print AND o.created_at > now() - interval '1 day'
  ORDER BY o.created_at DESC LIMIT :most) t;

-- name: make_token
INSERT INTO address_token AS t (workspace_id, address_id, target_print, expires_at)
VALUES (:workspace_id, :address_id, :target_print, now() + make_interval(days => :days))
RETURNING t.id;

-- name: token
-- What a mail may confirm: the address it went to, as long as that leads to the same mailbox.
SELECT t.id, t.used_at, a.id AS address_id, a.person_id, a.target_hint, a.verified_at, w.name AS workspace
FROM address_token t
JOIN address a ON a.id = t.address_id AND a.target_print = t.target_print
JOIN workspace w ON w.id = t.workspace_id AND w.closed_at IS NULL
WHERE t.id = :id AND t.expires_at > now();

-- name: use_token
UPDATE address_token t SET used_at = now() WHERE t.id = :id AND t.used_at IS NULL;

-- name: verify_address
-- Once: another mail of the same address finds it verified.
UPDATE address a
SET verified_at = now(), health = CASE WHEN a.health = 'unverified' THEN 'ok' ELSE a.health END,
    version = a.version + 1, updated_at = now()
WHERE a.id = :id AND a.verified_at IS NULL;

-- name: owner_of_mailbox
SELECT o.id
FROM (SELECT p.id, 1 AS rank FROM person p WHERE p.email_key = :email
      UNION ALL
      SELECT a.person_id, 2 FROM address a
      WHERE a.target_print = :target_print AND a.kind = 'email' AND a.verified_at IS NOT NULL) o
ORDER BY o.rank, o.id LIMIT 1;

-- name: sweep_tokens
-- A day longer than they work, for they also count the mails of a day.
DELETE FROM address_token t
WHERE t.id = ANY(ARRAY(SELECT o.id FROM address_token o WHERE o.expires_at <= now() - interval '1 day' LIMIT :k));
