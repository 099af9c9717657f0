-- Statements of the HTTP kit: it has no tables.

-- name: ring
-- Followers of this stream look again when the transaction commits; a stream that rings often rings once a transaction.
SELECT pg_notify('soonish_live', :stream);
