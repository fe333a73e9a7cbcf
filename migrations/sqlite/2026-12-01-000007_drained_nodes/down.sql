ALTER TABLE nodes DROP COLUMN drained_at;
