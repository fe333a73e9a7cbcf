ALTER TABLE store_state DROP COLUMN listed_at;
ALTER TABLE store_state DROP COLUMN collected_at;
ALTER TABLE store_state DROP COLUMN collector_until;
ALTER TABLE store_state DROP COLUMN collector;
DROP INDEX segments_object;
DROP INDEX doomed_objects_since;
ALTER TABLE doomed_objects DROP COLUMN kept_until;
ALTER TABLE doomed_objects DROP COLUMN was_named;
