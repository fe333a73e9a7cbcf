-- Creators of operations take turns: the next one that has any is found here, and its oldest first.
CREATE INDEX operations_turns ON operations (created_by, id) WHERE finished_at IS NULL;
