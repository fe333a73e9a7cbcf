DELETE FROM operations WHERE kind = 'purge';
ALTER TABLE operations DROP CONSTRAINT operations_kind_check;
ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN ('sql_write', 'merge', 'fork', 'import'));
DROP INDEX databases_network_ids;
ALTER TABLE databases DROP COLUMN generation;
