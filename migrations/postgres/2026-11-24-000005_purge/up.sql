-- Garbage collections: the number of those that took effect, and the operations that ask for one.
ALTER TABLE databases ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
CREATE INDEX databases_network_ids ON databases (network_id, id) WHERE deleted_at IS NULL;
ALTER TABLE operations DROP CONSTRAINT operations_kind_check;
ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN ('sql_write', 'merge', 'fork', 'import', 'purge'));
