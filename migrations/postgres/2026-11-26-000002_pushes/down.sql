DELETE FROM operations WHERE kind = 'push';
ALTER TABLE operations DROP CONSTRAINT operations_kind_check;
ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN ('sql_write', 'merge', 'fork', 'import', 'purge'));
ALTER TABLE tags DROP COLUMN tagger_email;
ALTER TABLE tags DROP COLUMN tagger_name;
