-- Databases that follow a database of another server, and the operations that make them like it.
ALTER TABLE databases ADD COLUMN is_mirror BOOLEAN NOT NULL DEFAULT FALSE;
CREATE TABLE mirrors (
    database_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES databases (id),
    url TEXT NOT NULL,
    interval_seconds BIGINT NOT NULL CHECK (interval_seconds >= 0),
    seed_key_id TEXT NOT NULL,
    seed_sealed BYTEA NOT NULL,
    public_key BYTEA NOT NULL CHECK (length(public_key) = 32),
    created_by TEXT COLLATE "C" NOT NULL REFERENCES accounts (id),
    last_sync_at BIGINT,
    last_error TEXT,
    failures BIGINT NOT NULL,
    next_sync_at BIGINT
);
CREATE INDEX mirrors_by_creator ON mirrors (created_by);
CREATE INDEX mirrors_due ON mirrors (next_sync_at, database_id) WHERE next_sync_at IS NOT NULL;
ALTER TABLE operations DROP CONSTRAINT operations_kind_check;
ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN ('sql_write', 'merge', 'fork', 'import', 'purge', 'push', 'mirror_sync'));
