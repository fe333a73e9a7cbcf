-- The copies of databases that a node has, as its run measured them last, for administrators.
ALTER TABLE nodes ADD COLUMN measured_at BIGINT;
ALTER TABLE nodes ADD COLUMN copies BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN copy_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN copy_limit_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN copies_behind BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN bytes_behind BIGINT NOT NULL DEFAULT 0;
