DROP TABLE kept_refs;
DROP TABLE collections;
ALTER TABLE databases DROP COLUMN live_bytes;
