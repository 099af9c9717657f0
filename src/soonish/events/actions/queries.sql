-- === an event

-- name: event
SELECT e.*, now() AS read_at FROM event e WHERE e.id = :id;

-- name: event_for_update
SELECT e.*, now() AS read_at FROM event e WHERE e.id = :id FOR NO KEY UPDATE;

-- name: event_for_share
SELECT e.*, now() AS read_at FROM event e WHERE e.id = :id FOR SHARE;

-- name: make_event
INSERT INTO event AS e (workspace_id, organizer_id, name, description, location, link, timezone, start_date, end_date,
                        effective_end_date, is_public, reminder_offsets, state, show_time_in, reminder_engine,
                        published_at)
VALUES ((SELECT current_workspace()), :organizer_id, :name, :description, :location, :link, :timezone, :start_date,
        :end_date, :effective_end_date, :is_public, :reminder_offsets, :state, :show_time_in, :reminder_engine,
        CASE WHEN :state <> 'draft' THEN now() END)
RETURNING e.*, now() AS read_at;

-- name: update_event
UPDATE event e
SET organizer_id = :organizer_id, name = :name, description = :description, location = :location, link = :link,
    timezone = :timezone, start_date = :start_date, end_date = :end_date, effective_end_date = :effective_end_date,
    is_public = :is_public, reminder_offsets = :reminder_offsets, state = :state, show_time_in = :show_time_in,
    reminder_engine = :reminder_engine, sequence = :sequence, link_generation = :link_generation,
    cancel_message = :cancel_message, planned_at = :planned_at, published_at = :published_at, live_at = :live_at,
    cancelled_at = :cancelled_at, completed_at = :completed_at, closed_at = :closed_at, version = e.version + 1,
    updated_at = now()
WHERE e.id = :id
RETURNING e.*, now() AS read_at;

-- name: delete_event
DELETE FROM event e WHERE e.id = :id;

-- name: now
SELECT now();

-- name: events
SELECT e.*, now() AS read_at FROM event e
WHERE (e.start_date, e.id) > (coalesce(:after_at::timestamptz, '-infinity'), :after_id::bigint)
  AND (:states::text[] IS NULL OR e.state = ANY(:states))
  AND (:since::timestamptz IS NULL OR e.start_date >= :since) AND (:until::timestamptz IS NULL OR e.start_date < :until)
  AND (:part::text IS NULL OR e.name ILIKE :part OR e.location ILIKE :part)
  AND (:organizer_id::bigint IS NULL OR e.organizer_id = :organizer_id)
  AND (:person_id::bigint IS NULL OR EXISTS (
    SELECT FROM subscription s WHERE s.event_id = e.id AND s.person_id = :person_id AND s.state = 'active'))
ORDER BY e.start_date, e.id LIMIT :k;

-- name: ahead_of_person
-- What is planned for somebody: reminders that were wished and planned before their moments, and snoozes.
SELECT x.* FROM (
  SELECT e.id AS event_id, e.name, s.id AS subscription_id, w.offset_seconds,
    e.start_date - make_interval(secs => w.offset_seconds) AS at
  FROM subscription s JOIN event e ON e.id = s.event_id
  CROSS JOIN unnest(coalesce(s.reminder_offsets, e.reminder_offsets, :default::int[])) w (offset_seconds)
  WHERE s.person_id = :person_id AND s.state = 'active' AND e.state IN ('scheduled', 'live')
    AND e.start_date - make_interval(secs => w.offset_seconds) > now()
  UNION ALL
  SELECT e.id, e.name, s.id, NULL, z.at
  FROM subscription s JOIN event e ON e.id = s.event_id JOIN snooze z ON z.subscription_id = s.id
  WHERE s.person_id = :person_id AND s.state = 'active' AND z.state = 'planned' AND e.state IN ('scheduled', 'live')
) x
WHERE x.at >= coalesce(:since::timestamptz, '-infinity') AND x.at < coalesce(:until::timestamptz, 'infinity')
ORDER BY x.at LIMIT :k;

-- name: event_names
SELECT e.id, e.name FROM event e WHERE e.id = ANY(:ids::bigint[]);

-- name: subscribers
SELECT count(*)::int FROM subscription s WHERE s.event_id = :event_id AND s.state = 'active';

