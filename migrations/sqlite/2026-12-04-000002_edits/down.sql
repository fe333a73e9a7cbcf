CREATE TABLE operations_before AS SELECT * FROM operations WHERE kind <> 'edit';
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
