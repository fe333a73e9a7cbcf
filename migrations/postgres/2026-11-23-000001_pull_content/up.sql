-- What pulls show: the heads of source and target, whether the source is still to be fetched, and whether it is hidden.
ALTER TABLE pulls ADD COLUMN from_head TEXT COLLATE "C";
ALTER TABLE pulls ADD COLUMN to_head TEXT COLLATE "C";
ALTER TABLE pulls ADD COLUMN hidden TEXT CHECK (hidden IN ('withdrawn', 'source'));
ALTER TABLE pulls ADD COLUMN is_published BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE pulls ADD COLUMN fetch_due_at BIGINT;
ALTER TABLE pulls ADD COLUMN fetch_lease_until BIGINT;
ALTER TABLE pulls ADD COLUMN fetch_tries BIGINT NOT NULL DEFAULT 0;
CREATE INDEX pulls_open_from ON pulls (from_database_id, from_branch) WHERE state = 'open';
CREATE INDEX pulls_fetch_due ON pulls (fetch_due_at) WHERE fetch_due_at IS NOT NULL;

-- An open pull from another database that is not public shows it to every reader of the base, to which nobody with the right to
-- do so agreed: it is closed, and what it brought is hidden.
UPDATE pulls SET state = 'closed', hidden = 'source', version = version + 1,
    closed_at = CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000,
    updated_at = CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000
WHERE state = 'open' AND from_database_id <> database_id AND EXISTS (
    SELECT 1 FROM databases
    WHERE databases.id = pulls.from_database_id AND (databases.visibility <> 'public' OR databases.deleted_at IS NOT NULL)
);
-- The others get their heads in the background.
UPDATE pulls SET fetch_due_at = 0 WHERE state = 'open';