-- name: person_exists
SELECT EXISTS (SELECT FROM person p WHERE p.id = :id AND p.erased_at IS NULL);

-- name: people_for_share
SELECT p.id FROM person p WHERE p.id = ANY(:ids::bigint[]) AND p.erased_at IS NULL ORDER BY p.id FOR SHARE;

-- === what changed

-- name: add_change
INSERT INTO event_change (workspace_id, event_id, version, actor, changes, note, told, broadcast_id)
VALUES ((SELECT current_workspace()), :event_id, :version, :actor, :changes::text::jsonb, :note, :told, :broadcast_id);

-- name: changes
SELECT c.* FROM event_change c
WHERE c.event_id = :event_id AND c.id < coalesce(:before::bigint, 9223372036854775807)
ORDER BY c.id DESC LIMIT :k;

-- name: changes_of_broadcast
SELECT c.changes, c.note, c.at, c.actor FROM event_change c WHERE c.broadcast_id = :broadcast_id ORDER BY c.id;

-- name: add_signal
INSERT INTO event_signal AS s (workspace_id, event_id, name, payload)
VALUES ((SELECT current_workspace()), :event_id, :name, :payload::text::jsonb)
RETURNING s.id;

-- === what holds where an event says nothing

-- name: defaults
SELECT d.* FROM event_defaults d WHERE d.workspace_id = (SELECT current_workspace());

-- name: defaults_for_share
SELECT d.* FROM event_defaults d WHERE d.workspace_id = (SELECT current_workspace()) FOR SHARE;

-- name: defaults_for_update
SELECT d.* FROM event_defaults d WHERE d.workspace_id = (SELECT current_workspace()) FOR UPDATE;

-- name: begin_defaults
-- There is a row to lock from the first event on.
INSERT INTO event_defaults (workspace_id) VALUES ((SELECT current_workspace())) ON CONFLICT DO NOTHING;

-- name: change_defaults
UPDATE event_defaults d
SET reminder_offsets = :reminder_offsets, default_duration_s = :default_duration_s, coalesce_s = :coalesce_s,
    version = d.version + 1, updated_at = now()
WHERE d.workspace_id = (SELECT current_workspace())
RETURNING d.*;

-- === offsets that somebody may want

-- name: hold_offsets
-- New offsets of one event are counted by one at a time; subscribers share the event's own lock.
SELECT pg_advisory_xact_lock(hashtextextended('event_offset/' || :event_id::bigint, 0));

-- name: offsets
SELECT o.offset_seconds FROM event_offset o WHERE o.event_id = :event_id ORDER BY o.offset_seconds DESC;

-- name: unknown_offsets
SELECT w.offset_seconds FROM unnest(:offsets::int[]) w (offset_seconds)
WHERE NOT EXISTS (
  SELECT FROM event_offset o WHERE o.event_id = :event_id AND o.offset_seconds = w.offset_seconds);

-- name: add_offsets
INSERT INTO event_offset AS o (workspace_id, event_id, offset_seconds)
SELECT (SELECT current_workspace()), :event_id, w.offset_seconds FROM unnest(:offsets::int[]) w (offset_seconds)
ON CONFLICT DO NOTHING
RETURNING o.offset_seconds;

-- name: prune_offsets
-- Those that nobody wants: neither the event, or its workspace, nor a subscription of its own.
DELETE FROM event_offset o
WHERE o.event_id = :event_id AND o.offset_seconds <> ALL(:inherited::int[]) AND NOT EXISTS (
  SELECT FROM subscription s
  WHERE s.event_id = :event_id AND s.state = 'active' AND s.reminder_offsets @> ARRAY[o.offset_seconds])
RETURNING o.offset_seconds;

-- name: own_offsets
SELECT DISTINCT u.offset_seconds FROM subscription s CROSS JOIN unnest(s.reminder_offsets) u (offset_seconds)
WHERE s.event_id = :event_id AND s.state = 'active';

-- name: reminders
-- Every offset that an active subscription wants, and how many are reminded then.
SELECT w.offset_seconds, count(*) FILTER (
    WHERE greatest(s.asked_at, :planned_at::timestamptz) <= :start_date::timestamptz - make_interval(secs => w.offset_seconds)
  )::int AS audience
