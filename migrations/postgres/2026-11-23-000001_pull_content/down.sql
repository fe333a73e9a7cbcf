DROP INDEX pulls_fetch_due;
DROP INDEX pulls_open_from;
ALTER TABLE pulls DROP COLUMN fetch_tries;
ALTER TABLE pulls DROP COLUMN fetch_lease_until;
ALTER TABLE pulls DROP COLUMN fetch_due_at;
ALTER TABLE pulls DROP COLUMN is_published;
ALTER TABLE pulls DROP COLUMN hidden;
ALTER TABLE pulls DROP COLUMN to_head;
ALTER TABLE pulls DROP COLUMN from_head;
