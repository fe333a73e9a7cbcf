DROP INDEX segments_by_key;
ALTER TABLE segments DROP COLUMN key_id;
DROP TABLE data_keys;
