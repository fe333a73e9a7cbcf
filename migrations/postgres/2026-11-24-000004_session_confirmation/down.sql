ALTER TABLE sessions DROP COLUMN confirmed_at;
