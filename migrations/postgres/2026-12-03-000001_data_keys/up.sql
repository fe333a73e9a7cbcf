-- The keys under which objects of the store are sealed, wrapped by a master key that is not here. A scope is a database, `uploads` or
-- `backups`, and has one key for its new objects.
CREATE TABLE data_keys (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    scope TEXT COLLATE "C" NOT NULL UNIQUE,
    master_id TEXT NOT NULL,
    wrapped BYTEA NOT NULL,
    added_at BIGINT NOT NULL
);
-- The name of a sealed object ends with the id of its key. A key stays while a segment names it.
ALTER TABLE segments ADD COLUMN key_id TEXT COLLATE "C"
    GENERATED ALWAYS AS (CASE WHEN object LIKE '%.sealed-%' THEN right(object, 32) END) STORED REFERENCES data_keys (id);
CREATE INDEX segments_by_key ON segments (key_id);
