-- The trace of the request that created the row: the value of a `traceparent` header (W3C Trace Context).
ALTER TABLE operations ADD COLUMN traceparent TEXT;
ALTER TABLE events ADD COLUMN traceparent TEXT;
