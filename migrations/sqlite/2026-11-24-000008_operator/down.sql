DROP INDEX databases_quarantined;
ALTER TABLE databases DROP COLUMN quarantined_at;
ALTER TABLE users DROP COLUMN suspended_at;
