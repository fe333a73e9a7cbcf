ALTER TABLE databases DROP COLUMN anonymous_sql;
