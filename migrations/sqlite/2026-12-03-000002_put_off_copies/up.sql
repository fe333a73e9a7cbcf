-- The database whose segments a fork names until its own file is made of what its refs reach, before its first use.
ALTER TABLE files ADD COLUMN copied_from TEXT;
