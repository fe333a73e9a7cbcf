-- The keys under which objects of the store are sealed, wrapped by a master key that is not here. A scope is a database, `uploads` or
-- `backups`, and has one key for its new objects.
CREATE TABLE data_keys (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 32),
    scope TEXT NOT NULL UNIQUE,
    master_id TEXT NOT NULL,
    wrapped BLOB NOT NULL,
    added_at BIGINT NOT NULL
);
-- The name of a sealed object ends with the id of its key. A key stays while a segment names it.
ALTER TABLE segments ADD COLUMN key_id TEXT
    GENERATED ALWAYS AS (CASE WHEN instr(object, '.sealed-') > 0 THEN substr(object, -32) END) VIRTUAL REFERENCES data_keys (id);
CREATE INDEX segments_by_key ON segments (key_id);
