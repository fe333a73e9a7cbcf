ALTER TABLE events DROP COLUMN traceparent;
ALTER TABLE operations DROP COLUMN traceparent;
