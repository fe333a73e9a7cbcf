-- Each change of a branch or tag, kept for `store.history`. What a ref named before, and does not reach any more, is not garbage until
-- then. `old_commit` of an erased row was deleted because nothing may be restored to it.
CREATE TABLE ref_log (
    id TEXT COLLATE "C" NOT NULL,
    database_id TEXT COLLATE "C" NOT NULL REFERENCES databases (id),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('branch', 'tag')),
    name TEXT COLLATE "C" NOT NULL,
    old_commit TEXT COLLATE "C",
    new_commit TEXT COLLATE "C",
    changed_at BIGINT NOT NULL,
    changed_by TEXT,
    is_left_behind BOOLEAN NOT NULL,
    is_erased BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (database_id, kind, name, changed_at, id),
    CHECK (old_commit IS NOT NULL OR NOT is_left_behind)
);
CREATE INDEX ref_log_ages ON ref_log (changed_at);
CREATE INDEX ref_log_left_behind ON ref_log (database_id, id) WHERE is_left_behind;
CREATE INDEX ref_log_commits ON ref_log (database_id, old_commit) WHERE is_left_behind;
INSERT INTO ref_log (id, database_id, kind, name, old_commit, new_commit, changed_at, changed_by, is_left_behind)
SELECT id, database_id, kind, name, commit_hash, NULL, deleted_at, NULL, TRUE FROM kept_refs;
DROP TABLE kept_refs;
-- Since when `ref_log` has every change: of a database, if later than its creation, and of all. There is a row if changes were not
-- recorded for a while.
ALTER TABLE collections ADD COLUMN history_from BIGINT;
UPDATE collections SET history_from = (EXTRACT(EPOCH FROM now()) * 1000000)::BIGINT;
INSERT INTO collections (database_id, is_urgent, requests, failures, history_from)
SELECT id, FALSE, 0, 0, (EXTRACT(EPOCH FROM now()) * 1000000)::BIGINT FROM databases
WHERE deleted_at IS NULL AND id NOT IN (SELECT database_id FROM collections);
CREATE TABLE ref_log_start (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    complete_from BIGINT NOT NULL
);
ALTER TABLE operations DROP CONSTRAINT operations_kind_check;
ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN ('sql_write', 'merge', 'fork', 'import', 'purge', 'push', 'mirror_sync', 'restore'));
