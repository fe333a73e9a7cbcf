-- Uploads of tab-separated values. A CHECK cannot be changed.
CREATE TABLE uploads_before AS SELECT * FROM uploads;
CREATE TABLE upload_parts_before AS SELECT * FROM upload_parts WHERE upload_id IN (SELECT id FROM uploads_before);
DROP TABLE upload_parts;
DROP TABLE uploads;
CREATE TABLE uploads (
    id TEXT NOT NULL PRIMARY KEY,
    database_id TEXT NOT NULL REFERENCES databases (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    secret_hash BLOB NOT NULL CHECK (length(secret_hash) = 32),
    content_length BIGINT NOT NULL,
    num_parts BIGINT NOT NULL,
    file_type TEXT NOT NULL CHECK (file_type IN ('csv', 'psv', 'tsv', 'xlsx', 'json', 'sql', 'yaml', 'parquet', 'sqlite')),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_by TEXT
);
CREATE INDEX uploads_by_database ON uploads (database_id);
CREATE INDEX uploads_by_user ON uploads (user_id);
CREATE INDEX uploads_unused ON uploads (expires_at) WHERE used_by IS NULL;
CREATE INDEX uploads_used ON uploads (used_by) WHERE used_by IS NOT NULL;
CREATE TABLE upload_parts (
    upload_id TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    size BIGINT NOT NULL,
    md5 BLOB NOT NULL CHECK (length(md5) = 16),
    PRIMARY KEY (upload_id, number)
);
INSERT INTO uploads SELECT * FROM uploads_before;
INSERT INTO upload_parts SELECT * FROM upload_parts_before;
DROP TABLE upload_parts_before;
DROP TABLE uploads_before;