FROM subscription s CROSS JOIN unnest(coalesce(s.reminder_offsets, :inherited::int[])) w (offset_seconds)
WHERE s.event_id = :event_id AND s.state = 'active' AND w.offset_seconds < coalesce(:below::int, 2147483647)
GROUP BY w.offset_seconds ORDER BY w.offset_seconds DESC LIMIT :k;

-- name: audience
-- Who gets a reminder: it was wanted before its moment. `merged`: this one is late, and a nearer one has come due too.
SELECT s.id, s.person_id, s.selectors::text AS selectors, :late::boolean AND EXISTS (
    SELECT FROM unnest(coalesce(s.reminder_offsets, :inherited::int[])) o (offset_seconds)
    WHERE o.offset_seconds < :offset
      AND :start_date::timestamptz - make_interval(secs => o.offset_seconds) <= now()) AS merged
FROM subscription s
WHERE s.event_id = :event_id AND s.state = 'active' AND s.id > :after
  AND :offset::int = ANY(coalesce(s.reminder_offsets, :inherited))
  AND greatest(s.asked_at, :planned_at::timestamptz) <= :start_date - make_interval(secs => :offset)
ORDER BY s.id LIMIT :k;

-- name: merged_one
-- The same for one subscription.
SELECT :late::boolean AND EXISTS (
  SELECT FROM unnest(:wanted::int[]) o (offset_seconds)
  WHERE o.offset_seconds < :offset::int
    AND :start_date::timestamptz - make_interval(secs => o.offset_seconds) <= now());

-- === who wants to hear of it

-- name: subscription
SELECT s.* FROM subscription s WHERE s.event_id = :event_id AND s.id = :id;

-- name: subscription_for_update
SELECT s.* FROM subscription s WHERE s.event_id = :event_id AND s.id = :id FOR NO KEY UPDATE;

-- name: subscribe
-- Whoever left comes back under the same id; nothing where they are subscribed. The clock is that after the event's lock
-- was had: whoever asks while a reminder is told is either among those who are told, or came after its moment.
INSERT INTO subscription AS s (workspace_id, event_id, person_id, source, reminder_offsets, selectors)
SELECT (SELECT current_workspace()), :event_id, u.person_id, :source,
  CASE WHEN u.offsets IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(u.offsets::jsonb)::int) END,
  u.selectors::jsonb
FROM unnest(:person_ids::bigint[], :offsets::text[], :selectors::text[]) WITH ORDINALITY
  AS u (person_id, offsets, selectors, n)
ORDER BY u.person_id
ON CONFLICT (event_id, person_id) DO UPDATE
SET state = 'active', source = excluded.source, reminder_offsets = excluded.reminder_offsets,
    selectors = excluded.selectors, activations = s.activations + 1, activated_at = clock_timestamp(),
    asked_at = clock_timestamp(),
    removed_at = NULL, removed_by = NULL, version = s.version + 1, updated_at = now()
WHERE s.state = 'removed'
RETURNING s.*;

-- name: subscription_of_person
SELECT s.* FROM subscription s WHERE s.event_id = :event_id AND s.person_id = :person_id;

-- name: change_subscription
UPDATE subscription s
SET reminder_offsets = :reminder_offsets, selectors = :selectors::text::jsonb,
    asked_at = CASE WHEN s.reminder_offsets IS DISTINCT FROM :reminder_offsets::int[]
                    THEN clock_timestamp() ELSE s.asked_at END,
    version = s.version + 1, updated_at = now()
WHERE s.id = :id
RETURNING s.*;

-- name: remove_subscription
UPDATE subscription s
SET state = 'removed', removed_at = now(), removed_by = :removed_by, version = s.version + 1, updated_at = now()
WHERE s.id = :id
RETURNING s.*;

-- name: subscriptions
SELECT s.* FROM subscription s JOIN person p ON p.id = s.person_id
WHERE s.event_id = :event_id AND s.id > :after AND (:state::text IS NULL OR s.state = :state)
  AND (:person_id::bigint IS NULL OR s.person_id = :person_id)
  AND (:part::text IS NULL OR (p.erased_at IS NULL AND p.sought LIKE lower(:part)))
ORDER BY s.id LIMIT :k;

