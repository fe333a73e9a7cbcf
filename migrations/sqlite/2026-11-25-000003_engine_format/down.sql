ALTER TABLE databases DROP COLUMN engine_format;
