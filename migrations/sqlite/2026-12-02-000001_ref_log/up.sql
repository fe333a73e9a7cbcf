-- Each change of a branch or tag, kept for `store.history`. What a ref named before, and does not reach any more, is not garbage until
-- then. `old_commit` of an erased row was deleted because nothing may be restored to it.
CREATE TABLE ref_log (
    id TEXT NOT NULL,
    database_id TEXT NOT NULL REFERENCES databases (id),
    kind TEXT NOT NULL CHECK (kind IN ('branch', 'tag')),
    name TEXT NOT NULL,
    old_commit TEXT,
    new_commit TEXT,
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
UPDATE collections SET history_from = CAST(strftime('%s', 'now') AS INTEGER) * 1000000;
INSERT INTO collections (database_id, is_urgent, requests, failures, history_from)
SELECT id, FALSE, 0, 0, CAST(strftime('%s', 'now') AS INTEGER) * 1000000 FROM databases
WHERE deleted_at IS NULL AND id NOT IN (SELECT database_id FROM collections);
CREATE TABLE ref_log_start (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    complete_from BIGINT NOT NULL
);
-- A CHECK cannot be changed.
CREATE TABLE operations_before AS SELECT * FROM operations;
DROP TABLE operations;
CREATE TABLE operations (
    id TEXT NOT NULL PRIMARY KEY,
    database_id TEXT NOT NULL REFERENCES databases (id),
    kind TEXT NOT NULL CHECK (kind IN ('sql_write', 'merge', 'fork', 'import', 'purge', 'push', 'mirror_sync', 'restore')),
    work TEXT NOT NULL,
    fork_owner_id TEXT,
    fork_name_key TEXT,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed')),
    outcome TEXT CHECK ((outcome IS NOT NULL) = (state = 'succeeded')),
    failure TEXT CHECK ((failure IS NOT NULL) = (state = 'failed')),
    lease_holder TEXT,
    lease_until BIGINT,
    attempts BIGINT NOT NULL,
    created_by TEXT NOT NULL REFERENCES accounts (id),
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    traceparent TEXT,
    CHECK ((finished_at IS NOT NULL) = (state IN ('succeeded', 'failed'))),
    CHECK ((lease_holder IS NOT NULL) = (state = 'running')),
    CHECK ((lease_until IS NOT NULL) = (state = 'running'))
);
CREATE INDEX operations_listed ON operations (database_id, id);
CREATE INDEX operations_unsettled ON operations (database_id, state, id) WHERE finished_at IS NULL;
CREATE INDEX operations_queue ON operations (id) WHERE finished_at IS NULL;
CREATE INDEX operations_forking ON operations (fork_owner_id, fork_name_key) WHERE finished_at IS NULL AND fork_owner_id IS NOT NULL;
CREATE INDEX operations_settled ON operations (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX operations_by_creator ON operations (created_by, id);
CREATE INDEX operations_turns ON operations (created_by, id) WHERE finished_at IS NULL;
CREATE INDEX operations_by_age ON operations (created_at);
INSERT INTO operations SELECT * FROM operations_before;
DROP TABLE operations_before;