-- name: subscriptions_of_person
-- What somebody is subscribed to, in the order in which events are locked.
SELECT s.event_id, s.id FROM subscription s WHERE s.person_id = :person_id AND s.state = 'active' ORDER BY s.event_id;

-- name: all_of_person
SELECT s.id, s.event_id, e.name AS event, s.state, s.source, s.reminder_offsets, s.activated_at, s.removed_at, s.removed_by
FROM subscription s JOIN event e ON e.id = s.event_id WHERE s.person_id = :person_id ORDER BY s.id;

-- name: told_reminders
-- What the ledger has of the reminders of one person under these causes: the best end of several addresses.
SELECT DISTINCT ON (d.cause) d.cause, d.state, d.reason FROM delivery d
WHERE d.cause = ANY(:causes::text[]) AND d.person_id = :person_id
ORDER BY d.cause, array_position(ARRAY['sent', 'pending', 'failed', 'unknown', 'skipped'], d.state);

-- === once more

-- name: add_snooze
INSERT INTO snooze AS z (workspace_id, subscription_id, at)
VALUES ((SELECT current_workspace()), :subscription_id, :at)
RETURNING z.*;

-- name: snoozes
SELECT z.* FROM snooze z
WHERE z.subscription_id = :subscription_id AND z.id < coalesce(:before::bigint, 9223372036854775807)
ORDER BY z.id DESC LIMIT :k;

-- name: planned_snoozes
SELECT count(*) FROM snooze z WHERE z.subscription_id = :subscription_id AND z.state = 'planned';

-- name: snooze
SELECT z.*, s.event_id FROM snooze z JOIN subscription s ON s.id = z.subscription_id WHERE z.id = :id;

-- name: snooze_for_update
SELECT z.* FROM snooze z WHERE z.id = :id AND z.subscription_id = :subscription_id FOR UPDATE;

-- name: end_snooze
UPDATE snooze z SET state = :state, reason = :reason WHERE z.id = :id;

-- name: drop_snoozes
UPDATE snooze z SET state = 'dropped', reason = :reason
WHERE z.subscription_id = ANY(:subscription_ids::bigint[]) AND z.state = 'planned'
RETURNING z.id;

-- name: drop_snoozes_of_event
UPDATE snooze z SET state = 'dropped', reason = :reason
FROM subscription s WHERE s.event_id = :event_id AND z.subscription_id = s.id AND z.state = 'planned'
RETURNING z.id;

-- === what is told at once

-- name: add_broadcast
INSERT INTO broadcast AS b (workspace_id, event_id, kind, notification_level, title, body, link, subscription_ids, send_at,
                            created_by, state, first_change_at)
VALUES ((SELECT current_workspace()), :event_id, :kind, :notification_level, :title, :body, :link, :subscription_ids,
        coalesce(:send_at::timestamptz, now()), :created_by, :state, :first_change_at)
RETURNING b.*;

-- name: broadcast
SELECT b.* FROM broadcast b WHERE b.event_id = :event_id AND b.id = :id;

-- name: broadcast_for_update
SELECT b.* FROM broadcast b WHERE b.event_id = :event_id AND b.id = :id FOR UPDATE;

-- name: event_of_broadcast
SELECT b.event_id FROM broadcast b WHERE b.id = :id;

-- name: coalescing
SELECT b.* FROM broadcast b WHERE b.event_id = :event_id AND b.kind = 'updated' AND b.state = 'scheduled' FOR UPDATE;

-- name: change_broadcast
UPDATE broadcast b
SET title = :title, body = :body, link = :link, notification_level = :notification_level, send_at = :send_at,
    state = :state, reason = :reason, updated_at = now()
WHERE b.id = :id
RETURNING b.*;

-- name: withdraw_broadcasts
-- Those that nobody was told of yet.
UPDATE broadcast b SET state = 'withdrawn', reason = :reason, updated_at = now()
WHERE b.event_id = :event_id AND b.state IN ('scheduled', 'queued')
RETURNING b.id;

-- name: scheduled_broadcasts
SELECT b.id FROM broadcast b WHERE b.event_id = :event_id AND b.state = 'scheduled';

-- name: broadcasts
SELECT b.* FROM broadcast b
WHERE b.event_id = :event_id AND b.id < coalesce(:before::bigint, 9223372036854775807)
ORDER BY b.id DESC LIMIT :k;

