-- Users who may not sign in, and databases that only the server's administrators see.
ALTER TABLE users ADD COLUMN suspended_at BIGINT;
ALTER TABLE databases ADD COLUMN quarantined_at BIGINT;
CREATE INDEX databases_quarantined ON databases (id) WHERE quarantined_at IS NOT NULL;
