ALTER TABLE nodes DROP COLUMN bytes_behind;
ALTER TABLE nodes DROP COLUMN copies_behind;
ALTER TABLE nodes DROP COLUMN copy_limit_bytes;
ALTER TABLE nodes DROP COLUMN copy_bytes;
ALTER TABLE nodes DROP COLUMN copies;
ALTER TABLE nodes DROP COLUMN measured_at;