-- name: active_among
SELECT s.id FROM subscription s
WHERE s.event_id = :event_id AND s.state = 'active' AND s.id = ANY(:ids::bigint[]);

-- name: preview
-- Whom it would reach: subscriptions, their addresses that count, and those that have none.
WITH one AS (
  SELECT s.id, count(a.id) AS targets
  FROM subscription s LEFT JOIN address a
    ON a.person_id = s.person_id AND a.active AND a.health IN ('ok', 'failing')
    AND (s.selectors IS NULL OR EXISTS (
      SELECT FROM jsonb_array_elements(s.selectors) c
      WHERE (c.value ->> 'address_id')::bigint = a.id OR c.value ->> 'tag' = ANY(a.tags)))
  WHERE s.event_id = :event_id AND s.state = 'active' AND (:ids::bigint[] IS NULL OR s.id = ANY(:ids))
  GROUP BY s.id
)
SELECT count(*)::int AS total, coalesce(sum(o.targets), 0)::int AS targets,
  count(*) FILTER (WHERE o.targets = 0)::int AS no_targets
FROM one o;

-- name: stats
-- A subscription counts once: an address that was reached, else what is still to come, else what failed.
WITH one AS (
  SELECT bool_or(d.state = 'sent') AS sent, bool_or(d.state = 'pending') AS pending, bool_or(d.state = 'failed') AS failed,
    bool_or(d.state = 'unknown') AS unknown, bool_or(d.reason = ANY(:no_targets::text[])) AS nowhere
  FROM message m JOIN delivery d ON d.message_id = m.id WHERE m.cause = :cause GROUP BY d.person_id
)
SELECT count(*)::int AS total, count(*) FILTER (WHERE o.sent)::int AS delivered,
  count(*) FILTER (WHERE o.pending AND NOT o.sent)::int AS pending,
  count(*) FILTER (WHERE o.failed AND NOT (o.sent OR o.pending))::int AS failed,
  count(*) FILTER (WHERE o.unknown AND NOT (o.sent OR o.pending OR o.failed))::int AS unknown,
  count(*) FILTER (WHERE NOT (o.sent OR o.pending OR o.failed OR o.unknown))::int AS skipped,
  count(*) FILTER (WHERE o.nowhere AND NOT (o.sent OR o.pending OR o.failed OR o.unknown))::int AS no_targets
FROM one o;

-- name: recipients
WITH one AS (
  SELECT d.person_id, count(*) FILTER (WHERE d.address_id IS NOT NULL)::int AS tried,
    count(*) FILTER (WHERE d.state = 'sent')::int AS delivered, count(*) FILTER (WHERE d.state = 'failed')::int AS failed,
    array_agg(d.id ORDER BY d.id) AS delivery_ids, max(d.reason) FILTER (WHERE d.state <> 'sent') AS reason,
    CASE WHEN bool_or(d.state = 'sent') THEN 'delivered' WHEN bool_or(d.state = 'pending') THEN 'pending'
      WHEN bool_or(d.state = 'failed') THEN 'failed' WHEN bool_or(d.state = 'unknown') THEN 'unknown'
      WHEN bool_or(d.reason = ANY(:no_targets::text[])) THEN 'no_targets' ELSE 'skipped' END AS status
  FROM message m JOIN delivery d ON d.message_id = m.id WHERE m.cause = :cause GROUP BY d.person_id
)
SELECT s.id AS subscription_id, o.person_id, o.status,
  CASE WHEN o.status <> 'delivered' THEN o.reason END AS reason, o.tried, o.delivered, o.failed, o.delivery_ids
FROM one o JOIN subscription s ON s.event_id = :event_id AND s.person_id = o.person_id
WHERE s.id > :after AND (:status::text IS NULL OR o.status = :status)
ORDER BY s.id LIMIT :k;

-- === events that follow a changed default, or another engine

-- name: to_replan
SELECT e.id FROM event e
WHERE e.state = ANY(ARRAY['scheduled', 'live']) AND e.effective_end_date > now() AND e.id > :after
  AND (e.reminder_engine <> :engine OR (:default::boolean AND e.reminder_offsets IS NULL))
ORDER BY e.id LIMIT :k;

