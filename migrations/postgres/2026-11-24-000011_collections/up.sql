-- Size of the file after its last collection, and what settled work has added since. Unknown garbage counts as in use.
ALTER TABLE databases ADD COLUMN live_bytes BIGINT NOT NULL DEFAULT 0;
UPDATE databases SET live_bytes = size_bytes;
CREATE TABLE collections (
    database_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES databases (id),
    due_at BIGINT,
    is_urgent BOOLEAN NOT NULL,
    requests BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    retry_at BIGINT,
    lease_holder TEXT,
    lease_until BIGINT,
    CHECK ((lease_holder IS NULL) = (lease_until IS NULL))
);
CREATE INDEX collections_due ON collections (due_at) WHERE due_at IS NOT NULL;
-- Earlier releases copied the whole file, with all that nothing reached any more.
INSERT INTO collections (database_id, due_at, is_urgent, requests, failures)
SELECT id, created_at, FALSE, 1, 0 FROM databases WHERE parent_id IS NOT NULL AND deleted_at IS NULL;
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
