ALTER TABLE files DROP COLUMN copied_from;