-- name: replan_event
-- No new version: nothing of it changed for whoever looks at it.
UPDATE event e
SET reminder_engine = :engine, planned_at = CASE WHEN :anew::boolean THEN now() ELSE e.planned_at END
WHERE e.id = :id
RETURNING e.*, now() AS read_at;

-- name: workspaces_to_replan
-- Those with open events of another engine.
SELECT w.id FROM workspaces_to_replan(:engine) w (id);

-- === mailboxes that ask to be told

-- name: lock_joining
-- Who asks at the same moment waits, so that what is counted next stays true until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('events.join ' || :what, 0));

-- name: requests_of_hour
-- How many asked to hear of an event within an hour, and in how many seconds the oldest of them counts no more.
SELECT count(*) AS count,
       ceil(extract(epoch FROM min(r.created_at) + interval '1 hour' - now()))::int AS wait
FROM (SELECT q.created_at FROM subscription_request q
      WHERE q.event_id = :event_id AND q.created_at > now() - interval '1 hour'
      ORDER BY q.id DESC LIMIT :most) r;

-- name: next_request_id
SELECT nextval('subscription_request_id_seq');

-- name: add_request
INSERT INTO subscription_request AS r (id, workspace_id, event_id, email, email_print, name, reminder_offsets, expires_at)
OVERRIDING SYSTEM VALUE
VALUES (:id, (SELECT current_workspace()), :event_id, :email, :email_print, :name, :reminder_offsets::int[],
        now() + :ttl::interval)
RETURNING r.expires_at;

-- name: request
SELECT r.*, r.expires_at <= now() AS over FROM subscription_request r WHERE r.id = :id;

-- name: request_for_update
SELECT r.*, r.expires_at <= now() AS over FROM subscription_request r WHERE r.id = :id FOR NO KEY UPDATE;

-- name: mails_to_mailbox
-- How many went there in a day; and whether one about this event did so just now.
SELECT count(*) AS of_day,
       coalesce(bool_or(r.event_id = :event_id AND r.mailed_at > now() - :pause::interval), false) AS just_now
FROM subscription_request r
WHERE r.email_print = :email_print AND r.mailed_at > now() - interval '1 day';

-- name: request_mailed
UPDATE subscription_request r SET mailed_at = now() WHERE r.id = :id;

-- name: request_confirmed
UPDATE subscription_request r SET confirmed_at = now(), subscription_id = :subscription_id WHERE r.id = :id;

-- name: forget_request
-- Who it was; the print stays until the mail counts no more.
UPDATE subscription_request r SET email = NULL, name = NULL WHERE r.id = :id;

-- name: drop_request
DELETE FROM subscription_request r WHERE r.id = :id AND r.created_at <= now() - interval '1 day';

-- name: requests_of_person
-- Some of those that led to a subscription of a person who was erased.
DELETE FROM subscription_request r WHERE r.id = ANY(ARRAY(
  SELECT q.id FROM subscription s JOIN subscription_request q ON q.event_id = s.event_id AND q.subscription_id = s.id
  WHERE s.person_id = :person_id LIMIT :k));

-- name: subscription_by_id
SELECT s.* FROM subscription s WHERE s.id = :id;

-- === calendars

-- name: feed
SELECT f.generation FROM event_feed f WHERE f.person_id = :person_id AND f.generation > 0;

-- name: open_feed
-- A new one: every older link leads nowhere any more.
INSERT INTO event_feed AS f (person_id, workspace_id, generation) VALUES (:person_id, (SELECT current_workspace()), 1)
ON CONFLICT (person_id) DO UPDATE SET generation = abs(f.generation) + 1
RETURNING f.generation;

-- name: close_feed
-- Its number stays, with a sign: so the next one is new.
UPDATE event_feed f SET generation = -f.generation WHERE f.person_id = :person_id AND f.generation > 0;

-- name: events_of_feed
-- What somebody has subscribed to, by start; cancelled ones for a while, so that they go from calendars that have them.
SELECT e.*, now() AS read_at
FROM subscription s JOIN event e ON e.id = s.event_id
WHERE s.person_id = :person_id AND s.state = 'active' AND e.state <> 'draft'
  AND e.start_date > now() - interval '90 days'
  AND (e.state <> 'cancelled' OR e.cancelled_at > now() - interval '30 days')
