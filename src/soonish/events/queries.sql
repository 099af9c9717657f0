-- === the life of an event: its signals, what is told, its end

-- name: workspace_of
-- Whose event that is, over the wall: a workflow knows the id alone.
SELECT event_workspace(:id);

-- name: has_schedules
SELECT EXISTS (SELECT FROM reminder_schedule r WHERE r.event_id = :event_id);

-- name: unhandled
SELECT s.id, s.name, s.payload FROM event_signal s
WHERE s.event_id = :event_id AND s.handled_at IS NULL AND s.id > :after ORDER BY s.id LIMIT :k;

-- name: to_send
-- Those that were never sent, or so long ago that the workflow has lost them.
SELECT s.id, s.name, s.payload, s.sent_at FROM event_signal s
WHERE s.event_id = :event_id AND s.handled_at IS NULL
  AND (s.sent_at IS NULL OR s.sent_at < clock_timestamp() - :resend::interval)
ORDER BY s.id LIMIT :k;

-- name: sent
UPDATE event_signal s SET sent_at = clock_timestamp() WHERE s.id = ANY(:ids::bigint[]);

-- name: settle
UPDATE event_signal s SET handled_at = now(), outcome = left(:outcome, 200)
WHERE s.event_id = :event_id AND s.id = ANY(:ids::bigint[]) AND s.handled_at IS NULL;

-- name: settle_all
UPDATE event_signal s SET handled_at = now(), outcome = :outcome
WHERE s.event_id = :event_id AND s.handled_at IS NULL;

-- name: begin_telling
UPDATE broadcast b SET state = 'telling', telling_at = clock_timestamp(), total = 0, updated_at = now()
WHERE b.id = :id RETURNING b.telling_at;

-- name: audience
-- The next page of those who are told: subscribed when the telling began, and still.
SELECT s.id, s.person_id, s.selectors FROM subscription s
WHERE s.event_id = :event_id AND s.state = 'active' AND s.activated_at <= :telling_at AND s.id > :after
  AND (:ids::bigint[] IS NULL OR s.id = ANY(:ids))
ORDER BY s.id LIMIT :k;

-- name: told_page
UPDATE broadcast b SET after_id = :after, total = coalesce(b.total, 0) + :count, updated_at = now(),
  state = CASE WHEN :last THEN 'told' ELSE b.state END, told_at = CASE WHEN :last THEN now() END
WHERE b.id = :id;

-- name: withdraw_broadcast
UPDATE broadcast b SET state = 'withdrawn', reason = :reason, updated_at = now() WHERE b.id = :id;

-- name: reached
SELECT count(d.address_id) AS targets, count(*) FILTER (WHERE d.reason IN ('no_address', 'no_match', 'muted')) AS no_targets
FROM delivery d WHERE d.cause = :cause;

-- name: cancellation
-- What says that it was cancelled, where that is told.
SELECT b.id FROM broadcast b WHERE b.event_id = :event_id AND b.kind = 'cancelled' ORDER BY b.id DESC LIMIT 1;

-- name: seconds_left
SELECT greatest(extract(epoch FROM e.effective_end_date - clock_timestamp()), 0)::float8 FROM event e WHERE e.id = :id;

-- name: complete
UPDATE event e SET state = 'completed', completed_at = now(), version = e.version + 1, updated_at = now()
WHERE e.id = :id RETURNING e.*, now() AS read_at;

-- name: close
UPDATE event e SET closed_at = now() WHERE e.id = :id AND e.closed_at IS NULL AND e.state IN ('completed', 'cancelled');

-- name: by_hand
SELECT EXISTS (SELECT FROM broadcast b WHERE b.event_id = :event_id AND b.created_by = :mark);

-- === schedules of the engine temporal

-- name: subscribed
SELECT s.* FROM subscription s
WHERE s.event_id = :event_id AND s.state = 'active' AND s.id > :after AND s.id <= :until ORDER BY s.id LIMIT :k;

-- name: keep_schedules
INSERT INTO reminder_schedule AS r (workspace_id, event_id, subscription_id, offset_seconds, moment)
SELECT (SELECT current_workspace()), :event_id, w.subscription_id, w.offset_seconds, w.moment
FROM unnest(:subscriptions::bigint[], :offsets::int[], :moments::timestamptz[]) AS w (subscription_id, offset_seconds, moment)
ON CONFLICT (subscription_id, offset_seconds) DO UPDATE SET moment = excluded.moment;

-- name: schedules_between
SELECT r.subscription_id, r.offset_seconds, r.moment FROM reminder_schedule r
WHERE r.event_id = :event_id AND r.subscription_id > :after AND r.subscription_id <= :until;

-- name: schedules_page
SELECT r.subscription_id, r.offset_seconds, r.moment FROM reminder_schedule r
WHERE r.event_id = :event_id AND r.subscription_id IN (
  SELECT DISTINCT o.subscription_id FROM reminder_schedule o
  WHERE o.event_id = :event_id AND o.subscription_id > :after AND o.subscription_id <= :until
  ORDER BY o.subscription_id LIMIT :k)
ORDER BY r.subscription_id, r.offset_seconds;

-- name: forget_schedules
DELETE FROM reminder_schedule r
USING unnest(:subscriptions::bigint[], :offsets::int[]) AS w (subscription_id, offset_seconds)
WHERE r.subscription_id = w.subscription_id AND r.offset_seconds = w.offset_seconds;

-- name: seconds_until
SELECT greatest(extract(epoch FROM :at::timestamptz - clock_timestamp()), 0)::float8;
