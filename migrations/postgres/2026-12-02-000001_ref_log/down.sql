DELETE FROM operations WHERE kind = 'restore';
ALTER TABLE operations DROP CONSTRAINT operations_kind_check;
ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN ('sql_write', 'merge', 'fork', 'import', 'purge', 'push', 'mirror_sync'));
DROP TABLE ref_log_start;
DELETE FROM collections WHERE due_at IS NULL AND requests = 0 AND lease_holder IS NULL;
ALTER TABLE collections DROP COLUMN history_from;
CREATE TABLE kept_refs (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    database_id TEXT COLLATE "C" NOT NULL REFERENCES databases (id),
    kind TEXT NOT NULL CHECK (kind IN ('branch', 'tag')),
    name TEXT COLLATE "C" NOT NULL,
    commit_hash TEXT COLLATE "C" NOT NULL,
    deleted_at BIGINT NOT NULL,
    kept_until BIGINT NOT NULL
);
CREATE INDEX kept_refs_listed ON kept_refs (database_id, kind, id);
CREATE INDEX kept_refs_commits ON kept_refs (database_id, commit_hash);
CREATE INDEX kept_refs_ends ON kept_refs (database_id, kept_until);
INSERT INTO kept_refs (id, database_id, kind, name, commit_hash, deleted_at, kept_until)
SELECT id, database_id, kind, name, old_commit, changed_at, changed_at + 604800000000 FROM ref_log WHERE is_left_behind;
DROP TABLE ref_log;
