-- Pushes by clients of the engine: their operations, and what they say about a tag.
ALTER TABLE tags ADD COLUMN tagger_name TEXT;
ALTER TABLE tags ADD COLUMN tagger_email TEXT;
ALTER TABLE operations DROP CONSTRAINT operations_kind_check;
ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN ('sql_write', 'merge', 'fork', 'import', 'purge', 'push'));
