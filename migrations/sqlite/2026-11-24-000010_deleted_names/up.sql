-- The user who deleted an organization may use its name again at once; for all others a deleted name stays taken for a while.
ALTER TABLE accounts ADD COLUMN deleted_by TEXT;
CREATE INDEX accounts_deleted_name ON accounts (name_key, deleted_at) WHERE deleted_at IS NOT NULL;