ORDER BY e.start_date, e.id LIMIT :k;

-- === pages of the console

-- name: coming_events
-- What is to come or goes on, soonest first: each state by its index, for what is past is much more.
SELECT e.*, now() AS read_at
FROM (
  (SELECT l.* FROM event l
   WHERE l.state = 'live' AND l.effective_end_date > now()
     AND (l.start_date, l.id) > (coalesce(:at::timestamptz, '-infinity'), :id::bigint)
     AND (:part::text IS NULL OR l.name ILIKE :part OR l.location ILIKE :part)
   ORDER BY l.start_date, l.id LIMIT :k)
  UNION ALL
  (SELECT s.* FROM event s
   WHERE s.state = 'scheduled' AND s.effective_end_date > now()
     AND (s.start_date, s.id) > (coalesce(:at, '-infinity'), :id)
     AND (:part IS NULL OR s.name ILIKE :part OR s.location ILIKE :part)
   ORDER BY s.start_date, s.id LIMIT :k)
) e
ORDER BY e.start_date, e.id LIMIT :k;

-- name: draft_events
SELECT e.*, now() AS read_at FROM event e
WHERE e.state = 'draft' AND (e.start_date, e.id) > (coalesce(:at::timestamptz, '-infinity'), :id::bigint)
  AND (:part::text IS NULL OR e.name ILIKE :part OR e.location ILIKE :part)
ORDER BY e.start_date, e.id LIMIT :k;

-- name: past_events
-- What is over or cancelled, the latest first; the last branch has what has ended and is not closed yet.
SELECT e.*, now() AS read_at
FROM (
  (SELECT c.* FROM event c
   WHERE c.state = 'completed' AND (c.start_date, c.id) < (coalesce(:at::timestamptz, 'infinity'), :id::bigint)
     AND (:part::text IS NULL OR c.name ILIKE :part OR c.location ILIKE :part)
   ORDER BY c.start_date DESC, c.id DESC LIMIT :k)
  UNION ALL
  (SELECT x.* FROM event x
   WHERE x.state = 'cancelled' AND (x.start_date, x.id) < (coalesce(:at, 'infinity'), :id)
     AND (:part IS NULL OR x.name ILIKE :part OR x.location ILIKE :part)
   ORDER BY x.start_date DESC, x.id DESC LIMIT :k)
  UNION ALL
  (SELECT o.* FROM event o
   WHERE o.state IN ('scheduled', 'live') AND o.start_date < now() AND o.effective_end_date <= now()
     AND (o.start_date, o.id) < (coalesce(:at, 'infinity'), :id)
     AND (:part IS NULL OR o.name ILIKE :part OR o.location ILIKE :part)
   ORDER BY o.start_date DESC, o.id DESC LIMIT :k)
) e
ORDER BY e.start_date DESC, e.id DESC LIMIT :k;

-- name: figures
-- Of several events: how many subscribe, and the offset of the next reminder that somebody may want.
SELECT e.id, coalesce(s.count, 0)::int AS subscribers,
  (SELECT max(o.offset_seconds) FROM event_offset o
   WHERE o.event_id = e.id AND o.offset_seconds < extract(epoch FROM e.start_date - now())) AS next_offset
FROM event e LEFT JOIN (
  SELECT s.event_id, count(*) AS count FROM subscription s
  WHERE s.event_id = ANY(:ids::bigint[]) AND s.state = 'active' GROUP BY s.event_id
) s ON s.event_id = e.id
WHERE e.id = ANY(:ids);

-- name: subscribers_shown
-- Who hears of an event, or did, with their names.
SELECT s.*, p.name, p.email FROM subscription s JOIN person p ON p.id = s.person_id
WHERE s.event_id = :event_id AND s.id > :after AND (:state::text IS NULL OR s.state = :state)
  AND (:part::text IS NULL OR (p.erased_at IS NULL AND p.sought LIKE lower(:part)))
ORDER BY s.id LIMIT :k;

-- name: names_of
SELECT p.id, p.name FROM person p WHERE p.id = ANY(:ids::bigint[]);

-- name: people_to_choose
SELECT p.id, p.name FROM person p WHERE p.erased_at IS NULL ORDER BY p.id DESC LIMIT :k;
