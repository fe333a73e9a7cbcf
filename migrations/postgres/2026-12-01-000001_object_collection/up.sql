-- Objects of the store that nothing refers to any more, and that are deleted after a while. Whether an object was in use before decides
-- whether a late request can still refer to it (crates/storage/src/durable/objects.rs).
ALTER TABLE doomed_objects ADD COLUMN was_named INTEGER NOT NULL DEFAULT 0 CHECK (was_named IN (0, 1));
ALTER TABLE doomed_objects ADD COLUMN kept_until BIGINT NOT NULL DEFAULT 0;
CREATE INDEX doomed_objects_since ON doomed_objects (since);
-- Collections of objects look segments up by object.
CREATE INDEX segments_object ON segments (object);
-- The node that collects objects, until when, and when all objects were listed last.
ALTER TABLE store_state ADD COLUMN collector TEXT COLLATE "C";
ALTER TABLE store_state ADD COLUMN collector_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE store_state ADD COLUMN collected_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE store_state ADD COLUMN listed_at BIGINT NOT NULL DEFAULT 0;
