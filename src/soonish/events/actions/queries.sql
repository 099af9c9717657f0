-- === an event

-- name: event
SELECT e.*, now() AS read_at FROM event e WHERE e.id = :id;

-- name: event_for_update
SELECT e.*, now() AS read_at FROM event e WHERE e.id = :id FOR NO KEY UPDATE;

-- name: event_for_share
SELECT e.*, now() AS read_at FROM event e WHERE e.id = :id FOR SHARE;

-- name: add_signal
INSERT INTO event_signal AS s (workspace_id, event_id, name, payload)
VALUES ((SELECT current_workspace()), :event_id, :name, :payload::text::jsonb)
RETURNING s.id;

-- === who wants to hear of it

-- name: subscription
SELECT s.* FROM subscription s WHERE s.event_id = :event_id AND s.id = :id;

-- name: subscription_for_update
SELECT s.* FROM subscription s WHERE s.event_id = :event_id AND s.id = :id FOR NO KEY UPDATE;
